//! The only module that opens the index and sets its pragmas.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use rustix::fs::FlockOperation;

/// The version in the file's name. Another schema uses another file, so old and new programs do not share one.
pub const INDEX_VERSION: u32 = 3;

const MIGRATIONS: [&str; 4] = [
    include_str!("migrations/0001_run.sql"),
    include_str!("migrations/0002_rollup.sql"),
    include_str!("migrations/0003_token.sql"),
    include_str!("migrations/0004_denials.sql"),
];
/// The value of `user_version` after all migrations.
const SCHEMA: u32 = MIGRATIONS.len() as u32;

/// How long to wait for another process's lock. A write takes well under a millisecond.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to retry a write while other processes keep the file busy beyond SQLite's own time-out.
const PATIENCE: Duration = Duration::from_secs(10);
/// The length of the write-ahead log from which it is checkpointed and truncated. The first process to open the file
/// reads the whole log, so this bounds how much a short command has to read.
pub(super) const LOG_BYTES_MAX: u64 = 512 << 10;
/// The page cache. A server holds it for as long as it runs, and a query needs a few dozen pages.
const CACHE_KIB: i32 = 512;
/// Both limits during a rebuild.
const REBUILD_LOG_BYTES_MAX: u64 = 64 << 20;
const REBUILD_CACHE_KIB: i32 = 256 << 10;
/// How many damaged files are retained for inspection.
const CORRUPT_FILES_MAX: u32 = 3;

// Query plans and times were measured with this version, and older versions can damage a log that is reset while it
// is read.
const _: () = assert!(rusqlite::ffi::SQLITE_VERSION_NUMBER >= 3_054_001, "bundle SQLite 3.54.1 or later");

/// An open index.
#[derive(Debug)]
pub struct Index {
    pub(super) connection: Connection,
    path: PathBuf,
    /// Device and inode of the open file; `None` for an index in memory.
    file: Option<(u64, u64)>,
    /// How long writes are retried.
    pub(super) patience: Duration,
    /// The length of the log from which it is checkpointed.
    log_bytes_max: u64,
}

/// An index and its state.
#[derive(Debug)]
pub struct OpenedIndex {
    pub index: Index,
    pub state: IndexState,
}

/// The content of the index. Every state except `Existing` requires a rebuild: insert all ended runs, then call
/// [`Index::mark_complete`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexState {
    Existing,
    /// No index existed.
    Fresh,
    /// This or another process began a rebuild and did not finish it.
    Incomplete,
    /// The index was damaged and moved aside.
    Replaced {
        moved_to: PathBuf,
    },
}

/// Why the index could not answer.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("read the damaged index {path}: {reason}")]
    Corrupt { path: PathBuf, reason: String },
    /// Another process replaced the file: open it again.
    #[error("use the index {path}: it was replaced by another")]
    Replaced { path: PathBuf },
    #[error("{doing} in the index")]
    Sqlite {
        doing: &'static str,
        #[source]
        source: rusqlite::Error,
    },
    #[error("open the index {path}")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl IndexError {
    /// Returns whether the index cannot be written: the disk is full or read-only, or permission is missing.
    pub fn is_unwritable(&self) -> bool {
        match self {
            Self::Corrupt { .. } | Self::Replaced { .. } => false,
            Self::Sqlite { source, .. } => matches!(
                source.sqlite_error_code(),
                Some(
                    ErrorCode::DiskFull
                        | ErrorCode::ReadOnly
                        | ErrorCode::CannotOpen
                        | ErrorCode::PermissionDenied
                        | ErrorCode::SystemIoFailure
                )
            ),
            Self::Io { source, .. } => matches!(
                source.kind(),
                ErrorKind::StorageFull
                    | ErrorKind::QuotaExceeded
                    | ErrorKind::ReadOnlyFilesystem
                    | ErrorKind::PermissionDenied
            ),
        }
    }
}

impl IndexState {
    fn from_complete(complete: bool) -> Self {
        if complete { Self::Existing } else { Self::Incomplete }
    }

    pub fn needs_rebuild(&self) -> bool {
        *self != Self::Existing
    }
}

impl Index {
    /// Opens the index of a home; creates one if there is no usable one.
    pub fn open(home: &Path) -> Result<OpenedIndex, IndexError> {
        let path = self::path(home);
        match open_existing(&path) {
            Ok(Some(opened)) => Ok(opened),
            Ok(None) | Err(IndexError::Corrupt { .. }) => open_or_create(home, IntegrityCheck::Skip),
            Err(error) => Err(error),
        }
    }

    /// Opens the index after an [`IndexError::Corrupt`]: checks all of it and replaces it if necessary.
    pub fn recover(home: &Path) -> Result<OpenedIndex, IndexError> {
        open_or_create(home, IntegrityCheck::Run)
    }

