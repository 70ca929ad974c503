//! The table of one vendor: everything that the rest of the program knows about the vendor's agent. A vendor's folder
//! fills it in and starts nothing; what the agent can do is derived from it.

use std::path::{Path, PathBuf};

use domain::inherit::Inherited;
use domain::launch::LaunchOverrides;
use domain::permission::Permission;
use domain::run::RunSpec;
use domain::setup::Setup;

use crate::acp::AcpAgent;
use crate::agent_files::AgentFiles;
use crate::client_setup::McpClient;
use crate::contract::{
    Backend, Capabilities, LaunchContext, LaunchPlan, PrepareError, PriceList, ProcessLaunch,
    ProjectExecutable,
};
use crate::logins::Logins;
use crate::permission_overrides::{self, OverrideFinder};
use crate::program::ProgramSpec;
use crate::user_environment::{ProjectFolders, UserEnvironment};

/// A vendor's agent. Every field is a question that a new vendor has to answer.
pub struct Vendor {
    /// The name of the backend, as `spec.backend.kind`.
    pub name: &'static str,
    pub program: &'static ProgramSpec,
    /// Environment variables that the program gets if they are set, whether or not the agent lists them.
    pub variables: &'static [&'static str],
    pub logins: Logins,
    /// Where to look up prices if the program reports only tokens.
    pub prices: PriceList,
    pub sessions: SessionNaming,
    pub features: &'static [Feature],
    pub quirks: &'static [Quirk],
    /// The further arguments that an agent may pass to the program. None of them grants a permission.
    pub extra_args: &'static [&'static str],
    /// What the program can inherit from its user in addition to the environment, which every process can inherit.
    pub inherits: &'static [Inherited],
    pub permission: PermissionTranslation,
    /// Finds settings of the user or the project that would let the program do more than its agent may.
    pub find_override: Option<OverrideFinder>,
    /// Finds what the program would execute because files of a project say so.
    pub find_project_executables: Option<ProjectExecutableFinder>,
    /// Plans how to carry out one run. Reads nothing and starts nothing.
    pub prepare: Prepare,
    /// Adapts a prepared process to its user; see [`Backend::apply_user_environment`].
    pub apply_user_environment: Option<LaunchAdapter>,
    /// See [`Backend::scan_workspace`].
    pub scan_workspace: Option<WorkspaceScanner>,
    /// See [`Backend::settings_denials`].
    pub settings_denials: Option<SettingsDenialFinder>,
    /// See [`Backend::stale_session`].
    pub stale_session: Option<StaleSessionFinder>,
    /// Returns whether an agent with this setup can write its answer into a file; `None` if none can.
    pub answers_into_file: Option<fn(&Setup) -> bool>,
    /// The agents that its users have defined for it.
    pub agent_files: Option<AgentFiles>,
    /// The program as an MCP client.
    pub client: Option<&'static McpClient>,
    /// The same program as an agent that speaks ACP.
    pub acp: Option<&'static AcpAgent>,
}

