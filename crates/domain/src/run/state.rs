//! Where a run stands: a fold over its events. Total: any prefix of any log gives a state.

use std::collections::BTreeMap;

use super::event::{CallClass, CallKind, CommandExit, Containment, Envelope, Event, Stream, WaitReason};
use super::{Asked, Branch, Changes, Conversation, Ending, OnDisconnect, OutcomeKind, Usage, Verification};
use crate::Timestamp;
use crate::id::{AgentName, RunId, SessionId};
use crate::permission::ToolKind;

/// The most text of an answer that a state keeps; the spool has the rest.
const SAID_MAX: usize = 256 << 10;
/// The most warnings that a state keeps.
const WARNINGS_MAX: usize = 64;
/// How much of what an earlier attempt said is kept, of its end.
const EARLIER_SAID_MAX: usize = 32 << 10;
/// More attempts than a run makes; a damaged log may tell of any number.
const ATTEMPTS_KEPT: usize = 64;
/// How many acceptance commands are remembered.
const ACCEPTANCE_KEPT: usize = 64;
/// How many uses of tools are kept of an attempt, and how much of each input.
const TOOLS_MAX: usize = 50;
/// How many models of one attempt are told apart; what further ones used belongs to none that anybody knows.
const PARTS_MAX: usize = 32;
const TOOL_INPUT_MAX: usize = 400;

/// Where in its life a run is.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Phase {
    #[default]
    Accepted,
    Running,
    Waiting(WaitReason),
    /// Asked to stop, not yet gone.
    Stopping,
    Ended(Box<Ending>),
}

/// A question of the run to a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    pub text: String,
    pub until: Timestamp,
    pub answer: Option<String>,
}

/// A call of a resumable loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub kind: CallKind,
    pub class: CallClass,
    pub name: String,
    pub input: serde_json::Value,
    /// `None` while the call is in flight, or in doubt after an interruption.
    pub completed: Option<(bool, String)>,
    pub in_doubt: bool,
    /// How much had been said and used when the call was requested: a repeated call begins again from there.
    pub before: Before,
}

/// What a run had said and used at some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Before {
    pub said_bytes: usize,
    pub usage: Usage,
}

/// An attempt to carry out the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempted {
    /// 0: the agent's own backend and model; others count its fallbacks from 1.
    pub choice: u32,
    pub backend: String,
    pub conversation: Conversation,
    pub asked: Asked,
    /// The vendor's name for the conversation.
    pub native: Option<SessionId>,
    /// A tool was used that may have changed something, or another run was started.
    pub acted: bool,
    /// What it said until the next attempt began; that of the last one is the state's own.
    pub said: String,
    /// The first tools that it used.
    pub tools: Vec<ToolUse>,
    pub usage: Usage,
    /// The same, by model.
    pub parts: Vec<Part>,
}

/// What one model used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// `None` while nobody has named it.
    pub model: Option<String>,
    pub usage: Usage,
}

/// The use of a tool, as far as a later attempt is told of it.
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

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    pub phase: Phase,
    pub epoch: u32,
    pub next_seq: u64,
    pub keeper_pid: Option<u32>,
    pub worker_pid: Option<u32>,
    pub agent_pid: Option<u32>,
    pub started_at: Option<Timestamp>,
    /// How long people were waited for, in all.
    pub paused_ms: u64,
    asked_at: Option<Timestamp>,
    /// When the disconnect of the door cancels the run.
    pub cancel_at: Option<Timestamp>,
    pub last_event_at: Option<Timestamp>,
    pub containment: Option<Containment>,
    pub said: String,
    /// How much more was said than is kept here.
    pub said_dropped_bytes: u64,
    pub calls: BTreeMap<u32, Call>,
    pub questions: BTreeMap<String, Question>,
    pub children: BTreeMap<RunId, ChildRun>,
    pub usage: Usage,
    pub warnings: Vec<String>,
    pub cancelled_by: Option<String>,
    pub session: Option<SessionId>,
    pub attempts: Vec<Attempted>,
    /// The model that answers, by the agent's own word.
    pub model: Option<String>,
    pub tools_called: u64,
    /// The answer that the agent handed in.
    pub submitted: Option<String>,
    /// The commands that were to confirm its success, as far as they were started.
    pub acceptance: Vec<Acceptance>,
    pub changes: Option<Changes>,
    pub worktree: Option<Worktree>,
    /// What the run did in a work tree of its own.
    pub branch: Option<Branch>,
}

/// A command that is to confirm the success of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    pub argv: Vec<String>,
    /// `None` while it runs, or if the run ended before it did.
    pub exit: Option<CommandExit>,
    pub duration_ms: u64,
    /// The end of what it wrote.
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

