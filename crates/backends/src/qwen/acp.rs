//! Qwen Code over ACP.

use crate::acp::option_encoding::{NO_OPTIONS, OptionEncoding, OptionEncodings};
use crate::acp::profile::{AcpAgent, AgentProfile, ApprovalScope, DEFAULT_PROFILE, Modes, TokenCounting};

pub(super) static ACP_AGENT: AcpAgent = AcpAgent {
    name: "acp-qwen",
    program: &super::versions::PROGRAM,
    logins: super::vendor::LOGINS,
    arguments: &["--acp"],
    variables: &[super::VARIABLES],
    set: &[("QWEN_CODE_NO_RELAUNCH", "true"), ("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1")],
    server_delivery: None,
    exclude_other_servers: Some(super::disable_other_servers),
    find_override: None,
    find_project_executables: Some(|folders| super::PROJECT_SETTINGS.find_executables(folders)),
    quirks: &[],
    profile: AgentProfile {
        modes: Modes::one("default"),
        token_counting: TokenCounting::Turn,
        approval_scope: ApprovalScope::PerSettings,
        // It counts no turns here.
        options: OptionEncodings {
            no_context: Some(OptionEncoding::Arguments(|_| vec![super::NO_CONTEXT_ARGUMENT.to_owned()])),
            tools: Some(OptionEncoding::Arguments(super::tool_list_args)),
            ..NO_OPTIONS
        },
        ..DEFAULT_PROFILE
    },
};
