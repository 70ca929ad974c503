//! Agents that speak the Agent Client Protocol over their standard streams: known agents, each with a name of its
//! own, and any command of a configuration with `protocol = "acp"`.
//!
//! Only the types of the protocol come from its library: a reader here takes bytes and returns reports, and does not
//! need a runtime that reads and writes by itself.

mod failure;
mod message;
pub(crate) mod option_encoding;
mod permission_requests;
pub(crate) mod profile;
mod reader;
mod session;
mod tool_calls;
mod usage;

use domain::agent::Delegates;
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::policy::Extent;
use domain::run::RunSpec;
use domain::setup::PromptMode;
use serde::Deserialize;
use serde_json::Value;

use crate::contract::{
    Backend, Capabilities, EnvValue, LaunchContext, LaunchPlan, PrepareError, ProcessLaunch,
    ProjectExecutable, StdinFeed, inexpressible,
};
use crate::mcp_config::{self, OWN_SERVER};
use crate::permission_overrides;
use crate::policy_translation::ByLevel;
use crate::program::ProgramSpec;
use crate::user_environment::{ProjectFolders, UserEnvironment};
use crate::vendor::Quirk;
use crate::{prompt_with_system, schema_prompt, session_usage};
use permission_requests::AutoAllow;
pub use profile::AcpAgent;
use profile::{AgentProfile, ApprovalScope, Modes, ServerDelivery, TokenCounting, UNKNOWN_AGENT};
use reader::AcpConversation;
use session::SessionRequest;
use tool_calls::SessionServers;

const KIND: &str = "acp";

/// A command of a configuration.
pub struct Acp;

/// A command as the configuration's reader wrote it into the run's spec.
#[derive(Deserialize)]
struct Options {
    command: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
}

impl Backend for Acp {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn capabilities(&self, _options: &Value) -> Capabilities {
        capabilities(&UNKNOWN_AGENT)
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        unenforceable(permission, UNKNOWN_AGENT.approval_scope)
    }

    fn prepare(&self, spec: &RunSpec, context: &LaunchContext<'_>) -> Result<LaunchPlan, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: KIND, reason };
        let options: Options =
            serde_json::from_value(spec.backend.options.clone()).map_err(|error| wrong(error.to_string()))?;
        if options.command.is_empty() {
            return Err(wrong("its command is empty".to_owned()));
        }
        Ok(LaunchPlan::Process(ProcessLaunch {
            argv: options.command,
            env: options.env,
            optional_env: Vec::new(),
            env_overrides: Vec::new(),
            feed: StdinFeed::Open(message::greeting()),
            directory: None,
            files: Vec::new(),
            reader: Box::new(conversation(spec, context, UNKNOWN_AGENT)),
        }))
    }
}

impl Backend for AcpAgent {
    fn kind(&self) -> &'static str {
        self.name
    }

    fn program(&self) -> Option<&'static ProgramSpec> {
        Some(self.program)
    }

    fn variables(&self) -> Vec<&'static str> {
        self.variables.concat()
    }

    fn capabilities(&self, _options: &Value) -> Capabilities {
        capabilities(&self.profile)
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        unenforceable(permission, self.profile.approval_scope)
    }

    fn inexpressible_grants(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        let is_restricted = self.profile.options.restricted.is_some() && !permission.is_unrestricted();
        let delegates =
            permission.allow.iter().filter(|rule| is_restricted && rule.kind() == ToolKind::Delegate);
        delegates.map(|rule| format!("the rule allow {rule}")).collect()
    }

    fn quirks(&self) -> &'static [Quirk] {
        self.quirks
    }

    /// The program without ACP may ignore some of these; nothing turns them off here.
    fn project_executables(&self, folders: &ProjectFolders<'_>) -> Vec<ProjectExecutable> {
        let found = self.find_project_executables.map(|find| find(folders)).unwrap_or_default();
        found.into_iter().map(|program| ProjectExecutable { can_be_disabled: false, ..program }).collect()
    }

    fn apply_user_environment(
        &self,
        spec: &RunSpec,
        launch: &mut ProcessLaunch,
        context: &LaunchContext<'_>,
        user: &UserEnvironment<'_>,
    ) -> Result<(), PrepareError> {
        let wrong = |reason| PrepareError { kind: self.name, reason };
        if let Some(find_override) = self.find_override {
            permission_overrides::refuse_overrides(spec, user, find_override).map_err(wrong)?;
        }
        if self.logins.are_missing(user) {
            launch.reader.expect_no_login();
        }
        let Some(exclude_other_servers) = self.exclude_other_servers else { return Ok(()) };
        exclude_other_servers(spec, launch, context, user).map_err(wrong)
    }

    fn prepare(&self, spec: &RunSpec, context: &LaunchContext<'_>) -> Result<LaunchPlan, PrepareError> {
        let program_names = self.program.names.join(" or ");
        let found = context
            .require_program(&program_names)
            .map_err(|reason| PrepareError { kind: self.name, reason })?;
        let mut argv = found.argv.clone();
        argv.extend(self.arguments.iter().map(|word| (*word).to_owned()));
        let mut files = Vec::new();
        let mut conversation = conversation(spec, context, self.profile);
        if let Some(by) = &self.server_delivery {
            conversation.leave_servers_out();
            if let ServerDelivery::File { argument, file } = by {
                let file = file(spec, context);
                argv.push(format!("{argument}{}", context.work_file_path(&file.name)));
                files.push(file);
            }
        }
        let set =
            self.set.iter().map(|(name, value)| ((*name).to_owned(), EnvValue::Plain((*value).to_owned())));
        let mut launch = ProcessLaunch {
            argv,
            env: Vec::new(),
            optional_env: self.variables.concat().into_iter().map(ToOwned::to_owned).collect(),
            env_overrides: set.collect(),
            feed: StdinFeed::Open(message::greeting()),
            directory: None,
            files,
            reader: Box::new(conversation),
        };
        self.profile.options.apply(spec, context, &mut launch);
        Ok(LaunchPlan::Process(launch))
    }
}