pub type Prepare = fn(&RunSpec, &LaunchContext<'_>) -> Result<ProcessLaunch, String>;

/// Changes a prepared process.
pub type LaunchAdapter =
    fn(&RunSpec, &mut ProcessLaunch, &LaunchContext<'_>, &UserEnvironment<'_>) -> Result<(), String>;

pub type WorkspaceScanner =
    fn(&RunSpec, &mut ProcessLaunch, &UserEnvironment<'_>) -> Result<Vec<String>, String>;

/// Finds the rules of settings files that the program enforces by itself, each with its file.
pub type SettingsDenialFinder = fn(&RunSpec, &UserEnvironment<'_>) -> Vec<(PathBuf, String)>;

pub type StaleSessionFinder = fn(&RunSpec, &LaunchContext<'_>) -> Option<String>;

/// Finds executables in folders of a project.
pub type ProjectExecutableFinder = fn(&[&Path]) -> Vec<ProjectExecutable>;

/// What a vendor's program cannot express of a permission. The translation itself is part of the launch plan.
pub struct PermissionTranslation {
    /// See [`Backend::unenforceable`].
    pub unenforceable: fn(&Permission) -> Vec<String>,
    /// See [`Backend::inexpressible_grants`].
    pub inexpressible_grants: fn(&Permission) -> Vec<String>,
}

/// How the program names its conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionNaming {
    /// It assigns an id and reports it.
    VendorIds,
    /// It finds a conversation by its working directory, so a session needs a folder that somebody names.
    ByDirectory,
}

/// Something that a program can do and others cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// The agent's system prompt can replace the program's own.
    ReplacesPrompt,
    Effort,
    /// The list of tools can be restricted.
    ToolList,
    /// The directory's own instruction files can be left out.
    SkipsProjectContext,
    OutputSchema,
    TurnLimit,
    ExtraDirectories,
    Temperature,
    /// The program can use other settings than its user's.
    VendorSettings,
    /// The agent gets its own MCP servers, and only those.
    McpServers,
    /// The agent sees only those of a server's tools that are named.
    ServerTools,
    /// A call of a server's tool ends when the server's time is up.
    ServerTimeouts,
    /// The agent can be given Volery's own server.
    Delegation,
    /// The program can ask a person before it uses a tool.
    Approvals,
    /// Tokens or money are reported.
    UsageReports,
    /// Each tool call is reported.
    ToolCallReports,
    /// The vendor can copy a conversation.
    Forks,
    Containers,
    /// Shell commands run without approval, within a sandbox of the program that enforces the level.
    CommandSandbox,
    /// The program reads agent files in its own format by itself, and honours everything in them.
    ReadsOwnFiles,
}

/// A behaviour that needs care elsewhere in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    /// It expands `$` in the settings of an MCP server as the start of a variable, and has no way to escape it.
    ExpandsEnvInMcp,
    /// If it may edit at all, it also edits outside its directory.
    EditsOutsideDirectory,
    /// Rules that deny edits in a folder also apply to its shell commands.
    DenyRulesCoverShell,
    /// It may start MCP servers other than the agent's own, although the agent cannot use them.
    StartsOtherServers,
    /// It writes text for people to standard output, not a protocol.
    PlainTextOutput,
    /// It waits no longer than this for a decision.
    DecisionTimeout { ms: u64 },
    /// A longer system prompt cannot be added to the program's own.
    AppendedPromptLimit { bytes: usize },
    /// It may leave these folders empty in its directory if it is killed.
    LeavesEmptyFolders(&'static [&'static str]),
    /// Processes that it has started end by themselves after it, and must be allowed to: they may be writing the
    /// user's files at that moment.
    OutlivedByChildren,
}

impl Vendor {
    fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    fn prepare_error(&self, reason: String) -> PrepareError {
        PrepareError { kind: self.name, reason }
    }
}

