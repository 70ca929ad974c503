//! Defines the interface that every backend implements: its capabilities, and how it launches one run.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::program::{LocatedProgram, ProgramSpec};
use crate::user_environment::{ProjectFolders, UserEnvironment};
use crate::vendor::Quirk;
use domain::inherit::Inherited;
use domain::mcp_server::VariableText;
use domain::permission::Permission;
use domain::run::{
    AgentEnd, BackendSpec, CallClass, CallKind, LoopCall, ModelError, RunSpec, StdStream, Usage,
};
use domain::setup::PromptMode;
use serde::Serialize;

pub use domain::run::Exit;

/// What a backend can do, as data: code outside this crate never asks which backend it is. The default is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// The agent's system prompt reaches it.
    pub system_prompt: bool,
    pub model: bool,
    pub session: bool,
    /// The vendor assigns session ids, so an id that it never reported is a mistake.
    #[serde(rename = "names_sessions")]
    pub vendor_assigned_session_ids: bool,
    /// Tokens or money are reported.
    pub usage: bool,
    /// Where to look up prices if the program reports only tokens.
    #[serde(skip)]
    pub prices: PriceList,
    /// Another worker can continue a lost run at its recorded calls.
    #[serde(rename = "resume")]
    pub resumes_from_calls: bool,
    /// It follows a fixed script, so no prompt can correct its answer.
    #[serde(skip)]
    pub is_script: bool,
    /// It keeps the limits on steps, tool calls, tokens and cost.
    #[serde(skip)]
    pub enforces_call_limits: bool,
    /// The agent can ask a person.
    pub ask: bool,
    /// How long the program waits for an answer; `None` if it waits without a limit.
    #[serde(skip)]
    pub answer_ms_max: Option<u64>,
    /// A process is started, so containment and resource limits apply.
    pub process: bool,
    /// The agent's system prompt can replace the program's own.
    pub replaces_prompt: bool,
    pub effort: bool,
    /// The list of tools can be restricted.
    pub tools: bool,
    /// The directory's own instruction files can be left out.
    #[serde(rename = "skips_context")]
    pub can_skip_project_context: bool,
    /// The agent gets its own MCP servers, and only those.
    pub mcp_servers: bool,
    /// The agent sees only those of a server's tools that are named.
    pub server_tools: bool,
    /// A call of a server's tool ends when the server's time is up.
    pub server_timeouts: bool,
    /// The program expands `$` in the settings of an MCP server as the start of a variable, and has no way to escape
    /// it.
    #[serde(skip)]
    pub expands_env_in_mcp: bool,
    /// The answer is made to satisfy a schema.
    pub output_schema: bool,
    pub max_turns: bool,
    /// The agent can be given Volery's own server, and so delegate.
    pub delegates: bool,
    /// The further arguments that an agent may pass to the program.
    pub extra_args: &'static [&'static str],
    pub extra_directories: bool,
    /// The program can use other settings than its user's.
    pub vendor_settings: bool,
    /// The agent can answer by writing a file.
    pub response_file: bool,
    /// The vendor can copy a conversation.
    pub forks: bool,
    /// The sampling temperature can be set.
    pub temperature: bool,
    /// Each tool call is reported, so no report means no call.
    #[serde(rename = "tells_tools")]
    pub reports_tool_calls: bool,
    /// The program writes text for people to standard output, not a protocol.
    #[serde(skip)]
    pub plain_text_output: bool,
    /// The program can run in a container.
    pub containers: bool,
    /// The program reads agent files in its own format by itself, and honours everything in them.
    pub reads_own_files: bool,
    /// It may start MCP servers other than the agent's own, although the agent cannot use them.
    pub starts_other_servers: bool,
    /// If it may edit at all, it also edits outside its directory.
    #[serde(skip)]
    pub edits_outside_directory: bool,
    /// What the program can inherit from its user in addition to the environment, which every process can inherit.
    #[serde(skip)]
    pub inherits: &'static [Inherited],
    /// Shell commands run without approval, within a sandbox of the program that enforces the level.
    #[serde(skip)]
    pub sandboxes_commands: bool,
    /// Rules that deny edits in a folder also apply to its shell commands.
    #[serde(skip)]
    pub deny_rules_cover_shell: bool,
    /// The longest system prompt that can be added to the program's own.
    #[serde(skip)]
    pub appended_prompt_bytes_max: Option<usize>,
}

