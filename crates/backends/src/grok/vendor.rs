//! What is known about Grok's program.

use domain::inherit::Inherited;

use crate::contract::PriceList;
use crate::logins::{LoginLocation, Logins};
use crate::vendor::{Feature, PermissionTranslation, Quirk, SessionNaming, Vendor};

pub static VENDOR: Vendor = Vendor {
    name: "grok",
    program: &super::versions::PROGRAM,
    variables: super::VARIABLES,
    logins: Logins {
        locations: &[
            LoginLocation::Variable("XAI_API_KEY"),
            LoginLocation::Variable("GROK_API_KEY"),
            LoginLocation::file_with("", ".grok", "user-settings.json", &["apiKey"]),
        ],
        advice: "set XAI_API_KEY",
        keyring: false,
    },
    prices: PriceList::Provider("x-ai"),
    sessions: SessionNaming::VendorIds,
    features: &[
        Feature::Effort,
        Feature::OutputSchema,
        Feature::TurnLimit,
        Feature::UsageReports,
        Feature::ToolCallReports,
        Feature::Forks,
        Feature::CommandSandbox,
    ],
    quirks: &[Quirk::StartsOtherServers],
    extra_args: &[],
    inherits: &[Inherited::McpServers, Inherited::Settings],
    permission: PermissionTranslation {
        unenforceable: super::permission::unenforceable,
        inexpressible_grants: |_| Vec::new(),
    },
    find_override: None,
    find_project_executables: None,
    prepare: super::prepare,
    apply_user_environment: Some(|spec, launch, _, user| super::disable_project_servers(spec, launch, user)),
    scan_workspace: Some(|spec, _, _| super::withheld_servers(spec)),
    settings_denials: None,
    stale_session: None,
    answers_into_file: None,
    agent_files: None,
    client: None,
    acp: None,
};
