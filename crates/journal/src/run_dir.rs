//! One run's directory: created atomically, found by id, locked by its writer.
//!
//! It is built under another name and renamed into place with its lock held, so nobody ever sees an incomplete run or
//! a run without a writer.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use domain::Timestamp;
use domain::id::RunId;
use domain::run::{RunSpec, SPEC_VERSION};
use serde::Deserialize;

use crate::durable::{Disk, create_private, fresh_path};
use crate::home::Home;
use crate::log::{AHEAD_BYTES, RESERVE_BYTES};
use crate::run_lock::RunLock;
use crate::store_error::{StoreError, failed};

/// Replaces the literal values for the agent's own MCP servers in the spec of an ended run.
const HIDDEN: &str = "[redacted]";
/// The maximum size of a `spec.json`.
const SPEC_BYTES_MAX: u64 = 16 << 20;
/// How long a run may take from its marker to its directory before its creation counts as failed.
const CREATION_MS_MAX: i64 = 60_000;

/// The directory of one run. A path, not a promise that it exists.
#[derive(Debug, Clone)]
pub struct RunDir {
    home: Home,
    id: RunId,
    path: PathBuf,
}

/// A run that was just created and is locked.
#[derive(Debug)]
pub struct NewRun {
    pub dir: RunDir,
    pub lock: RunLock,
}

impl Home {
    /// Creates a run's marker, directory, lock, spec, empty log and inbox. Nothing is durable yet.
    pub fn create_run(&self, spec: &RunSpec) -> Result<NewRun, StoreError> {
        let dir = self.run_dir(spec.id);
        let staging = dir.staging_path();
        touch_marker(&dir.marker_path())?;
        let created = build(&staging, spec, self.disk()).and_then(|lock| {
            // A rename would silently replace an empty directory of the same name.
            if dir.exists() {
                let source = io::ErrorKind::AlreadyExists.into();
                return Err(StoreError::Io { attempt: "create", path: dir.path.clone(), source });
            }
            fs::rename(&staging, &dir.path).map_err(failed("create", &dir.path))?;
            Ok(lock)
        });
        match created {
            Ok(lock) => {
                // Another process may have mistaken a slow creation for a failed one and removed the marker.
                touch_marker(&dir.marker_path())?;
                Ok(NewRun { dir, lock })
            }
            Err(error) => {
                // The first error is the one to report; remaining files are cleared later as a failed creation.
                let _ = fs::remove_dir_all(&staging);
                if !dir.exists() {
                    let _ = fs::remove_file(dir.marker_path());
                }
                Err(error)
            }
        }
    }

    /// Returns the directory of a run, whether it exists or not.
    pub fn run_dir(&self, id: RunId) -> RunDir {
        let path = self.runs_dir().join(id.day()).join(id.to_string());
        RunDir { home: self.clone(), id, path }
    }

    /// Removes the marker of a run whose end the index has recorded.
    pub fn remove_marker(&self, id: RunId) -> Result<(), StoreError> {
        let path = self.run_dir(id).marker_path();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Clears the marker of a run that was never created because its process died.
    ///
    /// Returns whether there is no run and, because of its age, will not be one.
    pub fn clear_stale_marker(&self, id: RunId, now: Timestamp) -> Result<bool, StoreError> {
        let dir = self.run_dir(id);
        let age_ms = now.as_millisecond().saturating_sub(id.created_at().as_millisecond());
        if dir.exists() || age_ms < CREATION_MS_MAX {
            return Ok(false);
        }
        match fs::remove_dir_all(dir.staging_path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove", &dir.staging_path())(error));
            }
            Ok(()) | Err(_) => {}
        }
        self.remove_marker(id)?;
        Ok(true)
    }
}

impl NewRun {
    /// Makes the run survive a power loss. A failure is final: nothing may be started on this run.
    pub fn make_durable(&self) -> Result<(), StoreError> {
        self.dir.make_durable()
    }
}

impl RunDir {
    /// Returns the run of a directory that a keeper gets on its command line.
    pub fn from_path(path: &Path) -> Result<Self, StoreError> {
        let not_a_run = || StoreError::NotARun { path: path.to_owned() };
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(not_a_run)?;
        let id: RunId = name.parse().map_err(|_| not_a_run())?;
        let home = Home::unchecked(path.ancestors().nth(3).ok_or_else(not_a_run)?);
        let dir = home.run_dir(id);
        if dir.path == path { Ok(dir) } else { Err(not_a_run()) }
    }