impl Capabilities {
    /// Returns why a system prompt cannot be passed to the agent.
    pub fn system_prompt_problem(&self, system_prompt: &str, mode: PromptMode) -> Option<String> {
        let allowed = self.appended_prompt_bytes_max?;
        let bytes = system_prompt.trim().len();
        let fits = mode == PromptMode::Replace || bytes <= allowed;
        (!fits).then(|| {
            format!("the system prompt has {bytes} bytes, and {allowed} can be added to the program's own")
        })
    }
}

/// The reason of a denial if the agent calls a tool that it does not have.
pub const NO_SUCH_TOOL: &str = "the agent has no such tool";

/// Where the price of a model is looked up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PriceList {
    /// Nowhere: the provider of the model is unknown.
    #[default]
    Unlisted,
    /// In the list of this provider.
    Provider(&'static str),
    /// The model's name determines the provider; otherwise the model has no price.
    ByModel,
}

/// A way to run agents.
pub trait Backend: Sync {
    /// The name of the folder, as `spec.backend.kind`.
    fn kind(&self) -> &'static str;

    fn capabilities(&self, options: &serde_json::Value) -> Capabilities;

    /// Names each part of a permission that this backend cannot express: by default, all of it.
    fn unenforceable(&self, permission: &Permission, _options: &serde_json::Value) -> Vec<String> {
        inexpressible(permission)
    }

    /// Names each part of a permission that grants something and that this backend cannot express. The agent can then
    /// do less than the permission allows, never more.
    fn inexpressible_grants(&self, _permission: &Permission, _options: &serde_json::Value) -> Vec<String> {
        Vec::new()
    }

    /// Plans how to carry out one run. Reads nothing and starts nothing.
    fn prepare(&self, spec: &RunSpec, context: &LaunchContext<'_>) -> Result<LaunchPlan, PrepareError>;

    /// Returns why the session of a run cannot be continued as the vendor stored it. Its conversation is then
    /// replayed in a new session.
    fn stale_session(&self, _spec: &RunSpec, _context: &LaunchContext<'_>) -> Option<String> {
        None
    }

    /// Adapts a prepared process to its user: excludes what the program would pick up by itself and must not have, or
    /// gives it a directory of its own. May read the vendor's settings; changes nothing.
    fn apply_user_environment(
        &self,
        _spec: &RunSpec,
        _launch: &mut ProcessLaunch,
        _context: &LaunchContext<'_>,
        _user: &UserEnvironment<'_>,
    ) -> Result<(), PrepareError> {
        Ok(())
    }

    /// Scans the work tree of a process that is about to start, or is displayed as if it were, for facts that the
    /// program needs. Returns a sentence for each fact that cannot be passed to the program. May take seconds, so
    /// lists skip it.
    fn scan_workspace(
        &self,
        _spec: &RunSpec,
        _launch: &mut ProcessLaunch,
        _user: &UserEnvironment<'_>,
    ) -> Result<Vec<String>, PrepareError> {
        Ok(Vec::new())
    }

    /// Returns the rules that deny something in settings files which the program enforces by itself, each with its
    /// file.
    fn settings_denials(&self, _spec: &RunSpec, _user: &UserEnvironment<'_>) -> Vec<(PathBuf, String)> {
        Vec::new()
    }

    /// Names what the program would execute, or where it would send its user's keys, because files in these project
    /// folders say so.
    fn project_executables(&self, _folders: &ProjectFolders<'_>) -> Vec<ProjectExecutable> {
        Vec::new()
    }

    /// Names the behaviours of the program that need care elsewhere.
    fn quirks(&self) -> &'static [Quirk] {
        &[]
    }

    /// Describes how to find the vendor's program; `None` for a backend without one.
    fn program(&self) -> Option<&'static ProgramSpec> {
        None
    }

    /// Names the environment variables that the process gets if they are set, whether or not the agent lists them.
    fn variables(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// Something that a vendor's program would execute because a file of a project says so.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProjectExecutable {
    pub file: PathBuf,
    /// One line, for people to judge: what it is, and the setting.
    pub description: String,
    /// The file itself is executed, so its content matters.
    pub content_is_executed: bool,
    /// The program can be configured to ignore it.
    pub can_be_disabled: bool,
    /// Why the file could not be read; its content is then unknown.
    pub read_error: Option<String>,
    /// The passages of the file that matter, for people to judge.
    pub excerpts: Vec<Excerpt>,
}

