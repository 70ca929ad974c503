//! The state of a run: a fold over its events. Total: any prefix of any log gives a state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::event::{
    CallBody, CallClass, CallDetails, CallKind, CommandExit, Containment, Envelope, Event, StdStream,
    WaitReason,
};
use super::{
    Branch, Changes, ConversationKind, Denial, Ending, OnDisconnect, OutcomeKind, PromptKind, Usage,
    Verification,
};
use crate::Timestamp;
use crate::id::{AgentName, RunId, SessionId};
use crate::permission::{Rule, ToolKind};

/// The most text of an answer that a state stores; the spool has the rest.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// The most warnings that a state stores.
const WARNINGS_MAX: usize = 64;
/// The most denials that a state stores, and rules that a person granted.
const RECORDED_DENIALS_MAX: usize = 100;
const GRANTED_RULES_MAX: usize = 100;
/// How much of the end of an earlier attempt's answer is stored.
const EARLIER_ANSWER_BYTES_MAX: usize = 32 << 10;
/// More attempts than a run makes; a damaged log may contain any number.
const RECORDED_ATTEMPTS_MAX: usize = 64;
/// How many acceptance commands are stored.
const ACCEPTANCE_COMMANDS_MAX: usize = 64;
/// How many tool calls of an attempt are stored, and how much of each input.
const TOOLS_MAX: usize = 50;
/// How many models of one attempt are distinguished; the usage of further ones is summed up without a model.
const MODELS_MAX: usize = 32;
const TOOL_INPUT_MAX: usize = 400;

/// The phase of a run's life.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Phase {
    #[default]
    Accepted,
    Running,
    Waiting(WaitReason),
    /// Requested to stop, not yet gone.
    Stopping,
    Ended(Box<Ending>),
}

/// A question of the run to a person.
#[derive(Debug, Clone, PartialEq)]
pub struct RunQuestion {
    pub text: String,
    pub until: Timestamp,
    pub answer: Option<String>,
}

/// A call of a resumable loop.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopCall {
    pub kind: CallKind,
    pub class: CallClass,
    pub name: String,
    pub input: serde_json::Value,
    /// `None` while the call is in flight, or in doubt after an interruption.
    pub completed: Option<(bool, String)>,
    pub in_doubt: bool,
    /// The progress when the call was requested: a repeated call starts again from there. Absent for a call with a
    /// turn, which has its usage in its own completion.
    pub before: Option<ProgressMark>,
    /// As in the event.
    pub turn: Option<u32>,
    /// The file with the whole answer or output.
    pub body: Option<CallBody>,
}

/// A run's output and usage at some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgressMark {
    pub answer_bytes: usize,
    pub usage: Usage,
}

/// An attempt to carry out the run.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptState {
    /// 0: the agent's own backend and model; others are its fallbacks, from 1.
    pub choice: u32,
    pub backend: String,
    pub conversation: ConversationKind,
    pub prompt_kind: PromptKind,
    /// The vendor's session id.
    pub vendor_session: Option<SessionId>,
    /// A tool was used that may have changed something, or another run was started.
    pub had_side_effects: bool,
    /// The answer until the next attempt began; that of the last attempt is in the state.
    pub answer_text: String,
    /// The first tools that it used.
    pub tools: Vec<ToolUse>,
    pub usage: Usage,
    /// The usage by model.
    pub usage_by_model: Vec<ModelUsage>,
}

/// The usage of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelUsage {
    /// `None` until it is reported.
    pub model: Option<String>,
    pub usage: Usage,
}

/// A tool call, as later attempts see it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUse {
    pub id: String,
    pub name: String,
    /// The beginning of its input.
    pub input: String,
    /// `None` while it is not known whether it worked.
    pub ok: Option<bool>,
}