impl State {
    /// Folds a whole log.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Envelope>) -> Self {
        let mut state = Self::default();
        for envelope in events {
            state.apply(envelope);
        }
        state
    }

    /// Returns how much of the run's time its workers have used, without the waits for people.
    pub fn used_ms(&self) -> u64 {
        let (Some(started), Some(last)) = (self.started_at, self.last_event_at) else { return 0 };
        between(started, last).saturating_sub(self.paused_ms)
    }

    /// Returns what the run has said, with a mark where some of it is not kept.
    pub fn answer(&self) -> String {
        match self.said_dropped_bytes {
            0 => self.said.clone(),
            bytes => format!("{}\n[volery: {bytes} bytes omitted]\n", self.said),
        }
    }

    /// Says whether the success of a run that has ended was confirmed by all of these commands, or only claimed by its
    /// agent; nothing if there was no success.
    pub fn verification(&self, accept: &[Vec<String>]) -> Option<Verification> {
        let passed = |command: &Acceptance| command.exit == Some(CommandExit::Code(0));
        let all_passed = self.acceptance.len() == accept.len() && self.acceptance.iter().all(passed);
        match self.ending()?.outcome.kind() {
            OutcomeKind::Succeeded if !accept.is_empty() && all_passed => Some(Verification::Verified),
            OutcomeKind::Succeeded => Some(Verification::Claimed),
            // It ended early while its success was looked into.
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

    /// Takes one event in. A line of a stale writer or after the end changes nothing.
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
            Event::StopAsked { .. } => self.phase = Phase::Stopping,
            Event::CancelAsked { by, .. } => self.cancelled_by = Some(by.clone()),
            Event::AttemptBegan { .. }
            | Event::Used { .. }
            | Event::ModelNamed { .. }
            | Event::SessionNamed { .. }
            | Event::ToolCalled { .. }
            | Event::ToolReturned { .. } => self.apply_attempt(&envelope.event),
            Event::Said { text } => self.say(text),
            Event::Warned { message } => self.warn(message),
            Event::LimitPassed { detail, .. } => self.warn(detail),
            Event::ChildStarted { run, agent } => {
                self.children.insert(*run, ChildRun { agent: agent.clone(), outcome: None });
                if let Some(attempt) = self.attempts.last_mut() {
                    attempt.acted = true;
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
            Event::Asked { .. } | Event::Answered { .. } => {
                self.count_pause(envelope);
                self.apply_question(&envelope.event);
            }
            Event::DoorLeft { policy: OnDisconnect::Cancel { grace_ms } } => {
                let at = envelope.at.as_millisecond().saturating_add_unsigned(*grace_ms);
                self.cancel_at = Timestamp::from_millisecond(at).ok();
            }
            Event::OutputTruncated { stream, kept_bytes } => self.warn_of_truncation(*stream, *kept_bytes),
            Event::ResultSubmitted { .. }
            | Event::AcceptanceStarted { .. }
            | Event::AcceptanceEnded { .. }
            | Event::FilesChanged { .. }
            | Event::WorktreeBegun { .. }
            | Event::WorktreeEnded { .. } => self.apply_yield(&envelope.event),
            Event::DoorLeft { policy: OnDisconnect::Continue } => {}
        }
    }

    fn apply_attempt(&mut self, event: &Event) {
        match event {
            Event::AttemptBegan { choice, backend, conversation, asked, because, model: _ } => {
                // An answer is that of its own attempt. Only where a worker was lost it is the same one that goes on.
                if *asked != Asked::Resume {
                    let said = std::mem::take(&mut self.said);
                    self.said_dropped_bytes = 0;
                    self.submitted = None;
                    if let Some(before) = self.attempts.last_mut() {
                        before.said = crate::size::tail(&said, EARLIER_SAID_MAX).to_owned();
                    }
                }
                self.acceptance.clear();
                self.model = None;
                if self.phase == Phase::Stopping {
                    // It was the attempt before that was stopped.
                    self.phase = Phase::Running;
                }
                if !because.is_empty() {
                    self.warn(because);
                }
                if self.attempts.len() < ATTEMPTS_KEPT {
                    self.attempts.push(Attempted {
                        choice: *choice,
                        backend: backend.clone(),
                        conversation: *conversation,
                        asked: *asked,
                        native: None,
                        acted: false,
                        said: String::new(),
                        tools: Vec::new(),
                        usage: Usage::default(),
                        parts: Vec::new(),
                    });
                }
            }
            Event::Used { usage, model } => {
                self.usage.add(*usage);
                if let Some(attempt) = self.attempts.last_mut() {
                    attempt.usage.add(*usage);
                    attempt.add_part(model.as_ref().or(self.model.as_ref()), *usage);
                }
            }
            Event::ModelNamed { model } => {
                self.model = Some(model.clone());
                let parts = self.attempts.last_mut().map(|attempt| &mut attempt.parts);
                // A program that names its model late has used it before.
                for part in parts.into_iter().flatten().filter(|part| part.model.is_none()) {
                    part.model = Some(model.clone());
                }
            }
            Event::SessionNamed { session, native } => {
                self.session = Some(session.clone());
                if let Some(attempt) = self.attempts.last_mut() {
                    attempt.native = Some(native.as_ref().unwrap_or(session).clone());
                }
            }
            Event::ToolCalled { id, name, input } => {
                self.tools_called = self.tools_called.saturating_add(1);
                if let Some(attempt) = self.attempts.last_mut() {
                    attempt.use_tool(id, name, input);
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

    /// What the run brings forth beside its words.
    fn apply_yield(&mut self, event: &Event) {
        match event {
            Event::ResultSubmitted { text } => self.submitted = Some(text.clone()),
            Event::AcceptanceStarted { number, argv, pid: _ } => {
                // A worker that takes over begins again.
                self.acceptance.truncate(usize::try_from(*number).unwrap_or(usize::MAX));
                if self.acceptance.len() < ACCEPTANCE_KEPT {
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
            Event::WorktreeBegun { path, branch, origin, base } => {
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
            Event::CallRequested { call, kind, class, name, input } => {
                let before = match self.calls.get(call) {
                    // A call that completed once stays completed, whatever a later line says.
                    Some(known) if known.completed.is_some() => return,
                    // Calls are made one after the other, so all that was said and used since the request belongs to
                    // the try that was interrupted, and would count twice.
                    Some(known) => known.before,
                    None => Before { said_bytes: self.said.len(), usage: self.usage },
                };
                // A damaged log may have said other things meanwhile, so the place need not be the end of a character.
                self.said.truncate(crate::size::head(&self.said, before.said_bytes).len());
                self.usage = before.usage;
                let requested = Call {
                    kind: *kind,
                    class: *class,
                    name: name.clone(),
                    input: input.clone(),
                    completed: None,
                    in_doubt: false,
                    before,
                };
                self.calls.insert(*call, requested);
            }
            Event::CallCompleted { call, ok, output } => {
                if let Some(known) = self.calls.get_mut(call) {
                    known.completed.get_or_insert_with(|| (*ok, output.clone()));
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

    fn count_pause(&mut self, envelope: &Envelope) {
        if let Some(since) = self.asked_at.take() {
            self.paused_ms = self.paused_ms.saturating_add(between(since, envelope.at));
        }
        if matches!(envelope.event, Event::Asked { .. }) {
            self.asked_at = Some(envelope.at);
        }
    }

    fn apply_question(&mut self, event: &Event) {
        match event {
            Event::Asked { question, text, until } => {
                let asked = Question { text: text.clone(), until: *until, answer: None };
                self.questions.insert(question.to_string(), asked);
                let reason =
                    WaitReason::Answer { question: question.clone(), text: text.clone(), until: *until };
                self.phase = Phase::Waiting(reason);
            }
            Event::Answered { question, text, .. } => {
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

    fn say(&mut self, text: &str) {
        let room = SAID_MAX.saturating_sub(self.said.len());
        let kept = crate::size::head(text, room);
        self.said.push_str(kept);
        self.said_dropped_bytes = self.said_dropped_bytes.saturating_add((text.len() - kept.len()) as u64);
    }

    fn warn_of_truncation(&mut self, stream: Stream, kept_bytes: u64) {
        let name = match stream {
            Stream::Stdout => "standard output",
            Stream::Stderr => "the error stream",
        };
        let kept = crate::size::display_bytes(kept_bytes);
        self.warn(&format!("{name} was longer than the {kept} that are kept: its middle is missing"));
    }

    fn warn(&mut self, message: &str) {
        if self.warnings.len() < WARNINGS_MAX && !self.warnings.iter().any(|known| known == message) {
            self.warnings.push(message.to_owned());
        }
    }
}

impl Attempted {
    fn use_tool(&mut self, id: &str, name: &str, input: &serde_json::Value) {
        self.acted |= match ToolKind::named(name) {
            ToolKind::Read | ToolKind::Search | ToolKind::Fetch | ToolKind::WebSearch => false,
            ToolKind::Edit
            | ToolKind::Shell
            | ToolKind::Delegate
            | ToolKind::Mcp { .. }
            | ToolKind::Everything
            | ToolKind::Other(_) => true,
        };
        if self.tools.len() < TOOLS_MAX {
            let input = crate::size::head(&input.to_string(), TOOL_INPUT_MAX).to_owned();
            self.tools.push(ToolUse { id: id.to_owned(), name: name.to_owned(), input, ok: None });
        }
    }

    fn add_part(&mut self, model: Option<&String>, usage: Usage) {
        let rest = String::new();
        let known = |model: Option<&String>| self.parts.iter().position(|part| part.model.as_ref() == model);
        let full = self.parts.len() >= PARTS_MAX && known(model).is_none();
        let model = if full { Some(&rest) } else { model };
        match known(model) {
            Some(at) => self.parts[at].usage.add(usage),
            None => self.parts.push(Part { model: model.cloned(), usage }),
        }
    }
}

fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millisecond().saturating_sub(from.as_millisecond())).unwrap_or(0)
}