/// A passage of a project's file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Excerpt {
    pub line: Option<u32>,
    /// Its text, shortened.
    pub text: String,
    /// What the program does because of it.
    pub reason: &'static str,
}

/// Whether the executables of a project are trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProjectExecutables {
    #[default]
    Off,
    On,
}

/// The context in which a run is prepared.
#[derive(Debug, Clone, Copy)]
pub struct LaunchContext<'a> {
    /// The run's own folder for files that the agent is given.
    pub work_dir: &'a Path,
    /// This program, for agents that may delegate.
    pub current_exe: &'a Path,
    /// The backend's program, if it has one and it was found.
    pub program: Option<&'a LocatedProgram>,
    /// What earlier runs of the session used, if that is known: some programs report only the sum.
    pub prior_session_usage: Option<Usage>,
    pub project_executables: ProjectExecutables,
}

impl LaunchContext<'_> {
    /// Returns the backend's program. An error calls it by this name.
    pub fn require_program(&self, name: &str) -> Result<&LocatedProgram, String> {
        self.program.ok_or_else(|| format!("{name} was not found on the PATH"))
    }

    /// Returns the path of a work file, as an argument.
    pub fn work_file_path(&self, name: &str) -> String {
        self.work_dir.join(name).display().to_string()
    }
}

/// Returns the arguments that an agent adds, if each starts with an option that its backend permits. A value follows
/// `=`, so that no argument can become an option of its own.
pub fn permitted_args(requested: &[String], permitted: &[&str]) -> Result<Vec<String>, String> {
    let is_permitted = |argument: &str| {
        let is = |option: &&str| {
            argument.strip_prefix(*option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        permitted.iter().any(is)
    };
    let mut wrong = Vec::new();
    for (at, argument) in requested.iter().enumerate().filter(|(_, argument)| !is_permitted(argument)) {
        let before = at.checked_sub(1).and_then(|before| requested.get(before));
        let valued = before
            .filter(|option| is_permitted(option) && !option.contains('=') && !argument.starts_with('-'));
        wrong.push(match valued {
            Some(option) => format!("{argument:?} (write \"{option}={argument}\" if it is the value)"),
            None => format!("{argument:?}"),
        });
    }
    if !wrong.is_empty() {
        let (what, wrong) = (if wrong.len() == 1 { "argument" } else { "arguments" }, wrong.join(", "));
        let options = permitted.join(", ");
        return Err(format!("the {what} {wrong} may not be given by an agent; these may: {options}"));
    }
    Ok(requested.to_vec())
}

/// Names each part of a permission, for a backend that can express none.
pub fn inexpressible(permission: &Permission) -> Vec<String> {
    let level = permission.level.map(|level| format!("the level {}", level.as_str()));
    let lists = [("allow", &permission.allow), ("ask", &permission.ask), ("deny", &permission.deny)];
    let rules = lists
        .into_iter()
        .flat_map(|(word, rules)| rules.iter().map(move |rule| format!("the rule {word} {rule}")));
    level.into_iter().chain(rules).collect()
}

/// The stored options of a run do not make sense to its backend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {kind} backend cannot carry out this run: {reason}")]
pub struct PrepareError {
    pub kind: &'static str,
    pub reason: String,
}

/// The two ways to carry out a run.
pub enum LaunchPlan {
    /// A process that reads a prompt and writes an answer.
    Process(ProcessLaunch),
    /// Steps that the worker itself carries out and journals.
    Loop(Box<dyn Loop>),
    /// A model that calls tools, which the worker carries out.
    AgentLoop(Box<AgentLoopLaunch>),
}

/// The model of a loop, and the backend of its service.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentLoopLaunch {
    pub service: BackendSpec,
    pub model: String,
}

/// A process to start, and the reader of its output.
pub struct ProcessLaunch {
    pub argv: Vec<String>,
    /// Names of environment variables in addition to the base list and those that the run names.
    pub env: Vec<String>,
    /// Names of variables that are passed on if they are set; a missing one is not an error.
    pub optional_env: Vec<String>,
    /// Further variables of the process.
    pub env_overrides: Vec<(String, EnvValue)>,
    pub feed: StdinFeed,
    /// The working directory of the process, if it is not the run's directory.
    pub directory: Option<PathBuf>,
    /// Written below the run's work folder before the start.
    pub files: Vec<WorkFile>,
    pub reader: Box<dyn OutputReader>,
}

/// The value of an environment variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// Not a secret: it may be shown and recorded.
    Plain(String),
    /// The value of another variable, which the code that prepares the run never sees.
    FromVariable(String),
    /// The value of the first of these keys that a JSON file has; otherwise the variable's own value.
    FromFile { file: PathBuf, keys: Vec<String> },
    /// The process does not get the variable, even if something else would pass it on.
    Unset,
}