    /// Makes a run survive a power loss if the process that created it died before it could.
    pub fn make_durable(&self) -> Result<(), StoreError> {
        let disk = self.disk();
        let spec = self.spec_path();
        let file = fs::File::open(&spec).map_err(failed("open", &spec))?;
        if disk.has_one_log() {
            // The marker, the files, the directories and the rename came before this, in one log. Five syncs instead
            // of one would cost four more flushes of the disk: even an unchanged directory costs one.
            return disk.sync_with_log(&file).map_err(failed("make durable", &spec));
        }
        disk.sync(&file).map_err(failed("make durable", &spec))?;
        disk.sync_dir(&self.path)?;
        // Another process may have created the day's directory and not made it durable yet, so its entry is synced as
        // well.
        disk.sync_dir(&self.day_path())?;
        disk.sync_dir(&self.home.runs_dir())?;
        disk.sync_dir(&self.home.markers_dir())
    }

    pub fn id(&self) -> RunId {
        self.id
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    pub fn exists(&self) -> bool {
        self.path.is_dir()
    }

    pub fn spec_path(&self) -> PathBuf {
        self.path.join("spec.json")
    }

    pub fn events_path(&self) -> PathBuf {
        self.path.join("events.jsonl")
    }

    pub fn outcome_path(&self) -> PathBuf {
        self.path.join("outcome.json")
    }

    pub fn result_path(&self) -> PathBuf {
        self.path.join("result.txt")
    }

    /// Returns the directory for cancel orders and answers, which the worker watches.
    pub fn inbox_dir(&self) -> PathBuf {
        self.path.join("inbox")
    }

    /// Returns the folder for the agent's input files, such as its prompt.
    pub fn work_dir(&self) -> PathBuf {
        self.path.join("work")
    }

    /// Returns the folder for the bodies of an agent loop's calls.
    pub(crate) fn calls_dir(&self) -> PathBuf {
        self.path.join("calls")
    }

    pub(crate) fn call_path(&self, call: u32) -> PathBuf {
        self.calls_dir().join(call.to_string())
    }

    /// Returns the path of the log to which keeper and worker write when nothing else works.
    pub fn worker_log_path(&self) -> PathBuf {
        self.path.join("worker.log")
    }

    /// Reads the spec.
    pub fn read_spec(&self) -> Result<RunSpec, StoreError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u64,
        }
        let path = self.spec_path();
        let bytes = read_bounded(&path, SPEC_BYTES_MAX).map_err(|error| self.or_no_such_run(error))?;
        let malformed = |source| StoreError::Malformed { path: path.clone(), source };
        // The version is read first, because a newer format may lack fields that this version requires.
        let Versioned { version } = serde_json::from_slice(&bytes).map_err(malformed)?;
        if version > u64::from(SPEC_VERSION) {
            return Err(StoreError::TooNew { path, found: version, known: SPEC_VERSION });
        }
        serde_json::from_slice(&bytes).map_err(malformed)
    }

    /// Removes the literal values for the agent's own MCP servers from the spec of an ended run, which no longer
    /// needs them. Does nothing if there are none.
    pub fn redact_values(&self, spec: &RunSpec) -> Result<(), StoreError> {
        if !has_literal_values(spec) {
            return Ok(());
        }
        let path = self.spec_path();
        let mut spec = spec.clone();
        spec.setup.mcp_servers.iter_mut().for_each(|server| server.hide_literals(HIDDEN));
        let text = spec_text(&path, &spec)?;
        let temporary = fresh_path(&self.path, "spec");
        let written = create_private(&temporary).and_then(|file| {
            self.disk().write_all(&file, &text)?;
            self.disk().sync_content(&file)
        });
        let moved = written.and_then(|()| fs::rename(&temporary, &path));
        if moved.is_err() {
            // It holds nothing that the spec does not.
            let _ = fs::remove_file(&temporary);
        }
        moved.map_err(failed("write", &path))
    }

    /// Takes the run's lock; `None` if its writer is alive.
    pub fn try_lock(&self) -> Result<Option<RunLock>, StoreError> {
        RunLock::take(&self.lock_path())
            .map_err(failed("lock", &self.lock_path()))
            .map_err(|error| self.or_no_such_run(error))
    }

    /// Returns whether the run's writer is alive.
    pub fn is_locked(&self) -> Result<bool, StoreError> {
        RunLock::is_held(&self.lock_path()).map_err(failed("look at the lock", &self.lock_path()))
    }

    /// Removes a run that nobody knows about, such as the loser of a race for an idempotency key.
    pub fn discard(self, lock: RunLock) -> Result<(), StoreError> {
        let trash = self.home.trash_dir().join(self.id.to_string());
        fs::rename(&self.path, &trash).map_err(failed("discard", &self.path))?;
        self.home.remove_marker(self.id)?;
        drop(lock);
        // The next retention sweep removes what remains in the trash.
        let _ = fs::remove_dir_all(&trash);
        Ok(())
    }

    pub(crate) fn disk(&self) -> &Disk {
        self.home.disk()
    }

    /// Turns "no such file" into "no such run" when the whole directory is missing.
    pub(crate) fn or_no_such_run(&self, error: StoreError) -> StoreError {
        match &error {
            StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound && !self.exists() => {
                StoreError::NoSuchRun { run: self.id }
            }
            _ => error,
        }
    }

    fn lock_path(&self) -> PathBuf {
        self.path.join("lock")
    }

    pub(crate) fn marker_path(&self) -> PathBuf {
        self.home.markers_dir().join(self.id.to_string())
    }

    fn day_path(&self) -> PathBuf {
        self.home.runs_dir().join(self.id.day())
    }

    fn staging_path(&self) -> PathBuf {
        self.day_path().join(format!(".new-{}", self.id))
    }
}