/// A child run as its parent knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildRun {
    pub agent: AgentName,
    pub outcome: Option<OutcomeKind>,
}

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunState {
    pub phase: Phase,
    pub epoch: u32,
    pub next_seq: u64,
    pub keeper_pid: Option<u32>,
    pub worker_pid: Option<u32>,
    pub agent_pid: Option<u32>,
    pub started_at: Option<Timestamp>,
    /// The total time of waiting for people.
    pub paused_ms: u64,
    question_since: Option<Timestamp>,
    /// When the disconnect of the client cancels the run.
    pub cancel_at: Option<Timestamp>,
    pub last_event_at: Option<Timestamp>,
    pub containment: Option<Containment>,
    pub answer_text: String,
    /// How many more bytes the answer had than are stored here.
    pub answer_dropped_bytes: u64,
    pub calls: BTreeMap<u32, LoopCall>,
    pub questions: BTreeMap<String, RunQuestion>,
    pub children: BTreeMap<RunId, ChildRun>,
    pub usage: Usage,
    pub warnings: Vec<String>,
    /// The first distinct denials.
    pub denials: Vec<Denial>,
    /// How often the agent was denied something.
    pub denials_count: u64,
    /// Rules that a person granted for the rest of the run.
    pub granted_rules: Vec<Rule>,
    /// The first request to cancel the run.
    pub cancellation: Option<Cancellation>,
    pub session: Option<SessionId>,
    pub attempts: Vec<AttemptState>,
    /// The model, as the agent reported it.
    pub model: Option<String>,
    pub tools_called: u64,
    /// The answer that the agent submitted.
    pub submitted: Option<String>,
    /// The acceptance commands that were started.
    pub acceptance: Vec<Acceptance>,
    pub changes: Option<Changes>,
    pub worktree: Option<Worktree>,
    /// The branch with the run's changes, if it had a work tree of its own.
    pub branch: Option<Branch>,
}

/// Who cancelled a run, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancellation {
    pub by: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// An acceptance command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    pub argv: Vec<String>,
    /// `None` while it runs, or if the run ended before it did.
    pub exit: Option<CommandExit>,
    pub duration_ms: u64,
    /// The end of its output.
    pub output: String,
}

/// A run's own work tree, for as long as it may be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    pub path: String,
    pub branch: String,
    pub origin: String,
    pub base: String,
}

