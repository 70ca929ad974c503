//! What is known about goose.

use crate::contract::PriceList;
use crate::logins::{LoginLocation, Logins};
use crate::vendor::{Feature, PermissionTranslation, Quirk, SessionNaming, Vendor};

pub(super) const LOGINS: Logins = Logins {
    // Settings name only the provider. A key in a variable counts for one provider, and which one is not looked up here.
    locations: &[LoginLocation::file("XDG_CONFIG_HOME", ".config", "goose/secrets.yaml")],
    advice: "run `goose configure`, or set GOOSE_PROVIDER and the API key of that provider",
    keyring: true,
};

pub static VENDOR: Vendor = Vendor {
    name: "goose",
    program: &super::versions::PROGRAM,
    variables: super::VARIABLES,
    logins: LOGINS,
    prices: PriceList::ByModel,
    sessions: SessionNaming::VendorIds,
    features: &[
        Feature::ToolList,
        Feature::SkipsProjectContext,
        Feature::OutputSchema,
        Feature::TurnLimit,
        Feature::Temperature,
        Feature::McpServers,
        Feature::ServerTools,
        Feature::ServerTimeouts,
        Feature::Delegation,
        Feature::UsageReports,
        Feature::ToolCallReports,
    ],
    quirks: &[Quirk::EditsOutsideDirectory],
    extra_args: super::EXTRA_ARGS,
    inherits: &[],
    permission: PermissionTranslation {
        unenforceable: super::permission::unenforceable,
        inexpressible_grants: |_| Vec::new(),
    },
    find_override: None,
    find_project_executables: None,
    prepare: super::prepare,
    apply_user_environment: None,
    scan_workspace: None,
    settings_denials: None,
    stale_session: Some(super::stale_session),
    answers_into_file: None,
    agent_files: None,
    client: Some(&super::client::CLIENT),
    acp: Some(&super::acp::ACP_AGENT),
};
