//! The attempts of a run: `domain::run::attempt` decides whether there is another one; this module records it, builds
//! its prompt and starts it.

use backends::contract::{AgentAnswer, AgentReport, Capabilities, Conclusion};
use domain::run::attempt::{
    self, Attempt, AttemptRecord, BackendChoice, Continuation, History, NextStep, RetryContext,
};
use domain::run::replay::{self, Exchange};
use domain::run::{
    AgentEnd, BackendSpec, Event, Failure, OnDisconnect, OnInterrupt, PromptKind, RunSpec, RunState,
    StdStream, SupervisionInput,
};
use journal::inbox::{self, InboxMessage};
use journal::{SpoolReader, StoreError};

use super::supervisor::{AgentHandle, RunSupervisor};
use crate::admission::attempt_backend::{backend_choice, capabilities, fallback_settings};
use crate::clock;
use crate::failpoint;

/// An attempt that starts after a pause.
pub(super) struct DelayedRetry {
    attempt: Attempt,
    reason: String,
    /// How the previous attempt ended, in case that no other follows.
    end: AgentEnd,
    pub(super) until_ms: u64,
}

impl RunSupervisor {
    /// Starts the first attempt of the run.
    pub(super) async fn start_first_attempt(&mut self) -> Result<(), StoreError> {
        let attempt = attempt::first_attempt(&self.retry_context());
        self.start_attempt(attempt, String::new()).await
    }

    /// Resumes a run whose earlier worker was lost.
    pub(super) async fn resume_run(&mut self) -> Result<(), StoreError> {
        self.restore_cancel_order();
        let retry_context = self.retry_context();
        let past_attempts = past_attempts(self.log.state());
        let choice = past_attempts.last().map_or(0, |last| last.choice);
        if !past_attempts.is_empty() && capabilities(attempt_backend(&self.spec, choice)).resumes_from_calls {
            // A loop finds its position by its recorded calls.
            let first = attempt::first_attempt(&retry_context);
            self.attempt_spec = self.build_attempt(&Attempt { choice, ..first }, "").0;
            return self.launch().await;
        }
        match attempt::resume_attempt(&retry_context, &past_attempts) {
            Some(attempt) if attempt.prompt_kind == PromptKind::Resume => {
                let reason = "its worker was lost; the conversation goes on in a new process".to_owned();
                self.start_attempt(attempt, reason).await
            }
            Some(attempt) => self.start_attempt(attempt, String::new()).await,
            None => {
                let effects =
                    self.machine.step(clock::monotonic_ms(), SupervisionInput::Ended(AgentEnd::Lost));
                let answer = self.answer_so_far()?;
                self.perform(effects, answer).await
            }
        }
    }

    /// Applies a cancellation that was ordered while an earlier worker lived.
    fn restore_cancel_order(&mut self) {
        if let Some(at) = self.log.state().cancel_at {
            let left_ms = at.as_millisecond().saturating_sub(clock::now().as_millisecond());
            let grace_ms = u64::try_from(left_ms).unwrap_or(0);
            // The journal already has these effects, so they are dropped.
            self.machine.step(
                clock::monotonic_ms(),
                SupervisionInput::ClientDisconnected(OnDisconnect::Cancel { grace_ms }),
            );
        }
    }

    fn answer_so_far(&self) -> Result<AgentAnswer, StoreError> {
        let state = self.log.state();
        if !state.answer_text.trim().is_empty() {
            return Ok(AgentAnswer::Text(state.answer()));
        }
        let written = SpoolReader::new(&self.dir, StdStream::Stdout).tail(4 << 10)?;
        let text = String::from_utf8_lossy(&written);
        Ok(if text.trim().is_empty() { AgentAnswer::Nothing } else { AgentAnswer::Text(text.into_owned()) })
    }

