//! What was asked, resolved: written once as `spec.json` before anything starts, never changed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::replay::Exchange;
use crate::Timestamp;
use crate::agent::Delegates;
use crate::budget::Limits;
use crate::id::{AgentName, BackendName, IdempotencyKey, RunId, SessionId};
use crate::permission::Grant;
use crate::price::Price;
use crate::setup::{FallbackSettings, Setup};

/// The version of the stored shape.
pub const SPEC_VERSION: u32 = 1;

/// One run as it was accepted. Holds names of secrets, never values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    pub version: u32,
    pub id: RunId,
    pub created_at: Timestamp,
    pub agent: AgentName,
    /// The file the agent was read from.
    pub source: String,
    pub backend: BackendSpec,
    pub prompt: String,
    pub system_prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The interrupted run that this one goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes: Option<Resumes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The session is copied and not continued.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fork: bool,
    /// What was said in the session before its first run here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<Exchange>,
    /// Where the agent works: absolute and existing when the run was accepted.
    pub directory: String,
    /// The project that the run belongs to: the directory upward to `.volery` or `.git`.
    pub project: String,
    pub caller: Caller,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// The run at the top of the tree; its own id for a root.
    pub root: RunId,
    /// 0 for a root.
    pub depth: u32,
    pub limits: Limits,
    /// Names of environment variables passed on beside the base list.
    pub env: Vec<String>,
    pub delegates: Delegates,
    pub on_disconnect: OnDisconnect,
    pub on_interrupt: OnInterrupt,
    /// Why no person can answer the run's questions, which are denied then. Absent: somebody can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattended: Option<String>,
    /// The time-out also covers the wait for a slot and for the session: its caller set one, and nobody is there to see
    /// that it waits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timeout_covers_wait: bool,
    pub containment: ContainmentDemand,
    /// What the backend is asked for beyond prompt and model.
    #[serde(default)]
    pub setup: Setup,
    /// The layers of its permission above the agent's file, in the order in which they were laid; `setup` has the sum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// What is tried next, in order, when the model has no room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// What its user pays for models, by their names; of the others a list knows the price.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, Price>,
    /// The random number of the run that its processes carry as a resource limit.
    pub tag: u64,
    /// What files of the project would execute by the vendor's program, as a digest, if the user trusts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted_programs: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<Idempotency>,
    /// It is shown in its project's `IAC.md`, as PowerSpawn keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iac: Option<Iac>,
    /// What could not be honoured as asked, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl RunSpec {
    /// Returns the session that the run is part of from its beginning: a copy becomes one of its own.
    pub fn continued(&self) -> Option<&SessionId> {
        self.session.as_ref().filter(|_| !self.fork)
    }

    /// Returns the id of a session that begins with this run and that no vendor names.
    pub fn own_session(&self) -> SessionId {
        self.id.to_string().parse().expect("the id of a run has only letters, digits and dashes")
    }

    /// Returns what was asked, without what was put before it.
    pub fn task(&self) -> &str {
        let at = self.iac.as_ref().map_or(0, |iac| iac.task_at);
        self.prompt.get(at..).unwrap_or(&self.prompt)
    }

    /// Returns the same as everybody may read it.
    pub fn shown_task(&self) -> &str {
        let shown = self.iac.as_ref().and_then(|iac| iac.shown.as_deref());
        shown.unwrap_or_else(|| self.task())
    }

    /// Tells whether the run's session begins with it.
    pub fn begins_session(&self) -> bool {
        self.session.as_ref() == Some(&self.own_session())
    }
}

/// An interrupted run, and whether its agent had begun: then it is told what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumes {
    pub run: RunId,
    pub begun: bool,
}

/// How the agent is driven, with everything the backend needs to do it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackendSpec {
    pub name: BackendName,
    /// The folder in the `backend` crate that understands `options`.
    pub kind: String,
    pub options: serde_json::Value,
}

/// Another way to carry out the run, resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    pub backend: BackendSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What holds on this backend, where it differs from the run's setup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<FallbackSettings>,
}

/// How a run is shown in `IAC.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iac {
    /// What PowerSpawn calls the kind of agent: `claude`, `grok` and so on.
    pub agent_type: String,
    /// The same for people.
    pub label: String,
    pub kind: IacKind,
    /// Where in the prompt the task begins, behind what was put before it.
    pub task_at: usize,
    /// The task as it is shown, where a secret stands in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
}

/// Whether the agent is a program or a model behind an API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IacKind {
    Cli,
    Api,
}

/// Who asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    pub door: Door,
    /// The client's name at the MCP door, or that of its token over HTTP; the parent's agent for a child run, else
    /// `main`.
    pub name: String,
    /// The token that this run and all runs above it were asked for with: whoever shows it sees them, and no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// A way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Door {
    Mcp,
    Shell,
    /// A run's socket: the caller is another run's agent.
    Run,
}

/// What happens to a run when the door that started it goes away in good order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// Cancelled after a grace.
    Cancel {
        grace_ms: u64,
    },
    Continue,
}

/// What happens to a run whose worker was lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnInterrupt {
    #[default]
    End,
    /// A new worker continues where the journal ends.
    Resume,
}

/// Why no person can answer the questions of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unattended {
    #[error("--unattended was given")]
    Declared,
    #[error("the environment variable CI is set")]
    Ci,
    #[error("the command has no terminal")]
    NoTerminal,
    #[error("the MCP client {client} cannot put a question to its user")]
    NoElicitation { client: String },
    /// As it was for the interrupted run that is continued.
    #[error("{0}")]
    AsBefore(String),
}

/// What happens to questions where no person can answer them, by the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnattendedChoice {
    /// They are denied at once.
    Deny,
    /// They stay open for `answer_timeout`: somebody may look at the run and answer.
    Wait,
}

impl Unattended {
    /// Returns the reason for which questions are denied; nothing where they stay open.
    pub fn denies(&self, configured: UnattendedChoice) -> Option<String> {
        let denies = match (self, configured) {
            (Self::Declared, _) | (_, UnattendedChoice::Deny) => true,
            (
                Self::Ci | Self::NoTerminal | Self::NoElicitation { .. } | Self::AsBefore(_),
                UnattendedChoice::Wait,
            ) => false,
        };
        denies.then(|| self.to_string())
    }
}

/// How strongly a run must be contained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainmentDemand {
    /// The strongest that the machine allows without asking for more rights.
    #[default]
    Auto,
    /// A pid namespace, or the run is refused.
    Strict,
    /// No pid namespace: for agents that need to see the machine's processes.
    Plain,
}

/// The caller's own name for the request, and what the request was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    pub key: IdempotencyKey,
    /// A digest of the request: the same key with another request is refused.
    pub fingerprint: String,
}
