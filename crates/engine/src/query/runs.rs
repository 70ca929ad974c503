//! Shows runs with all that is known about them and pages of their output, cancels them and answers their questions.

use std::sync::Arc;

use domain::id::QuestionId;
use domain::invisible_text::{strip_invisible_in_place, strip_invisible_in_value};
use domain::run::{
    Acceptance, CallerOrigin, CommandExit, Ending, Phase, PromptKind, RunSpec, RunState, StdStream,
    WaitReason,
};
use journal::inbox::{self, InboxAnswer, InboxMessage, PostOutcome};
use journal::run_result::read_result;
use journal::{RunDir, SpoolReader};

use super::answer_check::QuestionToAnswer;
use super::wait::RESULT_INLINE_BYTES;
use crate::admission::{attempt_backend, resumption};
use crate::api::{
    AcceptanceView, AnswerRequest, AnswerResult, CancelResult, CancelRunsRequest, CancelTarget, CancelledRun,
    ChildView, EngineError, GetRun, OutputPage, ReadOutput, RunDetail, RunView, WaitingView,
};
use crate::ask::{Ask, OnProgress};
use crate::clock;
use crate::engine::{Engine, Visibility, store_error};
use crate::ipc::relay::Relay;
use crate::ipc::run_socket;
use crate::relayed_requests;

/// The most events in one page.
const EVENTS_MAX: usize = 1_000;
/// How many bytes of the task a view contains.
const PROMPT_BYTES: usize = 4 << 10;
/// How much of the text so far is shown.
const PARTIAL_BYTES: usize = 4 << 10;
/// Without output for this long a run is shown as stalled.
const STALLED_MS: i64 = 120_000;

impl Ask for GetRun {
    type Answer = RunDetail;

    async fn answer(self, engine: &Arc<Engine>, _progress: OnProgress<'_>) -> Result<RunDetail, EngineError> {
        engine.get_run(self).await
    }

    async fn relay(self, relay: &Relay, progress: OnProgress<'_>) -> Result<RunDetail, EngineError> {
        let mut detail = relayed_requests::relay(self, relay, progress).await?;
        // The reader inside a run is a model, whichever door it uses.
        detail.run.clean();
        detail.events.iter_mut().for_each(strip_invisible_in_value);
        Ok(detail)
    }
}

impl Ask for CancelRunsRequest {
    type Answer = CancelResult;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<CancelResult, EngineError> {
        engine.cancel(self).await
    }

    async fn relay(self, relay: &Relay, progress: OnProgress<'_>) -> Result<CancelResult, EngineError> {
        relayed_requests::relay(self, relay, progress).await
    }
}

impl Ask for AnswerRequest {
    type Answer = AnswerResult;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<AnswerResult, EngineError> {
        engine.answer(self).await
    }

    async fn relay(self, relay: &Relay, progress: OnProgress<'_>) -> Result<AnswerResult, EngineError> {
        relayed_requests::relay(self, relay, progress).await
    }
}

impl Ask for ReadOutput {
    type Answer = OutputPage;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<OutputPage, EngineError> {
        engine.read_output(&self)
    }

    async fn relay(self, relay: &Relay, progress: OnProgress<'_>) -> Result<OutputPage, EngineError> {
        let mut page = relayed_requests::relay(self, relay, progress).await?;
        // The reader inside a run is a model, whichever door it uses.
        strip_invisible_in_place(&mut page.text);
        Ok(page)
    }
}

impl Engine {
    pub(crate) async fn get_run(self: &Arc<Self>, ask: GetRun) -> Result<RunDetail, EngineError> {
        let dir = self.find(&ask.run)?;
        self.run_blocking(move |engine| {
            let (_, blocker) = engine.reconcile_or_warn(&dir)?;
            let mut run = engine.view(&dir, ask.result_offset, ask.result_max)?;
            run.warnings.extend(blocker);
            let (events, next_event) = match ask.events_from {
                Some(from) => events(&dir, from, ask.events_max.clamp(1, EVENTS_MAX))?,
                None => (Vec::new(), None),
            };
            Ok(RunDetail { run, events, next_event })
        })
        .await
    }