    /// Handles the end of an attempt: starts another one, or ends the run.
    pub(super) async fn conclude_attempt(&mut self, conclusion: Conclusion) -> Result<(), StoreError> {
        if self.acceptance.is_some() {
            return self.finish_command(conclusion).await;
        }
        let conclusion = self.apply_submission(conclusion);
        let Conclusion { end, answer, session, structured, reports } =
            self.validate_output(conclusion).await?;
        self.apply_reports(reports)?;
        self.apply_reports(self.missing_usage_warning(&end).into_iter().collect())?;
        if let Some(session) = session {
            self.record_session(&session)?;
        }
        if let Some((attempt, reason)) = self.retry_attempt(&end) {
            return self.delay_retry(DelayedRetry { attempt, reason, end, until_ms: 0 }).await;
        }
        if let Some((attempt, reason)) = self.next_attempt(&end) {
            self.close_attempt().await?;
            if self.finished {
                return Ok(());
            }
            if self.machine.is_running() {
                return Box::pin(self.start_attempt(attempt, reason)).await;
            }
            // The outcome is the reason why the run stops, and the text of the attempt is not its answer.
            return self.step(SupervisionInput::Ended(end)).await;
        }
        self.structured = structured;
        if end == AgentEnd::Done && self.machine.is_running() && !self.spec.setup.accept.is_empty() {
            return self.start_acceptance(answer).await;
        }
        let effects = self.machine.step(clock::monotonic_ms(), SupervisionInput::Ended(end));
        self.perform(effects, answer).await
    }

    /// Warns that the usage is not known, for a program that reports it only with a regular end.
    fn missing_usage_warning(&self, end: &AgentEnd) -> Option<AgentReport> {
        let state = self.log.state();
        let counts = capabilities(&self.attempt_spec.backend).usage;
        let is_unknown =
            *end != AgentEnd::Done && counts && state.usage.has_no_tokens() && !state.answer_text.is_empty();
        let name = &self.attempt_spec.backend.name;
        is_unknown.then(|| {
            AgentReport::Warned(format!("{name} told no tokens: what it used up to its end is not known"))
        })
    }

    /// Returns the retry of a run that was cut short and the reason, if its agent wants one.
    fn retry_attempt(&self, end: &AgentEnd) -> Option<(Attempt, String)> {
        if self.is_final() || !matches!(self.handle, AgentHandle::Process { .. }) {
            return None;
        }
        let (retry_context, past_attempts) = (self.retry_context(), past_attempts(self.log.state()));
        let name = backend_label(&self.attempt_spec.backend, self.attempt_spec.model.as_deref());
        if self.machine.is_out_of_time() {
            let attempt = attempt::retry_after_timeout(&retry_context, &past_attempts)?;
            return Some((attempt, format!("{name}: its time was up")));
        }
        let attempt = self
            .machine
            .is_running()
            .then(|| attempt::retry_after_crash(&retry_context, &past_attempts, end));
        let reason = match end {
            AgentEnd::Failed(failure) => failure.to_string(),
            AgentEnd::Done
            | AgentEnd::Unanswered
            | AgentEnd::OverBudget(_)
            | AgentEnd::Refused(_)
            | AgentEnd::Lost => String::new(),
        };
        Some((attempt.flatten()?, format!("{name}: {reason}")))
    }

    /// Closes an attempt, and delays the next one.
    async fn delay_retry(&mut self, delayed_retry: DelayedRetry) -> Result<(), StoreError> {
        let pause_ms = self.spec.setup.retry.map_or(0, |retry| retry.after_ms);
        let until_ms = clock::monotonic_ms().saturating_add(pause_ms);
        self.machine.step(clock::monotonic_ms(), SupervisionInput::Retried);
        // The pause does not count against the run's time.
        self.machine.step(clock::monotonic_ms(), SupervisionInput::WaitBegan);
        // This is set first: a cancellation from here on finds a waiting run, not a stopping one.
        self.delayed_retry = Some(DelayedRetry { until_ms, ..delayed_retry });
        self.close_attempt().await
    }