/// What the protocol supports. If an agent does not offer a feature, that is reported once the agent has declared its
/// own capabilities.
fn capabilities(profile: &AgentProfile) -> Capabilities {
    Capabilities {
        system_prompt: true,
        model: true,
        session: true,
        vendor_assigned_session_ids: true,
        usage: profile.token_counting != TokenCounting::Nothing,
        prices: profile.prices,
        ask: true,
        process: true,
        replaces_prompt: profile.replaces_prompt,
        effort: true,
        tools: profile.options.tools.is_some(),
        can_skip_project_context: profile.options.no_context.is_some(),
        max_turns: profile.options.max_turns.is_some(),
        mcp_servers: true,
        output_schema: true,
        extra_directories: true,
        delegates: true,
        forks: profile.forks,
        ..Capabilities::default()
    }
}

/// Names what cannot be enforced, because the agent need not ask.
fn unenforceable(permission: &Permission, approval_scope: ApprovalScope) -> Vec<String> {
    match approval_scope {
        ApprovalScope::Everything => Vec::new(),
        ApprovalScope::Unknown | ApprovalScope::PerSettings => {
            // Allow rules restrict nothing.
            let level = permission.level.filter(|level| level.is_limited());
            inexpressible(&Permission { level, allow: Vec::new(), ..permission.clone() })
        }
        ApprovalScope::Changes => {
            unenforced_rules(permission, |kind| !matches!(kind, ToolKind::Edit | ToolKind::Mcp { .. }), None)
        }
        ApprovalScope::ChangesBeyondGit => {
            // At safe-edit such an edit is allowed.
            let level = permission.level.filter(|level| level.extent(ToolKind::Edit) == Extent::Nothing);
            unenforced_rules(permission, |kind| !matches!(kind, ToolKind::Mcp { .. }), level)
        }
    }
}

/// Names a level, and the rules about tools that are used without a question.
fn unenforced_rules(
    permission: &Permission,
    is_unenforced: fn(ToolKind) -> bool,
    level: Option<Level>,
) -> Vec<String> {
    let matching = |rules: &[Rule]| rules.iter().filter(|rule| is_unenforced(rule.kind())).cloned().collect();
    let (ask, deny) = (matching(&permission.ask), matching(&permission.deny));
    inexpressible(&Permission { level, ask, deny, ..Permission::default() })
}

fn conversation(spec: &RunSpec, context: &LaunchContext<'_>, profile: AgentProfile) -> AcpConversation {
    let setup = &spec.setup;
    let permission = &setup.permission;
    let replaces = setup.prompt_mode == PromptMode::Replace && profile.replaces_prompt;
    let request = SessionRequest {
        name: spec.backend.name.as_str().to_owned(),
        profile,
        directory: spec.directory.clone(),
        directories: setup.extra_directories.clone(),
        session: spec.session.as_ref().map(|session| session.as_str().to_owned()),
        fork: spec.fork,
        servers: session::servers(spec, context),
        variables: session::variables(spec),
        system: session::system(&spec.system_prompt, replaces),
        prompt: escape_command(schema_prompt::prompt_with_schema(spec)),
        combined: escape_command(prompt_with_system::prompt_with_system(spec)),
        mode: profile.modes.map(|modes| mode(modes, permission)),
        model: spec.model.clone(),
        effort: setup.effort.clone().filter(|_| profile.options.effort.is_none()),
        meta: profile.options.session_meta(spec, profile.session_meta),
        structured: setup.output_schema.is_some(),
    };
    let auto_allow = AutoAllow {
        everything: permission.is_unrestricted(),
        own_server: spec.delegates != Delegates::Nobody && !permission.restricts_server(OWN_SERVER),
    };
    let are_restricted =
        permission.restricting_rules().any(|(_, rule)| matches!(rule.kind(), ToolKind::Mcp { .. }));
    let servers = SessionServers { names: mcp_config::server_names(spec), are_restricted };
    let mut conversation =
        AcpConversation::new(request, auto_allow, session_usage::usage_before_run(spec, context), servers);
    conversation.set_work_folder(context.work_dir);
    conversation
}

/// Returns a prompt that is not a command of the agent: many treat a leading slash as one.
fn escape_command(prompt: String) -> String {
    if prompt.starts_with('/') { format!("\n{prompt}") } else { prompt }
}

fn mode(modes: Modes, permission: &Permission) -> &'static str {
    // In a mode that allows edits, it would not ask about an edit that rules cover.
    if permission.restricts_kind(ToolKind::Edit) {
        return modes.read_only;
    }
    let yolo = if permission.is_unrestricted() { modes.free } else { modes.safe_edit };
    ByLevel { read_only: modes.read_only, safe_edit: modes.safe_edit, yolo }.select(permission)
}

#[cfg(test)]
mod tests;
