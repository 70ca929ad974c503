//! The answers of the engine: `--json`, the MCP tools and the tables are all rendered from these values.

use std::collections::{BTreeMap, BTreeSet};

use domain::agent::Agent;
use domain::diagnostic::Diagnostic;
use domain::id::RunId;
use domain::inherit::Inherited;
use domain::invisible_text::{one_line, strip_invisible_in_place, strip_invisible_in_value};
use domain::permission::{Level, Rule};
use domain::policy::Grant;
use domain::run::{
    Branch, Cancellation, Changes, Containment, Denial, Envelope, Outcome, Phase, Usage, Verification,
    WaitReason,
};
use journal::LogCursor;
use serde::{Deserialize, Serialize};

/// How many bytes of a question an activity contains.
const ACTIVITY_TEXT_BYTES: usize = 400;

/// An agent in a list.
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
    /// What a caller passes in addition to the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<domain::agent::AgentInput>,
    pub file: String,
    pub format: String,
    pub layer: String,
    /// No file defines it: it is an installed backend.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub built_in: bool,
    /// A file of the project defines it and takes the name of a built-in agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_built_in_name: bool,
    pub answers_by: domain::setup::AnswerChannel,
    /// No login of its program was found. It may be in a keyring, which is not read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub login_unknown: bool,
    /// Its program has no login.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub logged_out: bool,
    /// Why it cannot run at present, with what to do about it: not trusted, unknown backend, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The agents of one folder, by name.
#[derive(Debug, Clone, Default)]
pub struct FolderAgentList {
    pub agents: Vec<FolderAgent>,
    pub diagnostics: Vec<Diagnostic>,
}

/// An agent from its file.
#[derive(Debug, Clone)]
pub struct FolderAgent {
    pub agent: Agent,
    /// The modification time of its file.
    pub modified_at: Option<domain::Timestamp>,
}

/// One resolved agent, and how it would be started. Contains no values of secrets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentDetail {
    #[serde(flatten)]
    pub agent: AgentView,
    /// The project in which it was looked up.
    #[serde(default)]
    pub project: String,
    pub system_prompt: String,
    /// All other settings of the definition, by key.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// The sections of configurations that change its permission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// `None` if it could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation: Option<InvocationView>,
    /// Requirements that the backend does not support.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Diagnostics about the agent's file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}

/// How a run of an agent would be carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvocationView {
    Process {
        argv: Vec<String>,
        /// Names of variables in addition to the base list; `NAME=value` if the backend sets one that is not a
        /// secret.
        env: Vec<String>,
        /// Names of files written below the run's work folder.
        files: Vec<String>,
        prompt_on_stdin: bool,
    },
    /// No process is started: the worker performs the steps.
    Loop,
}

/// A new agent's file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewAgentView {
    pub name: String,
    pub file: String,
    /// The file of the agent that had the name before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "hides")]
    pub shadowed_file: Option<String>,
}

/// The agents of a directory, and the diagnostics about their files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentList {
    pub project: String,
    pub agents: Vec<AgentView>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}