    /// Starts the delayed attempt when its time has come, or ends the run if it was stopped meanwhile.
    pub(super) async fn start_delayed_retry(&mut self) -> Result<(), StoreError> {
        let is_due = |delayed_retry: &mut DelayedRetry| {
            !self.machine.is_running() || delayed_retry.until_ms <= clock::monotonic_ms()
        };
        let Some(DelayedRetry { attempt, reason, end, .. }) = self.delayed_retry.take_if(is_due) else {
            return Ok(());
        };
        self.machine.step(clock::monotonic_ms(), SupervisionInput::WaitEnded);
        match self.machine.is_running() {
            true => self.start_attempt(attempt, reason).await,
            false => self.step(SupervisionInput::Ended(end)).await,
        }
    }

    /// Returns whether the agent is not prompted again, because a question is open or it has submitted its answer.
    fn is_final(&self) -> bool {
        let question_open = match &self.handle {
            AgentHandle::Loop { question, .. } | AgentHandle::Process { question, .. } => question.is_some(),
            AgentHandle::AgentLoop(_) | AgentHandle::NotRunning => false,
        };
        let submitted = self.log.state().submitted.is_some();
        question_open || submitted
    }

    /// Returns the next attempt and its reason, if there is one.
    fn next_attempt(&self, end: &AgentEnd) -> Option<(Attempt, String)> {
        // A submitted answer is final: the agent is prompted again only if the answer does not match the schema.
        let is_schema_error = matches!(end, AgentEnd::Failed(Failure::Schema { .. }));
        if (self.is_final() && !is_schema_error) || !self.machine.is_running() {
            return None;
        }
        let past_attempts = past_attempts(self.log.state());
        match attempt::next_attempt(&self.retry_context(), &past_attempts, end) {
            NextStep::Finish => None,
            NextStep::Again(attempt) => {
                let name = backend_label(&self.attempt_spec.backend, self.attempt_spec.model.as_deref());
                let reason = match end {
                    AgentEnd::Failed(failure) => failure.to_string(),
                    AgentEnd::Unanswered => "there is no answer".to_owned(),
                    AgentEnd::Done | AgentEnd::OverBudget(_) | AgentEnd::Refused(_) | AgentEnd::Lost => {
                        String::new()
                    }
                };
                Some((attempt, format!("{name}: {reason}")))
            }
        }
    }

    /// Closes an attempt, and checks whether the run has to end too.
    pub(super) async fn close_attempt(&mut self) -> Result<(), StoreError> {
        self.sweep()?;
        self.handle = AgentHandle::NotRunning;
        (self.exit_deadline, self.next_sample, self.killed_after_answer) = (None, None, false);
        self.remove_container();
        crate::launch::agent_process::remove_secrets(&self.dir);
        failpoint::reach("worker_between_attempts");
        if let InboxMessage::Valid(order) = inbox::read_cancel(&self.dir) {
            self.handled_cancel = Some(order.now);
            self.step(SupervisionInput::Cancel(order)).await?;
        }
        if self.machine.next_deadline().is_some_and(|at| at <= clock::monotonic_ms()) {
            self.step(SupervisionInput::Tick).await?;
        }
        Ok(())
    }

    async fn start_attempt(&mut self, attempt: Attempt, reason: String) -> Result<(), StoreError> {
        let Attempt { choice, continuation, prompt_kind } = &attempt;
        let (backend, model) = backend_choice(&self.spec, *choice);
        let event = Event::AttemptStarted {
            choice: u32::try_from(*choice).unwrap_or(u32::MAX),
            backend: backend.name.to_string(),
            model,
            conversation: continuation.kind(),
            prompt_kind: *prompt_kind,
            reason: reason.clone(),
        };
        self.append(event)?;
        if self.spec.on_interrupt == OnInterrupt::Resume {
            // A process that finds the run interrupted must know that an attempt had begun.
            self.log.sync()?;
        }
        let (spec, notice) = self.build_attempt(&attempt, &reason);
        self.attempt_spec = spec;
        let nothing_known = *continuation == Continuation::Replay
            && *prompt_kind == PromptKind::Prompt
            && self.earlier_exchanges().is_empty();
        if nothing_known && self.spec.begins_session() {
            // The caller who chose the name does not know about earlier conversations, and would be refused for ever.
            self.attempt_spec.prompt.clone_from(&self.spec.prompt);
            let message = "what was said in this conversation elsewhere is gone; it begins anew".to_owned();
            self.append(Event::Warned { message })?;
            return Box::pin(self.launch()).await;
        }
        if nothing_known {
            let reason = "nothing of what was said in it is on record any more".to_owned();
            let end = AgentEnd::Failed(Failure::Session { reason });
            return Box::pin(self.conclude_attempt(Conclusion::new(end, AgentAnswer::Nothing))).await;
        }
        if let Some(message) = notice {
            self.append(Event::Warned { message })?;
        }
        if !capabilities(&self.attempt_spec.backend).session {
            self.record_own_session()?;
        }
        Box::pin(self.launch()).await
    }

