//! What is known about Cursor's program.

use domain::agent::AgentFormat;
use domain::inherit::Inherited;

use crate::agent_files::{AgentFiles, UserFolder};
use crate::contract::PriceList;
use crate::logins::{LoginLocation, Logins};
use crate::vendor::{Feature, PermissionTranslation, SessionNaming, Vendor};

pub static VENDOR: Vendor = Vendor {
    name: "cursor",
    program: &super::versions::PROGRAM,
    variables: super::VARIABLES,
    logins: Logins {
        locations: &[
            LoginLocation::Variable("CURSOR_API_KEY"),
            LoginLocation::file("XDG_CONFIG_HOME", ".config", "cursor/auth.json"),
        ],
        advice: "run `cursor-agent login`, or set CURSOR_API_KEY",
        keyring: cfg!(target_os = "macos"),
    },
    prices: PriceList::Unlisted,
    sessions: SessionNaming::VendorIds,
    features: &[Feature::OutputSchema, Feature::VendorSettings, Feature::ToolCallReports],
    quirks: &[],
    extra_args: &[],
    // They cannot be excluded: without `--force` Cursor applies the user's rules, and starts the servers that the user approved.
    inherits: &[Inherited::McpServers, Inherited::Settings],
    permission: PermissionTranslation {
        unenforceable: super::permission::unenforceable,
        inexpressible_grants: |_| Vec::new(),
    },
    find_override: Some(super::permission_overrides::find_allowing_settings),
    find_project_executables: Some(super::project_settings::project_executables),
    prepare: super::prepare,
    apply_user_environment: Some(super::apply_user_environment),
    scan_workspace: None,
    settings_denials: None,
    stale_session: None,
    answers_into_file: None,
    agent_files: Some(AgentFiles {
        format: AgentFormat::Cursor,
        rank: 5,
        project_folders: &[".cursor/agents"],
        user_folders: &[UserFolder::new("", ".cursor", "agents")],
    }),
    client: Some(&super::client::CLIENT),
    acp: None,
};
