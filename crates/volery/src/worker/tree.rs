//! The tree of a run: its processes, its use of resources, its child runs, and its end.

use backend::contract::{Answer, Exit};
use backend::process;
use domain::plan::Parent;
use domain::run::{Event, Input, Outcome, OutcomeKind, RunSpec, StopHow};
use domain::setup::Isolation;
use journal::StoreError;
use journal::inbox::{self, Letter};
use tokio::sync::{mpsc, oneshot};

use super::conclude::{self, Facts};
use super::desk::{Desk, Driven, Seen};
use super::{output, peers};
use crate::app::{AppError, Progress, Request, RunView, Start, StartedChild, ended_view};
use crate::clock;
use crate::point;
use crate::wire::Tell;

/// The keeper waits this much longer than the machine before it calls the worker hung.
const HANG_MARGIN_MS: u64 = 6_000;
/// Above this a shell tells the number of a signal.
const SIGNALLED: i32 = 128;
/// How often the inbox is looked at without being told to.
const LOOK_EVERY_MS: u64 = 1_000;

impl Desk {
    /// Records an event and takes it into the state.
    pub(super) fn append(&mut self, event: Event) -> Result<(), StoreError> {
        self.log.append(clock::now(), event)?;
        Ok(())
    }

    /// Kills what is left of the agent's processes.
    pub(super) fn sweep(&mut self) -> Result<(), StoreError> {
        let Driven::Process { agent, .. } = &mut self.driven else { return Ok(()) };
        let swept = agent.sweep();
        let left = match &swept {
            Ok(killed) => {
                self.killed += killed.count;
                killed
                    .left
                    .iter()
                    .map(|left| format!("{} ({}, state {})", left.pid, left.comm, left.state))
                    .collect()
            }
            Err(error) => vec![format!("the sweep failed: {error}")],
        };
        let left: Vec<String> = left;
        if left.is_empty() {
            return Ok(());
        }
        let message = format!("processes that could not be killed: {}", left.join(", "));
        match self.append(Event::Warned { message }) {
            // The end of the run must not wait for this line to fit.
            Err(error) if error.is_full() => Ok(()),
            appended => appended,
        }
    }

    /// Stops the agent: asks it, or kills all that belongs to the run.
    pub(super) fn stop(&mut self, how: StopHow) -> Result<(), StoreError> {
        match (&mut self.driven, how) {
            (Driven::Process { agent, output, input, .. }, StopHow::Ask) => {
                let word = output.ask_to_stop();
                if input.is_some() && !word.is_empty() {
                    return self.hear(word);
                }
                if let Err(error) = process::ask(agent) {
                    let message = format!("the agent could not be asked to stop: {error}");
                    self.append(Event::Warned { message })?;
                }
            }
            (Driven::Process { .. }, StopHow::Kill) => self.sweep()?,
            (Driven::Loop { under_way, .. }, StopHow::Ask | StopHow::Kill) => {
                if let Some(task) = under_way.take() {
                    task.abort();
                }
                self.loop_stopped = true;
            }
            (Driven::Nothing, StopHow::Ask | StopHow::Kill) => {}
        }
        Ok(())
    }

    /// Looks into the inbox.
    pub(super) async fn look(&mut self) -> Result<(), StoreError> {
        self.next_look = clock::monotonic_ms() + LOOK_EVERY_MS;
        match inbox::read_cancel(&self.dir) {
            Letter::Valid(order) if self.cancel_seen != Some(order.now) => {
                self.cancel_seen = Some(order.now);
                self.step(Input::Cancel(order)).await?;
            }
            Letter::Valid(_) | Letter::Nothing | Letter::Ignored { .. } => {}
        }
        if self.finished { Ok(()) } else { self.take_answer().await }
    }

    /// Looks at what the tree uses, where only looking enforces a limit.
    pub(super) async fn sample(&mut self) -> Result<(), StoreError> {
        let Driven::Process { agent, exit: None, .. } = &mut self.driven else { return Ok(()) };
        match agent.passed_limit().ok().flatten() {
            Some((limit, detail)) => self.step(Input::LimitPassed(limit, detail)).await,
            None => Ok(()),
        }
    }