/// A run that was accepted and is on disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StartedRun {
    pub run_id: RunId,
    /// The idempotency key was known: this is the run of the earlier request.
    pub reused: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A run with everything that is shown of it.
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
    /// Who cancelled the run, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancellation: Option<Cancellation>,
    /// For an interrupted run: what the user can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_interruption: Option<AfterInterruption>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingView>,
    /// The open questions of the run and, after its own, of the runs below it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs_answer: Vec<QuestionView>,
    /// The answer, or the requested page of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    pub result_bytes: u64,
    /// The offset of the rest of the result, if this is not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_next_offset: Option<u64>,
    /// While the run is running: the end of its text so far.
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
    /// Of the agent, so far or in total.
    pub duration_ms: u64,
    pub usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
    /// The beginning of the task.
    #[serde(default)]
    pub prompt: String,
    /// The length of the whole task.
    #[serde(default)]
    pub prompt_bytes: u64,
    pub directory: String,
    pub project: String,
    pub caller: String,
    /// The layers of its permission above the agent's file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// The level and the allow rules of its permission, for advice.
    #[serde(skip)]
    pub level: Option<Level>,
    #[serde(skip)]
    pub allow: Vec<Rule>,
    /// Its agent has a list of tools, and no others.
    #[serde(skip)]
    pub has_tool_list: bool,
    /// The user started it with a command.
    #[serde(skip)]
    pub is_from_shell: bool,
    /// Why no person can answer its questions, which are then denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattended: Option<String>,
    /// The model that answered, as the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The answer as a value, if JSON or a schema was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<serde_json::Value>,
    /// The agent's JSON was invalid and was repaired.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repaired: bool,
    /// How often the agent was prompted with the task; 0 before the start.
    #[serde(default)]
    pub attempts: u64,
    /// For a success: whether its acceptance commands confirm it, or only the agent claims it.
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
    /// What the agent was denied: the first distinct denials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denial>,
    /// How often the agent was denied something.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub denials_count: u64,
    /// What the agent inherits from its user, as in the system of its dialect.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub inherit: BTreeSet<Inherited>,
    /// The files that changed during the run; absent outside of a git work tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// The branch with the work that was done in the run's own work tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containment: Option<Containment>,
    /// Lines of the journal that could not be read.
    #[serde(default)]
    pub damaged_lines: u64,
}

impl RunView {
    /// Removes invisible characters from the agent's texts.
    pub fn clean(&mut self) {
        let texts = [&mut self.explanation, &mut self.stderr_tail];
        let optional = [&mut self.result, &mut self.partial].into_iter().flatten();
        let reason = self.cancellation.as_mut().map(|cancellation| &mut cancellation.reason);
        texts
            .into_iter()
            .chain(optional)
            .chain(reason)
            .chain(&mut self.warnings)
            .chain([&mut self.prompt])
            .for_each(strip_invisible_in_place);
        for Denial { tool, subject, cause: _, reason, by, allow_rules } in &mut self.denials {
            [tool, reason]
                .into_iter()
                .chain(subject)
                .chain(by)
                .chain(allow_rules)
                .for_each(strip_invisible_in_place);
        }
        for QuestionView { agents, text, allow_rules, run_id: _, short_id: _, question: _, until: _ } in
            &mut self.needs_answer
        {
            agents.iter_mut().chain([text]).chain(allow_rules).for_each(strip_invisible_in_place);
        }
        self.structured.iter_mut().for_each(strip_invisible_in_value);
    }
}

/// What a user can do about an interrupted run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum AfterInterruption {
    Resume {
        command: String,
    },
    /// The run cannot be resumed.
    RunAgain {
        command: String,
        reason: String,
    },
}

impl AfterInterruption {
    /// Returns the advice in a sentence.
    pub fn sentence(&self) -> String {
        match self {
            Self::Resume { command } => format!("{command} continues it"),
            Self::RunAgain { command, reason } => {
                format!("it cannot be resumed: {reason}; to run it again: {command}")
            }
        }
    }
}

/// An acceptance command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptanceView {
    pub command: Vec<String>,
    pub passed: bool,
    /// Its result, phrased to follow the command.
    pub explanation: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
    /// The end of its output.
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
    Slot { position: u64 },
    /// The end of another run of the session.
    Session { session: String },
    Answer {
        question: String,
        text: String,
        until: String,
        /// The narrowest rules that would allow it, if it asks whether the agent may use a tool.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allow_rules: Vec<String>,
    },
}

/// A question that a person must answer. The run that asks it and every run above that run show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionView {
    /// The run that asks, and that receives the answer.
    pub run_id: RunId,
    pub short_id: String,
    /// The names of the agents from the run that shows the question down to the run that asks it.
    pub agents: Vec<String>,
    pub question: String,
    pub text: String,
    /// When the question counts as denied.
    pub until: String,
    /// The narrowest rules that would allow it, if it asks whether the agent may use a tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_rules: Vec<String>,
}

