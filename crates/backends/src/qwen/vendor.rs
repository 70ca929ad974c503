//! What is known about Qwen Code.

use domain::agent::AgentFormat;

use crate::agent_files::{AgentFiles, UserFolder};
use crate::contract::PriceList;
use crate::logins::{LoginLocation, Logins};
use crate::prompt_with_system::ARGUMENT_BYTES_MAX;
use crate::vendor::{Feature, PermissionTranslation, Quirk, SessionNaming, Vendor};

pub(super) const LOGINS: Logins = Logins {
    locations: &[
        LoginLocation::Variable("OPENAI_API_KEY"),
        LoginLocation::Variable("DASHSCOPE_API_KEY"),
        LoginLocation::file("", ".qwen", "oauth_creds.json"),
    ],
    advice: "run `qwen` once and log in, or set OPENAI_API_KEY",
    keyring: false,
};

pub static VENDOR: Vendor = Vendor {
    name: "qwen",
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
        Feature::TurnLimit,
        Feature::ExtraDirectories,
        Feature::Temperature,
        Feature::McpServers,
        Feature::ServerTools,
        Feature::ServerTimeouts,
        Feature::Delegation,
        Feature::Approvals,
        Feature::UsageReports,
        Feature::ToolCallReports,
        Feature::Forks,
    ],
    quirks: &[
        Quirk::DecisionTimeout {
            ms: super::versions::DECISION_TIMEOUT_MS - super::versions::DECISION_MARGIN_MS,
        },
        Quirk::AppendedPromptLimit { bytes: ARGUMENT_BYTES_MAX },
    ],
    extra_args: super::EXTRA_ARGS,
    inherits: &[],
    permission: PermissionTranslation {
        unenforceable: super::permission::unenforceable,
        inexpressible_grants: |_| Vec::new(),
    },
    find_override: None,
    find_project_executables: Some(|folders| super::PROJECT_SETTINGS.find_executables(folders)),
    prepare: super::prepare,
    apply_user_environment: Some(super::run_settings::add_system_settings),
    scan_workspace: None,
    settings_denials: None,
    stale_session: None,
    answers_into_file: None,
    agent_files: Some(AgentFiles {
        format: AgentFormat::Qwen,
        rank: 3,
        project_folders: &[".qwen/agents"],
        user_folders: &[UserFolder::new("", ".qwen", "agents")],
    }),
    client: Some(&super::client::CLIENT),
    acp: Some(&super::acp::ACP_AGENT),
};
