//! What is known about Claude Code, and the services of other vendors that it can use.

use domain::agent::AgentFormat;
use domain::inherit::Inherited;

use super::Endpoint;
use crate::agent_files::{AgentFiles, UserFolder};
use crate::contract::PriceList;
use crate::logins::{LoginLocation, Logins};
use crate::vendor::{Feature, PermissionTranslation, Quirk, SessionNaming, Vendor};

/// Services that implement Anthropic's protocol.
const GLM_SERVICE: Endpoint = Endpoint {
    base_url: "https://api.z.ai/api/anthropic",
    source_variable: "ZAI_API_KEY",
    target_variable: "ANTHROPIC_AUTH_TOKEN",
};
const KIMI_SERVICE: Endpoint = Endpoint {
    base_url: "https://api.kimi.com/coding/",
    source_variable: "KIMI_API_KEY",
    target_variable: "ANTHROPIC_API_KEY",
};

pub(super) const LOGINS: Logins = Logins {
    locations: &[
        LoginLocation::Variable("ANTHROPIC_API_KEY"),
        LoginLocation::Variable("ANTHROPIC_AUTH_TOKEN"),
        LoginLocation::Variable("CLAUDE_CODE_OAUTH_TOKEN"),
        LoginLocation::file("CLAUDE_CONFIG_DIR", ".claude", ".credentials.json"),
    ],
    advice: "run `claude` once and log in, or set ANTHROPIC_API_KEY",
    keyring: cfg!(target_os = "macos"),
};

const CLAUDE: Vendor = Vendor {
    name: "claude",
    program: &super::versions::PROGRAM,
    variables: super::VARIABLES,
    logins: LOGINS,
    prices: PriceList::Provider("anthropic"),
    sessions: SessionNaming::VendorIds,
    features: &[
        Feature::ReplacesPrompt,
        Feature::Effort,
        Feature::ToolList,
        Feature::SkipsProjectContext,
        Feature::OutputSchema,
        Feature::TurnLimit,
        Feature::ExtraDirectories,
        Feature::VendorSettings,
        Feature::McpServers,
        Feature::Delegation,
        Feature::Approvals,
        Feature::UsageReports,
        Feature::ToolCallReports,
        Feature::Forks,
    ],
    quirks: &[Quirk::ExpandsEnvInMcp, Quirk::DenyRulesCoverShell],
    extra_args: super::EXTRA_ARGS,
    inherits: &[Inherited::McpServers, Inherited::Settings],
    // Everything is enforceable: Claude Code asks about whatever a permission restricts, and the permission decides.
    permission: PermissionTranslation { unenforceable: |_| Vec::new(), inexpressible_grants: |_| Vec::new() },
    find_override: None,
    find_project_executables: Some(super::project_settings::project_executables),
    prepare: |spec, context| super::prepare(spec, context, None),
    apply_user_environment: Some(|spec, launch, context, user| {
        super::apply_user_environment(spec, launch, context, user, None)
    }),
    scan_workspace: Some(|spec, _, user| super::scan_workspace(spec, user)),
    settings_denials: Some(super::user_settings::settings_denials),
    stale_session: None,
    answers_into_file: None,
    agent_files: Some(AgentFiles {
        format: AgentFormat::Claude,
        rank: 8,
        project_folders: &[".claude/agents"],
        user_folders: &[UserFolder::new("CLAUDE_CONFIG_DIR", ".claude", "agents")],
    }),
    client: Some(&super::client::CLIENT),
    acp: Some(&super::acp::ACP_AGENT),
};

pub static VENDOR: Vendor = CLAUDE;

/// Claude Code with the service of Z.ai.
pub static GLM: Vendor = Vendor {
    name: "glm",
    variables: &[
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "CLAUDE_CODE_MAX_RETRIES",
        "CLAUDE_CONFIG_DIR",
        GLM_SERVICE.source_variable,
    ],
    logins: Logins {
        locations: &[LoginLocation::Variable(GLM_SERVICE.source_variable)],
        advice: "set ZAI_API_KEY",
        keyring: false,
    },
    prices: PriceList::Provider("zai"),
    prepare: |spec, context| super::prepare(spec, context, Some(GLM_SERVICE)),
    apply_user_environment: Some(|spec, launch, context, user| {
        super::apply_user_environment(spec, launch, context, user, Some(GLM_SERVICE))
    }),
    agent_files: None,
    client: None,
    acp: None,
    ..CLAUDE
};

/// Claude Code with the service of Moonshot AI.
pub static CLAUDE_KIMI: Vendor = Vendor {
    name: "claude-kimi",
    variables: &[
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "CLAUDE_CODE_MAX_RETRIES",
        "CLAUDE_CONFIG_DIR",
        KIMI_SERVICE.source_variable,
    ],
    logins: Logins {
        locations: &[
            LoginLocation::Variable(KIMI_SERVICE.source_variable),
            LoginLocation::Variable(super::SUB_AGENTS_KEY_VARIABLE),
        ],
        advice: "set KIMI_API_KEY",
        keyring: false,
    },
    prices: PriceList::Provider("moonshotai"),
    prepare: |spec, context| super::prepare(spec, context, Some(KIMI_SERVICE)),
    apply_user_environment: Some(|spec, launch, context, user| {
        super::apply_user_environment(spec, launch, context, user, Some(KIMI_SERVICE))
    }),
    agent_files: None,
    client: None,
    acp: None,
    ..CLAUDE
};