impl RunState {
    /// Folds a whole log.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Envelope>) -> Self {
        let mut state = Self::default();
        for envelope in events {
            state.apply(envelope);
        }
        state
    }

    /// Returns the time that the run's workers have used, without the waits for people.
    pub fn used_ms(&self) -> u64 {
        let (Some(started), Some(last)) = (self.started_at, self.last_event_at) else { return 0 };
        milliseconds_between(started, last).saturating_sub(self.paused_ms)
    }

    /// Returns the answer, with a mark if some of it is not stored.
    pub fn answer(&self) -> String {
        match self.answer_dropped_bytes {
            0 => self.answer_text.clone(),
            bytes => format!("{}\n[volery: {bytes} bytes omitted]\n", self.answer_text),
        }
    }

    /// Returns whether all of these commands confirmed the success of a run that has ended, or only its agent claims
    /// it; `None` without a success.
    pub fn verification(&self, accept: &[Vec<String>]) -> Option<Verification> {
        let passed = |command: &Acceptance| command.exit == Some(CommandExit::Code(0));
        let all_passed = self.acceptance.len() == accept.len() && self.acceptance.iter().all(passed);
        match self.ending()?.outcome.kind() {
            OutcomeKind::Succeeded if !accept.is_empty() && all_passed => Some(Verification::Verified),
            OutcomeKind::Succeeded => Some(Verification::Claimed),
            // It ended early while its acceptance commands ran.
            OutcomeKind::Partial if !self.acceptance.is_empty() => Some(Verification::Claimed),
            OutcomeKind::Partial
            | OutcomeKind::Failed
            | OutcomeKind::TimedOut
            | OutcomeKind::Cancelled
            | OutcomeKind::OverBudget
            | OutcomeKind::Refused
            | OutcomeKind::Interrupted => None,
        }
    }

    pub fn ending(&self) -> Option<&Ending> {
        match &self.phase {
            Phase::Ended(ending) => Some(ending),
            Phase::Accepted | Phase::Running | Phase::Waiting(_) | Phase::Stopping => None,
        }
    }

    /// Applies one event. A line of a stale writer or after the end changes nothing.
    pub fn apply(&mut self, envelope: &Envelope) {
        let stale = envelope.epoch < self.epoch || envelope.seq < self.next_seq;
        if stale || self.ending().is_some() {
            return;
        }
        self.epoch = envelope.epoch;
        self.next_seq = envelope.seq.saturating_add(1);
        self.last_event_at = Some(envelope.at);
        match &envelope.event {
            Event::Claimed { keeper_pid, worker_pid, .. } => {
                self.keeper_pid = Some(*keeper_pid);
                self.worker_pid = Some(*worker_pid);
                self.agent_pid = None;
                if *worker_pid != 0 {
                    self.started_at.get_or_insert(envelope.at);
                }
                self.phase = Phase::Running;
            }
            Event::Queued { .. } => self.phase = Phase::Waiting(WaitReason::Slot),
            Event::SessionAwaited { session } => {
                self.phase = Phase::Waiting(WaitReason::Session { session: session.clone() });
            }
            Event::SlotTaken { .. } => self.phase = Phase::Running,
            Event::AgentStarted { pid, containment, .. } => {
                self.agent_pid = Some(*pid);
                self.containment = Some(containment.clone());
                self.started_at.get_or_insert(envelope.at);
            }
            Event::Ended { ending } => self.phase = Phase::Ended(ending.clone()),
            Event::StopRequested { .. } => self.phase = Phase::Stopping,
            Event::CancelRequested { by, reason } => {
                let request = || Cancellation { by: by.clone(), reason: reason.clone() };
                self.cancellation.get_or_insert_with(request);
            }
            Event::AttemptStarted { .. }
            | Event::UsageReported { .. }
            | Event::ModelReported { .. }
            | Event::SessionReported { .. }
            | Event::ToolCalled { .. }
            | Event::ToolReturned { .. } => self.apply_attempt(&envelope.event),
            Event::AnswerAppended { text } => self.append_answer(text),
            Event::Warned { message } => self.warn(message),
            Event::ToolDenied { denial } => self.count_denial(denial),
            Event::LimitExceeded { detail, .. } => self.warn(detail),
            Event::ChildStarted { run, agent } => {
                self.children.insert(*run, ChildRun { agent: agent.clone(), outcome: None });
                if let Some(attempt) = self.attempts.last_mut() {
                    attempt.had_side_effects = true;
                }
            }
            Event::ChildEnded { run, outcome } => {
                if let Some(child) = self.children.get_mut(run) {
                    child.outcome = Some(*outcome);
                }
            }
            Event::CallRequested { .. } | Event::CallCompleted { .. } | Event::CallInDoubt { .. } => {
                self.apply_call(&envelope.event);
            }
            Event::QuestionRaised { .. } | Event::QuestionAnswered { .. } => {
                self.count_pause(envelope);
                self.apply_question(&envelope.event);
            }
            Event::ClientDisconnected { policy: OnDisconnect::Cancel { grace_ms } } => {
                let at = envelope.at.as_millisecond().saturating_add_unsigned(*grace_ms);
                self.cancel_at = Timestamp::from_millisecond(at).ok();
            }
            Event::OutputTruncated { stream, retained_bytes } => {
                self.warn_of_truncation(*stream, *retained_bytes)
            }
            Event::ResultSubmitted { .. }
            | Event::AcceptanceStarted { .. }
            | Event::AcceptanceEnded { .. }
            | Event::FilesChanged { .. }
            | Event::WorktreeCreated { .. }
            | Event::WorktreeEnded { .. } => self.apply_result(&envelope.event),
            Event::ClientDisconnected { policy: OnDisconnect::Continue } => {}
        }
    }

    fn apply_attempt(&mut self, event: &Event) {
        match event {
            Event::AttemptStarted { choice, backend, conversation, prompt_kind, reason, model: _ } => {
                // Each attempt has its own answer. Only after a lost worker the same attempt continues.
                if *prompt_kind != PromptKind::Resume {
                    let answer = std::mem::take(&mut self.answer_text);
                    self.answer_dropped_bytes = 0;
                    self.submitted = None;
                    if let Some(before) = self.attempts.last_mut() {
                        before.answer_text = crate::size::tail(&answer, EARLIER_ANSWER_BYTES_MAX).to_owned();
                    }
                }
                self.acceptance.clear();
                self.model = None;
                if self.phase == Phase::Stopping {
                    // Only the previous attempt was stopped.
                    self.phase = Phase::Running;
                }
                if !reason.is_empty() {
                    self.warn(reason);
                }
                if self.attempts.len() < RECORDED_ATTEMPTS_MAX {
                    self.attempts.push(AttemptState {
                        choice: *choice,
                        backend: backend.clone(),
                        conversation: *conversation,
                        prompt_kind: *prompt_kind,
                        vendor_session: None,
                        had_side_effects: false,
                        answer_text: String::new(),
                        tools: Vec::new(),
                        usage: Usage::default(),
                        usage_by_model: Vec::new(),
                    });
                }
            }
            Event::UsageReported { usage, model } => {
                self.usage.add(*usage);
                if let Some(attempt) = self.attempts.last_mut() {
                    attempt.usage.add(*usage);
                    attempt.add_model_usage(model.as_ref().or(self.model.as_ref()), *usage);
                }
            }
            Event::ModelReported { model } => {
                self.model = Some(model.clone());
                let usage_by_model = self.attempts.last_mut().map(|attempt| &mut attempt.usage_by_model);
                // A program that reports its model late has used it before.
                for model_usage in
                    usage_by_model.into_iter().flatten().filter(|model_usage| model_usage.model.is_none())
                {
                    model_usage.model = Some(model.clone());
                }
            }
            Event::SessionReported { session, vendor_session } => {
                self.session = Some(session.clone());
                if let Some(attempt) = self.attempts.last_mut() {
                    attempt.vendor_session = Some(vendor_session.as_ref().unwrap_or(session).clone());
                }
            }
            Event::ToolCalled { id, name, input } => {
                self.tools_called = self.tools_called.saturating_add(1);
                if let Some(attempt) = self.attempts.last_mut() {
                    attempt.add_tool_use(id, name, input);
                }
            }
            Event::ToolReturned { id, ok, .. } => {
                let tools = self.attempts.last_mut().map(|attempt| &mut attempt.tools);
                if let Some(tool) = tools.and_then(|tools| tools.iter_mut().rfind(|tool| tool.id == *id)) {
                    tool.ok = Some(*ok);
                }
            }
            _ => {}
        }
    }

    /// Applies the events about results other than the answer text.
    fn apply_result(&mut self, event: &Event) {
        match event {
            Event::ResultSubmitted { text } => self.submitted = Some(text.clone()),
            Event::AcceptanceStarted { number, argv, pid: _ } => {
                // A worker that takes over starts again.
                self.acceptance.truncate(usize::try_from(*number).unwrap_or(usize::MAX));
                if self.acceptance.len() < ACCEPTANCE_COMMANDS_MAX {
                    let output = String::new();
                    self.acceptance.push(Acceptance {
                        argv: argv.clone(),
                        exit: None,
                        duration_ms: 0,
                        output,
                    });
                }
            }
            Event::AcceptanceEnded { number, exit, duration_ms, output } => {
                let number = usize::try_from(*number).unwrap_or(usize::MAX);
                if let Some(command) = self.acceptance.get_mut(number) {
                    command.exit = Some(exit.clone());
                    command.duration_ms = *duration_ms;
                    command.output.clone_from(output);
                }
            }
            Event::FilesChanged { changes } => self.changes = Some(changes.clone()),
            Event::WorktreeCreated { path, branch, origin, base } => {
                self.worktree = Some(Worktree {
                    path: path.clone(),
                    branch: branch.clone(),
                    origin: origin.clone(),
                    base: base.clone(),
                });
            }
            Event::WorktreeEnded { branch } => {
                self.worktree = None;
                self.branch.clone_from(branch);
            }
            _ => {}
        }
    }

    fn apply_call(&mut self, event: &Event) {
        match event {
            Event::CallRequested { call, kind, class, name, input, turn, verdict: _ } => {
                let known = self.calls.get(call);
                // A call that completed once stays completed, whatever a later line contains.
                if known.is_some_and(|known| known.completed.is_some()) {
                    return;
                }
                if turn.is_some() && known.is_none() {
                    self.count_tool_call(*kind, *class);
                }
                let before = match (turn, self.calls.get(call).and_then(|known| known.before)) {
                    (Some(_), _) => None,
                    // Calls without a turn are made one after the other, so all output and usage since the request
                    // belongs to the interrupted try, and would count twice.
                    (None, Some(before)) => Some(before),
                    (None, None) => {
                        Some(ProgressMark { answer_bytes: self.answer_text.len(), usage: self.usage })
                    }
                };
                if let Some(before) = before {
                    // A damaged log may contain other text in between, so the offset need not be a character boundary.
                    let fitting = crate::size::head(&self.answer_text, before.answer_bytes).len();
                    self.answer_text.truncate(fitting);
                    self.usage = before.usage;
                }
                let requested = LoopCall {
                    kind: *kind,
                    class: *class,
                    name: name.clone(),
                    input: input.clone(),
                    completed: None,
                    in_doubt: false,
                    before,
                    turn: *turn,
                    body: None,
                };
                self.calls.insert(*call, requested);
            }
            Event::CallCompleted { call, ok, output, details } => {
                let Some(known) = self.calls.get_mut(call).filter(|known| known.completed.is_none()) else {
                    return;
                };
                known.completed = Some((*ok, output.clone()));
                if let Some(CallDetails { usage, model, body }) = details.as_deref() {
                    known.body.clone_from(body);
                    self.add_call_usage(*usage, model.as_ref());
                }
            }
            Event::CallInDoubt { call } => {
                if let Some(known) = self.calls.get_mut(call) {
                    known.in_doubt = true;
                }
            }
            _ => {}
        }
    }

    /// Counts a tool call of an agent loop, as `ToolCalled` counts those of a vendor's program.
    fn count_tool_call(&mut self, kind: CallKind, class: CallClass) {
        if kind == CallKind::Tool {
            self.tools_called = self.tools_called.saturating_add(1);
        }
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.had_side_effects |= class != CallClass::Pure;
        }
    }

    fn add_call_usage(&mut self, usage: Option<Usage>, model: Option<&String>) {
        if let Some(model) = model {
            self.model = Some(model.clone());
        }
        let Some(usage) = usage else { return };
        self.usage.add(usage);
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.usage.add(usage);
            attempt.add_model_usage(model, usage);
        }
    }

    fn count_pause(&mut self, envelope: &Envelope) {
        if let Some(since) = self.question_since.take() {
            self.paused_ms = self.paused_ms.saturating_add(milliseconds_between(since, envelope.at));
        }
        if matches!(envelope.event, Event::QuestionRaised { .. }) {
            self.question_since = Some(envelope.at);
        }
    }

    fn apply_question(&mut self, event: &Event) {
        match event {
            Event::QuestionRaised { question, text, until, allow_rules } => {
                let new_question = RunQuestion { text: text.clone(), until: *until, answer: None };
                self.questions.insert(question.to_string(), new_question);
                let reason = WaitReason::Answer {
                    question: question.clone(),
                    text: text.clone(),
                    until: *until,
                    allow_rules: allow_rules.clone(),
                };
                self.phase = Phase::Waiting(reason);
            }
            Event::QuestionAnswered { question, text, granted_rules, .. } => {
                let rules = granted_rules.iter().filter_map(|rule| rule.parse().ok());
                self.granted_rules
                    .extend(rules.take(GRANTED_RULES_MAX.saturating_sub(self.granted_rules.len())));
                if let Some(known) = self.questions.get_mut(question.as_str()) {
                    known.answer.get_or_insert_with(|| text.clone());
                }
                if matches!(self.phase, Phase::Waiting(_)) {
                    self.phase = Phase::Running;
                }
            }
            _ => {}
        }
    }

    fn append_answer(&mut self, text: &str) {
        let room = ANSWER_BYTES_MAX.saturating_sub(self.answer_text.len());
        let fitting = crate::size::head(text, room);
        self.answer_text.push_str(fitting);
        self.answer_dropped_bytes =
            self.answer_dropped_bytes.saturating_add((text.len() - fitting.len()) as u64);
    }

    fn warn_of_truncation(&mut self, stream: StdStream, retained_bytes: u64) {
        let name = match stream {
            StdStream::Stdout => "standard output",
            StdStream::Stderr => "the error stream",
        };
        let retained = crate::size::display_bytes(retained_bytes);
        self.warn(&format!("{name} was longer than the {retained} that are kept: its middle is missing"));
    }

    fn count_denial(&mut self, denial: &Denial) {
        self.denials_count = self.denials_count.saturating_add(1);
        if self.denials.len() < RECORDED_DENIALS_MAX && !self.denials.contains(denial) {
            self.denials.push(denial.clone());
        }
    }

    fn warn(&mut self, message: &str) {
        if self.warnings.len() < WARNINGS_MAX && !self.warnings.iter().any(|known| known == message) {
            self.warnings.push(message.to_owned());
        }
    }
}

