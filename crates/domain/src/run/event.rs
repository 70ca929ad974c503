//! The events of a run. These types are the only ones that are written to the journal, each as one versioned JSON
//! line.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    AnswerOrigin, Branch, Changes, ConversationKind, Denial, Ending, LimitName, OnDisconnect, OutcomeKind,
    PromptKind, StopMode, Usage,
};
use crate::Timestamp;
use crate::access::AccessEffect;
use crate::id::{AgentName, QuestionId, RunId, SessionId};

/// An event with its position in the log. `seq` counts from 0; `epoch` counts the writers of the run from 1.
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
    /// A writer took over the run: the first event of every epoch.
    Claimed {
        keeper_pid: u32,
        worker_pid: u32,
        version: String,
    },
    /// No slot was free; the keeper waits in the queue.
    Queued {
        ticket: u64,
    },
    /// Another run uses the session; the keeper waits until it has ended.
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
    /// The agent produced text that belongs to its answer.
    #[serde(rename = "said")]
    AnswerAppended {
        text: String,
    },
    /// The agent reported its model.
    #[serde(rename = "model_named")]
    ModelReported {
        model: String,
    },
    /// The agent called a tool of its own, and reports that during or after the call.
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
    /// The agent is about to be started. Written before each start.
    #[serde(rename = "attempt_began")]
    AttemptStarted {
        /// 0: the agent's own backend and model; others are its fallbacks, from 1.
        choice: u32,
        backend: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        conversation: ConversationKind,
        #[serde(rename = "asked")]
        prompt_kind: PromptKind,
        /// Why the previous attempt was not the last one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        #[serde(rename = "because")]
        reason: String,
    },
    /// A call is about to be made. Durable before its effect.
    CallRequested {
        call: u32,
        kind: CallKind,
        class: CallClass,
        name: String,
        input: serde_json::Value,
        /// The number of the model call that requested it, or its own for a model call; absent for a rehearsal. Calls
        /// of one turn may run at the same time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<u32>,
        /// The access rule that decided about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verdict: Option<CallVerdict>,
    },
    /// A call completed. It is never repeated.
    CallCompleted {
        call: u32,
        ok: bool,
        /// The output, or its beginning if the details name a file with all of it.
        output: String,
        /// Present if the call has a turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Box<CallDetails>>,
    },
    /// Whether this call took effect is not known, and it is not repeated.
    CallInDoubt {
        call: u32,
    },
    #[serde(rename = "used")]
    UsageReported {
        usage: Usage,
        /// The model that used it, if several are reported separately.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The agent reported the session that a later run can continue.
    #[serde(rename = "session_named")]
    SessionReported {
        session: SessionId,
        /// The vendor's session id, if it is another.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[serde(rename = "native")]
        vendor_session: Option<SessionId>,
    },
    /// The run waits for a person.
    #[serde(rename = "asked")]
    QuestionRaised {
        question: QuestionId,
        text: String,
        until: Timestamp,
        /// The narrowest rules that would allow it, if it asks whether the agent may use a tool.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allow_rules: Vec<String>,
    },
    #[serde(rename = "answered")]
    QuestionAnswered {
        question: QuestionId,
        allowed: bool,
        text: String,
        by: String,
        /// Absent in logs of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[serde(rename = "from")]
        origin: Option<AnswerOrigin>,
        /// Rules that hold for the rest of the run.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        granted_rules: Vec<String>,
    },
    OutputTruncated {
        stream: StdStream,
        #[serde(rename = "kept_bytes")]
        retained_bytes: u64,
    },
    #[serde(rename = "limit_passed")]
    LimitExceeded {
        limit: LimitName,
        detail: String,
    },
    #[serde(rename = "cancel_asked")]
    CancelRequested {
        by: String,
        reason: String,
    },
    /// The client that started the run disconnected in good order.
    #[serde(rename = "door_left")]
    ClientDisconnected {
        policy: OnDisconnect,
    },
    #[serde(rename = "stop_asked")]
    StopRequested {
        how: StopMode,
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
    /// The agent was denied the use of a tool.
    ToolDenied {
        denial: Denial,
    },
    /// The agent submitted its answer with the tool `submit_result`. The last one counts.
    ResultSubmitted {
        text: String,
    },
    /// The agent ended with success, and a command of its `accept` was started.
    AcceptanceStarted {
        /// The index of the command, from 0.
        number: u32,
        pid: u32,
        argv: Vec<String>,
    },
    AcceptanceEnded {
        number: u32,
        exit: CommandExit,
        duration_ms: u64,
        /// The end of its output.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        output: String,
    },
    /// The changes in the work tree between the start and the end of the agent.
    FilesChanged {
        changes: Changes,
    },
    /// The run gets a git work tree of its own, on this branch. Durable before it is made.
    #[serde(rename = "worktree_begun")]
    WorktreeCreated {
        path: String,
        branch: String,
        /// The user's work tree that it is made from.
        origin: String,
        base: String,
    },
    /// The work tree of the run was removed; the branch has the changes, if there are any.
    WorktreeEnded {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<Branch>,
    },
    Ended {
        ending: Box<Ending>,
    },
}

/// The decision about a call, and the rule that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallVerdict {
    pub effect: AccessEffect,
    /// The rule with its file and line, as a sentence.
    pub reason: String,
}

