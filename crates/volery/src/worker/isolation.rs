//! A run in a git work tree of its own: made before the agent begins, settled at the end by whoever ends the run. What
//! was done stays as a branch.

use std::path::Path;
use std::time::{Duration, Instant};

use backend::work_tree::{self, IsolationError, Settled};
use domain::run::{AgentEnd, Branch, Event, Input, RunSpec, Worktree};
use domain::setup::Isolation;
use journal::{LogWriter, StoreError};

use super::changes::git;
use super::desk::Desk;
use crate::app::Engine;
use crate::clock;
use crate::env;

/// How long git may take to fill a work tree, and to empty it again.
const MAKE_MAX: Duration = Duration::from_secs(60);
const SETTLE_MAX: Duration = Duration::from_secs(30);

/// Whether the run has the place that it shall have.
enum Entered {
    Yes,
    Refused(String),
}

impl Desk {
    /// Puts the run where it works, looks around, and begins it.
    pub(super) async fn begin_run(&mut self, resumed: bool) -> Result<(), StoreError> {
        if let Entered::Refused(reason) = self.enter_worktree()? {
            return self.step(Input::Ended(AgentEnd::Refused(reason))).await;
        }
        self.look_before(resumed)?;
        if resumed { self.take_over().await } else { self.begin_first().await }
    }

    /// Makes the run's own work tree, if it shall have one, and goes there.
    fn enter_worktree(&mut self) -> Result<Entered, StoreError> {
        if self.spec.setup.isolation == Isolation::None {
            return Ok(Entered::Yes);
        }
        let worktree = match self.log.state().worktree.clone() {
            Some(begun) => begun,
            None => match plan(&self.spec) {
                Err(reason) => return Ok(refused(&reason)),
                Ok(mut planned) => {
                    self.begin_from_the_run_before(&mut planned)?;
                    let Worktree { path, branch, origin, base } = planned.clone();
                    self.append(Event::WorktreeBegun { path, branch, origin, base })?;
                    // Whoever ends the run must know of it.
                    self.log.sync()?;
                    planned
                }
            },
        };
        let left = Duration::from_millis(self.machine.remaining_ms(clock::monotonic_ms()));
        match enter(&self.spec, &worktree, MAKE_MAX.min(left)) {
            Ok(directory) => {
                self.attempt.directory.clone_from(&directory);
                self.spec.directory = directory;
                self.engine = Engine::for_run(self.dir.home(), &self.spec);
                crate::point::reach("worker_entered_worktree");
                Ok(Entered::Yes)
            }
            Err(reason) => Ok(refused(&reason)),
        }
    }

    /// Lets the work tree begin with what the interrupted run left that this one goes on with.
    fn begin_from_the_run_before(&mut self, planned: &mut Worktree) -> Result<(), StoreError> {
        let Some(before) = self.spec.resumes else { return Ok(()) };
        let Ok((state, _)) = journal::read_state(&self.dir.home().run_dir(before.run)) else { return Ok(()) };
        let Some(branch) = state.branch else { return Ok(()) };
        let deadline = Instant::now() + MAKE_MAX;
        let commit = format!("{}^{{commit}}", branch.tip);
        let known = git(&self.spec).is_some_and(|git| {
            git.ask(Path::new(&planned.origin), &["cat-file", "-e", &commit], deadline).is_ok()
        });
        if known {
            planned.base = branch.tip;
            return Ok(());
        }
        let message =
            format!("the branch {} of the run before is gone; this one begins without it", branch.name);
        self.append(Event::Warned { message })
    }

    /// Leaves only the branch.
    pub(super) fn leave_worktree(&mut self) -> Result<(), StoreError> {
        if self.log.state().worktree.is_some() {
            self.extend_deadline(SETTLE_MAX);
        }
        settle(&self.spec, &mut self.log)
    }
}

fn refused(reason: &str) -> Entered {
    Entered::Refused(format!("isolation: worktree cannot be had: {reason}"))
}

fn plan(spec: &RunSpec) -> Result<Worktree, String> {
    let git = git(spec).ok_or("git is not installed, or not on the PATH")?;
    let folder = env::worktrees_home().ok_or("there is no home directory for it")?;
    let name = format!("{}-{}", spec.agent, spec.id.short());
    let deadline = Instant::now() + MAKE_MAX;
    work_tree::plan_worktree(&git, Path::new(&spec.directory), &folder, &name, deadline)
        .map_err(|error| error.to_string())
}

fn enter(spec: &RunSpec, worktree: &Worktree, within: Duration) -> Result<String, String> {
    let git = git(spec).ok_or("git is not installed, or not on the PATH")?;
    let text = |error: IsolationError| error.to_string();
    work_tree::make_worktree(&git, worktree, Instant::now() + within).map_err(text)?;
    let inside = work_tree::inside_worktree(worktree, Path::new(&spec.directory)).map_err(text)?;
    inside.into_os_string().into_string().map_err(|path| format!("{} is no text", path.display()))
}

/// Commits what the agent left, removes its work tree and records the branch. What cannot be settled stays, by name.
pub(super) fn settle(spec: &RunSpec, log: &mut LogWriter) -> Result<(), StoreError> {
    let Some(worktree) = log.state().worktree.clone() else { return Ok(()) };
    let Some(git) = git(spec) else {
        return note(log, stays(&worktree, "git is not on the PATH"));
    };
    let message = format!(
        "{}: what the run {} left uncommitted\n\nCommitted by Volery at the end of the run, so that nothing is lost.",
        spec.agent,
        spec.id.short()
    );
    match work_tree::settle_worktree(&git, &worktree, &message, Instant::now() + SETTLE_MAX) {
        Ok(Settled { branch, elsewhere, moved }) => {
            if !moved.is_empty() {
                let names = moved.join(", ");
                let message =
                    format!("commits of the run are on {names}, which another work tree has checked out");
                note(log, Event::Warned { message })?;
            }
            if !elsewhere.is_empty() {
                note(log, also_on(branch.as_ref(), &elsewhere))?;
            }
            note(log, Event::WorktreeEnded { branch })
        }
        Err(error @ IsolationError::Lost(_)) => {
            let branch = &worktree.branch;
            let message =
                format!("the work tree of this run is not settled, and its branch {branch} stays: {error}");
            note(log, Event::Warned { message })
        }
        Err(error) => note(log, stays(&worktree, &error.to_string())),
    }
}

fn stays(worktree: &Worktree, reason: &str) -> Event {
    let Worktree { path, branch, .. } = worktree;
    let message = format!("the work tree of this run stays at {path}, with the branch {branch}: {reason}");
    Event::Warned { message }
}

fn also_on(branch: Option<&Branch>, elsewhere: &[String]) -> Event {
    let names = elsewhere.join(", ");
    let message = match branch {
        Some(branch) => {
            format!("the branch {} does not hold all that was done: see also {names}", branch.name)
        }
        None => format!("what was done is on branches that the agent chose: {names}"),
    };
    Event::Warned { message }
}

/// The end of the run must not wait for this line to fit.
fn note(log: &mut LogWriter, event: Event) -> Result<(), StoreError> {
    match log.append(clock::now(), event) {
        Err(error) if error.is_full() => Ok(()),
        appended => appended.map(drop),
    }
}
