//! The only place that opens the index and sets its pragmas.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use rustix::fs::FlockOperation;

/// The version in the file's name. Another shape is another file, so old and new programs do not meet.
pub const INDEX_VERSION: u32 = 2;

const MIGRATIONS: [&str; 3] = [
    include_str!("migrations/0001_run.sql"),
    include_str!("migrations/0002_rollup.sql"),
    include_str!("migrations/0003_token.sql"),
];
/// What `user_version` says when all migrations have been applied.
const SCHEMA: u32 = MIGRATIONS.len() as u32;

/// How long a lock of another process is waited for. A write takes well under a millisecond.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// For how long a write is tried again when others keep the file busy beyond SQLite's own time-out.
const PATIENCE: Duration = Duration::from_secs(10);
/// A longer log is copied back and emptied. The first process to open the file reads the whole log, so this bounds
/// what a short command has to read.
pub(super) const LOG_BYTES_MAX: u64 = 512 << 10;
/// The memory for pages of the file. A server holds it as long as it lives, and a question needs a few dozen pages.
const CACHE_KIB: i32 = 512;
/// Both while everything is inserted.
const REBUILD_LOG_BYTES_MAX: u64 = 64 << 20;
const REBUILD_CACHE_KIB: i32 = 256 << 10;
/// How many damaged files are kept for whoever wants to know.
const CORRUPT_KEPT: u32 = 3;

// Plans and times were measured with this one, and older ones can damage a log that is reset while being read.
const _: () = assert!(rusqlite::ffi::SQLITE_VERSION_NUMBER >= 3_054_001, "bundle SQLite 3.54.1 or later");

/// An open index.
#[derive(Debug)]
pub struct Index {
    pub(super) connection: Connection,
    path: PathBuf,
    /// Device and inode of the file that is open; nothing for an index in memory.
    file: Option<(u64, u64)>,
    /// How long writes are tried again.
    pub(super) patience: Duration,
    /// The length from which the log is copied back.
    log_bytes_max: u64,
}

/// An index, and what the caller has to know about it.
#[derive(Debug)]
pub struct Opened {
    pub index: Index,
    pub state: State,
}

/// What the index holds. Every state but `Existing` asks for a rebuild: insert all ended runs, then
/// [`Index::mark_complete`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Existing,
    /// There was none.
    Fresh,
    /// A rebuild has begun and not been finished, here or elsewhere.
    Incomplete,
    /// It was damaged and moved aside.
    Replaced {
        moved_to: PathBuf,
    },
}

/// Why the index could not answer.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("read the damaged index {path}: {reason}")]
    Corrupt { path: PathBuf, reason: String },
    /// The file was replaced under us: open it again.
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
    /// Tells whether the place of the index cannot be written: full, read-only, or not ours to write.
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

impl State {
    fn of(complete: bool) -> Self {
        if complete { Self::Existing } else { Self::Incomplete }
    }

    pub fn needs_rebuild(&self) -> bool {
        *self != Self::Existing
    }
}

impl Index {
    /// Opens the index of a home; makes one when there is none, or none that can be used.
    pub fn open(home: &Path) -> Result<Opened, IndexError> {
        let path = self::path(home);
        match usable(&path) {
            Ok(Some(opened)) => Ok(opened),
            Ok(None) | Err(IndexError::Corrupt { .. }) => make(home, Doubt::Trusted),
            Err(error) => Err(error),
        }
    }

    /// Opens the index after it answered [`IndexError::Corrupt`]: checks all of it, and replaces it if need be.
    pub fn recover(home: &Path) -> Result<Opened, IndexError> {
        make(home, Doubt::Checked)
    }

    /// Makes an index in memory, for a home whose disk cannot hold one. Empty: it asks for a rebuild.
    pub fn in_memory() -> Result<Opened, IndexError> {
        let path = PathBuf::from(":memory:");
        let made = Connection::open_in_memory().and_then(|connection| {
            apply_migrations(&connection)?;
            Ok(connection)
        });
        let connection = made.map_err(|error| error_of(&path, "make the tables", error))?;
        Ok(Opened { index: Index::new(connection, path, None), state: State::Fresh })
    }

    fn new(connection: Connection, path: PathBuf, file: Option<(u64, u64)>) -> Self {
        Self { connection, path, file, patience: PATIENCE, log_bytes_max: LOG_BYTES_MAX }
    }

    /// Returns an index that stayed open as if it had just been opened; nothing when its file was replaced or does
    /// not answer, so that it has to be opened again.
    pub fn reopen(self) -> Option<Opened> {
        let complete = probe(self.current().ok()?).ok()??;
        Some(Opened { index: self, state: State::of(complete) })
    }

    /// Makes ready for many rows: more memory, and fewer copies of the log. Until [`Index::mark_complete`].
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

    /// Copies a long log back and empties it, without waiting for anyone. What readers or writers in other processes
    /// still use stays in the log; the next connection that opens or writes tries again. No answer depends on it, so
    /// a failure is nobody's.
    pub(super) fn shorten_log(&self) {
        let log = beside(&self.path, "-wal");
        if self.file.is_none() || std::fs::metadata(log).is_ok_and(|log| log.len() <= self.log_bytes_max) {
            return;
        }
        // SQLite copies what it can without waiting if its time-out is zero.
        if self.connection.busy_timeout(Duration::ZERO).is_ok() {
            let _ = empty_log(&self.connection);
        }
        let _ = self.connection.busy_timeout(BUSY_TIMEOUT);
    }

