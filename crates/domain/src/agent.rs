//! An agent definition, independent of the file format that it was read from.

use serde::{Deserialize, Serialize};

use crate::budget::RequestedLimits;
use crate::directive::Directive;
use crate::id::{AgentName, BackendName};
use crate::launch::LaunchOverrides;
use crate::run::{Caller, CallerOrigin, ContainmentDemand, OnDisconnect, OnInterrupt};
use crate::setup::Setup;

/// The layer that a definition or a setting comes from. Later variants are nearer and win.
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
    /// Short descriptions of what the agent is good at.
    pub capabilities: Vec<String>,
    pub tags: Vec<String>,
    /// The values that a caller passes in addition to the prompt.
    pub inputs: Vec<AgentInput>,
    /// Names of environment variables that are passed on in addition to the base list.
    pub env: Vec<String>,
    pub limits: RequestedLimits,
    pub callers: Callers,
    pub delegates: Delegates,
    pub on_disconnect: Option<OnDisconnect>,
    pub on_interrupt: OnInterrupt,
    pub containment: ContainmentDemand,
    /// The steps of a rehearsal: a file relative to the definition, or steps inside the definition.
    pub script: Option<ScriptSource>,
    /// Settings for the backend other than prompt and model.
    pub setup: Setup,
    /// For a program that reads the agent's file itself.
    #[serde(skip)]
    pub limited_file: Option<LimitedFile>,
    /// Commands that the vendor's program itself runs because its agent file lists them.
    pub hooks: Vec<String>,
    /// What a directive declares beyond that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directive: Option<Box<Directive>>,
    /// How the start of the program differs from the default. Agent files cannot set it.
    #[serde(skip)]
    pub launch: LaunchOverrides,
    pub source: AgentSource,
}

impl Agent {
    /// Returns an agent with defaults for everything except name, backend and file.
    pub fn new(name: AgentName, backend: BackendName, source: AgentSource) -> Self {
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
            limits: RequestedLimits::default(),
            callers: Callers::Anyone,
            delegates: Delegates::Nobody,
            on_disconnect: None,
            on_interrupt: OnInterrupt::End,
            containment: ContainmentDemand::Auto,
            script: None,
            setup: Setup::default(),
            limited_file: None,
            hooks: Vec::new(),
            directive: None,
            launch: LaunchOverrides::default(),
            source,
        }
    }
}

/// An agent's file without what it allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitedFile {
    /// The rest of the file, without its servers.
    pub content: serde_json::Map<String, serde_json::Value>,
    /// The keys that allow something which is not in the agent's permission, with their values.
    pub withheld: Vec<(&'static str, serde_json::Value)>,
}

/// A value that an agent expects in addition to the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentInput {
    pub name: String,
    /// The type as the file spells it: `string`, `integer` and so on.
    pub kind: String,
    pub required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// The file that an agent was read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentSource {
    pub file: String,
    pub format: AgentFormat,
    pub layer: Layer,
}

impl AgentSource {
    /// Returns whether the agent is built in: an installed backend without a file.
    pub fn is_built_in(&self) -> bool {
        self.layer == Layer::Default
    }
}

/// The formats that definitions are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentFormat {
    /// Our own markdown with YAML frontmatter.
    Volery,
    /// The whole file is the system prompt, as in sub-agents-mcp.
    Plain,
    /// `.agents/`: markdown with `run-agent`, `model`, `effort` and `permission`.
    DotAgents,
    /// `agents/NAME/agent.md` with its memory and skills.
    Jarvis,
    /// Kiro JSON, with the prompts and templates of budgie.
    Kiro,
    /// Markdown with a `<directive>` in XML, as in Kiwi and Rye, or with YAML frontmatter, as in RyeOS.
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

impl AgentFormat {
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

    /// Returns the format with this name.
    pub fn parse(word: &str) -> Option<Self> {
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

/// The name in `callers` that matches every root run.
const ROOTS: &str = "main";

/// The callers that may run an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Callers {
    Anyone,
    /// `main` matches every root run; other names are clients, or agents of parent runs.
    Only(Vec<String>),
}

impl Callers {
    /// Returns whether a client outside all runs may run the agent under this name.
    pub fn allow_root(&self, name: &str) -> bool {
        match self {
            Self::Anyone => true,
            Self::Only(allowed) => allowed.iter().any(|allowed| allowed == ROOTS || allowed == name),
        }
    }

    /// Returns whether the run of another agent may run this one. An agent that is called `main` does not match
    /// `main`.
    fn allow_agent(&self, name: &str) -> bool {
        match self {
            Self::Anyone => true,
            Self::Only(allowed) => name != ROOTS && allowed.iter().any(|allowed| allowed == name),
        }
    }

    /// Returns whether this caller may run the agent.
    pub fn allow(&self, caller: &Caller) -> bool {
        match caller.origin {
            CallerOrigin::Mcp | CallerOrigin::Shell => self.allow_root(&caller.name),
            CallerOrigin::Run => self.allow_agent(&caller.name),
        }
    }
}

/// The agents that an agent may delegate to.
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

/// The location of a rehearsal's steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptSource {
    /// A path relative to the definition's own file.
    File(String),
    Inline(RehearsalScript),
}

/// The steps of a rehearsal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RehearsalScript {
    pub steps: Vec<RehearsalStep>,
}

/// One step of a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RehearsalStep {
    /// Outputs a text, which becomes part of the result; `{prompt}` is replaced.
    Say(String),
    /// Does nothing for some milliseconds.
    Sleep(u64),
    /// Writes a file below the run's directory.
    Write { path: String, text: String },
    /// Appends to a file below the run's directory. This step is not idempotent.
    Append { path: String, text: String },
    /// Asks a person, and outputs the answer.
    Ask(String),
    /// Runs another agent, and outputs its result.
    Delegate { agent: AgentName, prompt: String },
    /// Reports usage, as a model would.
    Usage { input_tokens: u64, output_tokens: u64, cost_microusd: Option<u64> },
    /// Ends the run as failed.
    Fail(String),
}