    /// Returns the spec of an attempt, and a notice about it.
    fn build_attempt(&self, attempt: &Attempt, reason: &str) -> (RunSpec, Option<String>) {
        let mut spec = self.spec.clone();
        let (backend, model) = backend_choice(&self.spec, attempt.choice);
        if backend.kind != spec.backend.kind {
            // These are options of the other program.
            spec.setup.extra_args = Vec::new();
            spec.setup.vendor_agent = None;
        }
        (spec.backend, spec.model) = (backend.clone(), model);
        if let Some(settings) = fallback_settings(&self.spec, attempt.choice) {
            spec.setup.permission.clone_from(&settings.permission);
            spec.setup.max_turns = settings.max_turns;
        }
        spec.fork = false;
        spec.session = match &attempt.continuation {
            Continuation::New | Continuation::Replay => None,
            Continuation::Continue(session) => Some(session.clone()),
            Continuation::Fork(session) => {
                spec.fork = true;
                Some(session.clone())
            }
            Continuation::PreviousAttempt => {
                let natives =
                    self.log.state().attempts.iter().rev().find_map(|attempt| attempt.vendor_session.clone());
                Some(natives.unwrap_or_else(|| self.spec.new_session_id()))
            }
        };
        let summary = self.spec.setup.response_file.as_ref().and_then(|file| file.summary_template.clone());
        let errors = self.invalid_output.as_ref().map_or(&[][..], |invalid_output| &invalid_output.errors);
        if attempt.prompt_kind == PromptKind::Prompt
            && spec.resumed_run.is_some_and(|before| before.agent_had_started)
        {
            // The previous run had begun, and this one continues it.
            spec.prompt = replay::resume_prompt(&spec.prompt);
        }
        spec.prompt = match attempt.prompt_kind {
            PromptKind::Prompt if self.needs_json_prompt(backend) => replay::json_prompt(&spec.prompt),
            PromptKind::Correct => replay::correction_prompt(errors),
            PromptKind::Prompt => spec.prompt,
            PromptKind::Continue | PromptKind::Retry => replay::continue_prompt(&spec.prompt, reason),
            PromptKind::Resume => replay::resume_prompt(&spec.prompt),
            PromptKind::Summary => summary.unwrap_or_default(),
        };
        match (&attempt.continuation, &self.spec.session) {
            (Continuation::Replay, _) => {
                let replayed = replay::prompt_with_history(
                    &spec.agent,
                    &self.exchanges(attempt.prompt_kind),
                    &spec.prompt,
                );
                spec.prompt = replayed.prompt;
                if replayed.included + replayed.left_out == 0 {
                    return (spec, None);
                }
                let replayed_count = match replayed.included {
                    1 => "1 exchange".to_owned(),
                    count => format!("{count} exchanges"),
                };
                let left_out = match replayed.left_out {
                    0 => String::new(),
                    left_out => format!("; {left_out} older ones are left out"),
                };
                let notice = format!(
                    "continued by replay: {} was told what was said before ({replayed_count}{left_out})",
                    spec.backend.name
                );
                (spec, Some(notice))
            }
            (Continuation::New, Some(session)) if !self.spec.begins_session() => {
                let notice =
                    format!("{} does not know what was said in the session {session}", spec.backend.name);
                (spec, Some(notice))
            }
            _ => (spec, None),
        }
    }