    /// Leaves the log as it is for good, as a program of an earlier version did.
    #[cfg(test)]
    pub(super) fn leave_log_alone(&mut self) {
        self.log_bytes_max = u64::MAX;
    }

    /// Returns the connection, if it still leads to the file that others see.
    pub(super) fn current(&self) -> Result<&Connection, IndexError> {
        let Some(file) = self.file else { return Ok(&self.connection) };
        match std::fs::metadata(&self.path) {
            Ok(meta) if (meta.dev(), meta.ino()) == file => Ok(&self.connection),
            Ok(_) | Err(_) => Err(IndexError::Replaced { path: self.path.clone() }),
        }
    }

    pub(super) fn error(&self, doing: &'static str, source: rusqlite::Error) -> IndexError {
        error_of(&self.path, doing, source)
    }
}

/// Whether a file that looks right is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    Trusted,
    Checked,
}

/// Returns where the index of a home is.
pub fn path(home: &Path) -> PathBuf {
    home.join(format!("index-v{INDEX_VERSION}.db"))
}

/// Opens what is there, or nothing when nothing is.
fn usable(path: &Path) -> Result<Option<Opened>, IndexError> {
    let connection = match connect(path) {
        Ok(connection) => connection,
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) => {
            if !path.exists() {
                return Ok(None);
            }
            // Somebody may have made it between the two looks.
            connect(path).map_err(|error| error_of(path, "open a connection", error))?
        }
        Err(error) => return Err(error_of(path, "open a connection", error)),
    };
    let complete = probe(&connection).map_err(|error| error_of(path, "look at the version", error))?;
    let Some(complete) = complete else {
        let reason = "it is not an index of this version".to_owned();
        return Err(IndexError::Corrupt { path: path.to_owned(), reason });
    };
    let meta = std::fs::metadata(path).map_err(|source| IndexError::Io { path: path.to_owned(), source })?;
    let index = Index::new(connection, path.to_owned(), Some((meta.dev(), meta.ino())));
    index.shorten_log();
    Ok(Some(Opened { index, state: State::of(complete) }))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // A shell that lists runs would else pay for the synchronisation of what others have written.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // A copy that leaves the log as long as it was helps nobody who opens the file next: `shorten_log` does both.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", i64::try_from(LOG_BYTES_MAX).unwrap_or(0))?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(connection)
}

/// Copies the log back and cuts it to nothing.
fn empty_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// Tells whether the index is complete; nothing when it is not one of ours.
fn probe(connection: &Connection) -> rusqlite::Result<Option<bool>> {
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != SCHEMA {
        return Ok(None);
    }
    connection.query_row("SELECT complete FROM completeness", [], |row| row.get(0)).map(Some)
}

/// Makes the index while nobody else does. Whoever was first has made it for all.
fn make(home: &Path, doubt: Doubt) -> Result<Opened, IndexError> {
    let path = self::path(home);
    let fail = |source| IndexError::Io { path: path.clone(), source };
    std::fs::create_dir_all(home).map_err(fail)?;
    let _lock = lock(home).map_err(fail)?;
    let mut state = State::Fresh;
    match usable(&path) {
        Ok(Some(opened)) if doubt == Doubt::Trusted || is_sound(&opened.index.connection) => {
            return Ok(opened);
        }
        Ok(None) => {}
        Ok(Some(_)) | Err(IndexError::Corrupt { .. }) => {
            state = State::Replaced { moved_to: move_aside(&path).map_err(fail)? };
        }
        Err(error) => return Err(error),
    }
    create(home, &path)?;
    match usable(&path)? {
        Some(opened) => Ok(Opened { index: opened.index, state }),
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

/// Makes a file with its schema aside, so that nobody ever opens a half-made one.
fn create(home: &Path, path: &Path) -> Result<(), IndexError> {
    let fail = |source| IndexError::Io { path: path.to_owned(), source };
    let unborn = home.join(format!("index-v{INDEX_VERSION}.db.new"));
    remove(&unborn).map_err(fail)?;
    // The log of a file that is gone would be taken for the log of the one that comes.
    remove(path).map_err(fail)?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unborn).map_err(fail)?;
    let schema = || -> rusqlite::Result<()> {
        let mut connection = connect(&unborn)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        // What a power failure leaves of an empty index is found to be damaged, and made again.
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        apply_migrations(&transaction)?;
        transaction.commit()?;
        connection.close().map_err(|(_, error)| error)
    };
    schema().map_err(|error| error_of(path, "make the tables", error))?;
    std::fs::rename(&unborn, path).map_err(fail)?;
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

/// Moves a damaged file aside. The oldest of those kept goes.
fn move_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = |number: u32| beside(path, &format!(".corrupt-{number}"));
    let free = (1..=CORRUPT_KEPT).find(|number| !aside(*number).exists());
    if free.is_none() {
        for number in 1..CORRUPT_KEPT {
            std::fs::rename(aside(number + 1), aside(number))?;
        }
    }
    let moved_to = aside(free.unwrap_or(CORRUPT_KEPT));
    std::fs::rename(path, &moved_to)?;
    Ok(moved_to)
}

/// Removes a database with its log and the log's index.
fn remove(path: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        match std::fs::remove_file(beside(path, suffix)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn error_of(path: &Path, doing: &'static str, source: rusqlite::Error) -> IndexError {
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
