//! The resolved request of a run: written once as `spec.json` before anything starts, never changed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::replay::Exchange;
use crate::Timestamp;
use crate::agent::Delegates;
use crate::budget::Limits;
use crate::id::{AgentName, BackendName, IdempotencyKey, RunId, SessionId};
use crate::inputs::Inputs;
use crate::policy::{Directory, Grant, GrantSource, Layer, Policy};
use crate::price::Price;
use crate::run::agent_loop::LoopSpec;
use crate::setup::{FallbackSettings, Setup};

/// The version of the stored format.
pub const SPEC_VERSION: u32 = 1;

/// One accepted run. Contains names of secrets, never values.
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
    /// The interrupted run that this one resumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "resumes")]
    pub resumed_run: Option<ResumedRun>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The session is copied and not continued.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fork: bool,
    /// The exchanges of the session before its first run here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "told")]
    pub prior_exchanges: Vec<Exchange>,
    /// The agent's directory: absolute, and existing when the run was accepted.
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
    /// Names of environment variables that are passed on in addition to the base list.
    pub env: Vec<String>,
    pub delegates: Delegates,
    pub on_disconnect: OnDisconnect,
    pub on_interrupt: OnInterrupt,
    /// The reason why no person can answer the run's questions, which are then denied. Absent if somebody can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattended: Option<String>,
    /// The time-out also covers the wait for a slot and for the session, because its caller set one and nobody can
    /// see that the run waits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timeout_covers_wait: bool,
    pub containment: ContainmentDemand,
    /// Settings for the backend other than prompt and model.
    #[serde(default)]
    pub setup: Setup,
    /// The tools and rules of a directive, for the backend that runs its loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_loop: Option<Box<LoopSpec>>,
    /// The inputs of the caller, if a directive got any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: Inputs,
    /// The permission layers above the agent's file, in the order in which they were applied; `setup` contains the
    /// result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// The fallbacks, in order, for when the model's service has no capacity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "alternatives")]
    pub fallbacks: Vec<ResolvedFallback>,
    /// The user's own prices by model name; a built-in list has the others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, Price>,
    /// The random number of the run that its processes carry as a resource limit.
    pub tag: u64,
    /// A digest of everything that files of the project would make the vendor's program execute, if the user trusts
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "trusted_programs")]
    pub trusted_executables_digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<Idempotency>,
    /// The entry in its project's `IAC.md`, as in PowerSpawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iac: Option<Iac>,
    /// Requested settings that could not be applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl RunSpec {
    /// Returns the spec as a vendor's backend reads it: without the rules that Volery itself carries out.
    pub fn for_vendor(&self) -> Cow<'_, Self> {
        let permission = self.setup.permission.for_vendor();
        if permission == self.setup.permission {
            return Cow::Borrowed(self);
        }
        let mut spec = self.clone();
        spec.setup.permission = permission;
        Cow::Owned(spec)
    }

    /// Returns the policy of the run: the permission of each run above it as a layer, and its own as the last one.
    /// `after_user_rules` says that the agent's program first applies its user's own rules.
    pub fn policy(&self, directory: Directory, after_user_rules: bool) -> Policy {
        let parents = self.grants.iter().filter(|grant| grant.source == GrantSource::Parent);
        let above = parents.map(|grant| Layer {
            permission: grant.requested.clone(),
            set_by: Some(grant.by.clone()),
            ..Layer::default()
        });
        let own = Layer::for_agent(self.setup.permission.clone(), self.grants.clone());
        let own = Layer { after_user_rules, ..own };
        above.chain([own]).fold(Policy::in_directory(directory), Policy::with_layer)
    }

    /// Returns the session that the run belongs to from its beginning. A fork becomes a session of its own.
    pub fn continued_session(&self) -> Option<&SessionId> {
        self.session.as_ref().filter(|_| !self.fork)
    }

    /// Returns the id of a new session of this run, if no vendor assigns one.
    pub fn new_session_id(&self) -> SessionId {
        self.id.to_string().parse().expect("the id of a run has only letters, digits and dashes")
    }

    /// Returns the task without the text that was put before it.
    pub fn task(&self) -> &str {
        let at = self.iac.as_ref().map_or(0, |iac| iac.task_at);
        self.prompt.get(at..).unwrap_or(&self.prompt)
    }

    /// Returns the task in a form that everybody may read.
    pub fn public_task(&self) -> &str {
        let shown = self.iac.as_ref().and_then(|iac| iac.redacted_task.as_deref());
        shown.unwrap_or_else(|| self.task())
    }

    /// Returns whether the run's session begins with it.
    pub fn begins_session(&self) -> bool {
        self.session.as_ref() == Some(&self.new_session_id())
    }
}

/// An interrupted run, and whether its agent had started: then the prompt includes what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumedRun {
    pub run: RunId,
    #[serde(rename = "begun")]
    pub agent_had_started: bool,
    /// The agent was taken from the record of the interrupted run, because no file defines it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_recorded_agent: bool,
}

/// The backend of an agent, with everything it needs to run the agent again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackendSpec {
    pub name: BackendName,
    /// The folder in the `backend` crate that understands `options`.
    pub kind: String,
    pub options: serde_json::Value,
}

/// A fallback, resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResolvedFallback {
    pub backend: BackendSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Settings for this backend, where they differ from the run's setup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<FallbackSettings>,
}

/// The entry of a run in `IAC.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iac {
    /// PowerSpawn's name for the kind of agent: `claude`, `grok` and so on.
    pub agent_type: String,
    /// The name of that kind for people.
    pub label: String,
    pub kind: IacKind,
    /// The offset of the task in the prompt, after the text that was put before it.
    pub task_at: usize,
    /// The task without its secrets, if it contains any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "shown")]
    pub redacted_task: Option<String>,
}

/// Whether the agent is a program or a model behind an API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IacKind {
    Cli,
    Api,
}

/// The caller of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    #[serde(rename = "door")]
    pub origin: CallerOrigin,
    /// The name of the MCP client, or that of its token over HTTP; the parent's agent for a child run, else
    /// `main`.
    pub name: String,
    /// The HTTP token of this run and all runs above it. A client with this token can see these runs and no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// The channel of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallerOrigin {
    Mcp,
    Shell,
    /// The socket of a run: the caller is that run's agent.
    Run,
}

/// What happens to a run when the client that started it disconnects in good order.
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
    /// A new worker continues at the end of the journal.
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
    /// The reason of the interrupted run that is resumed.
    #[error("{0}")]
    AsBefore(String),
}

/// The configured treatment of questions that no person can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnattendedChoice {
    /// They are denied at once.
    Deny,
    /// They stay open for `answer_timeout`, because somebody may look at the run and answer.
    Wait,
}

impl Unattended {
    /// Returns the reason for denying questions; `None` if they stay open.
    pub fn denial_reason(&self, configured: UnattendedChoice) -> Option<String> {
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
    /// The strongest that the machine allows without additional rights.
    #[default]
    Auto,
    /// A pid namespace, or the run is refused.
    Strict,
    /// No pid namespace: for agents that need to see the machine's processes.
    Plain,
}

/// The caller's own name for the request, with a digest of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    pub key: IdempotencyKey,
    /// A digest of the request: another request with the same key is refused.
    pub fingerprint: String,
}