    /// Returns the view of a run, with a page of its result.
    pub(crate) fn view(&self, dir: &RunDir, offset: u64, max: u64) -> Result<RunView, EngineError> {
        let spec = dir.read_spec().map_err(store_error)?;
        self.view_with_spec(dir, &spec, (offset, max))
    }

    /// Returns the same for a run whose spec is known.
    pub(crate) fn view_with_spec(
        &self,
        dir: &RunDir,
        spec: &RunSpec,
        (offset, max): (u64, u64),
    ) -> Result<RunView, EngineError> {
        let (state, damaged) = journal::read_state(dir).map_err(store_error)?;
        let view = self.view_with_state(dir, spec, &state, (offset, max))?;
        Ok(RunView { damaged_lines: damaged, ..view })
    }

    /// Returns the same for a run whose state is known too.
    pub(crate) fn view_with_state(
        &self,
        dir: &RunDir,
        spec: &RunSpec,
        state: &RunState,
        page: (u64, u64),
    ) -> Result<RunView, EngineError> {
        let mut view = view_without_result(spec, state, self.status(spec, state));
        match &state.phase {
            Phase::Ended(ending) => add_end(&mut view, dir, spec, (state, ending), page)?,
            Phase::Accepted | Phase::Running | Phase::Waiting(_) | Phase::Stopping => {
                self.add_open_questions(&mut view, spec, state);
                let text = if !state.answer_text.is_empty() {
                    Ok(domain::size::tail(&state.answer_text, PARTIAL_BYTES).to_owned())
                } else if attempt_backend::has_plain_output(spec, state) {
                    SpoolReader::new(dir, StdStream::Stdout)
                        .tail(PARTIAL_BYTES)
                        .map(|bytes| decode_lossy(&bytes))
                } else {
                    // A protocol between programs is not the agent's text.
                    Ok(String::new())
                };
                view.partial = text.ok().filter(|text| !text.is_empty());
                let last = last_activity_ms(dir, state);
                view.stalled = last.is_some_and(|at| clock::now().as_millisecond() - at > STALLED_MS);
            }
        }
        Ok(view)
    }

