//! What happened in a run. The only types that are written to the journal, as one versioned JSON line each.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Asked, Branch, Changes, Conversation, Ending, LimitName, OnDisconnect, OutcomeKind, StopHow, Usage,
};
use crate::Timestamp;
use crate::id::{AgentName, QuestionId, RunId, SessionId};

/// An event with its place in the log. `seq` counts from 0; `epoch` counts the writers of the run from 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    pub seq: u64,
    pub epoch: u32,
    pub at: Timestamp,
    #[serde(flatten)]
    pub event: Event,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A writer took the run over: the first event of every epoch.
    Claimed {
        keeper_pid: u32,
        worker_pid: u32,
        version: String,
    },
    /// No slot was free; the keeper waits in the queue.
    Queued {
        ticket: u64,
    },
    /// The session is another run's; the keeper waits until that has ended.
    SessionAwaited {
        session: SessionId,
    },
    SlotTaken {
        waited_ms: u64,
    },
    AgentStarted {
        pid: u32,
        argv: Vec<String>,
        containment: Containment,
    },
    /// The agent said something that belongs to its answer.
    Said {
        text: String,
    },
    /// The agent says which model answers.
    ModelNamed {
        model: String,
    },
    /// The agent used a tool of its own, which it says after or while it does.
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
    /// The agent is about to be started. Written before it is, each time.
    AttemptBegan {
        /// 0: the agent's own backend and model; others count its fallbacks from 1.
        choice: u32,
        backend: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        conversation: Conversation,
        asked: Asked,
        /// Why the attempt before was not the last one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        because: String,
    },
    /// A call is about to be made. Durable before its effect.
    CallRequested {
        call: u32,
        kind: CallKind,
        class: CallClass,
        name: String,
        input: serde_json::Value,
    },
    /// A call was made. Never made again.
    CallCompleted {
        call: u32,
        ok: bool,
        output: String,
    },
    /// Whether this call took effect is not known, and it is not repeated.
    CallInDoubt {
        call: u32,
    },
    Used {
        usage: Usage,
        /// The model that used it, where several are told apart.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The agent named the session that a later run can continue.
    SessionNamed {
        session: SessionId,
        /// The vendor's own name for it, where that is another.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<SessionId>,
    },
    /// The run waits for a person.
    Asked {
        question: QuestionId,
        text: String,
        until: Timestamp,
    },
    Answered {
        question: QuestionId,
        allowed: bool,
        text: String,
        by: String,
    },
    OutputTruncated {
        stream: Stream,
        kept_bytes: u64,
    },
    LimitPassed {
        limit: LimitName,
        detail: String,
    },
    CancelAsked {
        by: String,
        reason: String,
    },
    /// The door that started the run went away in good order.
    DoorLeft {
        policy: OnDisconnect,
    },
    StopAsked {
        how: StopHow,
        because: String,
    },
    ChildStarted {
        run: RunId,
        agent: AgentName,
    },
    ChildEnded {
        run: RunId,
        outcome: OutcomeKind,
    },
    Warned {
        message: String,
    },
    /// The agent handed in its answer by our tool. The last one counts.
    ResultSubmitted {
        text: String,
    },
    /// The agent ended with success, and a command of its `accept` was started.
    AcceptanceStarted {
        /// Which one, from 0.
        number: u32,
        pid: u32,
        argv: Vec<String>,
    },
    AcceptanceEnded {
        number: u32,
        exit: CommandExit,
        duration_ms: u64,
        /// The end of what it wrote.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        output: String,
    },
    /// What changed in the work tree between the start of the agent and its end.
    FilesChanged {
        changes: Changes,
    },
    /// The run gets a git work tree of its own, on this branch. Durable before it is made.
    WorktreeBegun {
        path: String,
        branch: String,
        /// The user's work tree that it is made from.
        origin: String,
        base: String,
    },
    /// The work tree of the run is gone; what was done is on the branch, if anything was.
    WorktreeEnded {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<Branch>,
    },
    Ended {
        ending: Box<Ending>,
    },
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandExit {
    Code(i32),
    Signal(i32),
    /// It could not be started, and why.
    NotStarted(String),
}

impl fmt::Display for CommandExit {
    /// Says it so that it fits behind the command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(0) => f.write_str("succeeded"),
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::NotStarted(reason) => write!(f, "could not be started: {reason}"),
        }
    }
}

/// What kind of call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    Model,
    Tool,
}

/// What repeating a call would do; decides about a call in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallClass {
    /// Changes nothing: repeated.
    Pure,
    /// Changes the same thing in the same way: repeated.
    Idempotent,
    /// Changes something each time: not repeated.
    Effect,
}

/// A stream of an agent's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Why a run that was started does nothing at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum WaitReason {
    Slot,
    /// Another run has the session.
    Session {
        session: SessionId,
    },
    Answer {
        question: QuestionId,
        text: String,
        until: Timestamp,
    },
}

impl WaitReason {
    /// What the run does, in the words of its progress.
    pub fn activity(&self) -> String {
        match self {
            Self::Answer { text, .. } => format!("asks: {text}"),
            Self::Slot => "waiting for a slot".to_owned(),
            Self::Session { .. } => "waiting for its session".to_owned(),
        }
    }
}

/// What was in force to keep the run's processes together and within their limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Containment {
    pub subreaper: bool,
    pub pid_namespace: bool,
    /// `v1` or `v2` when a control group holds the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The marks that each process of the run carries.
    pub tags: Vec<String>,
    /// Which limit is enforced by what.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Enforcer>,
    /// What was wanted and could not be had, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// What enforces a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcer {
    Cgroup,
    Rlimit,
    /// The worker samples the tree and kills it.
    Watch,
}