impl Backend for Vendor {
    fn kind(&self) -> &'static str {
        self.name
    }

    fn program(&self) -> Option<&'static ProgramSpec> {
        Some(self.program)
    }

    fn variables(&self) -> Vec<&'static str> {
        self.variables.to_vec()
    }

    fn quirks(&self) -> &'static [Quirk] {
        self.quirks
    }

    fn capabilities(&self, options: &serde_json::Value) -> Capabilities {
        let launch = LaunchOverrides::from_options(options);
        let session = match self.sessions {
            SessionNaming::VendorIds => true,
            SessionNaming::ByDirectory => launch.sessions.is_some() || launch.container.is_some(),
        };
        let has_quirk = |quirk: Quirk| self.quirks.contains(&quirk);
        Capabilities {
            system_prompt: true,
            model: true,
            process: true,
            resumes_from_calls: false,
            is_script: false,
            enforces_call_limits: false,
            session,
            vendor_assigned_session_ids: session,
            prices: self.prices,
            extra_args: self.extra_args,
            inherits: self.inherits,
            usage: self.has(Feature::UsageReports),
            ask: self.has(Feature::Approvals),
            replaces_prompt: self.has(Feature::ReplacesPrompt),
            effort: self.has(Feature::Effort),
            tools: self.has(Feature::ToolList),
            can_skip_project_context: self.has(Feature::SkipsProjectContext),
            mcp_servers: self.has(Feature::McpServers),
            server_tools: self.has(Feature::ServerTools),
            server_timeouts: self.has(Feature::ServerTimeouts),
            output_schema: self.has(Feature::OutputSchema),
            max_turns: self.has(Feature::TurnLimit),
            delegates: self.has(Feature::Delegation),
            extra_directories: self.has(Feature::ExtraDirectories),
            vendor_settings: self.has(Feature::VendorSettings),
            response_file: self.answers_into_file.is_some(),
            forks: self.has(Feature::Forks),
            temperature: self.has(Feature::Temperature),
            reports_tool_calls: self.has(Feature::ToolCallReports),
            containers: self.has(Feature::Containers),
            sandboxes_commands: self.has(Feature::CommandSandbox),
            reads_own_files: self.has(Feature::ReadsOwnFiles),
            expands_env_in_mcp: has_quirk(Quirk::ExpandsEnvInMcp),
            plain_text_output: has_quirk(Quirk::PlainTextOutput),
            starts_other_servers: has_quirk(Quirk::StartsOtherServers),
            edits_outside_directory: has_quirk(Quirk::EditsOutsideDirectory),
            deny_rules_cover_shell: has_quirk(Quirk::DenyRulesCoverShell),
            answer_ms_max: self.quirks.iter().find_map(|quirk| {
                let Quirk::DecisionTimeout { ms } = quirk else { return None };
                Some(*ms)
            }),
            appended_prompt_bytes_max: self.quirks.iter().find_map(|quirk| {
                let Quirk::AppendedPromptLimit { bytes } = quirk else { return None };
                Some(*bytes)
            }),
        }
    }

    fn unenforceable(&self, permission: &Permission, _options: &serde_json::Value) -> Vec<String> {
        (self.permission.unenforceable)(permission)
    }

    fn inexpressible_grants(&self, permission: &Permission, _options: &serde_json::Value) -> Vec<String> {
        (self.permission.inexpressible_grants)(permission)
    }

    fn prepare(&self, spec: &RunSpec, context: &LaunchContext<'_>) -> Result<LaunchPlan, PrepareError> {
        (self.prepare)(spec, context).map(LaunchPlan::Process).map_err(|reason| self.prepare_error(reason))
    }

    fn stale_session(&self, spec: &RunSpec, context: &LaunchContext<'_>) -> Option<String> {
        self.stale_session?(spec, context)
    }

    fn apply_user_environment(
        &self,
        spec: &RunSpec,
        launch: &mut ProcessLaunch,
        context: &LaunchContext<'_>,
        user: &UserEnvironment<'_>,
    ) -> Result<(), PrepareError> {
        if let Some(find_override) = self.find_override {
            permission_overrides::refuse_overrides(spec, user, find_override)
                .map_err(|reason| self.prepare_error(reason))?;
        }
        let Some(apply) = self.apply_user_environment else { return Ok(()) };
        apply(spec, launch, context, user).map_err(|reason| self.prepare_error(reason))
    }

    fn scan_workspace(
        &self,
        spec: &RunSpec,
        launch: &mut ProcessLaunch,
        user: &UserEnvironment<'_>,
    ) -> Result<Vec<String>, PrepareError> {
        let Some(scan) = self.scan_workspace else { return Ok(Vec::new()) };
        scan(spec, launch, user).map_err(|reason| self.prepare_error(reason))
    }

    fn settings_denials(&self, spec: &RunSpec, user: &UserEnvironment<'_>) -> Vec<(PathBuf, String)> {
        self.settings_denials.map(|find| find(spec, user)).unwrap_or_default()
    }

    fn project_executables(&self, folders: &ProjectFolders<'_>) -> Vec<ProjectExecutable> {
        self.find_project_executables.map(|find| find(folders)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
