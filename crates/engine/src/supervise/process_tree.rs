//! The agent's processes and the supervision around them: sweeping, stopping, sampling resources, polling the inbox, and
//! announcing deadlines to the keeper.

use domain::run::{Event, StopMode, SupervisionInput};
use journal::StoreError;
use journal::inbox::{self, InboxMessage};

use super::supervisor::{AgentHandle, RunSupervisor};
use crate::clock;
use crate::failpoint;

/// The keeper waits this much longer than the machine before it treats the worker as hung.
const HANG_MARGIN_MS: u64 = 6_000;
/// How often the worker polls the inbox when no message asks for it.
const INBOX_POLL_MS: u64 = 1_000;

impl RunSupervisor {
    /// Appends an event to the log and applies it to the state.
    pub(super) fn append(&mut self, event: Event) -> Result<(), StoreError> {
        self.log.append(clock::now(), event)?;
        self.subscribers.wake();
        Ok(())
    }

    /// Kills the remaining processes of the agent.
    pub(super) fn sweep(&mut self) -> Result<(), StoreError> {
        let swept = match &mut self.handle {
            AgentHandle::Process { agent, .. } => agent.sweep(),
            AgentHandle::AgentLoop(driver) => driver.sweep(),
            AgentHandle::Loop { .. } | AgentHandle::NotRunning => return Ok(()),
        };
        let left = match &swept {
            Ok(killed) => {
                self.killed += killed.count;
                killed
                    .survivors
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
            // The end of the run must not wait until this line fits.
            Err(error) if error.is_full() => Ok(()),
            appended => appended,
        }
    }

    /// Asks the agent to stop, or kills all processes of the run.
    pub(super) fn stop(&mut self, how: StopMode) -> Result<(), StoreError> {
        match (&mut self.handle, how) {
            (AgentHandle::Process { agent, output, input, .. }, StopMode::Ask) => {
                let reports = output.ask_to_stop();
                if input.is_some() && !reports.is_empty() {
                    return self.apply_reports(reports);
                }
                if let Err(error) = process::request_termination(agent) {
                    let message = format!("the agent could not be asked to stop: {error}");
                    self.append(Event::Warned { message })?;
                }
            }
            (AgentHandle::Process { .. }, StopMode::Kill) => self.sweep()?,
            (AgentHandle::Loop { task, .. }, StopMode::Ask | StopMode::Kill) => {
                if let Some(task) = task.take() {
                    task.abort();
                }
                self.loop_stopped = true;
            }
            (AgentHandle::AgentLoop(driver), how) => {
                driver.stop(how);
                if how == StopMode::Kill {
                    self.sweep()?;
                }
                // Without a command that must end first, nothing else would report the end.
                if let AgentHandle::AgentLoop(driver) = &self.handle {
                    self.loop_stopped = driver.is_stopped();
                }
            }
            (AgentHandle::NotRunning, StopMode::Ask | StopMode::Kill) => {}
        }
        Ok(())
    }

    /// Checks the inbox for a cancellation and for answers.
    pub(super) async fn check_inbox(&mut self) -> Result<(), StoreError> {
        failpoint::reach("worker_checks_inbox");
        self.next_inbox_check = clock::monotonic_ms() + INBOX_POLL_MS;
        match inbox::read_cancel(&self.dir) {
            InboxMessage::Valid(order) if self.handled_cancel != Some(order.now) => {
                self.handled_cancel = Some(order.now);
                self.step(SupervisionInput::Cancel(order)).await?;
            }
            InboxMessage::Valid(_) | InboxMessage::Nothing | InboxMessage::Ignored { .. } => {}
        }
        if self.finished { Ok(()) } else { self.handle_answer().await }
    }

    /// Samples the resources of the process tree, where only sampling enforces a limit.
    pub(super) async fn sample(&mut self) -> Result<(), StoreError> {
        let AgentHandle::Process { agent, exit: None, .. } = &mut self.handle else { return Ok(()) };
        match agent.exceeded_limit().ok().flatten() {
            Some((limit, detail)) => self.step(SupervisionInput::LimitExceeded(limit, detail)).await,
            None => Ok(()),
        }
    }

    /// Announces to the keeper by when this worker must be done.
    pub(super) fn announce_deadline(&mut self) {
        let deadline = self.machine.hard_deadline(HANG_MARGIN_MS).unwrap_or(0);
        if deadline != self.announced_deadline {
            self.announced_deadline = deadline;
            // A full pipe means that the keeper is stopped; the old deadline stays.
            let _ = rustix::io::write(&self.deadline, &deadline.to_le_bytes());
        }
    }

    /// Announces to the keeper that a step at the end of the run takes longer than usual.
    pub(super) fn extend_deadline(&mut self, by: std::time::Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.announced_deadline = clock::monotonic_ms().saturating_add(by).saturating_add(HANG_MARGIN_MS);
        // See above.
        let _ = rustix::io::write(&self.deadline, &self.announced_deadline.to_le_bytes());
    }
}
