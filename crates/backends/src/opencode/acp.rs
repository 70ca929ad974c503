//! opencode over ACP.

use crate::acp::option_encoding::{NO_OPTIONS, OptionEncoding, OptionEncodings};
use crate::acp::profile::{AcpAgent, AgentProfile, ApprovalScope, DEFAULT_PROFILE, TokenCounting};

pub(super) static ACP_AGENT: AcpAgent = AcpAgent {
    name: "acp-opencode",
    program: &super::versions::PROGRAM,
    logins: super::vendor::LOGINS,
    arguments: &["acp"],
    variables: &[super::VARIABLES],
    // It asks about nothing by itself.
    set: &[
        (super::CONFIG_VARIABLE, super::ASK_CONFIG),
        super::REGISTRY_RETRY_VARIABLES[0],
        super::REGISTRY_RETRY_VARIABLES[1],
        super::versions::LOG_VARIABLES[0],
        super::versions::LOG_VARIABLES[1],
    ],
    server_delivery: None,
    exclude_other_servers: Some(super::disable_other_servers),
    find_override: None,
    find_project_executables: Some(super::project_executables),
    quirks: &[],
    profile: AgentProfile {
        token_counting: TokenCounting::LastStep,
        approval_scope: ApprovalScope::PerSettings,
        forks: true,
        lost_request: Some(super::versions::parse_lost_request),
        options: OptionEncodings {
            no_context: Some(OptionEncoding::Variables(|_| {
                super::NO_CONTEXT_VARIABLES.map(|(name, value)| (name, value.to_owned())).into()
            })),
            tools: Some(OptionEncoding::Variables(|spec| {
                let tools = spec.setup.tools.as_deref().unwrap_or_default();
                vec![(super::CONFIG_VARIABLE, super::ask_config_with_tools(tools))]
            })),
            ..NO_OPTIONS
        },
        ..DEFAULT_PROFILE
    },
};