impl AttemptState {
    fn add_tool_use(&mut self, id: &str, name: &str, input: &serde_json::Value) {
        self.had_side_effects |= match ToolKind::from_name(name) {
            ToolKind::Read | ToolKind::Search | ToolKind::Fetch | ToolKind::WebSearch => false,
            ToolKind::Edit
            | ToolKind::Shell
            | ToolKind::Delegate
            | ToolKind::Mcp { .. }
            | ToolKind::Env
            | ToolKind::Everything
            | ToolKind::Other(_) => true,
        };
        if self.tools.len() < TOOLS_MAX {
            let input = crate::size::head(&input.to_string(), TOOL_INPUT_MAX).to_owned();
            self.tools.push(ToolUse { id: id.to_owned(), name: name.to_owned(), input, ok: None });
        }
    }

    fn add_model_usage(&mut self, model: Option<&String>, usage: Usage) {
        let rest = String::new();
        let known = |model: Option<&String>| {
            self.usage_by_model.iter().position(|model_usage| model_usage.model.as_ref() == model)
        };
        let full = self.usage_by_model.len() >= MODELS_MAX && known(model).is_none();
        let model = if full { Some(&rest) } else { model };
        match known(model) {
            Some(at) => self.usage_by_model[at].usage.add(usage),
            None => self.usage_by_model.push(ModelUsage { model: model.cloned(), usage }),
        }
    }
}

fn milliseconds_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millisecond().saturating_sub(from.as_millisecond())).unwrap_or(0)
}
