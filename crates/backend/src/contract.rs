//! What every backend provides: capabilities, and a way to drive one run.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::program::{Found, Program};
use crate::user::User;
use domain::inherit::Inherited;
use domain::mcp_server::VariableText;
use domain::permission::Permission;
use domain::run::{AgentEnd, Call, CallClass, CallKind, ModelError, RunSpec, Stream, Usage};
use domain::setup::{PromptMode, Setup};
use serde::Serialize;

/// What a backend can do, as a value: nobody outside this crate asks which backend it is. By default nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// The agent's system prompt reaches it.
    pub system_prompt: bool,
    pub model: bool,
    pub session: bool,
    /// The vendor names the sessions, so that an id nobody was told is a mistake.
    pub names_sessions: bool,
    /// Tokens or money are reported.
    pub usage: bool,
    /// Whose prices hold where only tokens are reported.
    #[serde(skip)]
    pub prices: PriceList,
    /// A run whose worker was lost can be continued.
    pub resume: bool,
    /// The agent can ask a person.
    pub ask: bool,
    /// How long the program waits for an answer at most; nothing where it waits for ever.
    #[serde(skip)]
    pub answer_ms_max: Option<u64>,
    /// A process is started, so that containment and resource limits mean something.
    pub process: bool,
    /// The agent's system prompt can take the place of the program's own.
    pub replaces_prompt: bool,
    pub effort: bool,
    /// The list of tools can be restricted.
    pub tools: bool,
    /// The directory's own instructions can be left out.
    pub skips_context: bool,
    /// The agent gets its own MCP servers, and only those.
    pub mcp_servers: bool,
    /// Of a server's tools the agent sees only those that are named.
    pub server_tools: bool,
    /// A call of a server's tool ends when the server's time is up.
    pub server_timeouts: bool,
    /// The program takes a `$` in what it is told of a server for the beginning of a variable, and there is no other way to
    /// write one.
    #[serde(skip)]
    pub expands_dollars: bool,
    /// The answer is made to satisfy a schema.
    pub output_schema: bool,
    pub max_turns: bool,
    /// The agent can be given our own server, and so delegate.
    pub delegates: bool,
    /// Which further arguments its program may be given.
    pub extra_args: &'static [&'static str],
    pub extra_directories: bool,
    /// The program can use other settings than its user's.
    pub vendor_settings: bool,
    /// The agent can answer by writing a file.
    pub response_file: bool,
    /// The vendor can copy a conversation.
    pub forks: bool,
    /// How freely the model chooses its words can be set.
    pub temperature: bool,
    /// Each use of a tool is told, so that none told means none made.
    pub tells_tools: bool,
    /// What the program writes to standard output is text for people, and not a protocol.
    #[serde(skip)]
    pub writes_text: bool,
    /// The program can run in a container.
    pub containers: bool,
    /// The program reads a file of its own kind by itself, and does all that stands there.
    pub reads_own_files: bool,
    /// It may start MCP servers that are not the agent's own, though the agent cannot use them.
    pub starts_other_servers: bool,
    /// Where it may edit at all, it edits outside of its directory too.
    #[serde(skip)]
    pub edits_anywhere: bool,
    /// What the program can be given of its user's beside the environment, which every process can.
    #[serde(skip)]
    pub inherits: &'static [Inherited],
    /// Rules that deny edits in a folder hold for its shell commands too.
    #[serde(skip)]
    pub denies_folders: bool,
    /// The longest system prompt that can be added to the program's own.
    #[serde(skip)]
    pub appended_bytes_max: Option<usize>,
}

impl Capabilities {
    /// Returns why a system prompt cannot reach the agent.
    pub fn wrong_prompt(&self, system_prompt: &str, mode: PromptMode) -> Option<String> {
        let allowed = self.appended_bytes_max?;
        let bytes = system_prompt.trim().len();
        let fits = mode == PromptMode::Replace || bytes <= allowed;
        (!fits).then(|| {
            format!("the system prompt has {bytes} bytes, and {allowed} can be added to the program's own")
        })
    }
}

/// Where the price of a model is looked up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PriceList {
    /// Nowhere: who serves the model is not known.
    #[default]
    Unlisted,
    /// Among those of this provider.
    Of(&'static str),
    /// The model's name shows whose it is, or it has no price.
    ByModel,
}

/// A way to drive agents.
pub trait Backend: Sync {
    /// The name of the folder, as `spec.backend.kind`.
    fn kind(&self) -> &'static str;

    fn capabilities(&self, options: &serde_json::Value) -> Capabilities;

    /// Names each part of a permission that this backend cannot express: by default, all of it.
    fn unenforceable(&self, permission: &Permission, _options: &serde_json::Value) -> Vec<String> {
        inexpressible(permission)
    }

