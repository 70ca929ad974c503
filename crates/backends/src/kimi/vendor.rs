//! What is known about Kimi Code.

use crate::contract::PriceList;
use crate::logins::{LoginLocation, Logins};
use crate::vendor::{Feature, PermissionTranslation, Quirk, SessionNaming, Vendor};

pub(super) const LOGINS: Logins = Logins {
    locations: &[
        LoginLocation::Variable("KIMI_MODEL_API_KEY"),
        LoginLocation::Variable("KIMI_API_KEY"),
        // Its first launch writes the file with comments only; a login or a user adds a provider.
        LoginLocation::file_with("KIMI_CODE_HOME", ".kimi-code", "config.toml", &["api_key", "oauth"]),
    ],
    advice: "run `kimi` once and log in with /login",
    keyring: false,
};

pub static VENDOR: Vendor = Vendor {
    name: "kimi",
    program: &super::versions::PROGRAM,
    variables: super::VARIABLES,
    logins: LOGINS,
    prices: PriceList::Unlisted,
    sessions: SessionNaming::VendorIds,
    features: &[
        Feature::ReplacesPrompt,
        Feature::ToolList,
        Feature::OutputSchema,
        Feature::ExtraDirectories,
        Feature::McpServers,
        Feature::ServerTools,
    ],
    quirks: &[Quirk::EditsOutsideDirectory],
    extra_args: super::EXTRA_ARGS,
    inherits: &[],
    permission: PermissionTranslation {
        unenforceable: super::permission::unenforceable,
        inexpressible_grants: super::permission::inexpressible_grants,
    },
    find_override: None,
    find_project_executables: None,
    prepare: super::prepare,
    apply_user_environment: Some(super::config_home::add_config_home_with_servers),
    scan_workspace: None,
    settings_denials: None,
    stale_session: Some(super::stale_session),
    answers_into_file: None,
    agent_files: None,
    client: Some(&super::client::CLIENT),
    acp: Some(&super::acp::ACP_AGENT),
};