    /// Returns status, explanation, and what the run waits for.
    pub(crate) fn status(&self, spec: &RunSpec, state: &RunState) -> (String, String, Option<WaitingView>) {
        let plain = |status: &str, text: &str| (status.to_owned(), text.to_owned(), None);
        match &state.phase {
            Phase::Accepted => plain("accepted", "accepted, not yet started"),
            Phase::Running => plain("running", "running"),
            Phase::Stopping => plain("stopping", "asked to stop, not yet gone"),
            Phase::Waiting(WaitReason::Slot) => {
                let position = journal::slots::queue_position(self.home.path(), spec.id).unwrap_or(1);
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
            // The question is denied as soon as it is recorded.
            Phase::Waiting(WaitReason::Answer { .. }) if spec.unattended.is_some() => {
                plain("running", "denied a question, since nobody can answer")
            }
            Phase::Waiting(WaitReason::Answer { question, text, until, allow_rules }) => {
                let waiting = WaitingView::Answer {
                    question: question.to_string(),
                    text: text.clone(),
                    until: until.to_string(),
                    allow_rules: allow_rules.clone(),
                };
                ("waiting".to_owned(), format!("waiting for an answer: {text}"), Some(waiting))
            }
            Phase::Ended(ending) => ended_status(ending),
        }
    }

    /// Returns whether there is an answer that the worker has not read yet: the person who gave it is not asked
    /// again.
    fn is_answered(&self, spec: &RunSpec, question: &QuestionId) -> bool {
        matches!(inbox::read_answer(&self.home.run_dir(spec.id), question), InboxMessage::Valid(_))
    }

    pub(crate) async fn cancel(
        self: &Arc<Self>,
        ask: CancelRunsRequest,
    ) -> Result<CancelResult, EngineError> {
        let dirs = match &ask.target {
            CancelTarget::Run(typed) => vec![self.find(typed)?],
            CancelTarget::Session(session) => self.open_runs_of_session(session)?,
        };
        let mut runs = Vec::new();
        for dir in dirs {
            let spec = self.reconcile(&dir)?;
            let effect = if dir.ending().map_err(store_error)?.is_some() {
                "already_ended"
            } else {
                let posted = inbox::post_cancel(&dir, &ask.order).map_err(store_error)?;
                run_socket::wake_worker(&run_socket::path(&self.home, spec.tag));
                match posted {
                    PostOutcome::First => "asked",
                    PostOutcome::AlreadyThere => "already_asked",
                }
            };
            runs.push(CancelledRun { run_id: dir.id(), effect: effect.to_owned() });
        }
        Ok(CancelResult { runs })
    }

    fn open_runs_of_session(&self, session: &str) -> Result<Vec<RunDir>, EngineError> {
        let open = self.home.open_runs().map_err(store_error)?;
        let dirs = open.into_iter().map(|id| self.home.run_dir(id));
        let is_in_session = |dir: &RunDir| {
            dir.read_spec()
                .is_ok_and(|spec| spec.continued_session().is_some_and(|known| known.as_str() == session))
                && self.may_see(dir)
        };
        Ok(dirs.filter(is_in_session).collect())
    }

    pub(crate) async fn answer(self: &Arc<Self>, ask: AnswerRequest) -> Result<AnswerResult, EngineError> {
        if let Visibility::DescendantsOf(_) = &self.visibility {
            return Err(EngineError::denied("questions are answered by people, never from inside a run"));
        }
        if ask.text.as_deref().is_some_and(|text| text.trim().is_empty()) {
            // A pipe that failed must not approve anything.
            let hint = "give the answer in words, or approve or deny without any";
            return Err(EngineError::usage("the answer is empty").hint(hint));
        }
        let dir = self.find(&ask.run)?;
        let spec = self.reconcile(&dir)?;
        let (state, _) = journal::read_state(&dir).map_err(store_error)?;
        let Phase::Waiting(WaitReason::Answer { question, allow_rules, .. }) = &state.phase else {
            let (_, explanation, _) = self.status(&spec, &state);
            let message = format!("the run {} waits for no answer: {explanation}", spec.id.short());
            return Err(EngineError::usage(message));
        };
        let allow = QuestionToAnswer { run: spec.id, id: question, allow_rules }.check(&ask)?;
        let AnswerRequest { text, by, origin, granted_rules, run: _, question: _, allow: _ } = ask;
        let (text, origin, at) = (text.unwrap_or_default(), Some(origin), clock::now());
        let answer = InboxAnswer { allow, text, by, origin, at, granted_rules };
        match inbox::post_answer(&dir, question, &answer).map_err(store_error)? {
            PostOutcome::First => {}
            PostOutcome::AlreadyThere => {
                let message =
                    format!("the question {question} of the run {} was answered already", spec.id.short());
                return Err(EngineError::usage(message).hint("the first answer counts"));
            }
        }
        run_socket::wake_worker(&run_socket::path(&self.home, spec.tag));
        Ok(AnswerResult { run_id: spec.id, question: question.to_string() })
    }

    pub(crate) fn read_output(&self, ask: &ReadOutput) -> Result<OutputPage, EngineError> {
        let dir = self.find(&ask.run)?;
        self.reconcile_or_warn(&dir)?;
        let ended = dir.ending().map_err(store_error)?.is_some();
        let spool = SpoolReader::new(&dir, ask.stream);
        if ask.stream == StdStream::Stdout && spool.total_bytes().map_err(store_error)? == 0 {
            // A loop has no process with output: its text is in its events.
            let (state, _) = journal::read_state(&dir).map_err(store_error)?;
            return Ok(text_page(&state.answer(), ask, ended));
        }
        let page = spool.read(ask.offset, ask.max).map_err(store_error)?;
        let complete = ended && page.next_offset >= spool.total_bytes().map_err(store_error)?;
        Ok(OutputPage { text: decode_lossy(&page.render()), next_offset: page.next_offset, complete })
    }
}

/// Returns the view of a run that has ended. For its worker, which holds the state of the whole log.
pub(crate) fn ended_view(
    dir: &RunDir,
    spec: &RunSpec,
    state: &RunState,
    damaged: u64,
) -> Result<RunView, EngineError> {
    let Some(ending) = state.ending() else {
        return Err(EngineError::internal(format!("the run {} has not ended", spec.id.short())));
    };
    let mut view = view_without_result(spec, state, ended_status(ending));
    view.damaged_lines = damaged;
    add_end(&mut view, dir, spec, (state, ending), (0, RESULT_INLINE_BYTES))?;
    Ok(view)
}

fn ended_status(ending: &Ending) -> (String, String, Option<WaitingView>) {
    (ending.outcome.kind().to_string(), ending.explanation(), None)
}

/// Returns the view of a run without its result.
fn view_without_result(
    spec: &RunSpec,
    state: &RunState,
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
        backend: backend_name(spec, state),
        status,
        ended: state.ending().is_some(),
        outcome: state.ending().map(|ending| ending.outcome.clone()),
        explanation,
        cancellation: state.cancellation.clone(),
        after_interruption: resumption::after_interruption(spec, state),
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
        prompt: domain::size::head(spec.public_task(), PROMPT_BYTES).to_owned(),
        prompt_bytes: spec.public_task().len() as u64,
        directory: spec.directory.clone(),
        project: spec.project.clone(),
        caller: spec.caller.name.clone(),
        grants: spec.grants.clone(),
        level: spec.setup.permission.level,
        allow: spec.setup.permission.allow.clone(),
        has_tool_list: spec.setup.tools.is_some(),
        is_from_shell: spec.caller.origin == CallerOrigin::Shell,
        unattended: spec.unattended.clone(),
        model: state.model.clone(),
        structured: state.ending().and_then(|ending| ending.structured.clone()),
        repaired: state.ending().is_some_and(|ending| ending.repaired),
        verification: state.verification(&spec.setup.accept),
        acceptance: state.acceptance.iter().map(|command| acceptance(command, state)).collect(),
        session: resumption::continuable_session(spec, state),
        attempts: count_attempts(state),
        parent: spec.parent,
        children: state.children.iter().map(child).collect(),
        needs_answer: Vec::new(),
        warnings: spec.warnings.iter().chain(&state.warnings).cloned().collect(),
        denials: state.denials.clone(),
        denials_count: state.denials_count,
        inherit: spec.setup.inherit.clone(),
        changes: state.changes.clone(),
        branch: state.branch.clone(),
        containment: state.containment.clone(),
        damaged_lines: 0,
    }
}