/// Reads a small file completely.
pub(crate) fn read_bounded(path: &Path, max: u64) -> Result<Vec<u8>, StoreError> {
    let file = fs::File::open(path).map_err(failed("open", path))?;
    // Without a capacity the standard library reads the first 32 bytes, then 32, 64, 128 and so on.
    let mut bytes = Vec::with_capacity(8 << 10);
    io::Read::read_to_end(&mut io::Read::take(file, max + 1), &mut bytes).map_err(failed("read", path))?;
    if bytes.len() as u64 > max {
        return Err(StoreError::FileTooLarge { path: path.to_owned(), max });
    }
    Ok(bytes)
}

fn build(staging: &Path, spec: &RunSpec, disk: &Disk) -> Result<RunLock, StoreError> {
    DirBuilder::new().mode(0o700).recursive(true).create(staging).map_err(failed("create", staging))?;
    let lock_path = staging.join("lock");
    let lock = RunLock::take(&lock_path).map_err(failed("lock", &lock_path))?;
    let already_locked = || failed("lock", &lock_path)(io::ErrorKind::AlreadyExists.into());
    let lock = lock.ok_or_else(already_locked)?;

    let spec_path = staging.join("spec.json");
    let text = spec_text(&spec_path, spec)?;
    let file = create_private(&spec_path).map_err(failed("create", &spec_path))?;
    disk.write_all(&file, &text).map_err(failed("write", &spec_path))?;

    let events_path = staging.join("events.jsonl");
    let events = create_private(&events_path).map_err(failed("create", &events_path))?;
    // A run without space for its end is not created.
    disk.reserve(&events, 0, RESERVE_BYTES + AHEAD_BYTES)
        .map_err(failed("reserve space in", &events_path))?;
    let inbox = staging.join("inbox");
    DirBuilder::new().mode(0o700).create(&inbox).map_err(failed("create", &inbox))?;
    Ok(lock)
}

/// Returns whether a spec has literal values that are not needed after the end of its run.
pub(crate) fn has_literal_values(spec: &RunSpec) -> bool {
    let mut servers = spec.setup.mcp_servers.clone();
    servers.iter_mut().for_each(|server| server.hide_literals(HIDDEN));
    servers != spec.setup.mcp_servers
}

fn spec_text(path: &Path, spec: &RunSpec) -> Result<Vec<u8>, StoreError> {
    let mut text =
        serde_json::to_vec(spec).map_err(|source| StoreError::Malformed { path: path.to_owned(), source })?;
    text.push(b'\n');
    Ok(text)
}

fn touch_marker(path: &Path) -> Result<(), StoreError> {
    match create_private(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed("create", path)(error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
