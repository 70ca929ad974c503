//! Shows runs: one with all that is known, a page of its output, and orders to it.

use std::sync::Arc;

use domain::id::QuestionId;
use domain::run::{Acceptance, Asked, CommandExit, Ending, Phase, RunSpec, State, Stream, WaitReason};
use journal::inbox::{self, InboxAnswer, Letter, Posted};
use journal::result::read_result;
use journal::{RunDir, SpoolReader};

use super::engine::{Engine, Scope, store_error};
use super::honour;
use super::wait::RESULT_INLINE_BYTES;
use super::{
    AcceptanceView, Answer, Answered, AppError, Cancel, CancelTarget, Cancelled, CancelledRun, ChildView,
    GetRun, OutputPage, ReadOutput, RunDetail, RunView, WaitingView,
};
use crate::{clock, sockets, worker};

/// The most events in one page.
const EVENTS_MAX: usize = 1_000;
/// How much of what a run has said so far is shown.
const PARTIAL_BYTES: usize = 4 << 10;
/// Without output for this long a run is shown as stalled.
const STALLED_MS: i64 = 120_000;

impl Engine {
    pub(super) async fn get_run(self: &Arc<Self>, ask: GetRun) -> Result<RunDetail, AppError> {
        let dir = self.find(&ask.run)?;
        self.off_loop(move |engine| {
            let (_, obstacle) = engine.glance(&dir)?;
            let mut run = engine.view(&dir, ask.result_offset, ask.result_max)?;
            run.warnings.extend(obstacle);
            let (events, next_event) = match ask.events_from {
                Some(from) => events(&dir, from, ask.events_max.clamp(1, EVENTS_MAX))?,
                None => (Vec::new(), None),
            };
            Ok(RunDetail { run, events, next_event })
        })
        .await
    }

    /// Returns a run as it is shown, with a page of its result.
    pub(super) fn view(&self, dir: &RunDir, offset: u64, max: u64) -> Result<RunView, AppError> {
        let spec = dir.read_spec().map_err(store_error)?;
        self.view_of(dir, &spec, (offset, max))
    }

    /// Returns the same of a run whose spec is known.
    pub(super) fn view_of(
        &self,
        dir: &RunDir,
        spec: &RunSpec,
        (offset, max): (u64, u64),
    ) -> Result<RunView, AppError> {
        let (state, damaged) = journal::read_state(dir).map_err(store_error)?;
        let view = self.view_in(dir, spec, &state, (offset, max))?;
        Ok(RunView { damaged_lines: damaged, ..view })
    }

    /// Returns the same of a run whose state is known too.
    pub(super) fn view_in(
        &self,
        dir: &RunDir,
        spec: &RunSpec,
        state: &State,
        page: (u64, u64),
    ) -> Result<RunView, AppError> {
        let mut view = outline(spec, state, self.status(spec, state));
        match &state.phase {
            Phase::Ended(ending) => add_end(&mut view, dir, spec, (state, ending), page)?,
            Phase::Accepted | Phase::Running | Phase::Waiting(_) | Phase::Stopping => {
                let said = if !state.said.is_empty() {
                    Ok(domain::size::tail(&state.said, PARTIAL_BYTES).to_owned())
                } else if worker::writes_for_people(spec, state) {
                    SpoolReader::new(dir, Stream::Stdout).tail(PARTIAL_BYTES).map(|bytes| lossy(&bytes))
                } else {
                    // A protocol between programs is not what the agent said.
                    Ok(String::new())
                };
                view.partial = said.ok().filter(|text| !text.is_empty());
                let last = last_sign(dir, state);
                view.stalled = last.is_some_and(|at| clock::now().as_millisecond() - at > STALLED_MS);
            }
        }
        Ok(view)
    }

