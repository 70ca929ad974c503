//! The git work tree of a run with `isolation: worktree`: created before the agent starts, settled by the process
//! that ends the run. The work stays as a branch.

use std::path::Path;
use std::time::{Duration, Instant};

use domain::run::{AgentEnd, Branch, Event, RunSpec, SupervisionInput, Worktree};
use domain::setup::Isolation;
use journal::{LogWriter, StoreError};
use process::work_tree::{self, IsolationError, Settled};

use super::file_changes::git;
use super::supervisor::RunSupervisor;
use crate::clock;
use crate::engine::Engine;
use crate::env;

/// How long git may take to fill a work tree, and to settle it.
const CREATE_TIMEOUT: Duration = Duration::from_secs(60);
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Whether the run has entered its work tree.
enum WorktreeEntry {
    Yes,
    Refused(String),
}

impl RunSupervisor {
    /// Enters the work tree, takes its snapshot, and starts or resumes the run.
    pub(super) async fn start_run(&mut self, resumed: bool) -> Result<(), StoreError> {
        if let WorktreeEntry::Refused(reason) = self.enter_worktree()? {
            return self.step(SupervisionInput::Ended(AgentEnd::Refused(reason))).await;
        }
        self.snapshot_work_tree(resumed)?;
        if resumed { self.resume_run().await } else { self.start_first_attempt().await }
    }

    /// Creates the run's own work tree, if it needs one, and changes the run's directory to it.
    fn enter_worktree(&mut self) -> Result<WorktreeEntry, StoreError> {
        if self.spec.setup.isolation == Isolation::None {
            return Ok(WorktreeEntry::Yes);
        }
        let worktree = match self.log.state().worktree.clone() {
            Some(existing) => existing,
            None => match plan_worktree(&self.spec) {
                Err(reason) => return Ok(refusal(&reason)),
                Ok(mut planned) => {
                    self.continue_from_previous_branch(&mut planned)?;
                    let Worktree { path, branch, origin, base } = planned.clone();
                    self.append(Event::WorktreeCreated { path, branch, origin, base })?;
                    // The process that ends the run must know the work tree.
                    self.log.sync()?;
                    planned
                }
            },
        };
        let remaining = Duration::from_millis(self.machine.remaining_ms(clock::monotonic_ms()));
        match make_and_enter(&self.spec, &worktree, CREATE_TIMEOUT.min(remaining)) {
            Ok(directory) => {
                self.attempt_spec.directory.clone_from(&directory);
                self.spec.directory = directory;
                self.engine = Engine::for_run(self.dir.home(), &self.spec);
                crate::failpoint::reach("worker_entered_worktree");
                Ok(WorktreeEntry::Yes)
            }
            Err(reason) => Ok(refusal(&reason)),
        }
    }

    /// Starts the work tree from the branch of the interrupted run that this one continues.
    fn continue_from_previous_branch(&mut self, planned: &mut Worktree) -> Result<(), StoreError> {
        let Some(previous) = self.spec.resumed_run else { return Ok(()) };
        let Ok((state, _)) = journal::read_state(&self.dir.home().run_dir(previous.run)) else {
            return Ok(());
        };
        let Some(branch) = state.branch else { return Ok(()) };
        let deadline = Instant::now() + CREATE_TIMEOUT;
        let commit = format!("{}^{{commit}}", branch.tip);
        let exists = git(&self.spec).is_some_and(|git| {
            git.run(Path::new(&planned.origin), &["cat-file", "-e", &commit], deadline).is_ok()
        });
        if exists {
            planned.base = branch.tip;
            return Ok(());
        }
        let message =
            format!("the branch {} of the run before is gone; this one begins without it", branch.name);
        self.append(Event::Warned { message })
    }

    /// Removes the work tree, and leaves only its branch.
    pub(super) fn settle_worktree(&mut self) -> Result<(), StoreError> {
        if self.log.state().worktree.is_some() {
            self.extend_deadline(SETTLE_TIMEOUT);
        }
        settle(&self.spec, &mut self.log)
    }
}