    /// Creates an index in memory, for a home whose disk cannot hold one. It is empty and requires a rebuild.
    pub fn in_memory() -> Result<OpenedIndex, IndexError> {
        let path = PathBuf::from(":memory:");
        let created = Connection::open_in_memory().and_then(|connection| {
            apply_migrations(&connection)?;
            Ok(connection)
        });
        let connection = created.map_err(|error| index_error(&path, "make the tables", error))?;
        Ok(OpenedIndex { index: Index::new(connection, path, None), state: IndexState::Fresh })
    }

    fn new(connection: Connection, path: PathBuf, file: Option<(u64, u64)>) -> Self {
        Self { connection, path, file, patience: PATIENCE, log_bytes_max: LOG_BYTES_MAX }
    }

    /// Returns an index that stayed open as if it had just been opened; `None` if its file was replaced or cannot be
    /// read and must be opened again.
    pub fn reopen(self) -> Option<OpenedIndex> {
        let complete = read_completeness(self.current().ok()?).ok()??;
        Some(OpenedIndex { index: self, state: IndexState::from_complete(complete) })
    }

    /// Prepares for many inserts, until [`Index::mark_complete`]: more memory and fewer checkpoints.
    pub fn begin_rebuild(&mut self) -> Result<(), IndexError> {
        self.log_bytes_max = REBUILD_LOG_BYTES_MAX;
        self.set_cache(REBUILD_CACHE_KIB)
    }

    pub(super) fn end_rebuild(&mut self) -> Result<(), IndexError> {
        empty_log(&self.connection).map_err(|error| self.error("copy the log back", error))?;
        self.log_bytes_max = LOG_BYTES_MAX;
        self.set_cache(CACHE_KIB)
    }

    fn set_cache(&self, kib: i32) -> Result<(), IndexError> {
        // A negative size counts KiB instead of pages.
        let set = self.current()?.pragma_update(None, "cache_size", -kib);
        set.map_err(|error| self.error("set the size of the cache", error))
    }

    /// Checkpoints and truncates a long log without waiting for anyone. Pages that other processes still use stay in
    /// the log; the next connection that opens or writes the index tries again. No answer depends on this, so a
    /// failure is ignored.
    pub(super) fn shorten_log(&self) {
        let log = with_suffix(&self.path, "-wal");
        if self.file.is_none() || std::fs::metadata(log).is_ok_and(|log| log.len() <= self.log_bytes_max) {
            return;
        }
        // With a time-out of zero, SQLite copies what it can without waiting.
        if self.connection.busy_timeout(Duration::ZERO).is_ok() {
            let _ = empty_log(&self.connection);
        }
        let _ = self.connection.busy_timeout(BUSY_TIMEOUT);
    }

    /// Never shortens the log, like a program of an earlier version.
    #[cfg(test)]
    pub(super) fn leave_log_alone(&mut self) {
        self.log_bytes_max = u64::MAX;
    }

    /// Returns the connection if it still refers to the file that other processes see.
    pub(super) fn current(&self) -> Result<&Connection, IndexError> {
        let Some(file) = self.file else { return Ok(&self.connection) };
        match std::fs::metadata(&self.path) {
            Ok(meta) if (meta.dev(), meta.ino()) == file => Ok(&self.connection),
            Ok(_) | Err(_) => Err(IndexError::Replaced { path: self.path.clone() }),
        }
    }

    pub(super) fn error(&self, doing: &'static str, source: rusqlite::Error) -> IndexError {
        index_error(&self.path, doing, source)
    }
}

/// Whether a file that looks valid is checked completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IntegrityCheck {
    Skip,
    Run,
}

/// Returns the path of a home's index.
pub fn path(home: &Path) -> PathBuf {
    home.join(format!("index-v{INDEX_VERSION}.db"))
}

/// Opens the index file; `None` if it does not exist.
fn open_existing(path: &Path) -> Result<Option<OpenedIndex>, IndexError> {
    let connection = match connect(path) {
        Ok(connection) => connection,
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) => {
            if !path.exists() {
                return Ok(None);
            }
            // Another process may have created it between the two checks.
            connect(path).map_err(|error| index_error(path, "open a connection", error))?
        }
        Err(error) => return Err(index_error(path, "open a connection", error)),
    };
    let complete =
        read_completeness(&connection).map_err(|error| index_error(path, "look at the version", error))?;
    let Some(complete) = complete else {
        let reason = "it is not an index of this version".to_owned();
        return Err(IndexError::Corrupt { path: path.to_owned(), reason });
    };
    let meta = std::fs::metadata(path).map_err(|source| IndexError::Io { path: path.to_owned(), source })?;
    let index = Index::new(connection, path.to_owned(), Some((meta.dev(), meta.ino())));
    index.shorten_log();
    Ok(Some(OpenedIndex { index, state: IndexState::from_complete(complete) }))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Otherwise a command that only lists runs would pay for syncing what others have written.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // An automatic checkpoint leaves the log file as long as it was, and the next process to open the index would
    // read all of it; `shorten_log` also truncates it.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", i64::try_from(LOG_BYTES_MAX).unwrap_or(0))?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(connection)
}