    /// Returns status, explanation, and what is waited for.
    pub(super) fn status(&self, spec: &RunSpec, state: &State) -> (String, String, Option<WaitingView>) {
        let plain = |status: &str, text: &str| (status.to_owned(), text.to_owned(), None);
        match &state.phase {
            Phase::Accepted => plain("accepted", "accepted, not yet started"),
            Phase::Running => plain("running", "running"),
            Phase::Stopping => plain("stopping", "asked to stop, not yet gone"),
            Phase::Waiting(WaitReason::Slot) => {
                let position = journal::slots::position(self.home.path(), spec.id).unwrap_or(1);
                let text = format!("waiting for a slot, at position {position} of the queue");
                ("waiting".to_owned(), text, Some(WaitingView::Slot { position }))
            }
            Phase::Waiting(WaitReason::Session { session }) => {
                let text = format!("waiting for the session {session}, which another run has");
                ("waiting".to_owned(), text, Some(WaitingView::Session { session: session.to_string() }))
            }
            Phase::Waiting(WaitReason::Answer { question, .. }) if self.is_answered(spec, question) => {
                plain("running", "answered, about to go on")
            }
            // It is denied as soon as it is on record.
            Phase::Waiting(WaitReason::Answer { .. }) if spec.unattended.is_some() => {
                plain("running", "denied a question, since nobody can answer")
            }
            Phase::Waiting(WaitReason::Answer { question, text, until }) => {
                let waiting = WaitingView::Answer {
                    question: question.to_string(),
                    text: text.clone(),
                    until: until.to_string(),
                };
                ("waiting".to_owned(), format!("waiting for an answer: {text}"), Some(waiting))
            }
            Phase::Ended(ending) => ended_status(ending),
        }
    }

    /// Tells whether there is an answer that the worker has not taken yet: whoever gave it is not asked again.
    fn is_answered(&self, spec: &RunSpec, question: &QuestionId) -> bool {
        matches!(inbox::read_answer(&self.home.run_dir(spec.id), question), Letter::Valid(_))
    }

    pub(super) async fn cancel(self: &Arc<Self>, ask: Cancel) -> Result<Cancelled, AppError> {
        let dirs = match &ask.target {
            CancelTarget::Run(typed) => vec![self.find(typed)?],
            CancelTarget::Session(session) => self.open_runs_of_session(session)?,
        };
        let mut runs = Vec::new();
        for dir in dirs {
            let spec = self.look(&dir)?;
            let effect = if dir.ending().map_err(store_error)?.is_some() {
                "already_ended"
            } else {
                let posted = inbox::post_cancel(&dir, &ask.order).map_err(store_error)?;
                sockets::nudge(&sockets::path(&self.home, spec.tag));
                match posted {
                    Posted::First => "asked",
                    Posted::AlreadyThere => "already_asked",
                }
            };
            runs.push(CancelledRun { run_id: dir.id(), effect: effect.to_owned() });
        }
        Ok(Cancelled { runs })
    }

    fn open_runs_of_session(&self, session: &str) -> Result<Vec<RunDir>, AppError> {
        let open = self.home.open_runs().map_err(store_error)?;
        let dirs = open.into_iter().map(|id| self.home.run_dir(id));
        let of_session = |dir: &RunDir| {
            dir.read_spec().is_ok_and(|spec| spec.continued().is_some_and(|known| known.as_str() == session))
                && self.may_see(dir)
        };
        Ok(dirs.filter(of_session).collect())
    }

    pub(super) async fn answer(self: &Arc<Self>, ask: Answer) -> Result<Answered, AppError> {
        if let Scope::Within(_) = &self.scope {
            return Err(AppError::denied("questions are answered by people, never from inside a run"));
        }
        if ask.text.as_deref().is_some_and(|text| text.trim().is_empty()) {
            // A pipe that failed must not approve anything.
            let hint = "give the answer in words, or approve or deny without any";
            return Err(AppError::usage("the answer is empty").hint(hint));
        }
        let dir = self.find(&ask.run)?;
        let spec = self.look(&dir)?;
        let (state, _) = journal::read_state(&dir).map_err(store_error)?;
        let Phase::Waiting(WaitReason::Answer { question, .. }) = &state.phase else {
            let (_, explanation, _) = self.status(&spec, &state);
            let message = format!("the run {} waits for no answer: {explanation}", spec.id.short());
            return Err(AppError::usage(message));
        };
        if ask.question.as_deref().is_some_and(|asked| asked != question.as_str()) {
            return Err(AppError::not_found(format!("the open question of this run is {question}")));
        }
        let Answer { allow, text, by, .. } = ask;
        let Some(allow) = allow.or_else(|| (!question.is_permission()).then_some(true)) else {
            let message = format!("the run {} asks whether it may do something", spec.id.short());
            return Err(AppError::usage(message).hint("words alone do not decide that: approve or deny it"));
        };
        let answer = InboxAnswer { allow, text: text.unwrap_or_default(), by, at: clock::now() };
        match inbox::post_answer(&dir, question, &answer).map_err(store_error)? {
            Posted::First => {}
            Posted::AlreadyThere => {
                let message =
                    format!("the question {question} of the run {} was answered already", spec.id.short());
                return Err(AppError::usage(message).hint("the first answer counts"));
            }
        }
        sockets::nudge(&sockets::path(&self.home, spec.tag));
        Ok(Answered { run_id: spec.id, question: question.to_string() })
    }

