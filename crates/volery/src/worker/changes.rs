//! Which files change while a run goes on: a look at its work tree before the agent begins, and one after its end.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use backend::work_tree::{Git, GitError, Snapshot};
use domain::run::{Event, Lost, Outcome, RunSpec};
use journal::{LogWriter, RunDir, StoreError};

use super::desk::Desk;
use crate::clock;
use crate::env;

/// How long a start may be held up by the look at its work tree.
const BEFORE_MAX: Duration = Duration::from_millis(1_000);
/// How long an end may be, which has less to hurry for.
const AFTER_MAX: Duration = Duration::from_millis(3_000);
/// The first look, in the run's work folder: for whoever ends the run if this worker cannot.
const STORED: &str = "tree-before";

/// Where git is, once it was found.
static GIT: OnceLock<PathBuf> = OnceLock::new();

/// Returns git for a run, if it is installed.
pub(super) fn git(spec: &RunSpec) -> Option<Git> {
    let path = env::get("PATH")?;
    let program = match GIT.get() {
        Some(known) => known.clone(),
        None => Git::locate(&path).inspect(|found| drop(GIT.set(found.clone())))?,
    };
    Some(Git::at(program, &path, env::for_agent(&[]), spec.tag))
}

impl Desk {
    /// Looks at the work tree before the agent does anything.
    pub(super) fn look_before(&mut self, resumed: bool) -> Result<(), StoreError> {
        super::leftovers::note(&self.dir, &self.spec);
        if resumed && let Some(before) = stored(&self.dir) {
            self.before = Some(before);
            return Ok(());
        }
        let Some(git) = git(&self.spec) else { return Ok(()) };
        match Snapshot::take(&git, Path::new(&self.spec.directory), Instant::now() + BEFORE_MAX) {
            Ok(before) => {
                self.before = before;
                if let Some(before) = &self.before {
                    // It serves only the record of a run whose worker is lost.
                    let _ = super::agent::write_file(&self.dir, STORED, &before.store());
                }
                Ok(())
            }
            Err(error) => self.append(unknown(&error)),
        }
    }

    /// Records what changed since.
    pub(super) fn tell_changes(&mut self) -> Result<(), StoreError> {
        let Some((before, git)) = self.before.take().zip(git(&self.spec)) else { return Ok(()) };
        let event = compared(&before, &git);
        unless_full(self.append(event))
    }
}

/// Records what changed in a run whose worker was lost, if that was just now: later, others may have changed it.
pub(super) fn tell_of_lost(
    dir: &RunDir,
    spec: &RunSpec,
    log: &mut LogWriter,
    outcome: &Outcome,
) -> Result<(), StoreError> {
    let lost_long_ago =
        matches!(outcome, Outcome::Interrupted { lost: Lost::KeeperAndWorker | Lost::BeforeStart });
    // A work tree of the run's own is nobody else's.
    let shared = log.state().worktree.is_none();
    if lost_long_ago && shared || log.state().changes.is_some() {
        return Ok(());
    }
    let Some((before, git)) = stored(dir).zip(git(spec)) else { return Ok(()) };
    unless_full(log.append(clock::now(), compared(&before, &git)).map(drop))
}

fn stored(dir: &RunDir) -> Option<Snapshot> {
    Snapshot::load(&std::fs::read(dir.work_dir().join(STORED)).ok()?)
}

fn compared(before: &Snapshot, git: &Git) -> Event {
    match before.changes(git, Instant::now() + AFTER_MAX) {
        Ok(changes) => Event::FilesChanged { changes },
        Err(error) => unknown(&error),
    }
}

fn unknown(error: &GitError) -> Event {
    Event::Warned { message: format!("which files change is not known: {error}") }
}

/// The end of the run must not wait for this line to fit.
fn unless_full(appended: Result<(), StoreError>) -> Result<(), StoreError> {
    match appended {
        Err(error) if error.is_full() => Ok(()),
        appended => appended,
    }
}
