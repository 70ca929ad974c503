//! What an agent is, whatever file it came from.

use serde::{Deserialize, Serialize};

use crate::budget::AskedLimits;
use crate::id::{AgentName, BackendName};
use crate::launch::Launch;
use crate::run::{Caller, ContainmentDemand, Door, OnDisconnect, OnInterrupt};
use crate::setup::Setup;

/// Where a definition or a setting comes from. Later ones are nearer and win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    Default,
    System,
    User,
    Project,
    Environment,
    CommandLine,
}

/// A named definition: system prompt, backend, model, setup, limits, callers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Agent {
    pub name: AgentName,
    pub description: String,
    pub backend: BackendName,
    pub model: Option<String>,
    pub system_prompt: String,
    pub use_when: Vec<String>,
    pub avoid_when: Vec<String>,
    /// What the agent is good at, in a few words each.
    pub capabilities: Vec<String>,
    pub tags: Vec<String>,
    /// What a caller gives beside the prompt.
    pub inputs: Vec<Input>,
    /// Names of environment variables passed on beside the base list.
    pub env: Vec<String>,
    pub limits: AskedLimits,
    pub callers: Callers,
    pub delegates: Delegates,
    pub on_disconnect: Option<OnDisconnect>,
    pub on_interrupt: OnInterrupt,
    pub containment: ContainmentDemand,
    /// The steps of a rehearsal: a file beside the definition, or written in it.
    pub script: Option<ScriptSource>,
    /// What the backend is asked for beyond prompt and model.
    pub setup: Setup,
    /// Commands that the vendor's program runs by itself because its file says so.
    pub hooks: Vec<String>,
    /// What is unusual about the start of its program; never from its file.
    #[serde(skip)]
    pub launch: Launch,
    pub source: Source,
}

impl Agent {
    /// Returns an agent of which nothing is known but the name, the backend and the file.
    pub fn new(name: AgentName, backend: BackendName, source: Source) -> Self {
        Self {
            name,
            description: String::new(),
            backend,
            model: None,
            system_prompt: String::new(),
            use_when: Vec::new(),
            avoid_when: Vec::new(),
            capabilities: Vec::new(),
            tags: Vec::new(),
            inputs: Vec::new(),
            env: Vec::new(),
            limits: AskedLimits::default(),
            callers: Callers::Anyone,
            delegates: Delegates::Nobody,
            on_disconnect: None,
            on_interrupt: OnInterrupt::End,
            containment: ContainmentDemand::Auto,
            script: None,
            setup: Setup::default(),
            hooks: Vec::new(),
            launch: Launch::default(),
            source,
        }
    }
}

/// A value that an agent wants beside the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    pub name: String,
    /// The type in the file's words: `string`, `integer` and so on.
    pub kind: String,
    pub required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// The file that an agent was read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    pub file: String,
    pub format: Format,
    pub layer: Layer,
}

impl Source {
    /// Tells whether no file defines the agent: it is one of the backends that are installed.
    pub fn is_built_in(&self) -> bool {
        self.layer == Layer::Default
    }
}

/// The formats that definitions are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Our own markdown with YAML frontmatter.
    Volery,
    /// The whole file is the system prompt, as sub-agents-mcp has it.
    Plain,
    /// `.agents/`: markdown with `run-agent`, `model`, `effort` and `permission`.
    DotAgents,
    /// `agents/NAME/agent.md` with its memory and skills.
    Jarvis,
    /// Kiro JSON, with the prompts and templates of budgie.
    Kiro,
    /// Markdown with a `<directive>` in XML, as Kiwi has it.
    Directive,
    Claude,
    Cursor,
    Codex,
    Gemini,
    Qwen,
    Opencode,
    /// `.github/agents`.
    Copilot,
}

impl Format {
    pub const ALL: [Self; 13] = [
        Self::Volery,
        Self::Plain,
        Self::DotAgents,
        Self::Jarvis,
        Self::Kiro,
        Self::Directive,
        Self::Claude,
        Self::Cursor,
        Self::Codex,
        Self::Gemini,
        Self::Qwen,
        Self::Opencode,
        Self::Copilot,
    ];

    /// Returns the format that a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == word)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Volery => "volery",
            Self::Plain => "plain",
            Self::DotAgents => "dot-agents",
            Self::Jarvis => "jarvis",
            Self::Kiro => "kiro",
            Self::Directive => "directive",
            Self::Claude => "claude",
            Self::Cursor => "cursor",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
            Self::Opencode => "opencode",
            Self::Copilot => "copilot",
        }
    }
}

/// The word by which callers are every root.
const ROOTS: &str = "main";

/// Who may ask for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Callers {
    Anyone,
    /// `main` stands for every root; other names are clients, or agents of parent runs.
    Only(Vec<String>),
}

impl Callers {
    /// Tells whether a door outside all runs may ask, by this name.
    pub fn allow_root(&self, name: &str) -> bool {
        match self {
            Self::Anyone => true,
            Self::Only(allowed) => allowed.iter().any(|allowed| allowed == ROOTS || allowed == name),
        }
    }

    /// Tells whether the run of an agent may ask. An agent that is itself called `main` is no root.
    fn allow_agent(&self, name: &str) -> bool {
        match self {
            Self::Anyone => true,
            Self::Only(allowed) => name != ROOTS && allowed.iter().any(|allowed| allowed == name),
        }
    }

    /// Tells whether this caller may ask.
    pub fn allow(&self, caller: &Caller) -> bool {
        match caller.door {
            Door::Mcp | Door::Shell => self.allow_root(&caller.name),
            Door::Run => self.allow_agent(&caller.name),
        }
    }
}

/// Which agents an agent may itself delegate to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delegates {
    #[default]
    Nobody,
    Anyone,
    Only(Vec<AgentName>),
}

impl Delegates {
    pub fn allows(&self, agent: &AgentName) -> bool {
        match self {
            Self::Nobody => false,
            Self::Anyone => true,
            Self::Only(names) => names.contains(agent),
        }
    }
}

/// Where the steps of a rehearsal stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptSource {
    /// A path relative to the definition's own file.
    File(String),
    Inline(Script),
}

/// What a rehearsal does, step by step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    pub steps: Vec<Step>,
}

/// One step of a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Says a text, which becomes part of the result; `{prompt}` is replaced.
    Say(String),
    /// Does nothing for some milliseconds.
    Sleep(u64),
    /// Writes a file below the run's directory.
    Write { path: String, text: String },
    /// Adds to a file below the run's directory; doing it twice is not the same as doing it once.
    Append { path: String, text: String },
    /// Asks a person, and says the answer.
    Ask(String),
    /// Runs another agent, and says its result.
    Delegate { agent: AgentName, prompt: String },
    /// Reports usage, as a model would.
    Usage { input_tokens: u64, output_tokens: u64, cost_microusd: Option<u64> },
    /// Ends the run as failed.
    Fail(String),
}