    pub(super) fn read_output(&self, ask: &ReadOutput) -> Result<OutputPage, AppError> {
        let dir = self.find(&ask.run)?;
        self.glance(&dir)?;
        let ended = dir.ending().map_err(store_error)?.is_some();
        let spool = SpoolReader::new(&dir, ask.stream);
        if ask.stream == Stream::Stdout && spool.total_bytes().map_err(store_error)? == 0 {
            // A loop has no process that writes: what it says is in its events.
            let (state, _) = journal::read_state(&dir).map_err(store_error)?;
            return Ok(page_of(&state.answer(), ask, ended));
        }
        let page = spool.read(ask.offset, ask.max).map_err(store_error)?;
        let complete = ended && page.next_offset >= spool.total_bytes().map_err(store_error)?;
        Ok(OutputPage { text: lossy(&page.render()), next_offset: page.next_offset, complete })
    }
}

/// Returns a run that has ended, as a door shows it. For its worker, which holds the state of the whole log.
pub fn ended_view(dir: &RunDir, spec: &RunSpec, state: &State, damaged: u64) -> Result<RunView, AppError> {
    let Some(ending) = state.ending() else {
        return Err(AppError::internal(format!("the run {} has not ended", spec.id.short())));
    };
    let mut view = outline(spec, state, ended_status(ending));
    view.damaged_lines = damaged;
    add_end(&mut view, dir, spec, (state, ending), (0, RESULT_INLINE_BYTES))?;
    Ok(view)
}

fn ended_status(ending: &Ending) -> (String, String, Option<WaitingView>) {
    (ending.outcome.kind().to_string(), ending.explanation(), None)
}

/// Returns what spec and state say, without the result.
fn outline(
    spec: &RunSpec,
    state: &State,
    (status, explanation, waiting): (String, String, Option<WaitingView>),
) -> RunView {
    let since = state.started_at.unwrap_or(spec.created_at);
    let so_far = clock::now().as_millisecond() - since.as_millisecond();
    let last = state.last_event_at.map(|at| at.to_string());
    let child = |(id, child): (&domain::id::RunId, &domain::run::ChildRun)| ChildView {
        run_id: *id,
        agent: child.agent.to_string(),
        status: child.outcome.map_or("running", |outcome| outcome.as_str()).to_owned(),
    };
    RunView {
        run_id: spec.id,
        short_id: spec.id.short(),
        agent: spec.agent.to_string(),
        backend: backend_of(spec, state),
        status,
        ended: state.ending().is_some(),
        outcome: state.ending().map(|ending| ending.outcome.clone()),
        explanation,
        waiting,
        result: None,
        result_bytes: 0,
        result_next_offset: None,
        partial: None,
        stalled: false,
        created_at: spec.created_at.to_string(),
        started_at: state.started_at.map(|at| at.to_string()),
        ended_at: state.ending().and(last),
        duration_ms: u64::try_from(so_far).unwrap_or(0),
        usage: state.usage,
        exit_code: None,
        stderr_tail: String::new(),
        directory: spec.directory.clone(),
        project: spec.project.clone(),
        caller: spec.caller.name.clone(),
        grants: spec.grants.clone(),
        level: spec.setup.permission.level,
        unattended: spec.unattended.clone(),
        model: state.model.clone(),
        structured: state.ending().and_then(|ending| ending.structured.clone()),
        repaired: state.ending().is_some_and(|ending| ending.repaired),
        verification: state.verification(&spec.setup.accept),
        acceptance: state.acceptance.iter().map(|command| acceptance(command, state)).collect(),
        session: session_of(spec, state),
        attempts: attempts_of(state),
        parent: spec.parent,
        children: state.children.iter().map(child).collect(),
        warnings: spec.warnings.iter().chain(&state.warnings).cloned().collect(),
        inherit: spec.setup.inherit.clone(),
        changes: state.changes.clone(),
        branch: state.branch.clone(),
        containment: state.containment.clone(),
        damaged_lines: 0,
    }
}

