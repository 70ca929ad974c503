//! What the engine answers: the one set of values that `--json`, the MCP tools and the tables are rendered from.

use std::collections::{BTreeMap, BTreeSet};

use domain::agent::Agent;
use domain::diagnostic::Diagnostic;
use domain::harmless::{clean, clean_value};
use domain::id::RunId;
use domain::inherit::Inherited;
use domain::permission::{Grant, Level};
use domain::run::{Branch, Changes, Containment, Outcome, Usage, Verification};
use serde::{Deserialize, Serialize};

/// An agent as it is offered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentView {
    pub name: String,
    pub description: String,
    pub backend: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub use_when: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoid_when: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// What a caller gives beside the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<domain::agent::Input>,
    pub file: String,
    pub format: String,
    pub layer: String,
    /// No file defines it: it is a backend that is installed here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub built_in: bool,
    /// A file of the project's defines it and takes the name of a built-in agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_built_in_name: bool,
    pub answers_by: domain::setup::AnswersBy,
    /// No login of its program was found. It may be in a keyring, which is not looked at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub login_unknown: bool,
    /// Why it cannot run as things are, with what to do about it: not trusted, unknown backend, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The agents of one folder, by name.
#[derive(Debug, Clone, Default)]
pub struct FoundAgents {
    pub agents: Vec<FoundAgent>,
    pub diagnostics: Vec<Diagnostic>,
}

/// An agent as it is defined.
#[derive(Debug, Clone)]
pub struct FoundAgent {
    pub agent: Agent,
    /// When its file was changed.
    pub modified_at: Option<domain::Timestamp>,
}

/// One agent as it is understood, and how it would be started. Values of secrets are not in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentPage {
    #[serde(flatten)]
    pub agent: AgentView,
    pub system_prompt: String,
    /// Everything that the definition says beyond that, by key.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// The sections of configurations that change its permission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// `None` if it could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation: Option<InvocationView>,
    /// What the backend cannot honour.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What is wrong with the agent's file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}

/// How a run of an agent would be carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvocationView {
    Process {
        argv: Vec<String>,
        /// Names of variables beside the base list; `NAME=value` where the backend sets one that is no secret.
        env: Vec<String>,
        /// Names of files written below the run's work folder.
        files: Vec<String>,
        prompt_on_stdin: bool,
    },
    /// Nothing is started: the worker takes the steps.
    Loop,
}

/// An agent's file that was written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewAgentView {
    pub name: String,
    pub file: String,
    /// The file of the agent that had the name before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hides: Option<String>,
}

/// The agents of a directory, and what was found wrong with their files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentList {
    pub project: String,
    pub agents: Vec<AgentView>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}

/// A run was accepted and is on disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Started {
    pub run_id: RunId,
    /// The idempotency key was known: this is the run of the earlier request.
    pub reused: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A run as it is shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunView {
    pub run_id: RunId,
    pub short_id: String,
    pub agent: String,
    pub backend: String,
    /// `accepted`, `running`, `waiting`, `stopping`, or the name of the outcome.
    pub status: String,
    pub ended: bool,
    /// How it ended, with cause and kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The outcome or state in a sentence.
    pub explanation: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingView>,
    /// The answer, or the page of it that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    pub result_bytes: u64,
    /// Where the rest of the result begins, if this is not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_next_offset: Option<u64>,
    /// While the run goes on: the end of what it has said so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// No output for two minutes.
    #[serde(default)]
    pub stalled: bool,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Of the agent, so far or in all.
    pub duration_ms: u64,
    pub usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
    pub directory: String,
    pub project: String,
    pub caller: String,
    /// The layers of its permission above the agent's file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// The level of its permission, for advice.
    #[serde(skip)]
    pub level: Option<Level>,
    /// Why no person can answer its questions, which are denied then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattended: Option<String>,
    /// The model that answered, by the agent's own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The answer as a value, where its shape was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<serde_json::Value>,
    /// The value was not quite JSON as the agent wrote it, and its spelling was mended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repaired: bool,
    /// How often the task was put to the agent; 0 before it was.
    #[serde(default)]
    pub attempts: u64,
    /// Of a success: whether its acceptance commands confirm it, or only the agent claims it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// The acceptance commands that were started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acceptance: Vec<AcceptanceView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ChildView>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What the agent gets from its user, as the system of its dialect gives it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub inherit: BTreeSet<Inherited>,
    /// What changed on disk while it went on; absent outside of a git work tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// What it did in a work tree of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containment: Option<Containment>,
    /// Lines of the journal that could not be read.
    #[serde(default)]
    pub damaged_lines: u64,
}