    /// Returns whether the prompt must ask for JSON in words: a schema is passed on by the backend, and the text of a
    /// script is fixed.
    fn needs_json_prompt(&self, backend: &BackendSpec) -> bool {
        let setup = &self.spec.setup;
        setup.requires_structured_output()
            && setup.output_schema.is_none()
            && !capabilities(backend).is_script
    }

    /// Returns the exchanges before this attempt: of earlier runs, and of earlier attempts if they are continued.
    fn exchanges(&self, prompt_kind: PromptKind) -> Vec<Exchange> {
        let mut all = self.earlier_exchanges();
        let request = &self.spec.prompt;
        if prompt_kind != PromptKind::Prompt {
            let attempts = &self.log.state().attempts;
            let earlier = &attempts[..attempts.len().saturating_sub(1)];
            let mut accounts: Vec<String> = earlier.iter().map(replay::attempt_summary).collect();
            if let (Some(last), Some(invalid_output)) = (accounts.last_mut(), &self.invalid_output)
                && last.is_empty()
            {
                // It wrote its answer and reported no text.
                last.clone_from(&invalid_output.text);
            }
            let accounts = accounts.into_iter().filter(|account| !account.is_empty());
            all.extend(accounts.map(|response| Exchange { request: request.clone(), response }));
        }
        all
    }

    fn retry_context(&self) -> RetryContext {
        let alternatives = self.spec.fallbacks.iter().map(|alternative| &alternative.backend);
        let choices = std::iter::once(&self.spec.backend).chain(alternatives).map(|backend| {
            let can = capabilities(backend);
            let Capabilities { session: sessions, forks, reports_tool_calls, is_script, .. } = can;
            BackendChoice {
                backend: backend.name.clone(),
                supports_sessions: sessions,
                supports_fork: forks,
                reports_tool_calls,
                is_conversational: !is_script,
            }
        });
        let summary =
            self.spec.setup.response_file.as_ref().is_some_and(|file| file.summary_template.is_some());
        RetryContext {
            choices: choices.collect(),
            history: self.history.get_or_init(|| self.load_history()).clone(),
            summary,
            retry: self.spec.setup.retry.is_some(),
        }
    }

    /// Reads the history once: what the run itself adds to its session does not belong to it.
    fn load_history(&self) -> History {
        let Some(session) = &self.spec.session else { return History::Empty };
        if self.spec.begins_session() {
            // An earlier worker of the run may have added to it.
            let before = self.session_record().filter(|known| !known.runs.contains(&self.spec.id));
            return match before {
                Some(known) => History::Recorded { native: known.vendor_id(), fork: false },
                None if self.spec.prior_exchanges.is_empty() => History::Empty,
                None => History::Recorded { native: None, fork: false },
            };
        }
        if crate::admission::chooses_sessions(&self.spec.backend) {
            return History::CallerChosen(session.clone());
        }
        match self.session_record() {
            Some(known) => History::Recorded { native: known.vendor_id(), fork: self.spec.fork },
            // The conversation is not recorded here, so only the vendor can continue it.
            None => History::CallerChosen(session.clone()),
        }
    }
}

fn past_attempts(state: &RunState) -> Vec<AttemptRecord> {
    let past_attempt = |attempt: &domain::run::AttemptState| AttemptRecord {
        choice: usize::try_from(attempt.choice).unwrap_or(usize::MAX),
        conversation: attempt.conversation,
        prompt_kind: attempt.prompt_kind,
        vendor_session: attempt.vendor_session.clone(),
        had_side_effects: attempt.had_side_effects,
    };
    state.attempts.iter().map(past_attempt).collect()
}

fn attempt_backend(spec: &RunSpec, choice: usize) -> &BackendSpec {
    backend_choice(spec, choice).0
}

fn backend_label(backend: &BackendSpec, model: Option<&str>) -> String {
    model.map_or_else(|| backend.name.to_string(), |model| format!("{} with {model}", backend.name))
}