/// Returns the backend that carries out the run, or did so last.
fn backend_of(spec: &RunSpec, state: &State) -> String {
    state.attempts.last().map_or_else(|| spec.backend.name.to_string(), |attempt| attempt.backend.clone())
}

/// Returns the session that a later run can continue: a backend that keeps none begins one with the run's own id.
pub(super) fn session_of(spec: &RunSpec, state: &State) -> Option<String> {
    let named = state.session.as_ref().or(spec.continued()).map(ToString::to_string);
    named.or_else(|| (!honour::keeps_sessions(&spec.backend)).then(|| spec.id.to_string()))
}

/// Counts how often the task was put to the agent; who is asked for a summary has done it.
fn attempts_of(state: &State) -> u64 {
    state.attempts.iter().filter(|attempt| attempt.asked != Asked::Summary).count() as u64
}

/// Adds how the run ended, and a page of its result.
fn add_end(
    view: &mut RunView,
    dir: &RunDir,
    spec: &RunSpec,
    (state, ending): (&State, &Ending),
    (offset, max): (u64, u64),
) -> Result<(), AppError> {
    view.warnings.extend(super::resume::obstacle(spec, state));
    view.duration_ms = ending.duration_ms;
    view.usage = ending.usage;
    view.exit_code = ending.exit_code;
    view.stderr_tail = ending.stderr_tail.clone();
    let bytes_max = usize::try_from(max).unwrap_or(usize::MAX);
    let page = read_result(dir, &ending.result, offset, bytes_max).map_err(store_error)?;
    view.result_bytes = page.bytes;
    if max > 0 && page.bytes > 0 {
        view.result = Some(page.text);
        view.result_next_offset = page.next_offset;
    }
    Ok(())
}

fn events(dir: &RunDir, from: u64, max: usize) -> Result<(Vec<serde_json::Value>, Option<u64>), AppError> {
    let read = journal::read_events(dir, from, max).map_err(store_error)?;
    let more = read.events.len() == max;
    let events = read.events.iter().map(|event| serde_json::json!(event)).collect();
    Ok((events, more.then_some(read.next_seq)))
}

/// Returns the page of a text that was asked for.
fn page_of(text: &str, ask: &ReadOutput, ended: bool) -> OutputPage {
    let from = text.floor_char_boundary(usize::try_from(ask.offset).unwrap_or(usize::MAX).min(text.len()));
    let page = domain::size::head(&text[from..], ask.max);
    let next = from + page.len();
    OutputPage { text: page.to_owned(), next_offset: next as u64, complete: ended && next == text.len() }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns when the run last gave a sign of life: an event, or output.
fn last_sign(dir: &RunDir, state: &State) -> Option<i64> {
    let output = std::fs::metadata(dir.path().join("stdout")).and_then(|file| file.modified()).ok();
    let output = output.and_then(|time| domain::Timestamp::try_from(time).ok());
    [state.last_event_at, output].into_iter().flatten().max().map(|at| at.as_millisecond())
}

fn acceptance(command: &Acceptance, state: &State) -> AcceptanceView {
    let exit_code = match command.exit {
        Some(CommandExit::Code(code)) => Some(code),
        Some(CommandExit::Signal(_) | CommandExit::NotStarted(_)) | None => None,
    };
    let explanation = match &command.exit {
        Some(exit) => exit.to_string(),
        None if state.ending().is_some() => "did not end before the run did".to_owned(),
        None => "is running".to_owned(),
    };
    AcceptanceView {
        command: command.argv.clone(),
        passed: exit_code == Some(0),
        explanation,
        exit_code,
        duration_ms: command.duration_ms,
        output_tail: command.output.clone(),
    }
}