/// What the process reads from standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StdinFeed {
    Nothing,
    /// All of this, followed by end of file.
    Whole(Vec<u8>),
    /// This first, then the reader's messages, until the reader closes the input.
    Open(Vec<u8>),
}

/// The prefix of the names of files that hold secrets, by which the code that ends a run finds them.
pub const SECRET_PREFIX: &str = "secret-";

/// A file that a process is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkFile {
    pub name: String,
    pub content: Vec<u8>,
    /// Names of variables whose `${NAME}` in the content is replaced by the value, escaped as in a JSON string. Such
    /// a file holds secrets and is removed when the run ends.
    pub variables: Vec<String>,
    /// The target, if the file is a symbolic link without content of its own. A missing target is created as a
    /// folder.
    pub link: Option<PathBuf>,
}

impl WorkFile {
    pub fn plain(name: &str, content: impl Into<Vec<u8>>) -> Self {
        Self { name: name.to_owned(), content: content.into(), variables: Vec::new(), link: None }
    }

    pub fn link(name: &str, target: PathBuf) -> Self {
        Self { link: Some(target), ..Self::plain(name, Vec::new()) }
    }

    /// Returns a file whose content refers to variables. If there are any, its name gets the prefix of secret files.
    pub fn with_variables(name: &str, content: impl Into<Vec<u8>>, variables: Vec<String>) -> Self {
        let name = if variables.is_empty() { name.to_owned() } else { format!("{SECRET_PREFIX}{name}") };
        Self { name, content: content.into(), variables, link: None }
    }

    /// Returns the variables that the file needs and that have no value.
    pub fn unset_variables(&self, is_set: impl Fn(&str) -> bool) -> Vec<String> {
        let Ok(content) = std::str::from_utf8(&self.content) else { return Vec::new() };
        let lookup = |name: &str| {
            let needed = self.variables.iter().any(|variable| variable == name);
            (!needed || is_set(name)).then(String::new)
        };
        let mut unset = VariableText::from(content).resolve(lookup).err().unwrap_or_default();
        unset.sort();
        unset.dedup();
        unset
    }
}

/// Interprets the output of a process. Holds a bounded amount of it.
pub trait OutputReader {
    fn feed(&mut self, stream: StdStream, bytes: &[u8]) -> Vec<AgentReport>;

    /// Returns the part of the output that may be stored on disk, before it is interpreted; by default all of it. For
    /// programs that print private settings of their user.
    fn redact<'a>(&mut self, _stream: StdStream, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        Cow::Borrowed(bytes)
    }

    /// Returns whether the process writes text for people to read as it is.
    fn is_plain_text(&self) -> bool {
        false
    }

    /// Called if no login of the user was found: a service that does not answer is then not worth a long wait.
    fn expect_no_login(&mut self) {}

    /// Applies the decision about a permission request. Only for readers that report [`AgentReport::PermissionRequested`].
    fn decide(&mut self, _ask: &str, _decision: &PermissionDecision) -> Vec<AgentReport> {
        Vec::new()
    }

    /// Returns the message that makes an agent stop by itself, if it supports one.
    fn ask_to_stop(&mut self) -> Vec<AgentReport> {
        Vec::new()
    }

    /// Called once, after the process has ended and its streams have been read to the end.
    fn conclude(&mut self, exit: Exit) -> Conclusion;
}

