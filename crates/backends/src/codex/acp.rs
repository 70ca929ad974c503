//! Codex over ACP, through its adapter.

use crate::acp::option_encoding::{NO_OPTIONS, OptionEncoding, OptionEncodings};
use crate::acp::profile::{AcpAgent, AgentProfile, DEFAULT_PROFILE, Modes, ServerDelivery, TokenCounting};
use crate::contract::PriceList;
use crate::program::{ProgramSpec, TestedVersions};

static CODEX_ACP: ProgramSpec = ProgramSpec {
    names: &["codex-acp"],
    native_paths: &[],
    path_variable: None,
    install: "npm install -g @agentclientprotocol/codex-acp",
    tested_versions: TestedVersions::Real("2.6.0", "2.6.0"),
};

pub(super) static ACP_AGENT: AcpAgent = AcpAgent {
    name: "acp-codex",
    program: &CODEX_ACP,
    logins: super::vendor::LOGINS,
    arguments: &[],
    variables: &[super::VARIABLES, &["CODEX_PATH"]],
    set: &[],
    // Servers of a session would bring back all others.
    server_delivery: Some(ServerDelivery::Settings),
    exclude_other_servers: Some(super::user_settings::disable_other_servers),
    find_override: Some(super::permission_overrides::find_allowing_rules),
    find_project_executables: None,
    quirks: &[],
    profile: AgentProfile {
        // Its usual mode lets another model decide.
        modes: Some(Modes {
            read_only: "read-only",
            safe_edit: "workspace-write",
            free: "agent-full-access",
        }),
        makes_titles: true,
        forks: true,
        options: OptionEncodings { no_context: Some(OptionEncoding::UserEnvironment), ..NO_OPTIONS },
        prices: PriceList::Provider("openai"),
        token_counting: TokenCounting::Turn,
        ..DEFAULT_PROFILE
    },
};