    /// Tells the keeper by when this worker must be done.
    pub(super) fn tell_deadline(&mut self) {
        let deadline = self.machine.hard_deadline(HANG_MARGIN_MS).unwrap_or(0);
        if deadline != self.deadline_told {
            self.deadline_told = deadline;
            // A full pipe means that the keeper is stopped; the old deadline stays.
            let _ = rustix::io::write(&self.deadline, &deadline.to_le_bytes());
        }
    }

    /// Tells the keeper that something at the end of the run takes longer than usual.
    pub(super) fn extend_deadline(&mut self, by: std::time::Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.deadline_told = clock::monotonic_ms().saturating_add(by).saturating_add(HANG_MARGIN_MS);
        // As above.
        let _ = rustix::io::write(&self.deadline, &self.deadline_told.to_le_bytes());
    }

    /// Starts a child run. It is recorded before it starts, so that no end of this run can miss it.
    pub(super) fn start_child(&mut self, start: Start) -> Result<Result<StartedChild, AppError>, StoreError> {
        let mut spec = self.spec.clone();
        // A fallback may have a permission of its own, and its children are held to that one.
        spec.setup.permission.clone_from(&self.attempt.setup.permission);
        let parent = Parent {
            spec,
            children: u32::try_from(self.log.state().children.len()).unwrap_or(u32::MAX),
            tree_runs: 0,
            remaining_ms: self.machine.remaining_ms(clock::monotonic_ms()),
            line: Vec::new(),
        };
        let (log, mut announced, mut unrecorded) = (&mut self.log, None, None);
        let mut herald = |child: &RunSpec| {
            let event = Event::ChildStarted { run: child.id, agent: child.agent.clone() };
            announced = Some(child.id);
            match log.append(clock::now(), event) {
                Ok(_) => {
                    point::reach("worker_recorded_child");
                    Ok(())
                }
                Err(error) => {
                    unrecorded = Some(error);
                    Err(AppError::internal("the run could not be recorded with its parent"))
                }
            }
        };
        let started = self.engine.start_child(start, parent, &mut herald);
        if let Some(error) = unrecorded {
            return Err(error);
        }
        point::reach("worker_started_child");
        let started = match started {
            Ok(started) => started,
            Err(error) => {
                if let Some(run) = announced {
                    self.append(Event::ChildEnded { run, outcome: OutcomeKind::Failed })?;
                }
                return Ok(Err(error));
            }
        };
        // A request that is repeated has its run already, perhaps from an earlier worker.
        if !self.log.state().children.contains_key(&started.run_id) {
            self.append(Event::ChildStarted { run: started.run_id, agent: started.agent.clone() })?;
        }
        Ok(Ok(started))
    }

    /// Answers a request of the run's own agent in a task of its own.
    pub(super) fn take_ask(
        &mut self,
        request: Request,
        reply: oneshot::Sender<Tell>,
        signs: mpsc::Sender<Progress>,
    ) -> Result<(), StoreError> {
        let engine = std::sync::Arc::clone(&self.engine);
        let to_desk = self.to_desk.clone();
        if let Request::SubmitResult(submitted) = request {
            return self.take_submission(submitted.text, reply);
        }
        let Request::Start(start) = request else {
            tokio::task::spawn_local(async move {
                let _ = reply.send(peers::answer(engine, request, signs).await);
            });
            return Ok(());
        };
        // Whoever asked may be gone; the child goes on without.
        match self.start_child(*start)? {
            Err(error) => {
                let _ = reply.send(Tell::Refused { error });
            }
            Ok(StartedChild { run_id: run, told, .. }) => {
                let value = serde_json::to_value(&told).expect("a plain value");
                let _ = reply.send(Tell::Answer { value });
                tokio::task::spawn_local(async move {
                    let (outcome, _) = engine.result_of(run).await;
                    let _ = to_desk.send(Seen::ChildEnded { run, outcome }).await;
                });
            }
        }
        Ok(())
    }