/// What a call used and returned, besides the beginning of its output.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallDetails {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The file with the whole answer or output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<CallBody>,
}

/// A file with the body of a call, in the run's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallBody {
    pub bytes: u64,
    /// SHA-256 of the content, in hexadecimal digits.
    pub digest: String,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandExit {
    Code(i32),
    Signal(i32),
    /// It could not be started, for this reason.
    NotStarted(String),
}

impl fmt::Display for CommandExit {
    /// Formats the exit as a phrase to follow the command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(0) => f.write_str("succeeded"),
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::NotStarted(reason) => write!(f, "could not be started: {reason}"),
        }
    }
}

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    Model,
    Tool,
}

/// The effect of repeating a call; decides about a call in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallClass {
    /// Changes nothing: repeated.
    Pure,
    /// Makes the same change again: repeated.
    Idempotent,
    /// Changes something each time: not repeated.
    Effect,
}

/// A stream of an agent's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdStream {
    Stdout,
    Stderr,
}

/// Why a run is waiting.
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
        /// As in the event.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allow_rules: Vec<String>,
    },
}

impl WaitReason {
    /// Describes what the run does, for progress messages.
    pub fn activity(&self) -> String {
        match self {
            Self::Answer { text, .. } => format!("asks: {text}"),
            Self::Slot => "waiting for a slot".to_owned(),
            Self::Session { .. } => "waiting for its session".to_owned(),
        }
    }
}

/// The mechanisms that contained the run's processes and enforced its limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Containment {
    pub subreaper: bool,
    pub pid_namespace: bool,
    /// `v1` or `v2` if a control group contains the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The tags of each process of the run.
    pub tags: Vec<String>,
    /// The enforcer of each limit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Enforcer>,
    /// The version of Landlock that confines the process to the files that it may use. None: no confinement was
    /// requested, or the kernel has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landlock: Option<u32>,
    /// How the kernel restricts the network. None: no confinement was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkRestriction>,
    /// Mechanisms that were requested and not available, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// How the kernel restricts the network of a confined process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkRestriction {
    /// The process cannot make a socket of any kind.
    Closed,
    /// It cannot connect or listen by TCP. Datagrams and local sockets are open.
    TcpClosed,
    /// It can reach hosts, and no local socket of another program.
    HostsOnly,
    /// Nothing is restricted.
    Open,
}

/// The mechanism that enforces a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcer {
    Cgroup,
    Rlimit,
    /// The worker samples the tree and kills it.
    Watch,
}
