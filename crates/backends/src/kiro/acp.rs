//! Kiro's program over ACP, according to its documentation.

use crate::acp::profile::{AcpAgent, AgentProfile, DEFAULT_PROFILE, ServerStartup, TokenCounting};

pub(super) static ACP_AGENT: AcpAgent = AcpAgent {
    name: "acp-kiro",
    program: &super::versions::PROGRAM,
    logins: super::vendor::LOGINS,
    arguments: &["acp"],
    variables: &[super::VARIABLES],
    set: &[],
    server_delivery: None,
    exclude_other_servers: None,
    find_override: None,
    find_project_executables: None,
    quirks: &[],
    profile: AgentProfile {
        token_counting: TokenCounting::Nothing,
        servers: ServerStartup::UserSettingsToo,
        ..DEFAULT_PROFILE
    },
};
