//! Kimi Code over ACP.

use domain::run::ModelError;

use crate::acp::profile::{AcpAgent, AgentProfile, ApprovalScope, DEFAULT_PROFILE, Modes, TokenCounting};

pub(super) static ACP_AGENT: AcpAgent = AcpAgent {
    name: "acp-kimi",
    program: &super::versions::PROGRAM,
    logins: super::vendor::LOGINS,
    arguments: &["acp"],
    variables: &[super::VARIABLES],
    set: &[],
    server_delivery: None,
    exclude_other_servers: Some(super::config_home::add_config_home),
    find_override: Some(super::permission_overrides::find_allowing_settings),
    find_project_executables: None,
    quirks: &[],
    profile: AgentProfile {
        // In its mode for plans it does not edit, but the agents that it starts do.
        modes: Modes::one("default"),
        approval_scope: ApprovalScope::ChangesBeyondGit,
        token_counting: TokenCounting::Nothing,
        silence_error: Some(ModelError::Other),
        find_recorded_failure: Some(super::config_home::last_turn_failure),
        forks: true,
        ..DEFAULT_PROFILE
    },
};