fn refusal(reason: &str) -> WorktreeEntry {
    WorktreeEntry::Refused(format!("isolation: worktree cannot be had: {reason}"))
}

fn plan_worktree(spec: &RunSpec) -> Result<Worktree, String> {
    let git = git(spec).ok_or("git is not installed, or not on the PATH")?;
    let folder = env::worktrees_home().ok_or("there is no home directory for it")?;
    let name = format!("{}-{}", spec.agent, spec.id.short());
    let deadline = Instant::now() + CREATE_TIMEOUT;
    work_tree::plan_worktree(&git, Path::new(&spec.directory), &folder, &name, deadline)
        .map_err(|error| error.to_string())
}

fn make_and_enter(spec: &RunSpec, worktree: &Worktree, within: Duration) -> Result<String, String> {
    let git = git(spec).ok_or("git is not installed, or not on the PATH")?;
    let message = |error: IsolationError| error.to_string();
    work_tree::make_worktree(&git, worktree, Instant::now() + within).map_err(message)?;
    let inside = work_tree::inside_worktree(worktree, Path::new(&spec.directory)).map_err(message)?;
    inside.into_os_string().into_string().map_err(|path| format!("{} is no text", path.display()))
}

/// Commits the agent's changes, removes its work tree and records the branch. A work tree that cannot be settled
/// stays, with a warning.
pub(super) fn settle(spec: &RunSpec, log: &mut LogWriter) -> Result<(), StoreError> {
    let Some(worktree) = log.state().worktree.clone() else { return Ok(()) };
    let Some(git) = git(spec) else {
        return append_unless_full(log, not_removed_warning(&worktree, "git is not on the PATH"));
    };
    let message = format!(
        "{}: what the run {} left uncommitted\n\nCommitted by Volery at the end of the run, so that nothing is lost.",
        spec.agent,
        spec.id.short()
    );
    match work_tree::settle_worktree(&git, &worktree, &message, Instant::now() + SETTLE_TIMEOUT) {
        Ok(Settled { branch, other_branches, moved_user_branches }) => {
            if !moved_user_branches.is_empty() {
                let names = moved_user_branches.join(", ");
                let message =
                    format!("commits of the run are on {names}, which another work tree has checked out");
                append_unless_full(log, Event::Warned { message })?;
            }
            if !other_branches.is_empty() {
                append_unless_full(log, other_branches_warning(branch.as_ref(), &other_branches))?;
            }
            append_unless_full(log, Event::WorktreeEnded { branch })
        }
        Err(error @ IsolationError::Lost(_)) => {
            let branch = &worktree.branch;
            let message =
                format!("the work tree of this run is not settled, and its branch {branch} stays: {error}");
            append_unless_full(log, Event::Warned { message })
        }
        Err(error) => append_unless_full(log, not_removed_warning(&worktree, &error.to_string())),
    }
}

fn not_removed_warning(worktree: &Worktree, reason: &str) -> Event {
    let Worktree { path, branch, .. } = worktree;
    let message = format!("the work tree of this run stays at {path}, with the branch {branch}: {reason}");
    Event::Warned { message }
}

fn other_branches_warning(branch: Option<&Branch>, elsewhere: &[String]) -> Event {
    let names = elsewhere.join(", ");
    let message = match branch {
        Some(branch) => {
            format!("the branch {} does not hold all that was done: see also {names}", branch.name)
        }
        None => format!("what was done is on branches that the agent chose: {names}"),
    };
    Event::Warned { message }
}

/// The end of the run must not wait until this line fits.
fn append_unless_full(log: &mut LogWriter, event: Event) -> Result<(), StoreError> {
    match log.append(clock::now(), event) {
        Err(error) if error.is_full() => Ok(()),
        appended => appended.map(drop),
    }
}