impl QuestionView {
    /// Returns the question for which a run in this phase waits. `agents` ends with the run's own agent.
    pub(crate) fn from_phase(run_id: RunId, agents: Vec<String>, phase: &Phase) -> Option<Self> {
        let Phase::Waiting(WaitReason::Answer { question, text, until, allow_rules }) = phase else {
            return None;
        };
        Some(Self {
            run_id,
            short_id: run_id.short(),
            agents,
            question: question.to_string(),
            text: text.clone(),
            until: until.to_string(),
            allow_rules: allow_rules.clone(),
        })
    }

    /// Returns whether the run that shows the question also asks it.
    pub fn is_own(&self) -> bool {
        self.agents.len() <= 1
    }

    /// Returns whether two views show the same question.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.run_id, &self.question) == (other.run_id, &other.question)
    }

    /// Returns the agents on one line: `chief › fixer`.
    pub fn agent_path(&self) -> String {
        self.agents.join(" › ")
    }

    /// Returns which agent needs an answer: `needs you: chief › fixer`.
    pub fn headline(&self) -> String {
        format!("needs you: {}", self.agent_path())
    }

    /// Describes the question on one line, for progress messages.
    pub(crate) fn activity(&self) -> String {
        let text = one_line(&self.text);
        format!("{}: {}", self.headline(), domain::size::head(&text, ACTIVITY_TEXT_BYTES))
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A run in a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunSummary {
    pub run_id: RunId,
    pub short_id: String,
    pub agent: String,
    pub status: String,
    pub ended: bool,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    pub duration_ms: u64,
    /// The error, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The first distinct denials, if the request asks for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denial>,
    /// How often the agent was denied something.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub denials_count: u64,
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
    /// The open questions of the run and, after its own, of the runs below it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs_answer: Vec<QuestionView>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunList {
    pub runs: Vec<RunSummary>,
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

/// The result of a wait. `timed_out` means that some runs had not ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WaitResult {
    pub runs: Vec<RunView>,
    pub timed_out: bool,
}

/// The result of a cancellation, per run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelResult {
    pub runs: Vec<CancelledRun>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelledRun {
    pub run_id: RunId,
    /// `asked`, `already_asked` or `already_ended`.
    pub effect: String,
}

/// The question that was answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AnswerResult {
    pub run_id: RunId,
    pub question: String,
}

/// The results of an agent with one backend.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentHealthSummary {
    pub agent: String,
    pub backend: String,
    pub runs: u64,
    pub succeeded: u64,
    pub partial: u64,
    pub failed: u64,
    /// Those among the failed that timed out.
    #[serde(default)]
    pub timed_out: u64,
    /// Between 0 and 1, of the runs that ended by themselves: cancelled runs do not count.
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
    pub agents: Vec<AgentHealthSummary>,
    /// How many agents are left out because their last runs are older than all of these.
    #[serde(default)]
    pub left_out: u64,
}

/// A progress update of a run that somebody waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Progress {
    pub run_id: RunId,
    pub agent: String,
    pub status: String,
    pub elapsed_ms: u64,
    /// The current activity in a line: `Read src/main.rs`, `$ cargo test`, the agent's last sentence, `asks: …`,
    /// `needs you: chief › fixer: …`
    pub activity: String,
    /// The activity is the end of `text_tail`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub activity_is_text: bool,
    /// The end of its text so far.
    pub text_tail: String,
    /// The open question of the run, otherwise of a run below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_answer: Option<Box<QuestionView>>,
}

/// A page of output. Invalid UTF-8 is replaced; the bytes themselves are in the run's directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OutputPage {
    pub text: String,
    pub next_offset: u64,
    /// The run has ended and this page reaches the end of the stream.
    pub complete: bool,
}

/// A page of events.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EventPage {
    pub run_id: RunId,
    pub events: Vec<Envelope>,
    pub next: LogCursor,
    /// How many lines of the log so far cannot be read.
    pub damaged_lines: u64,
    /// No event will follow.
    pub complete: bool,
    /// The choices (`AttemptStarted::choice`) whose program writes plain text for people and reports no events.
    pub plain_choices: Vec<u32>,
}
