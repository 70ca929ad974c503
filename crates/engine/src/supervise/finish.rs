//! Finishes a run: sweeps its processes, writes its outcome and notifies its subscribers.

use backends::contract::{AgentAnswer, Exit};
use domain::run::{Outcome, TimeLimit};
use domain::setup::Isolation;
use journal::StoreError;

use super::output;
use super::run_ending::{self, EndFacts};
use super::supervisor::{AgentHandle, RunSupervisor};
use crate::api::RunView;
use crate::clock;
use crate::failpoint;
use crate::query::ended_view;

/// Shells report the end by a signal as this plus the number of the signal.
const SIGNAL_EXIT_BASE: i32 = 128;

impl RunSupervisor {
    /// Sweeps, writes the outcome, and notifies subscribers.
    pub(super) async fn finish(&mut self, outcome: Outcome, answer: AgentAnswer) -> Result<(), StoreError> {
        self.announce_deadline();
        self.sweep()?;
        self.remove_container();
        crate::launch::agent_process::remove_secrets(&self.dir);
        crate::launch::temp_dir::remove(&self.dir, &self.spec);
        super::workspace_cleanup::remove_empty_dirs(&self.dir);
        let (exit_code, stdout_has_output) = self.agent_exit();
        self.end_children().await;
        failpoint::reach("worker_swept");
        self.record_changes()?;
        self.settle_worktree()?;
        let answer = match self.invalid_output.take() {
            // An attempt to correct an answer must not lose it.
            Some(invalid_output) if !output::has_usable_answer(&answer, stdout_has_output) => {
                AgentAnswer::Text(invalid_output.text)
            }
            Some(_) | None => answer,
        };
        let outcome = outcome.with_output(output::has_usable_answer(&answer, stdout_has_output));
        let exit_code = exit_code.or_else(|| self.signal_after_answer(&outcome));
        let duration_ms = self.duration_ms();
        let structured = self.structured.take();
        let (repaired, killed, usage) = (self.repaired, self.killed, self.usage());
        let waited_for = self.delay_reason.take().unwrap_or_default();
        let facts = EndFacts {
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
        let mut ending = run_ending::build_ending(&self.dir, self.log.state(), facts)?;
        if ending.outcome.time_limit() == Some(TimeLimit::Idle) {
            ending.idle_timeout_ms = self.spec.limits.idle_timeout_ms;
        }
        self.add_session_usage();
        let ended = self.log.append_ending(clock::now(), ending)?;
        self.finished = true;
        crate::iac::record_end(self.dir.home(), &self.spec);
        failpoint::reach("worker_wrote_ending");
        let view = self.final_view();
        // The ending is durable, so nobody has to wait for the files that follow from it.
        self.subscribers.notify_ended(view).await;
        failpoint::reach("worker_notified");
        self.log.finish_files(&self.spec, &ended);
        // The keeper may be dead, and no other process would remove the socket of a run that has ended.
        let _ = std::fs::remove_file(crate::ipc::run_socket::path(self.dir.home(), self.spec.tag));
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

    /// Returns the signal that ended an agent after its answer, as shells count it. A signal from Volery does not count.
    fn signal_after_answer(&self, outcome: &Outcome) -> Option<i32> {
        match &self.handle {
            AgentHandle::Process { exit: Some(Exit::Signal(signal)), .. }
                if *outcome == Outcome::Succeeded && !self.killed_after_answer =>
            {
                Some(SIGNAL_EXIT_BASE + signal)
            }
            AgentHandle::Process { .. }
            | AgentHandle::Loop { .. }
            | AgentHandle::AgentLoop(_)
            | AgentHandle::NotRunning => None,
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
}
