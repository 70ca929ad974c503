//! The only module that writes and fsyncs files that must be durable, so that a test can make the disk fail.
//!
//! A failed fsync is never retried: the kernel may have dropped the pages and forgotten the error, so a second
//! success would prove nothing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::store_error::{StoreError, failed};

/// The failures of a broken disk; `None` means that the operation never fails.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// How many fsyncs succeed before every later one fails.
    pub syncs_before_failure: Option<u64>,
    /// How many bytes fit before the disk is full; a write across that limit is cut short.
    pub bytes_before_full: Option<u64>,
}

/// The disk as the journal sees it.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    broken: Option<Arc<Broken>>,
    /// The filesystem logs all changes of names and attributes in order, so making one change durable makes all
    /// earlier ones durable too.
    one_log: bool,
}

#[derive(Debug)]
struct Broken {
    faults: Faults,
    syncs: AtomicU64,
    bytes: AtomicU64,
}

impl Disk {
    /// Returns a disk that fails as planned, for tests.
    pub fn broken(faults: Faults) -> Self {
        let broken = Broken { faults, syncs: AtomicU64::new(0), bytes: AtomicU64::new(0) };
        Self { broken: Some(Arc::new(broken)), one_log: false }
    }

    /// Returns the same disk with a filesystem that logs all changes in order.
    #[must_use]
    pub fn with_one_log(self) -> Self {
        Self { one_log: true, ..self }
    }

    pub(crate) fn has_one_log(&self) -> bool {
        self.one_log
    }

    /// Returns how often fsync was called; always 0 on a real disk.
    pub fn syncs(&self) -> u64 {
        self.broken.as_ref().map_or(0, |broken| broken.syncs.load(Ordering::Relaxed))
    }

    /// Writes with one call and returns how many bytes were written.
    pub(crate) fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        let available = match &self.broken {
            Some(broken) => broken.accept(bytes.len())?,
            None => bytes.len(),
        };
        loop {
            match io::Write::write(&mut file, &bytes[..available]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Writes everything, in as many calls as it takes.
    pub(crate) fn write_all(&self, file: &File, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(file, bytes)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => bytes = &bytes[written..],
            }
        }
        Ok(())
    }

    /// Reserves space for `bytes` bytes from `from` on, without making the file longer.
    ///
    /// Returns `false` if the filesystem cannot reserve space.
    pub(crate) fn reserve(&self, file: &File, from: u64, bytes: u64) -> io::Result<bool> {
        if self.broken.is_some() {
            return Ok(false);
        }
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, from, bytes) {
            Ok(()) => Ok(true),
            Err(Errno::NOSPC) => Err(Errno::NOSPC.into()),
            Err(Errno::DQUOT) => Err(Errno::DQUOT.into()),
            Err(_) => Ok(false),
        }
    }

    pub(crate) fn sync_content(&self, file: &File) -> io::Result<()> {
        self.count_sync()?;
        file.sync_data()
    }

    /// Makes a file durable with its attributes.
    pub(crate) fn sync(&self, file: &File) -> io::Result<()> {
        self.count_sync()?;
        file.sync_all()
    }

    /// Makes a file durable and, on a filesystem with one log, every earlier change as well.
    ///
    /// The file is touched first. Without a change of its own in the log's current transaction, fsync would only wait
    /// for an earlier transaction, which misses a rename made since then.
    pub(crate) fn sync_with_log(&self, file: &File) -> io::Result<()> {
        let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        rustix::fs::futimens(file, &rustix::fs::Timestamps { last_access: now, last_modification: now })?;
        self.sync(file)
    }

    /// Makes the entries of a directory durable.
    pub(crate) fn sync_dir(&self, path: &Path) -> Result<(), StoreError> {
        let opened = File::open(path).map_err(failed("open the directory", path))?;
        self.sync(&opened).map_err(failed("make durable the directory", path))
    }

    /// Creates a durable file with this content that only its owner can read. Its directory entry is not durable yet.
    pub(crate) fn create_durable(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let file = create_private(path).map_err(failed("create", path))?;
        self.write_all(&file, bytes).map_err(failed("write", path))?;
        self.sync(&file).map_err(failed("make durable", path))
    }

    fn count_sync(&self) -> io::Result<()> {
        let Some(broken) = &self.broken else { return Ok(()) };
        let before = broken.syncs.fetch_add(1, Ordering::Relaxed);
        match broken.faults.syncs_before_failure {
            Some(allowed) if before >= allowed => Err(Errno::IO.into()),
            Some(_) | None => Ok(()),
        }
    }
}

impl Broken {
    fn accept(&self, requested: usize) -> io::Result<usize> {
        let Some(capacity) = self.faults.bytes_before_full else { return Ok(requested) };
        let used = self.bytes.load(Ordering::Relaxed);
        let available = usize::try_from(capacity.saturating_sub(used)).unwrap_or(usize::MAX).min(requested);
        if available == 0 && requested > 0 {
            return Err(Errno::NOSPC.into());
        }
        self.bytes.fetch_add(available as u64, Ordering::Relaxed);
        Ok(available)
    }
}

/// Creates a new file that only its owner can read.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a regular file for reading. Follows no link and does not block on a FIFO that another process put there.
pub(crate) fn open_plain(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not an ordinary file")) }
}

/// Returns an unused path in the directory.
pub(crate) fn fresh_path(directory: &Path, prefix: &str) -> PathBuf {
    let mut random = [0_u8; 8];
    // Without randomness the name may collide, and then `create_new` fails.
    let _ = getrandom::fill(&mut random);
    directory.join(format!(".{prefix}-{:016x}", u64::from_ne_bytes(random)))
}