/// Checkpoints the log and truncates it to zero.
fn empty_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// Returns whether the index is complete; `None` if the file is not an index of this version.
fn read_completeness(connection: &Connection) -> rusqlite::Result<Option<bool>> {
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != SCHEMA {
        return Ok(None);
    }
    connection.query_row("SELECT complete FROM completeness", [], |row| row.get(0)).map(Some)
}

/// Creates the index under a lock. The first process creates it for all others.
fn open_or_create(home: &Path, integrity_check: IntegrityCheck) -> Result<OpenedIndex, IndexError> {
    let path = self::path(home);
    let fail = |source| IndexError::Io { path: path.clone(), source };
    std::fs::create_dir_all(home).map_err(fail)?;
    let _lock = lock(home).map_err(fail)?;
    let mut state = IndexState::Fresh;
    match open_existing(&path) {
        Ok(Some(opened)) if integrity_check == IntegrityCheck::Skip || is_sound(&opened.index.connection) => {
            return Ok(opened);
        }
        Ok(None) => {}
        Ok(Some(_)) | Err(IndexError::Corrupt { .. }) => {
            state = IndexState::Replaced { moved_to: move_aside(&path).map_err(fail)? };
        }
        Err(error) => return Err(error),
    }
    create(home, &path)?;
    match open_existing(&path)? {
        Some(opened) => Ok(OpenedIndex { index: opened.index, state }),
        None => Err(fail(ErrorKind::NotFound.into())),
    }
}

fn lock(home: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(home.join("index.lock"))?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

fn is_sound(connection: &Connection) -> bool {
    let verdict = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    verdict.is_ok_and(|verdict| verdict == "ok")
}

/// Creates a file with its schema under another name, so that nobody opens an incomplete one.
fn create(home: &Path, path: &Path) -> Result<(), IndexError> {
    let fail = |source| IndexError::Io { path: path.to_owned(), source };
    let staged = home.join(format!("index-v{INDEX_VERSION}.db.new"));
    remove(&staged).map_err(fail)?;
    // SQLite would apply the log of the deleted file to the new one.
    remove(path).map_err(fail)?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&staged).map_err(fail)?;
    let schema = || -> rusqlite::Result<()> {
        let mut connection = connect(&staged)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        // If a power failure damages an empty index, the next process detects that and creates it again.
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        apply_migrations(&transaction)?;
        transaction.commit()?;
        connection.close().map_err(|(_, error)| error)
    };
    schema().map_err(|error| index_error(path, "make the tables", error))?;
    std::fs::rename(&staged, path).map_err(fail)?;
    for version in 0..INDEX_VERSION {
        remove(&home.join(format!("index-v{version}.db"))).map_err(fail)?;
    }
    Ok(())
}

pub(super) fn apply_migrations(connection: &Connection) -> rusqlite::Result<()> {
    for sql in MIGRATIONS {
        connection.execute_batch(sql)?;
    }
    connection.pragma_update(None, "user_version", SCHEMA)
}

/// Moves a damaged file aside. The oldest retained one is removed.
fn move_aside(path: &Path) -> io::Result<PathBuf> {
    let corrupt_path = |number: u32| with_suffix(path, &format!(".corrupt-{number}"));
    let free = (1..=CORRUPT_FILES_MAX).find(|number| !corrupt_path(*number).exists());
    if free.is_none() {
        for number in 1..CORRUPT_FILES_MAX {
            std::fs::rename(corrupt_path(number + 1), corrupt_path(number))?;
        }
    }
    let moved_to = corrupt_path(free.unwrap_or(CORRUPT_FILES_MAX));
    std::fs::rename(path, &moved_to)?;
    Ok(moved_to)
}

/// Removes a database with its write-ahead log and shared-memory file.
fn remove(path: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        match std::fs::remove_file(with_suffix(path, suffix)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn index_error(path: &Path, doing: &'static str, source: rusqlite::Error) -> IndexError {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType};
    let damaged = match &source {
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) => true,
        other => {
            matches!(other.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
        }
    };
    if damaged {
        IndexError::Corrupt { path: path.to_owned(), reason: source.to_string() }
    } else {
        IndexError::Sqlite { doing, source }
    }
}
