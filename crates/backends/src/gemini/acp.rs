//! Gemini CLI over ACP.

use crate::acp::option_encoding::{NO_OPTIONS, OptionEncoding, OptionEncodings};
use crate::acp::profile::{AcpAgent, AgentProfile, ApprovalScope, DEFAULT_PROFILE, Modes, TokenCounting};
use crate::contract::PriceList;

pub(super) static ACP_AGENT: AcpAgent = AcpAgent {
    name: "acp-gemini",
    program: &super::versions::PROGRAM,
    logins: super::vendor::LOGINS,
    arguments: &["--acp"],
    variables: &[super::VARIABLES],
    set: &[("GEMINI_CLI_TRUST_WORKSPACE", "true"), ("GEMINI_CLI_NO_RELAUNCH", "true")],
    server_delivery: None,
    exclude_other_servers: Some(super::disable_other_servers),
    find_override: None,
    find_project_executables: Some(|folders| super::PROJECT_SETTINGS.find_executables(folders)),
    quirks: &[],
    profile: AgentProfile {
        modes: Modes::one("default"),
        options: OptionEncodings {
            tools: Some(OptionEncoding::File { argument: "--policy=", file: super::tool_list_policy }),
            max_turns: Some(OptionEncoding::UserEnvironment),
            ..NO_OPTIONS
        },
        prices: PriceList::Provider("google"),
        token_counting: TokenCounting::Turn,
        approval_scope: ApprovalScope::PerSettings,
        ..DEFAULT_PROFILE
    },
};