/// What a reader learned from the output.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentReport {
    Text(String),
    Used(Usage),
    /// The usage of one of several models, if the program reports them separately.
    UsedBy {
        model: String,
        usage: Usage,
    },
    Warned(String),
    /// The program denied the agent a tool without asking anybody.
    Denied {
        /// The id of the call, as in `ToolCalled`.
        call: String,
        tool: String,
        /// In the program's own words.
        reason: String,
    },
    /// The program got no answer from its model and retries.
    Retrying {
        error: ModelError,
        message: String,
    },
    /// The session that a later run can continue, as soon as it is known.
    Session(String),
    Model(String),
    ToolCalled {
        id: String,
        name: String,
        input: serde_json::Value,
    },
    ToolReturned {
        id: String,
        ok: bool,
        output: String,
    },
    /// The agent wants to use a tool and waits for a decision.
    PermissionRequested(PermissionRequest),
    /// To be written to the agent's input.
    Write(Vec<u8>),
    /// As `Write`, but `${NAME}` of these variables is replaced by the value, escaped as in a JSON string. Only the
    /// worker knows the values.
    WriteWithVariables {
        content: Vec<u8>,
        variables: Vec<String>,
    },
    /// The agent's input is to be closed.
    CloseInput,
    /// The agent has written its last message. It gets a moment to exit and is then ended; its answer counts.
    Finished,
}

impl AgentReport {
    /// Returns whether this is an instruction for the agent's process rather than an observation.
    pub fn is_for_agent(&self) -> bool {
        match self {
            Self::PermissionRequested(_)
            | Self::Write(_)
            | Self::WriteWithVariables { .. }
            | Self::CloseInput
            | Self::Finished => true,
            Self::Text(_)
            | Self::Used(_)
            | Self::UsedBy { .. }
            | Self::Warned(_)
            | Self::Denied { .. }
            | Self::Retrying { .. }
            | Self::Session(_)
            | Self::Model(_)
            | Self::ToolCalled { .. }
            | Self::ToolReturned { .. } => false,
        }
    }
}

/// A permission that an agent requests before it uses a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionRequest {
    /// The agent's own id of this request.
    pub id: String,
    pub tool: String,
    pub input: serde_json::Value,
}

/// The tool by which an agent of Claude Code asks people a question.
const QUESTION_TOOL: &str = "AskUserQuestion";

impl PermissionRequest {
    /// Returns the agent's question to a person; `None` if it only asks for permission.
    pub fn question(&self) -> Option<String> {
        (self.tool == QUESTION_TOOL).then(|| crate::agent_question::question_text(&self.input))?
    }
}

/// The decision about a permission request.
#[derive(Debug, Clone, PartialEq)]
pub enum PermissionDecision {
    /// With the input as requested.
    Allow(serde_json::Value),
    /// With the input as requested, and a person's answer to the question.
    AgentAnswer { input: serde_json::Value, text: String },
    /// With the reason, for the agent.
    Deny(String),
}

/// The meaning of the agent's end.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    pub end: AgentEnd,
    pub answer: AgentAnswer,
    /// The session id that the agent reports, for a later run to continue.
    pub session: Option<String>,
    /// The answer as a value, if its shape was requested.
    pub structured: Option<serde_json::Value>,
    /// Reports that are known only at the end, such as a figure that the program leaves in a file.
    pub reports: Vec<AgentReport>,
}

impl Conclusion {
    pub fn new(end: AgentEnd, answer: AgentAnswer) -> Self {
        Self { end, answer, session: None, structured: None, reports: Vec::new() }
    }
}

/// The agent's answer, or where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentAnswer {
    /// All of its standard output.
    Stdout,
    Text(String),
    Nothing,
}

/// A resumable sequence of calls: the next one follows from those that are done.
pub trait Loop {
    fn next(&self, done: &BTreeMap<u32, LoopCall>) -> LoopStep;
}

/// The next step of a loop.
#[derive(Debug, Clone, PartialEq)]
pub enum LoopStep {
    Call(PlannedCall),
    Finish(AgentEnd),
}

/// One call, and what to journal about it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCall {
    pub call: u32,
    pub kind: CallKind,
    pub class: CallClass,
    pub name: String,
    pub input: serde_json::Value,
    pub action: CallAction,
}

/// What the worker does for a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallAction {
    Say(String),
    Sleep { ms: u64 },
    Write { path: String, text: String },
    Append { path: String, text: String },
    PermissionRequest { text: String },
    Delegate { agent: String, prompt: String },
    ReportUsage(Usage),
}
