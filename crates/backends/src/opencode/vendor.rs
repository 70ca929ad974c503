//! What is known about opencode.

use domain::agent::AgentFormat;
use domain::inherit::Inherited;

use crate::agent_files::{AgentFiles, UserFolder};
use crate::contract::PriceList;
use crate::logins::{LoginLocation, Logins};
use crate::vendor::{Feature, PermissionTranslation, SessionNaming, Vendor};

pub(super) const LOGINS: Logins = Logins {
    locations: &[
        LoginLocation::file("XDG_DATA_HOME", ".local/share", "opencode/auth.json"),
        LoginLocation::Variable("ANTHROPIC_API_KEY"),
        LoginLocation::Variable("OPENAI_API_KEY"),
        LoginLocation::Variable("GEMINI_API_KEY"),
        LoginLocation::Variable("OPENCODE_API_KEY"),
        LoginLocation::Variable("OPENROUTER_API_KEY"),
        // Its first launch writes opencode.jsonc with a `$schema` only.
        LoginLocation::file_with("XDG_CONFIG_HOME", ".config", "opencode/opencode.json", &["apiKey"]),
        LoginLocation::file_with("XDG_CONFIG_HOME", ".config", "opencode/opencode.jsonc", &["apiKey"]),
    ],
    advice: "run `opencode auth login`, or set the API key of a provider, such as ANTHROPIC_API_KEY",
    keyring: false,
};

pub static VENDOR: Vendor = Vendor {
    name: "opencode",
    program: &super::versions::PROGRAM,
    variables: super::VARIABLES,
    logins: LOGINS,
    prices: PriceList::ByModel,
    sessions: SessionNaming::VendorIds,
    features: &[
        Feature::ReplacesPrompt,
        Feature::Effort,
        Feature::ToolList,
        Feature::SkipsProjectContext,
        Feature::OutputSchema,
        Feature::Temperature,
        Feature::McpServers,
        Feature::ServerTools,
        Feature::Delegation,
        Feature::UsageReports,
        Feature::ToolCallReports,
        Feature::Forks,
    ],
    quirks: &[],
    extra_args: super::EXTRA_ARGS,
    inherits: &[Inherited::McpServers, Inherited::Settings],
    permission: PermissionTranslation {
        unenforceable: |permission| super::permission::translate(permission, "", &[]).unenforceable,
        inexpressible_grants: |permission| {
            super::permission::translate(permission, "", &[]).inexpressible_grants
        },
    },
    find_override: None,
    find_project_executables: Some(super::project_settings::project_executables),
    prepare: super::prepare,
    apply_user_environment: Some(super::apply_user_environment),
    scan_workspace: Some(|spec, launch, _| super::scan_workspace(spec, launch)),
    settings_denials: None,
    stale_session: None,
    answers_into_file: None,
    agent_files: Some(AgentFiles {
        format: AgentFormat::Opencode,
        rank: 2,
        project_folders: &[".opencode/agent", ".opencode/agents", ".opencode/mode", ".opencode/modes"],
        user_folders: &[
            UserFolder::new("XDG_CONFIG_HOME", ".config", "opencode/agent"),
            UserFolder::new("XDG_CONFIG_HOME", ".config", "opencode/agents"),
            UserFolder::new("XDG_CONFIG_HOME", ".config", "opencode/mode"),
            UserFolder::new("XDG_CONFIG_HOME", ".config", "opencode/modes"),
            // The home is searched like a folder above the project.
            UserFolder::new("", ".opencode", "agent"),
            UserFolder::new("", ".opencode", "agents"),
            UserFolder::new("", ".opencode", "mode"),
            UserFolder::new("", ".opencode", "modes"),
        ],
    }),
    client: Some(&super::client::CLIENT),
    acp: Some(&super::acp::ACP_AGENT),
};
