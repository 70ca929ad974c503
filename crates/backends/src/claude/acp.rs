//! Claude Code over ACP, through its adapter.

use serde_json::json;

use crate::acp::option_encoding::{NO_OPTIONS, OptionEncoding, OptionEncodings};
use crate::acp::profile::{AcpAgent, AgentProfile, ApprovalScope, DEFAULT_PROFILE, Modes, TokenCounting};
use crate::contract::PriceList;
use crate::program::{ProgramSpec, TestedVersions};
use crate::vendor::Quirk;

static CLAUDE_AGENT_ACP: ProgramSpec = ProgramSpec {
    names: &["claude-agent-acp"],
    native_paths: &[],
    path_variable: None,
    install: "npm install -g @agentclientprotocol/claude-agent-acp",
    tested_versions: TestedVersions::Real("0.99.1", "0.99.1"),
};

pub(super) static ACP_AGENT: AcpAgent = AcpAgent {
    name: "acp-claude",
    program: &CLAUDE_AGENT_ACP,
    logins: super::vendor::LOGINS,
    arguments: &[],
    variables: &[super::VARIABLES, &["CLAUDE_CODE_EXECUTABLE"]],
    set: &[],
    server_delivery: None,
    exclude_other_servers: None,
    find_override: None,
    find_project_executables: Some(super::project_executables),
    // It exits before the program that it drives has ended, which it only asks to end.
    quirks: &[Quirk::OutlivedByChildren],
    profile: AgentProfile {
        modes: Modes::one("default"),
        prices: PriceList::Provider("anthropic"),
        token_counting: TokenCounting::Turn,
        replaces_prompt: true,
        forks: true,
        // By default it has its model guess the user's next prompt after each turn.
        session_meta: Some(
            r#"{"claudeCode":{"options":{"strictMcpConfig":true,"promptSuggestions":false}}}"#,
        ),
        options: OptionEncodings {
            no_context: Some(OptionEncoding::Session(|_| json!({"settingSources": []}))),
            tools: Some(OptionEncoding::Session(|spec| json!({"tools": spec.setup.tools}))),
            max_turns: Some(OptionEncoding::Session(|spec| json!({"maxTurns": spec.setup.max_turns}))),
            ..NO_OPTIONS
        },
        no_turns_left: Some("Internal error: Reached maximum number of turns"),
        approval_scope: ApprovalScope::PerSettings,
        ..DEFAULT_PROFILE
    },
};
