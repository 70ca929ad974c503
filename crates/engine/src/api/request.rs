//! The requests of a door to the engine. Plain values, so that a door inside a run can send them over the run's
//! socket.

use domain::agent::Agent;
use domain::budget::RequestedLimits;
use domain::id::SessionId;
use domain::permission::Permission;
use domain::run::replay::Exchange;
use domain::run::{AnswerOrigin, CancelRequest, OnDisconnect, Unattended};
use journal::LogCursor;
use serde::{Deserialize, Serialize};

/// An answer that an agent submits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubmitResult {
    pub text: String,
}

/// Lists the agents that are available in a directory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListAgents {
    /// The directory to search; the door's working directory if absent.
    pub directory: Option<String>,
}

/// Shows one resolved agent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ShowAgent {
    pub agent: String,
    /// The directory to search; the door's working directory if absent.
    pub directory: Option<String>,
}

/// Writes the file of a new agent. Not for doors inside a run.
#[derive(Debug, Clone)]
pub struct NewAgent {
    pub name: String,
    pub backend: String,
    pub model: Option<String>,
    pub directory: Option<String>,
    pub owner: AgentOwner,
}

/// Whether the project or the user owns an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentOwner {
    Project,
    User,
}

/// Starts a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StartRequest {
    pub agent: String,
    pub prompt: String,
    /// The agent's directory; absolute. Absent: the project of the door's working directory.
    pub directory: Option<String>,
    /// Put before the prompt, as background.
    pub context: Option<String>,
    /// The interrupted run that this one resumes: its prompt already contains context and inputs. Not for doors
    /// inside a run: the new run inherits the caller and the grants of that run.
    #[serde(skip)]
    pub resumes: Option<domain::run::ResumedRun>,
    /// Values for the inputs that the agent's file declares.
    #[serde(default)]
    pub inputs: domain::inputs::Inputs,
    pub session: Option<String>,
    /// Copy the session instead of continuing it.
    #[serde(default)]
    pub fork: bool,
    /// The name that the caller has chosen for the conversation, instead of a session.
    #[serde(skip)]
    pub named_session: Option<NamedSession>,
    /// The agent itself, instead of one that the project's or the user's files define. Not for doors inside a run.
    #[serde(skip)]
    pub definition: Option<Box<Agent>>,
    /// Use the agent and the directory of the session's last run.
    #[serde(skip)]
    pub reuse_last_agent: bool,
    /// How the run is shown in `IAC.md`, if at all.
    #[serde(skip)]
    pub iac: Option<domain::run::Iac>,
    pub model: Option<String>,
    /// A JSON schema for the answer, in place of the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<serde_json::Value>,
    pub limits: RequestedLimits,
    /// The caller's permission for the run, laid over the agent's own.
    #[serde(default, skip_serializing_if = "Permission::is_empty")]
    pub permission: Permission,
    pub idempotency_key: Option<String>,
    pub on_disconnect: Option<OnDisconnect>,
    pub attachment: Attachment,
    /// Why no person can answer the run's questions. Ignored inside a run: a child inherits this from its parent.
    #[serde(skip)]
    pub unattended: Option<Unattended>,
}

/// A conversation under a name that its caller has chosen; it begins with the first use of the name. It belongs to
/// the agent, whatever its directory.
#[derive(Debug, Clone)]
pub struct NamedSession {
    /// `None`: a new conversation, named by the id of its first run.
    pub name: Option<String>,
    /// The namespace of the name.
    pub namespace: &'static str,
    /// How long the name is stored after its last use.
    pub keep_ms: u64,
    pub prior: PriorConversation,
}

/// The history of a conversation before its first use here.
#[derive(Debug, Clone)]
pub enum PriorConversation {
    Nothing,
    Exchanges(Vec<Exchange>),
    /// The vendor has the conversation, under this id.
    VendorSession(SessionId),
}

/// Whether the caller stays and waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attachment {
    /// The caller waits: `on_disconnect` applies when the door disconnects.
    #[default]
    Attached,
    /// Asynchronous: the run continues without the door.
    Detached,
}

/// Waits for runs to end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WaitRequest {
    /// Whole ids or their endings.
    pub runs: Vec<String>,
    pub until: WaitUntil,
    /// `None` waits as long as it takes.
    pub timeout_ms: Option<u64>,
}

/// Which of several runs must have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitUntil {
    Any,
    All,
}

/// Shows one run, with a page of its result and of its events.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GetRun {
    pub run: String,
    /// The byte offset of the page in the result.
    pub result_offset: u64,
    /// Bytes of result at most.
    pub result_max: u64,
    /// The first event to return; `None` returns no events.
    pub events_from: Option<u64>,
    pub events_max: usize,
}

/// Returns the events of a run after a position, oldest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadEvents {
    pub run: String,
    /// The default is the beginning of the log.
    pub after: LogCursor,
}

/// Lists runs, the newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListRuns {
    /// The project of this directory; absent: that of the door's working directory.
    pub directory: Option<String>,
    pub scope: ListScope,
    /// Only runs in these states: `running`, `waiting`, `accepted`, `stopping`, or the name of an outcome.
    pub states: Vec<String>,
    pub agent: Option<String>,
    pub session: Option<String>,
    /// Only runs created at most this long ago.
    pub max_age_ms: Option<u64>,
    /// Only runs that were created before this one: the cursor of the next page.
    pub before: Option<String>,
    pub limit: usize,
    /// How many denials of each run are listed. The logs of ended runs are read only for that.
    #[serde(default)]
    pub denials_per_run: usize,
}

/// Which projects a list covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListScope {
    #[default]
    Project,
    All,
}

/// Cancels runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelRunsRequest {
    pub target: CancelTarget,
    pub order: CancelRequest,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelTarget {
    /// One run; its descendants are cancelled with it.
    Run(String),
    /// Every run of a session that has not ended.
    Session(String),
}

/// Answers the question of a waiting run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct AnswerRequest {
    pub run: String,
    /// Absent: the only open question.
    pub question: Option<String>,
    /// Absent: only a text, which answers a question and permits nothing.
    pub allow: Option<bool>,
    pub text: Option<String>,
    pub by: String,
    pub origin: AnswerOrigin,
    /// Rules that hold for the rest of the run, if the answer allows it.
    #[serde(default)]
    pub granted_rules: Vec<String>,
}

/// Sums up the results of agents and backends.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct HealthRequest {
    pub directory: Option<String>,
    pub scope: ListScope,
}

/// Reads a page of an agent's output stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadOutput {
    pub run: String,
    pub stream: domain::run::StdStream,
    pub offset: u64,
    pub max: usize,
}
