//! Looking at a run: finds it, and ends it if everybody who should have is dead. Looking never resumes a run,
//! since that spends.

use backend::process;
use domain::id::{RunId, RunRef};
use domain::run::{CancelOrder, Ending, Lost, Outcome, RunSpec};
use journal::find::FindError;
use journal::{Home, RunDir, inbox};

use super::AppError;
use super::engine::{Engine, Scope, store_error};
use crate::{sockets, worker};

impl Engine {
    /// Finds the run that somebody means, within what this door may see.
    pub(super) fn find(&self, typed: &str) -> Result<RunDir, AppError> {
        let reference: RunRef = typed.parse().map_err(|error: domain::id::IdError| {
            AppError::usage(error.to_string())
                .hint("`volery ps --all` (over MCP: list_runs) lists the runs there are")
        })?;
        let found = self.home.find(&reference).map_err(|error| find_error(typed, error))?;
        if self.may_see(&found) { Ok(found) } else { Err(unknown(typed)) }
    }

    /// Tells whether a run is within the scope of this door.
    pub(super) fn may_see(&self, dir: &RunDir) -> bool {
        match &self.scope {
            Scope::Everything => true,
            Scope::Token(_) | Scope::Within(_) => dir.read_spec().is_ok_and(|spec| self.may_see_spec(&spec)),
        }
    }

    /// Tells the same of a run whose spec was read already.
    pub(super) fn may_see_spec(&self, spec: &RunSpec) -> bool {
        let own = match &self.scope {
            Scope::Everything => return true,
            Scope::Token(name) => return spec.caller.token.as_ref() == Some(name),
            Scope::Within(own) => own,
        };
        let mut above = spec.parent;
        while let Some(id) = above {
            if id == own.id {
                return true;
            }
            above = self.home.run_dir(id).read_spec().ok().and_then(|spec| spec.parent);
        }
        false
    }

    /// Looks at a run that is only to be shown: an end that cannot be recorded must not hide what there is. Returns
    /// what stands in the way, if something does.
    pub(super) fn glance(&self, dir: &RunDir) -> Result<(RunSpec, Option<String>), AppError> {
        match self.look(dir) {
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
    pub(super) fn look(&self, dir: &RunDir) -> Result<RunSpec, AppError> {
        let spec = dir.read_spec().map_err(store_error)?;
        self.end_if_lost(dir, || Ok(spec.clone()))?;
        Ok(spec)
    }

    /// Ends a run whose keeper and worker are both gone. Returns how it ended, or nothing while it goes on.
    pub(super) fn look_for_end(&self, dir: &RunDir) -> Result<Option<Ending>, AppError> {
        self.end_if_lost(dir, || dir.read_spec().map_err(store_error))
    }

    fn end_if_lost(
        &self,
        dir: &RunDir,
        spec: impl FnOnce() -> Result<RunSpec, AppError>,
    ) -> Result<Option<Ending>, AppError> {
        let ending = || dir.ending().map_err(store_error);
        if let Some(ending) = ending()? {
            return Ok(Some(ending));
        }
        let mut lock = dir.try_lock().map_err(store_error)?;
        if lock.is_none() && end_stopped(dir) {
            lock = dir.try_lock().map_err(store_error)?;
        }
        let Some(lock) = lock else { return Ok(None) };
        // It may have ended between the two looks.
        if let Some(ending) = ending()? {
            return Ok(Some(ending));
        }
        let spec = spec()?;
        let swept = process::kill_tree(spec.tag, &[]).map_err(|error| {
            AppError::internal(format!("could not look for leftovers of a dead run: {error}"))
        })?;
        let (state, _) = journal::read_state(dir).map_err(store_error)?;
        let lost = if state.next_seq == 0 { Lost::BeforeStart } else { Lost::KeeperAndWorker };
        worker::end_lost(dir, &lock, &spec, Outcome::Interrupted { lost }, swept.count)
            .map_err(store_error)?;
        // A stale address helps nobody; a failure to remove it harms nobody.
        let _ = std::fs::remove_file(sockets::path(&self.home, spec.tag));
        ending()
    }
}

/// Kills what is left of a run's keeper and worker when all of it is stopped: it holds the lock and does nothing, and
/// nobody else is there to notice. Returns whether it did.
fn end_stopped(dir: &RunDir) -> bool {
    let Ok((state, _)) = journal::read_state(dir) else { return false };
    let alive = |pid: Option<u32>| {
        let pid = i32::try_from(pid?).ok().filter(|pid| *pid > 0).and_then(process::Pid::from_raw)?;
        process::find_own(pid, dir.path().as_os_str())
    };
    let left: Vec<_> = [state.keeper_pid, state.worker_pid].into_iter().filter_map(alive).collect();
    if left.is_empty() || !left.iter().all(|one| process::is_stopped(one.pid())) {
        return false;
    }
    for one in &left {
        if one.signal(process::Signal::KILL).is_err() {
            return false;
        }
        let wait = rustix::time::Timespec { tv_sec: 1, tv_nsec: 0 };
        let mut ended = [rustix::event::PollFd::new(one, rustix::event::PollFlags::IN)];
        // The lock tells whether it is gone; who looks too early looks again.
        let _ = rustix::event::poll(&mut ended, Some(&wait));
    }
    true
}

/// Orders the end of a run: the order is on disk, then its worker is told to look.
pub fn order_cancel(home: &Home, run: RunId, by: &str) {
    let dir = home.run_dir(run);
    let order = CancelOrder { by: by.to_owned(), reason: String::new(), now: false };
    // A run that is gone or ended needs no order.
    if inbox::post_cancel(&dir, &order).is_ok()
        && let Ok(spec) = dir.read_spec()
    {
        sockets::nudge(&sockets::path(home, spec.tag));
    }
}

fn find_error(typed: &str, error: FindError) -> AppError {
    match error {
        FindError::NotFound { .. } => unknown(typed),
        FindError::Ambiguous { runs, .. } => {
            let ids: Vec<String> = runs.iter().take(8).map(ToString::to_string).collect();
            AppError::usage(format!("{typed} is the end of several run ids: {}", ids.join(", ")))
                .hint("give more digits of the end of the id")
        }
        FindError::Store(error) => store_error(error),
    }
}

pub(super) fn unknown(typed: &str) -> AppError {
    AppError::not_found(format!("there is no run {typed}"))
        .hint("`volery ps --all` (over MCP: list_runs) lists the runs there are; ended ones are kept for 7 days by default")
}
