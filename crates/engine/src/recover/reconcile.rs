//! Ends a run whose keeper and worker are dead. Never resumes a run, since that costs money.

use domain::run::{Ending, LostProcess, Outcome, RunSpec};
use journal::RunDir;

use crate::api::EngineError;
use crate::engine::{Engine, store_error};
use crate::ipc::run_socket;
use crate::supervise;

impl Engine {
    /// Reconciles a run that is only to be shown: if its end cannot be recorded, it is shown all the same. Returns a
    /// warning in that case.
    pub(crate) fn reconcile_or_warn(&self, dir: &RunDir) -> Result<(RunSpec, Option<String>), EngineError> {
        match self.reconcile(dir) {
            Ok(spec) => Ok((spec, None)),
            Err(error) => match dir.read_spec() {
                Ok(spec) => {
                    let reason = error.message;
                    Ok((spec, Some(format!("the end of this run could not be recorded yet: {reason}"))))
                }
                Err(_) => Err(error),
            },
        }
    }

    /// Ends a run whose keeper and worker are both gone. Returns its spec.
    pub(crate) fn reconcile(&self, dir: &RunDir) -> Result<RunSpec, EngineError> {
        let spec = dir.read_spec().map_err(store_error)?;
        self.end_if_lost(dir, || Ok(spec.clone()))?;
        Ok(spec)
    }

    /// Ends a run whose keeper and worker are both gone. Returns how it ended, or `None` while it is running.
    pub(crate) fn reconcile_ending(&self, dir: &RunDir) -> Result<Option<Ending>, EngineError> {
        self.end_if_lost(dir, || dir.read_spec().map_err(store_error))
    }

    fn end_if_lost(
        &self,
        dir: &RunDir,
        spec: impl FnOnce() -> Result<RunSpec, EngineError>,
    ) -> Result<Option<Ending>, EngineError> {
        let ending = || dir.ending().map_err(store_error);
        if let Some(ending) = ending()? {
            return Ok(Some(ending));
        }
        let mut lock = dir.try_lock().map_err(store_error)?;
        if lock.is_none() && end_stopped(dir) {
            lock = dir.try_lock().map_err(store_error)?;
        }
        let Some(lock) = lock else { return Ok(None) };
        // The run may have ended between the two checks.
        if let Some(ending) = ending()? {
            return Ok(Some(ending));
        }
        let spec = spec()?;
        let swept = process::kill_tree(spec.tag, &[]).map_err(|error| {
            EngineError::internal(format!("could not look for leftovers of a dead run: {error}"))
        })?;
        let (state, _) = journal::read_state(dir).map_err(store_error)?;
        let lost = if state.next_seq == 0 { LostProcess::BeforeStart } else { LostProcess::KeeperAndWorker };
        supervise::end_lost_run(dir, &lock, &spec, Outcome::Interrupted { lost }, swept.count)
            .map_err(store_error)?;
        // A stale socket is useless; a failure to remove it does no harm.
        let _ = std::fs::remove_file(run_socket::path(&self.home, spec.tag));
        ending()
    }
}

/// Kills the remaining keeper and worker of a run if all of them are stopped: they hold the lock and do nothing, and
/// no other process would notice. Returns whether it did.
fn end_stopped(dir: &RunDir) -> bool {
    let Ok((state, _)) = journal::read_state(dir) else { return false };
    let alive = |pid: Option<u32>| {
        let pid = i32::try_from(pid?).ok().filter(|pid| *pid > 0).and_then(process::Pid::from_raw)?;
        process::find_own_process(pid, dir.path().as_os_str())
    };
    let processes: Vec<_> = [state.keeper_pid, state.worker_pid].into_iter().filter_map(alive).collect();
    if processes.is_empty() || !processes.iter().all(|handle| process::is_stopped(handle.pid())) {
        return false;
    }
    for handle in &processes {
        if handle.signal(process::Signal::KILL).is_err() {
            return false;
        }
        let wait = rustix::time::Timespec { tv_sec: 1, tv_nsec: 0 };
        let mut ended = [rustix::event::PollFd::new(handle, rustix::event::PollFlags::IN)];
        // The lock shows whether the process is gone; a caller that checks too early checks again.
        let _ = rustix::event::poll(&mut ended, Some(&wait));
    }
    true
}
