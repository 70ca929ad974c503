//! What a door may ask for. Plain values, so that a door inside a run can hand them on over the run's socket.

use domain::agent::Agent;
use domain::budget::AskedLimits;
use domain::id::SessionId;
use domain::permission::Permission;
use domain::run::replay::Exchange;
use domain::run::{CancelOrder, OnDisconnect, Unattended};
use serde::{Deserialize, Serialize};

/// Every question that can be asked of the engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Request {
    ListAgents(ListAgents),
    ShowAgent(ShowAgent),
    Start(Box<Start>),
    Wait(Wait),
    GetRun(GetRun),
    ListRuns(ListRuns),
    Cancel(Cancel),
    Answer(Answer),
    Health(Health),
    ReadOutput(ReadOutput),
    /// The answer of the run's own agent.
    SubmitResult(SubmitResult),
}

/// An answer that an agent hands in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubmitResult {
    pub text: String,
}

/// The agents that can be asked for in a directory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListAgents {
    /// Where to look; the door's working directory if absent.
    pub directory: Option<String>,
}

/// One agent, resolved.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ShowAgent {
    pub agent: String,
    /// Where to look; the door's working directory if absent.
    pub directory: Option<String>,
}

/// An agent's file to be written. Not for doors inside a run.
#[derive(Debug, Clone)]
pub struct NewAgent {
    pub name: String,
    pub backend: String,
    pub model: Option<String>,
    pub directory: Option<String>,
    pub owner: AgentOwner,
}

/// Whose agent it shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentOwner {
    Project,
    User,
}

/// One run to be started.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Start {
    pub agent: String,
    pub prompt: String,
    /// Where the agent works; absolute. Absent: the project of the door's working directory.
    pub directory: Option<String>,
    /// Put before the prompt, as background.
    pub context: Option<String>,
    /// The interrupted run that this one goes on with: context and inputs stand in its prompt already. Not for doors inside
    /// a run: it takes over whose run that was, and what that was granted.
    #[serde(skip)]
    pub resumes: Option<domain::run::Resumes>,
    /// Values that the agent's file asks for.
    #[serde(default)]
    pub inputs: domain::inputs::Inputs,
    pub session: Option<String>,
    /// The session is copied and not continued.
    #[serde(default)]
    pub fork: bool,
    /// The name that the caller has chosen for the conversation, instead of a session.
    #[serde(skip)]
    pub named: Option<NamedSession>,
    /// The agent itself, instead of one that the project's or the user's files define. Not for doors inside a run.
    #[serde(skip)]
    pub definition: Option<Box<Agent>>,
    /// The agent is as it was in the last run of the session, and works where that did.
    #[serde(skip)]
    pub as_before: bool,
    /// How the run is shown in `IAC.md`, if it is.
    #[serde(skip)]
    pub iac: Option<domain::run::Iac>,
    pub model: Option<String>,
    /// A JSON schema for the answer, in place of the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<serde_json::Value>,
    pub limits: AskedLimits,
    /// What the agent may do, laid over its own permission.
    #[serde(default, skip_serializing_if = "Permission::is_empty")]
    pub permission: Permission,
    pub idempotency_key: Option<String>,
    pub on_disconnect: Option<OnDisconnect>,
    pub attachment: Attachment,
    /// Why no person can answer the run's questions. Ignored inside a run: a child has what its parent has.
    #[serde(skip)]
    pub unattended: Option<Unattended>,
}

/// A conversation by a name that its caller has chosen, which begins with its first use. It is the agent's, wherever the
/// agent works.
#[derive(Debug, Clone)]
pub struct NamedSession {
    /// `None`: a new one, which is named by the id of its first run.
    pub name: Option<String>,
    /// Whose callers chose it.
    pub within: &'static str,
    /// How long it is kept after its last use.
    pub keep_ms: u64,
    pub before: Before,
}

/// What is known of a conversation from before its first use here.
#[derive(Debug, Clone)]
pub enum Before {
    Nothing,
    Told(Vec<Exchange>),
    /// The vendor has it, under this id.
    Vendor(SessionId),
}

/// Whether the one who asked stays and waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attachment {
    /// Somebody waits: `on_disconnect` applies when the door leaves.
    #[default]
    Attached,
    /// Asynchronous: the run goes on whatever becomes of the door.
    Detached,
}

/// Waits for runs to end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Wait {
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

/// One run, with a page of its result and of its events.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GetRun {
    pub run: String,
    /// Where in the result the page begins, in bytes.
    pub result_offset: u64,
    /// Bytes of result at most.
    pub result_max: u64,
    /// The first event wanted; `None` wants no events.
    pub events_from: Option<u64>,
    pub events_max: usize,
}

/// Some runs, the newest first.
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
    /// Only runs that were created before this one: the cursor of a further page.
    pub before: Option<String>,
    pub limit: usize,
}

/// Which projects a list covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListScope {
    #[default]
    Project,
    All,
}

/// What to cancel.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cancel {
    pub target: CancelTarget,
    pub order: CancelOrder,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelTarget {
    /// One run; its descendants go with it.
    Run(String),
    /// Every run of a session that has not ended.
    Session(String),
}

/// An answer to the question of a waiting run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    pub run: String,
    /// Absent: the only open question.
    pub question: Option<String>,
    /// Absent: words alone, which answer a question and permit nothing.
    pub allow: Option<bool>,
    pub text: Option<String>,
    pub by: String,
}

/// How agents and backends have been doing.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Health {
    pub directory: Option<String>,
    pub scope: ListScope,
}

/// A page of what an agent wrote to a stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadOutput {
    pub run: String,
    pub stream: domain::run::Stream,
    pub offset: u64,
    pub max: usize,
}
