//! The attempts of a run: `domain::run::attempt` says whether there is another one, and here it is recorded, put into
//! words and begun.

use backend::contract::{Answer, Capabilities, Conclusion, Report};
use domain::run::attempt::{self, Attempt, Choice, Circumstances, Next, Past, Thread, Tried};
use domain::run::replay::{self, Exchange};
use domain::run::{
    AgentEnd, Alternative, Asked, BackendSpec, Event, Failure, Input, OnDisconnect, OnInterrupt, RunSpec,
    State, Stream,
};
use domain::setup::FallbackSettings;
use journal::inbox::{self, Letter};
use journal::{SpoolReader, StoreError};

use super::desk::{Desk, Driven};
use crate::clock;
use crate::point;

/// An attempt that is made after a pause.
pub(super) struct PutOff {
    attempt: Attempt,
    because: String,
    /// How the attempt before ended, should there be no other after all.
    end: AgentEnd,
    pub(super) until_ms: u64,
}

impl Desk {
    /// Begins the run.
    pub(super) async fn begin_first(&mut self) -> Result<(), StoreError> {
        let attempt = attempt::first(&self.circumstances());
        self.begin_attempt(attempt, String::new()).await
    }

    /// Goes on with a run whose earlier worker was lost.
    pub(super) async fn take_over(&mut self) -> Result<(), StoreError> {
        self.remember_orders();
        let circumstances = self.circumstances();
        let tried = tried(self.log.state());
        let choice = tried.last().map_or(0, |last| last.choice);
        if !tried.is_empty() && capabilities(backend_of(&self.spec, choice)).resume {
            // A loop knows by its calls how far it is.
            let first = attempt::first(&circumstances);
            self.attempt = self.words_of(&Attempt { choice, ..first }, "").0;
            return self.begin().await;
        }
        match attempt::resume(&circumstances, &tried) {
            Some(attempt) if attempt.asked == Asked::Resume => {
                let because = "its worker was lost; the conversation goes on in a new process".to_owned();
                self.begin_attempt(attempt, because).await
            }
            Some(attempt) => self.begin_attempt(attempt, String::new()).await,
            None => {
                let effects = self.machine.step(clock::monotonic_ms(), Input::Ended(AgentEnd::Lost));
                let answer = self.answer_so_far()?;
                self.perform(effects, answer).await
            }
        }
    }

    /// Takes up what was ordered while an earlier worker lived.
    fn remember_orders(&mut self) {
        if let Some(at) = self.log.state().cancel_at {
            let left_ms = at.as_millisecond().saturating_sub(clock::now().as_millisecond());
            let grace_ms = u64::try_from(left_ms).unwrap_or(0);
            // It is in the journal already, so what the machine wants recorded is not.
            self.machine.step(clock::monotonic_ms(), Input::DoorLeft(OnDisconnect::Cancel { grace_ms }));
        }
    }

    fn answer_so_far(&self) -> Result<Answer, StoreError> {
        let state = self.log.state();
        if !state.said.trim().is_empty() {
            return Ok(Answer::Text(state.answer()));
        }
        let written = SpoolReader::new(&self.dir, Stream::Stdout).tail(4 << 10)?;
        let text = String::from_utf8_lossy(&written);
        Ok(if text.trim().is_empty() { Answer::Nothing } else { Answer::Text(text.into_owned()) })
    }

    /// Takes the end of an attempt: another one follows, or it is the end of the run.
    pub(super) async fn answer_with(&mut self, conclusion: Conclusion) -> Result<(), StoreError> {
        if self.accepting.is_some() {
            return self.end_acceptance(conclusion).await;
        }
        let conclusion = self.with_submission(conclusion);
        let Conclusion { end, answer, session, structured, reports } = self.with_value(conclusion).await?;
        self.hear(reports)?;
        self.hear(self.uncounted(&end).into_iter().collect())?;
        if let Some(session) = session {
            self.name_session(&session)?;
        }
        if let Some((attempt, because)) = self.second_try(&end) {
            return self.put_off(PutOff { attempt, because, end, until_ms: 0 }).await;
        }
        if let Some((attempt, because)) = self.another(&end) {
            self.leave_attempt().await?;
            if self.finished {
                return Ok(());
            }
            if self.machine.is_going() {
                return Box::pin(self.begin_attempt(attempt, because)).await;
            }
            // What asked it to stop is its outcome, and what the attempt said is no answer.
            return self.step(Input::Ended(end)).await;
        }
        self.structured = structured;
        if end == AgentEnd::Done && self.machine.is_going() && !self.spec.setup.accept.is_empty() {
            return self.begin_acceptance(answer).await;
        }
        let effects = self.machine.step(clock::monotonic_ms(), Input::Ended(end));
        self.perform(effects, answer).await
    }

