//! What is known about Codex.

use domain::agent::AgentFormat;
use domain::inherit::Inherited;

use crate::agent_files::{AgentFiles, UserFolder};
use crate::contract::PriceList;
use crate::logins::{LoginLocation, Logins};
use crate::vendor::{Feature, PermissionTranslation, Quirk, SessionNaming, Vendor};

pub(super) const LOGINS: Logins = Logins {
    // Neither its app server nor codex-acp takes a key from the environment.
    locations: &[LoginLocation::file("CODEX_HOME", ".codex", "auth.json")],
    advice: "run `codex login`, or `codex login --with-api-key` for an API key",
    keyring: true,
};

pub static VENDOR: Vendor = Vendor {
    name: "codex",
    program: &super::versions::PROGRAM,
    variables: super::VARIABLES,
    logins: LOGINS,
    prices: PriceList::Provider("openai"),
    sessions: SessionNaming::VendorIds,
    features: &[
        Feature::ReplacesPrompt,
        Feature::Effort,
        Feature::SkipsProjectContext,
        Feature::OutputSchema,
        Feature::ExtraDirectories,
        Feature::VendorSettings,
        Feature::McpServers,
        Feature::ServerTools,
        Feature::ServerTimeouts,
        Feature::Delegation,
        Feature::Approvals,
        Feature::UsageReports,
        Feature::ToolCallReports,
        Feature::Forks,
        Feature::CommandSandbox,
    ],
    quirks: &[Quirk::LeavesEmptyFolders(super::versions::LITTER_DIRS)],
    extra_args: super::EXTRA_ARGS,
    inherits: &[Inherited::McpServers, Inherited::Settings],
    permission: PermissionTranslation {
        unenforceable: super::permission::unenforceable,
        inexpressible_grants: |_| Vec::new(),
    },
    find_override: Some(super::permission_overrides::find_allowing_rules),
    find_project_executables: None,
    prepare: super::prepare,
    apply_user_environment: Some(super::apply_user_environment),
    scan_workspace: None,
    settings_denials: None,
    stale_session: None,
    answers_into_file: None,
    agent_files: Some(AgentFiles {
        format: AgentFormat::Codex,
        rank: 7,
        project_folders: &[".codex/agents"],
        user_folders: &[UserFolder::new("CODEX_HOME", ".codex", "agents")],
    }),
    client: Some(&super::client::CLIENT),
    acp: Some(&super::acp::ACP_AGENT),
};
