//! What is known about Gemini CLI.

use std::path::Path;

use domain::agent::AgentFormat;
use domain::inherit::Inherited;

use crate::agent_files::{AgentFiles, UserFolder};
use crate::contract::PriceList;
use crate::logins::{LoginLocation, Logins};
use crate::vendor::{Feature, PermissionTranslation, Quirk, SessionNaming, Vendor};

pub(super) const LOGINS: Logins = Logins {
    locations: &[
        LoginLocation::Variable("GEMINI_API_KEY"),
        LoginLocation::Variable("GOOGLE_API_KEY"),
        LoginLocation::Variable("GOOGLE_APPLICATION_CREDENTIALS"),
        LoginLocation::file("", ".gemini", "oauth_creds.json"),
    ],
    advice: "run `gemini` once and log in, or set GEMINI_API_KEY",
    keyring: true,
};

pub static VENDOR: Vendor = Vendor {
    name: "gemini",
    program: &super::versions::PROGRAM,
    variables: super::VARIABLES,
    logins: LOGINS,
    prices: PriceList::Provider("google"),
    sessions: SessionNaming::VendorIds,
    features: &[
        Feature::ReplacesPrompt,
        Feature::ToolList,
        Feature::OutputSchema,
        Feature::TurnLimit,
        Feature::ExtraDirectories,
        Feature::Temperature,
        Feature::McpServers,
        Feature::ServerTools,
        Feature::ServerTimeouts,
        Feature::Delegation,
        Feature::UsageReports,
        Feature::ToolCallReports,
    ],
    quirks: &[Quirk::ExpandsEnvInMcp],
    extra_args: super::EXTRA_ARGS,
    inherits: &[Inherited::McpServers, Inherited::Settings],
    permission: PermissionTranslation {
        unenforceable: super::permission::unenforceable,
        inexpressible_grants: super::permission::inexpressible_grants,
    },
    find_override: Some(|_, _| super::permission::system_policy(Path::new(super::SYSTEM_POLICIES))),
    find_project_executables: Some(|folders| super::PROJECT_SETTINGS.find_executables(folders)),
    prepare: super::prepare,
    apply_user_environment: Some(super::apply_user_environment),
    scan_workspace: None,
    settings_denials: None,
    stale_session: None,
    answers_into_file: None,
    agent_files: Some(AgentFiles {
        format: AgentFormat::Gemini,
        rank: 4,
        project_folders: &[".gemini/agents"],
        user_folders: &[UserFolder::new("", ".gemini", "agents")],
    }),
    client: Some(&super::client::CLIENT),
    acp: Some(&super::acp::ACP_AGENT),
};