    /// Names each part of a permission that grants something and that this backend has no words for: the agent may do less
    /// than it says, and nothing more.
    fn ungranted(&self, _permission: &Permission, _options: &serde_json::Value) -> Vec<String> {
        Vec::new()
    }

    /// Tells whether an agent with this setup can put its answer into a file.
    fn answers_into_file(&self, _setup: &Setup, options: &serde_json::Value) -> bool {
        self.capabilities(options).response_file
    }

    /// Says how to carry out one run. Reads nothing and starts nothing.
    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError>;

    /// Returns where the process works, if that is not the run's directory.
    fn works_in(&self, _spec: &RunSpec, _place: &Place<'_>) -> Option<PathBuf> {
        None
    }

    /// Returns why the session that a run wants to continue cannot go on as it is kept; what was said is then told again
    /// in a new one.
    fn stale_session(&self, _spec: &RunSpec, _place: &Place<'_>) -> Option<String> {
        None
    }

    /// Fits a prepared process to its user: takes away what the program would find there by itself and shall not have,
    /// or gives it a place of its own. May read the vendor's settings; changes nothing.
    fn adapt(
        &self,
        _spec: &RunSpec,
        _drive: &mut ProcessDrive,
        _place: &Place<'_>,
        _user: &User<'_>,
    ) -> Result<(), PrepareError> {
        Ok(())
    }

    /// Looks through the work tree of a process that is about to start, or is shown as if it were, for what the program must
    /// be told of it, and returns a sentence for each thing that it cannot be told. May take seconds, so a list does
    /// without.
    fn look_through(&self, _spec: &RunSpec, _drive: &mut ProcessDrive) -> Result<Vec<String>, PrepareError> {
        Ok(Vec::new())
    }

    /// Names what the program would execute, or whom it would send its user's keys to, because files in these folders of a
    /// project say so.
    fn project_programs(&self, _folders: &[&Path]) -> Vec<ProjectProgram> {
        Vec::new()
    }

    /// Names folders that the program may leave empty in its directory when it is killed.
    fn leaves(&self) -> &'static [&'static str] {
        &[]
    }

    /// Tells whether what its program has started ends by itself when the program has, and is to be let: it may be writing
    /// its user's files just then.
    fn is_followed(&self) -> bool {
        false
    }

    /// Returns how the vendor's program is found; nothing for a backend that has none of its own.
    fn program(&self) -> Option<&'static Program> {
        None
    }

    /// Names the variables that its process gets if they are set, whether or not the agent names them.
    fn variables(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// What a vendor's program would execute because a file of a project says so.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProjectProgram {
    pub file: PathBuf,
    /// One line, for people to judge: what it is, and the setting.
    pub says: String,
    /// The file itself is what is executed, so that its content counts.
    pub is_program: bool,
    /// The program can be told to leave it out.
    pub can_be_off: bool,
    /// Why the file could not be read, so that nobody knows what it says.
    pub unread: Option<String>,
    /// The places in the file that make it count, for people to judge.
    pub excerpts: Vec<Excerpt>,
}

/// A place in a project's file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Excerpt {
    pub line: Option<u32>,
    /// What is written there, shortened.
    pub text: String,
    /// What a program makes of it.
    pub why: &'static str,
}

/// Whether what a project's files would execute is trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProjectPrograms {
    #[default]
    Off,
    On,
}

/// Where a run is prepared.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The run's own folder for files that the agent is given.
    pub work: &'a Path,
    /// This program, for agents that may delegate.
    pub own_program: &'a Path,
    /// The backend's program, where it has one and it was found.
    pub found: Option<&'a Found>,
    /// What the earlier runs of the session used, if that is known: some programs tell only the sum.
    pub session_used: Option<Usage>,
    pub project_programs: ProjectPrograms,
}

impl Place<'_> {
    /// Returns the backend's program, which people know by this name.
    pub fn program(&self, name: &str) -> Result<&Found, String> {
        self.found.ok_or_else(|| format!("{name} was not found on the PATH"))
    }

    /// Returns the path of a work file, as an argument.
    pub fn file(&self, name: &str) -> String {
        self.work.join(name).display().to_string()
    }
}