    /// Says that nobody knows what was used, where that is told with an end that did not come.
    fn uncounted(&self, end: &AgentEnd) -> Option<Report> {
        let state = self.log.state();
        let counts = capabilities(&self.attempt.backend).usage;
        let is_open = *end != AgentEnd::Done && counts && state.usage.is_nothing() && !state.said.is_empty();
        let name = &self.attempt.backend.name;
        is_open.then(|| {
            Report::Warned(format!("{name} told no tokens: what it used up to its end is not known"))
        })
    }

    /// Returns the second try of a run that was cut short, if its agent wants one, and why.
    fn second_try(&self, end: &AgentEnd) -> Option<(Attempt, String)> {
        if self.has_last_word() || !matches!(self.driven, Driven::Process { .. }) {
            return None;
        }
        let (circumstances, tried) = (self.circumstances(), tried(self.log.state()));
        let name = named(&self.attempt.backend, self.attempt.model.as_deref());
        if self.machine.is_out_of_time() {
            let attempt = attempt::after_time_out(&circumstances, &tried)?;
            return Some((attempt, format!("{name}: its time was up")));
        }
        let attempt = self.machine.is_going().then(|| attempt::after_crash(&circumstances, &tried, end));
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

    /// Leaves an attempt, and lets some time pass before the next.
    async fn put_off(&mut self, put_off: PutOff) -> Result<(), StoreError> {
        let pause_ms = self.spec.setup.retry.map_or(0, |retry| retry.after_ms);
        let until_ms = clock::monotonic_ms().saturating_add(pause_ms);
        self.machine.step(clock::monotonic_ms(), Input::TriedAgain);
        // The pause is nobody's time.
        self.machine.step(clock::monotonic_ms(), Input::WaitBegan);
        // First: whoever cancels from here on finds a run that waits, and not one that is stopping.
        self.put_off = Some(PutOff { until_ms, ..put_off });
        self.leave_attempt().await
    }

    /// Begins the attempt that was put off when its time has come, or ends the run if that is wanted meanwhile.
    pub(super) async fn begin_put_off(&mut self) -> Result<(), StoreError> {
        let is_due =
            |put_off: &mut PutOff| !self.machine.is_going() || put_off.until_ms <= clock::monotonic_ms();
        let Some(PutOff { attempt, because, end, .. }) = self.put_off.take_if(is_due) else { return Ok(()) };
        self.machine.step(clock::monotonic_ms(), Input::WaitEnded);
        match self.machine.is_going() {
            true => self.begin_attempt(attempt, because).await,
            false => self.step(Input::Ended(end)).await,
        }
    }

    /// Tells whether nobody is asked for anything more: what was handed in is the answer.
    fn has_last_word(&self) -> bool {
        let waits = match &self.driven {
            Driven::Loop { question, .. } | Driven::Process { question, .. } => question.is_some(),
            Driven::Nothing => false,
        };
        let handed_in = self.log.state().submitted.is_some();
        waits || handed_in
    }

    /// Returns the next attempt, if there is one, and why.
    fn another(&self, end: &AgentEnd) -> Option<(Attempt, String)> {
        // What was handed in is the answer: nobody is asked for another, unless it does not have the right shape.
        let unfit = matches!(end, AgentEnd::Failed(Failure::Schema { .. }));
        if (self.has_last_word() && !unfit) || !self.machine.is_going() {
            return None;
        }
        let tried = tried(self.log.state());
        match attempt::next(&self.circumstances(), &tried, end) {
            Next::Finish => None,
            Next::Again(attempt) => {
                let name = named(&self.attempt.backend, self.attempt.model.as_deref());
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

    /// Ends what is left of an attempt, and looks whether the run shall end too.
    pub(super) async fn leave_attempt(&mut self) -> Result<(), StoreError> {
        self.sweep()?;
        self.driven = Driven::Nothing;
        (self.leave_by, self.next_sample, self.dismissed) = (None, None, false);
        self.leave_container();
        super::agent::remove_secrets(&self.dir);
        point::reach("worker_between_attempts");
        if let Letter::Valid(order) = inbox::read_cancel(&self.dir) {
            self.cancel_seen = Some(order.now);
            self.step(Input::Cancel(order)).await?;
        }
        if self.machine.next_deadline().is_some_and(|at| at <= clock::monotonic_ms()) {
            self.step(Input::Tick).await?;
        }
        Ok(())
    }

    async fn begin_attempt(&mut self, attempt: Attempt, because: String) -> Result<(), StoreError> {
        let Attempt { choice, thread, asked } = &attempt;
        let (backend, model) = chosen(&self.spec, *choice);
        let event = Event::AttemptBegan {
            choice: u32::try_from(*choice).unwrap_or(u32::MAX),
            backend: backend.name.to_string(),
            model,
            conversation: thread.conversation(),
            asked: *asked,
            because: because.clone(),
        };
        self.append(event)?;
        if self.spec.on_interrupt == OnInterrupt::Resume {
            // Whoever finds the run interrupted must know that something was begun.
            self.log.sync()?;
        }
        let (words, told) = self.words_of(&attempt, &because);
        self.attempt = words;
        let nothing_known =
            *thread == Thread::Replay && *asked == Asked::Prompt && self.earlier_exchanges().is_empty();
        if nothing_known && self.spec.begins_session() {
            // Whoever named it does not know what there was, and would be refused for ever.
            self.attempt.prompt.clone_from(&self.spec.prompt);
            let message = "what was said in this conversation elsewhere is gone; it begins anew".to_owned();
            self.append(Event::Warned { message })?;
            return Box::pin(self.begin()).await;
        }
        if nothing_known {
            let reason = "nothing of what was said in it is on record any more".to_owned();
            let end = AgentEnd::Failed(Failure::Session { reason });
            return Box::pin(self.answer_with(Conclusion::new(end, Answer::Nothing))).await;
        }
        if let Some(message) = told {
            self.append(Event::Warned { message })?;
        }
        if !capabilities(&self.attempt.backend).session {
            self.name_own_session()?;
        }
        Box::pin(self.begin()).await
    }

    /// Returns what an attempt is started with, and what there is to say about it.
    fn words_of(&self, attempt: &Attempt, because: &str) -> (RunSpec, Option<String>) {
        let mut spec = self.spec.clone();
        let (backend, model) = chosen(&self.spec, attempt.choice);
        if backend.kind != spec.backend.kind {
            // These are words of the other program.
            spec.setup.extra_args = Vec::new();
            spec.setup.vendor_agent = None;
        }
        (spec.backend, spec.model) = (backend.clone(), model);
        if let Some(settings) = settings_of(&self.spec, attempt.choice) {
            spec.setup.permission.clone_from(&settings.permission);
            spec.setup.max_turns = settings.max_turns;
        }
        spec.fork = false;
        spec.session = match &attempt.thread {
            Thread::New | Thread::Replay => None,
            Thread::Continue(session) => Some(session.clone()),
            Thread::Fork(session) => {
                spec.fork = true;
                Some(session.clone())
            }
            Thread::Last => {
                let natives = self.log.state().attempts.iter().rev().find_map(|tried| tried.native.clone());
                Some(natives.unwrap_or_else(|| self.spec.own_session()))
            }
        };
        let summary = self.spec.setup.response_file.as_ref().and_then(|file| file.summary_template.clone());
        let errors = self.unfit.as_ref().map_or(&[][..], |unfit| &unfit.errors);
        if attempt.asked == Asked::Prompt && spec.resumes.is_some_and(|before| before.begun) {
            // The run before had begun, and this one goes on where it was.
            spec.prompt = replay::resume(&spec.prompt);
        }
        spec.prompt = match attempt.asked {
            Asked::Prompt if self.is_asked_for_any_json(backend) => replay::as_json(&spec.prompt),
            Asked::Correct => replay::correct(errors),
            Asked::Prompt => spec.prompt,
            Asked::GoOn | Asked::Again => replay::go_on(&spec.prompt, because),
            Asked::Resume => replay::resume(&spec.prompt),
            Asked::Summary => summary.unwrap_or_default(),
        };
        match (&attempt.thread, &self.spec.session) {
            (Thread::Replay, _) => {
                let replayed = replay::replay(&spec.agent, &self.exchanges(attempt.asked), &spec.prompt);
                spec.prompt = replayed.prompt;
                if replayed.told + replayed.left_out == 0 {
                    return (spec, None);
                }
                let told = match replayed.told {
                    1 => "1 exchange".to_owned(),
                    told => format!("{told} exchanges"),
                };
                let left_out = match replayed.left_out {
                    0 => String::new(),
                    left_out => format!("; {left_out} older ones are left out"),
                };
                let told = format!(
                    "continued by replay: {} was told what was said before ({told}{left_out})",
                    spec.backend.name
                );
                (spec, Some(told))
            }
            (Thread::New, Some(session)) if !self.spec.begins_session() => {
                let told =
                    format!("{} does not know what was said in the session {session}", spec.backend.name);
                (spec, Some(told))
            }
            _ => (spec, None),
        }
    }

    /// Tells whether the words of the prompt must ask for JSON: a schema is passed on by the backend, and a script says
    /// what it says.
    fn is_asked_for_any_json(&self, backend: &BackendSpec) -> bool {
        let setup = &self.spec.setup;
        setup.wants_value() && setup.output_schema.is_none() && !capabilities(backend).resume
    }

    /// Returns what was said before this attempt: in earlier runs, and by earlier attempts where they are continued.
    fn exchanges(&self, asked: Asked) -> Vec<Exchange> {
        let mut all = self.earlier_exchanges();
        let request = &self.spec.prompt;
        if asked != Asked::Prompt {
            let attempts = &self.log.state().attempts;
            let earlier = &attempts[..attempts.len().saturating_sub(1)];
            let mut accounts: Vec<String> = earlier.iter().map(replay::account).collect();
            if let (Some(last), Some(unfit)) = (accounts.last_mut(), &self.unfit)
                && last.is_empty()
            {
                // It wrote its answer and told nothing.
                last.clone_from(&unfit.text);
            }
            let accounts = accounts.into_iter().filter(|account| !account.is_empty());
            all.extend(accounts.map(|response| Exchange { request: request.clone(), response }));
        }
        all
    }

    fn circumstances(&self) -> Circumstances {
        let alternatives = self.spec.alternatives.iter().map(|alternative| &alternative.backend);
        let choices = std::iter::once(&self.spec.backend).chain(alternatives).map(|backend| {
            let can = capabilities(backend);
            let Capabilities { session: sessions, forks, tells_tools, resume, .. } = can;
            // A loop that has made its calls has said all that it says.
            Choice { backend: backend.name.clone(), sessions, forks, tells_tools, converses: !resume }
        });
        let summary =
            self.spec.setup.response_file.as_ref().is_some_and(|file| file.summary_template.is_some());
        Circumstances {
            choices: choices.collect(),
            past: self.past.get_or_init(|| self.find_past()).clone(),
            summary,
            retry: self.spec.setup.retry.is_some(),
        }
    }

    /// Looks once: what the run itself adds to its session is not of its past.
    fn find_past(&self) -> Past {
        let Some(session) = &self.spec.session else { return Past::Nothing };
        if self.spec.begins_session() {
            // An earlier worker of the run may have added to it.
            let before = self.session_record().filter(|known| !known.runs.contains(&self.spec.id));
            return match before {
                Some(known) => Past::Known { native: known.native(), fork: false },
                None if self.spec.told.is_empty() => Past::Nothing,
                None => Past::Known { native: None, fork: false },
            };
        }
        if crate::app::chooses_sessions(&self.spec.backend) {
            return Past::Chosen(session.clone());
        }
        match self.session_record() {
            Some(known) => Past::Known { native: known.native(), fork: self.spec.fork },
            // What was said is not on record here, so only the vendor can go on.
            None => Past::Chosen(session.clone()),
        }
    }
}

/// Returns the attempts that a log tells of.
fn tried(state: &State) -> Vec<Tried> {
    let tried = |attempt: &domain::run::Attempted| Tried {
        choice: usize::try_from(attempt.choice).unwrap_or(usize::MAX),
        conversation: attempt.conversation,
        asked: attempt.asked,
        native: attempt.native.clone(),
        acted: attempt.acted,
    };
    state.attempts.iter().map(tried).collect()
}

pub(super) fn chosen(spec: &RunSpec, choice: usize) -> (&BackendSpec, Option<String>) {
    match alternative(spec, choice) {
        Some(alternative) => (&alternative.backend, alternative.model.clone()),
        None => (&spec.backend, spec.model.clone()),
    }
}

fn alternative(spec: &RunSpec, choice: usize) -> Option<&Alternative> {
    choice.checked_sub(1).and_then(|number| spec.alternatives.get(number))
}

/// Returns what holds on the backend of an attempt, where that differs from the run's setup.
fn settings_of(spec: &RunSpec, choice: usize) -> Option<&FallbackSettings> {
    alternative(spec, choice)?.settings.as_ref()
}

fn backend_of(spec: &RunSpec, choice: usize) -> &BackendSpec {
    chosen(spec, choice).0
}

fn named(backend: &BackendSpec, model: Option<&str>) -> String {
    model.map_or_else(|| backend.name.to_string(), |model| format!("{} with {model}", backend.name))
}

pub(super) fn capabilities(spec: &BackendSpec) -> Capabilities {
    let backend = backend::registry::by_kind(&spec.kind);
    backend.map(|backend| backend.capabilities(&spec.options)).unwrap_or_default()
}