    /// Sweeps, writes the outcome, and tells.
    pub(super) async fn finish(&mut self, outcome: Outcome, answer: Answer) -> Result<(), StoreError> {
        self.tell_deadline();
        self.sweep()?;
        self.leave_container();
        super::agent::remove_secrets(&self.dir);
        super::temporary::remove(&self.dir, &self.spec);
        super::leftovers::remove(&self.dir);
        let (exit_code, stdout_usable) = self.end_of_agent();
        self.end_children().await;
        point::reach("worker_swept");
        self.tell_changes()?;
        self.leave_worktree()?;
        let answer = match self.unfit.take() {
            // An attempt to correct an answer must not lose it.
            Some(unfit) if !output::is_usable(&answer, stdout_usable) => Answer::Text(unfit.text),
            Some(_) | None => answer,
        };
        let outcome = outcome.with_output(output::is_usable(&answer, stdout_usable));
        let exit_code = exit_code.or_else(|| self.signal_after_answer(&outcome));
        let duration_ms = self.duration_ms();
        let structured = self.structured.take();
        let (repaired, killed, usage) = (self.repaired, self.killed, self.usage());
        let waited_for = self.late.take().unwrap_or_default();
        let facts = Facts {
            outcome,
            answer,
            structured,
            repaired,
            duration_ms,
            exit_code,
            killed,
            usage,
            waited_for,
        };
        let ending = conclude::ending(&self.dir, self.log.state(), facts)?;
        self.settle_session();
        self.log.finish_of(&self.spec, clock::now(), ending)?;
        self.finished = true;
        crate::iac::ended(self.dir.home(), &self.spec);
        // Its keeper may be dead, and nobody else would remove the address of a run that has ended.
        let _ = std::fs::remove_file(crate::sockets::path(self.dir.home(), self.spec.tag));
        point::reach("worker_wrote_outcome");
        let view = self.final_view();
        self.audience.ended(view).await;
        Ok(())
    }

    /// Returns the run as the door that started it shows it, so that the door need not read the log. `None` for a run with
    /// its own work tree, since this worker's spec then names another directory than `spec.json`.
    fn final_view(&self) -> Option<RunView> {
        if self.spec.setup.isolation != Isolation::None {
            return None;
        }
        // After an error here the door reads the run from the disk, and reports what is wrong there.
        ended_view(&self.dir, &self.spec, self.log.state(), self.log.damaged()).ok()
    }

    /// Returns the signal that ended an agent which had answered, as shells count it. One of ours does not count.
    fn signal_after_answer(&self, outcome: &Outcome) -> Option<i32> {
        match &self.driven {
            Driven::Process { exit: Some(Exit::Signal(signal)), .. }
                if *outcome == Outcome::Succeeded && !self.dismissed =>
            {
                Some(SIGNALLED + signal)
            }
            Driven::Process { .. } | Driven::Loop { .. } | Driven::Nothing => None,
        }
    }

    /// Returns how long the run took, over all its workers.
    fn duration_ms(&self) -> u64 {
        let own = clock::monotonic_ms() - self.started_ms;
        let state = self.log.state();
        match state.started_at {
            Some(started) if state.epoch > 1 => {
                let whole = clock::now().as_millisecond() - started.as_millisecond();
                u64::try_from(whole).unwrap_or(own)
            }
            Some(_) | None => own,
        }
    }

    /// Child runs do not outlive their parent: they are cancelled and awaited for as long as their grace.
    async fn end_children(&mut self) {
        let open: Vec<_> = self
            .log
            .state()
            .children
            .iter()
            .filter(|(_, child)| child.outcome.is_none())
            .map(|(run, _)| *run)
            .collect();
        if open.is_empty() {
            return;
        }
        conclude::cancel_children(&self.dir, &self.spec, self.log.state());
        let wait = std::time::Duration::from_millis(self.spec.limits.grace_ms + 1_000);
        for run in open {
            let ended = tokio::time::timeout(wait, self.engine.result_of(run)).await;
            if let Ok((outcome, _)) = ended {
                // The parent's own outcome matters more than this line about its child.
                let _ = self.append(Event::ChildEnded { run, outcome });
            }
        }
    }
}