impl RunView {
    /// Takes out of what the agent said whatever its reader could not see.
    pub fn clean(&mut self) {
        let texts = [&mut self.explanation, &mut self.stderr_tail];
        let optional = [&mut self.result, &mut self.partial].into_iter().flatten();
        texts.into_iter().chain(optional).chain(&mut self.warnings).for_each(clean);
        self.structured.iter_mut().for_each(clean_value);
    }

    /// A run that goes on, for tests.
    #[cfg(test)]
    pub fn sample(run_id: RunId, agent: &str) -> Self {
        Self {
            run_id,
            short_id: run_id.short(),
            agent: agent.into(),
            backend: "rehearsal".into(),
            status: "running".into(),
            ended: false,
            outcome: None,
            explanation: "running".into(),
            waiting: None,
            result: None,
            result_bytes: 0,
            result_next_offset: None,
            partial: Some("so far so good".into()),
            stalled: false,
            created_at: "2026-11-15T10:00:00Z".into(),
            started_at: Some("2026-11-15T10:00:01Z".into()),
            ended_at: None,
            duration_ms: 1_500,
            usage: Usage::default(),
            exit_code: None,
            stderr_tail: String::new(),
            directory: "/project".into(),
            project: "/project".into(),
            caller: "test".into(),
            grants: Vec::new(),
            level: None,
            unattended: None,
            session: None,
            parent: None,
            attempts: 1,
            children: Vec::new(),
            warnings: Vec::new(),
            inherit: BTreeSet::new(),
            containment: None,
            model: None,
            structured: None,
            repaired: false,
            verification: None,
            acceptance: Vec::new(),
            changes: None,
            branch: None,
            damaged_lines: 0,
        }
    }
}

/// A command that is to confirm a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptanceView {
    pub command: Vec<String>,
    pub passed: bool,
    /// What became of it, so that it can be read behind the command.
    pub explanation: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
    /// The end of what it wrote.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output_tail: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChildView {
    pub run_id: RunId,
    pub agent: String,
    pub status: String,
}

/// What a waiting run waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum WaitingView {
    /// A free slot; 1 is the next.
    Slot {
        position: u64,
    },
    /// The end of another run of the session.
    Session {
        session: String,
    },
    Answer {
        question: String,
        text: String,
        until: String,
    },
}

/// A line of a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunLine {
    pub run_id: RunId,
    pub short_id: String,
    pub agent: String,
    pub status: String,
    pub ended: bool,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    pub duration_ms: u64,
    /// What went wrong, if anything did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microusd: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    pub project: String,
    pub caller: String,
    /// The beginning of the prompt, on one line.
    pub prompt: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunList {
    pub runs: Vec<RunLine>,
    /// The cursor for the next page, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<RunId>,
}

/// A run with a page of its events.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunDetail {
    #[serde(flatten)]
    pub run: RunView,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_event: Option<u64>,
}

/// What a wait found. `timed_out` means that some runs had not ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Waited {
    pub runs: Vec<RunView>,
    pub timed_out: bool,
}

/// What a cancel did, per run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cancelled {
    pub runs: Vec<CancelledRun>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelledRun {
    pub run_id: RunId,
    /// `asked`, `already_asked` or `already_ended`.
    pub effect: String,
}

/// What became of an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answered {
    pub run_id: RunId,
    pub question: String,
}

/// How an agent or backend has been doing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HealthLine {
    pub agent: String,
    pub backend: String,
    pub runs: u64,
    pub succeeded: u64,
    pub partial: u64,
    pub failed: u64,
    /// Those among the failed whose time was up.
    #[serde(default)]
    pub timed_out: u64,
    /// Between 0 and 1, of the runs that ended by themselves: a cancelled run counts for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_rate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ms: Option<u64>,
    pub max_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_ended_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microusd: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HealthReport {
    pub running: u64,
    pub waiting: u64,
    pub slots: u64,
    pub agents: Vec<HealthLine>,
    /// Agents that were at work earlier than all of these and are not listed.
    #[serde(default)]
    pub left_out: u64,
}

/// A sign of life of a run that somebody waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Progress {
    pub run_id: RunId,
    pub agent: String,
    pub status: String,
    pub elapsed_ms: u64,
    /// What it does: `started`, `wrote 12 KiB`, `waiting for a slot (3rd)`, `asks: …`
    pub activity: String,
    /// The end of what it has said so far.
    pub text_tail: String,
}

/// A page of output. Invalid UTF-8 is replaced; the bytes themselves are in the run's directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OutputPage {
    pub text: String,
    pub next_offset: u64,
    /// The run has ended and this page reaches the end of the stream.
    pub complete: bool,
}