/// Returns the arguments that an agent adds, if each begins with an option that its backend permits. A value stands
/// behind `=`, so that no argument can become an option of its own.
pub fn permitted_args(wanted: &[String], permitted: &[&str]) -> Result<Vec<String>, String> {
    let takes = |argument: &str| {
        let is = |option: &&str| {
            argument.strip_prefix(*option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        permitted.iter().any(is)
    };
    let mut wrong = Vec::new();
    for (at, argument) in wanted.iter().enumerate().filter(|(_, argument)| !takes(argument)) {
        let before = at.checked_sub(1).and_then(|before| wanted.get(before));
        let valued =
            before.filter(|option| takes(option) && !option.contains('=') && !argument.starts_with('-'));
        wrong.push(match valued {
            Some(option) => format!("{argument:?} (write \"{option}={argument}\" if it is the value)"),
            None => format!("{argument:?}"),
        });
    }
    if !wrong.is_empty() {
        let (what, wrong) = (if wrong.len() == 1 { "argument" } else { "arguments" }, wrong.join(", "));
        let known = permitted.join(", ");
        return Err(format!("the {what} {wrong} may not be given by an agent; these may: {known}"));
    }
    Ok(wanted.to_vec())
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

/// The two shapes of a run.
pub enum Drive {
    /// A process that reads a prompt and writes an answer.
    Process(ProcessDrive),
    /// Steps that the worker itself carries out and journals.
    Loop(Box<dyn Loop>),
}

/// A process to start, and who understands its output.
pub struct ProcessDrive {
    pub argv: Vec<String>,
    /// Names of environment variables beside the base list and what the run names.
    pub env: Vec<String>,
    /// Names of variables that are passed on if they are set, and not missed if not.
    pub known_env: Vec<String>,
    /// Further variables of the process.
    pub set: Vec<(String, Setting)>,
    pub feed: Feed,
    /// Written below the run's work folder before the start.
    pub files: Vec<WorkFile>,
    pub reader: Box<dyn Reader>,
}

/// The value of an environment variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// No secret: it may be shown and recorded.
    Plain(String),
    /// The value of another variable, which stays unknown to whoever prepares the run.
    From(String),
    /// What a JSON file holds under the first of these keys that it has; else the variable's own value.
    InFile { file: PathBuf, keys: Vec<String> },
    /// The process does not get the variable, whoever else would pass it on.
    Unset,
}

/// What the process reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Feed {
    Nothing,
    /// All of this, and then the end.
    Whole(Vec<u8>),
    /// This first, and then what the reader says, until it says that it is enough.
    Open(Vec<u8>),
}

/// How the names of files that hold secrets begin, so that whoever ends a run finds them.
pub const SECRET_PREFIX: &str = "secret-";

/// A file that a process is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkFile {
    pub name: String,
    pub content: Vec<u8>,
    /// Names of variables whose `${NAME}` in the content is replaced by the value, as inside a JSON string. Such a
    /// file holds secrets and is removed when the run ends.
    pub variables: Vec<String>,
    /// It is a symbolic link to this, and has no content. What is not there is made, as a folder.
    pub link: Option<PathBuf>,
}

impl WorkFile {
    pub fn plain(name: &str, content: impl Into<Vec<u8>>) -> Self {
        Self { name: name.to_owned(), content: content.into(), variables: Vec::new(), link: None }
    }

    pub fn link(name: &str, target: PathBuf) -> Self {
        Self { link: Some(target), ..Self::plain(name, Vec::new()) }
    }

    /// Returns a file whose content refers to variables, and the name that it gets.
    pub fn with_variables(name: &str, content: impl Into<Vec<u8>>, variables: Vec<String>) -> Self {
        let name = if variables.is_empty() { name.to_owned() } else { format!("{SECRET_PREFIX}{name}") };
        Self { name, content: content.into(), variables, link: None }
    }

    /// Returns the variables that the file cannot be written without and that have no value.
    pub fn unset(&self, is_set: impl Fn(&str) -> bool) -> Vec<String> {
        let Ok(content) = std::str::from_utf8(&self.content) else { return Vec::new() };
        let value_of = |name: &str| {
            let needed = self.variables.iter().any(|variable| variable == name);
            (!needed || is_set(name)).then(String::new)
        };
        let mut unset = VariableText::from(content).resolve(value_of).err().unwrap_or_default();
        unset.sort();
        unset.dedup();
        unset
    }
}

/// Understands the output of a process. Holds a bounded amount of it.
pub trait Reader {
    fn feed(&mut self, stream: Stream, bytes: &[u8]) -> Vec<Report>;

    /// Returns what of the output may be kept on disk, before it is understood: by default all of it. For a program
    /// that tells settings of its user's, which are nobody else's business.
    fn kept<'a>(&mut self, _stream: Stream, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        Cow::Borrowed(bytes)
    }

    /// Tells whether what the process writes is for people to read as it is.
    fn is_plain(&self) -> bool {
        false
    }

    /// The user has no login that could be found: a service that does not answer is not worth a long wait.
    fn expect_no_login(&mut self) {}

    /// Takes the decision about what the agent asked for. Only for readers that report [`Report::Asks`].
    fn decide(&mut self, _ask: &str, _decision: &Decision) -> Vec<Report> {
        Vec::new()
    }

    /// Returns what to write to an agent that shall stop by itself, if it understands such a word.
    fn ask_to_stop(&mut self) -> Vec<Report> {
        Vec::new()
    }

    /// Called once, after the process is gone and its streams are read to the end.
    fn conclude(&mut self, exit: Exit) -> Conclusion;
}

