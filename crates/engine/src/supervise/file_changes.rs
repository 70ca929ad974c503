//! Finds the files that change during a run: takes a snapshot of its work tree before the agent starts, and compares
//! after its end.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use domain::run::{Event, LostProcess, Outcome, RunSpec};
use journal::{LogWriter, RunDir, StoreError};
use process::work_tree::{Git, GitError, Snapshot};

use super::supervisor::RunSupervisor;
use crate::clock;
use crate::env;

/// How long the snapshot may delay the start.
const START_SNAPSHOT_MAX: Duration = Duration::from_millis(1_000);
/// How long the comparison may delay the end, which is less urgent.
const END_SNAPSHOT_MAX: Duration = Duration::from_millis(3_000);
/// The snapshot in the run's work folder, for the process that ends the run if this worker cannot.
const SNAPSHOT_FILE: &str = "tree-before";

/// The path of git, once it was found.
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

impl RunSupervisor {
    /// Takes a snapshot of the work tree before the agent starts.
    pub(super) fn snapshot_work_tree(&mut self, resumed: bool) -> Result<(), StoreError> {
        super::workspace_cleanup::record_absent_dirs(&self.dir, &self.spec);
        if resumed && let Some(before) = load_snapshot(&self.dir) {
            self.initial_snapshot = Some(before);
            return Ok(());
        }
        let Some(git) = git(&self.spec) else { return Ok(()) };
        match Snapshot::take(&git, Path::new(&self.spec.directory), Instant::now() + START_SNAPSHOT_MAX) {
            Ok(before) => {
                self.initial_snapshot = before;
                if let Some(before) = &self.initial_snapshot {
                    // The file is only used if the worker is lost.
                    let _ =
                        crate::launch::agent_process::write_file(&self.dir, SNAPSHOT_FILE, &before.store());
                }
                Ok(())
            }
            Err(error) => self.append(unknown_changes(&error)),
        }
    }

    /// Records the changes since the snapshot.
    pub(super) fn record_changes(&mut self) -> Result<(), StoreError> {
        let Some((before, git)) = self.initial_snapshot.take().zip(git(&self.spec)) else { return Ok(()) };
        let event = changes_event(&before, &git);
        ignore_full_disk(self.append(event))
    }
}

/// Records the changes of a run whose worker was lost, if that was just now: later, others may have changed files
/// too.
pub(super) fn record_changes_of_lost_run(
    dir: &RunDir,
    spec: &RunSpec,
    log: &mut LogWriter,
    outcome: &Outcome,
) -> Result<(), StoreError> {
    let lost_long_ago = matches!(
        outcome,
        Outcome::Interrupted { lost: LostProcess::KeeperAndWorker | LostProcess::BeforeStart }
    );
    // Nobody else works in the run's own work tree.
    let shared = log.state().worktree.is_none();
    if lost_long_ago && shared || log.state().changes.is_some() {
        return Ok(());
    }
    let Some((before, git)) = load_snapshot(dir).zip(git(spec)) else { return Ok(()) };
    ignore_full_disk(log.append(clock::now(), changes_event(&before, &git)).map(drop))
}

fn load_snapshot(dir: &RunDir) -> Option<Snapshot> {
    Snapshot::load(&std::fs::read(dir.work_dir().join(SNAPSHOT_FILE)).ok()?)
}

fn changes_event(before: &Snapshot, git: &Git) -> Event {
    match before.changes(git, Instant::now() + END_SNAPSHOT_MAX) {
        Ok(changes) => Event::FilesChanged { changes },
        Err(error) => unknown_changes(&error),
    }
}

fn unknown_changes(error: &GitError) -> Event {
    Event::Warned { message: format!("which files change is not known: {error}") }
}

/// Ignores a full disk: the end of the run must not wait until this line fits.
fn ignore_full_disk(appended: Result<(), StoreError>) -> Result<(), StoreError> {
    match appended {
        Err(error) if error.is_full() => Ok(()),
        appended => appended,
    }
}
