//! What is known about GitHub Copilot's program.

use domain::agent::AgentFormat;

use crate::agent_files::{AgentFiles, UserFolder};
use crate::contract::PriceList;
use crate::logins::{LoginLocation, Logins};
use crate::vendor::{Feature, PermissionTranslation, Quirk, SessionNaming, Vendor};

pub(super) const LOGINS: Logins = Logins {
    locations: &[
        LoginLocation::Variable("COPILOT_GITHUB_TOKEN"),
        LoginLocation::Variable("GH_TOKEN"),
        LoginLocation::Variable("GITHUB_TOKEN"),
        LoginLocation::Variable("COPILOT_PROVIDER_API_KEY"),
        // Its first launch writes the file with `firstLaunchAt`. With `loggedInUsers` alone version 1.0.102 looks for
        // the token in a keyring; with `copilotTokens` it uses the token that is written there.
        LoginLocation::file_with("COPILOT_HOME", ".copilot", "config.json", &["copilotTokens"]),
        // Without this key the token of `gh` is in a keyring.
        LoginLocation::file_with("XDG_CONFIG_HOME", ".config", "gh/hosts.yml", &["oauth_token"]),
    ],
    advice: "run `copilot login`, or set COPILOT_GITHUB_TOKEN",
    keyring: true,
};

pub static VENDOR: Vendor = Vendor {
    name: "copilot",
    program: &super::versions::PROGRAM,
    variables: super::VARIABLES,
    logins: LOGINS,
    prices: PriceList::Provider("github-copilot"),
    sessions: SessionNaming::VendorIds,
    features: &[
        Feature::Effort,
        Feature::ToolList,
        Feature::SkipsProjectContext,
        Feature::OutputSchema,
        Feature::ExtraDirectories,
        Feature::McpServers,
        Feature::ServerTools,
        Feature::ServerTimeouts,
        Feature::Delegation,
        Feature::UsageReports,
        Feature::ToolCallReports,
    ],
    quirks: &[Quirk::ExpandsEnvInMcp],
    extra_args: super::EXTRA_ARGS,
    inherits: &[],
    permission: PermissionTranslation {
        unenforceable: |permission| super::permission::translate(permission, "/").unenforceable,
        inexpressible_grants: |permission| super::permission::translate(permission, "/").inexpressible_grants,
    },
    find_override: None,
    find_project_executables: Some(super::project_settings::project_executables),
    prepare: super::prepare,
    apply_user_environment: Some(super::disable_other_servers),
    scan_workspace: None,
    settings_denials: None,
    stale_session: None,
    answers_into_file: None,
    agent_files: Some(AgentFiles {
        format: AgentFormat::Copilot,
        rank: 6,
        project_folders: &[".github/agents"],
        user_folders: &[UserFolder::new("COPILOT_HOME", ".copilot", "agents")],
    }),
    client: Some(&super::client::CLIENT),
    acp: Some(&super::acp::ACP_AGENT),
};