/// What a reader understood.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    Said(String),
    Used(Usage),
    /// What one of several models used, where the program tells them apart.
    UsedBy {
        model: String,
        usage: Usage,
    },
    Warned(String),
    /// The program did not let the agent use a tool, without asking anybody.
    Denied {
        /// The id of the call, as in `ToolCalled`.
        call: String,
        tool: String,
        /// As the program says it.
        reason: String,
    },
    /// The program got no answer from its model and asks it again.
    Retries {
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
    Asks(Ask),
    /// To be written to the agent's input.
    Write(Vec<u8>),
    /// As `Write`, with `${NAME}` of these variables replaced by their values, as inside a JSON string: what the worker
    /// alone may know.
    WriteFilled {
        content: Vec<u8>,
        variables: Vec<String>,
    },
    /// The agent's input is to be closed.
    CloseInput,
    /// The agent has said its last word. It is given a moment to leave, and then ended: what it said counts.
    Finished,
}

impl Report {
    /// Tells whether this is about what to do for the agent's process, and not about what happened.
    pub fn is_for_agent(&self) -> bool {
        match self {
            Self::Asks(_) | Self::Write(_) | Self::WriteFilled { .. } | Self::CloseInput | Self::Finished => {
                true
            }
            Self::Said(_)
            | Self::Used(_)
            | Self::UsedBy { .. }
            | Self::Warned(_)
            | Self::Denied { .. }
            | Self::Retries { .. }
            | Self::Session(_)
            | Self::Model(_)
            | Self::ToolCalled { .. }
            | Self::ToolReturned { .. } => false,
        }
    }
}

/// What an agent asks for before it does it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The agent's own name for this question.
    pub id: String,
    pub tool: String,
    pub input: serde_json::Value,
}

/// The tool by which an agent of Claude Code asks people something.
const ASKING_TOOL: &str = "AskUserQuestion";

impl Ask {
    /// Returns what the agent wants to be told in words, if it does not ask whether it may do something.
    pub fn question(&self) -> Option<String> {
        let questions = self.input.get("questions").filter(|_| self.tool == ASKING_TOOL)?.as_array()?;
        let worded = questions.iter().filter_map(|question| {
            let labels = question["options"].as_array().into_iter().flatten();
            let labels: Vec<&str> = labels.filter_map(|option| option["label"].as_str()).collect();
            Some(format!("{} ({})", question["question"].as_str()?, labels.join(", ")))
        });
        let worded: Vec<String> = worded.collect();
        (!worded.is_empty()).then(|| worded.join("\n"))
    }
}

/// What was decided about an ask.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// With the input as it was asked for.
    Allow(serde_json::Value),
    /// With the input as it was asked for, and what somebody said to its question.
    Answer { input: serde_json::Value, text: String },
    /// With the reason, for the agent.
    Deny(String),
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl Exit {
    /// Returns the code, if the process ended by itself.
    pub fn code(self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(code),
            Self::Signal(_) => None,
        }
    }
}

/// What the agent's end means.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    pub end: AgentEnd,
    pub answer: Answer,
    /// The session that the agent says it was, for a later run to continue.
    pub session: Option<String>,
    /// The answer as a value, where its shape was asked for.
    pub structured: Option<serde_json::Value>,
    /// What is known only now, such as a figure that the program leaves in a file.
    pub reports: Vec<Report>,
}

impl Conclusion {
    pub fn new(end: AgentEnd, answer: Answer) -> Self {
        Self { end, answer, session: None, structured: None, reports: Vec::new() }
    }
}

/// Where the agent's answer stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// All of its standard output.
    Stdout,
    Text(String),
    Nothing,
}

/// A resumable sequence of calls: the next one follows from those that are done.
pub trait Loop {
    fn next(&self, done: &BTreeMap<u32, Call>) -> Turn;
}

/// What a loop wants next.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    Call(PlannedCall),
    Finish(AgentEnd),
}

/// One call, with what to journal about it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCall {
    pub call: u32,
    pub kind: CallKind,
    pub class: CallClass,
    pub name: String,
    pub input: serde_json::Value,
    pub action: Action,
}

/// What the worker shall do for a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Say(String),
    Sleep { ms: u64 },
    Write { path: String, text: String },
    Append { path: String, text: String },
    Ask { text: String },
    Delegate { agent: String, prompt: String },
    Use(Usage),
}