/// Returns the backend that runs the agent, or did so last.
fn backend_name(spec: &RunSpec, state: &RunState) -> String {
    state.attempts.last().map_or_else(|| spec.backend.name.to_string(), |attempt| attempt.backend.clone())
}

/// Counts how often the agent was prompted with the task; a prompt for a summary does not count.
fn count_attempts(state: &RunState) -> u64 {
    state.attempts.iter().filter(|attempt| attempt.prompt_kind != PromptKind::Summary).count() as u64
}

/// Adds how the run ended, and a page of its result.
fn add_end(
    view: &mut RunView,
    dir: &RunDir,
    spec: &RunSpec,
    (state, ending): (&RunState, &Ending),
    (offset, max): (u64, u64),
) -> Result<(), EngineError> {
    view.warnings.extend(resumption::resume_blocker(spec, state));
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

fn events(dir: &RunDir, from: u64, max: usize) -> Result<(Vec<serde_json::Value>, Option<u64>), EngineError> {
    let read = journal::read_events(dir, from, max).map_err(store_error)?;
    let more = read.events.len() == max;
    let events = read.events.iter().map(|event| serde_json::json!(event)).collect();
    Ok((events, more.then_some(read.next_seq)))
}

/// Returns the requested page of a text.
fn text_page(text: &str, ask: &ReadOutput, ended: bool) -> OutputPage {
    let from = text.floor_char_boundary(usize::try_from(ask.offset).unwrap_or(usize::MAX).min(text.len()));
    let page = domain::size::head(&text[from..], ask.max);
    let next = from + page.len();
    OutputPage { text: page.to_owned(), next_offset: next as u64, complete: ended && next == text.len() }
}

fn decode_lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the time of the last activity: an event, or output.
fn last_activity_ms(dir: &RunDir, state: &RunState) -> Option<i64> {
    let output = std::fs::metadata(dir.path().join("stdout")).and_then(|file| file.modified()).ok();
    let output = output.and_then(|time| domain::Timestamp::try_from(time).ok());
    [state.last_event_at, output].into_iter().flatten().max().map(|at| at.as_millisecond())
}

fn acceptance(command: &Acceptance, state: &RunState) -> AcceptanceView {
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
