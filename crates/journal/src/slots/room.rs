//! The directory `slots/`: its paths, its lock, and the one kind of file in it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Paths below `slots/`.
#[derive(Debug, Clone)]
pub(super) struct Room {
    directory: PathBuf,
}

/// The flock on `queue.lock`. Slots are tried, and tickets made, only by its holder.
pub(super) struct QueueLock {
    file: File,
}

impl Room {
    pub(super) fn of(home: &Path) -> Self {
        Self { directory: home.join("slots") }
    }

    pub(super) fn create(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.queue())
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn queue(&self) -> PathBuf {
        self.directory.join("queue")
    }

    pub(super) fn slot(&self, number: u32) -> PathBuf {
        self.directory.join(format!("slot-{number}"))
    }

    /// Where a ticket is made ready before it appears in the queue.
    pub(super) fn unborn_ticket(&self) -> PathBuf {
        self.directory.join("ticket.new")
    }

    /// Takes `queue.lock`, or returns nothing when it stays taken for `patience`.
    ///
    /// It is held for microseconds and a death frees it, so only a stopped holder is waited for in vain.
    pub(super) fn lock(&self, patience: Duration) -> io::Result<Option<QueueLock>> {
        let path = self.directory.join("queue.lock");
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_micros(50);
        while !try_flock(&file, FlockOperation::NonBlockingLockExclusive)? {
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
        Ok(Some(QueueLock { file }))
    }
}

impl QueueLock {
    /// Returns a number greater than any that was given out before, and than `floor`.
    pub(super) fn next_number(&mut self, floor: u64) -> io::Result<u64> {
        let mut text = String::new();
        self.file.seek(SeekFrom::Start(0))?;
        // A count that cannot be read only matters in so far as tickets exist, and those are the floor.
        if (&self.file).take(32).read_to_string(&mut text).is_err() {
            text.clear();
        }
        let last = text.trim().parse().unwrap_or(0).max(floor);
        let next: u64 = u64::saturating_add(last, 1);
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(format!("{next:020}\n").as_bytes())?;
        Ok(next)
    }
}

/// Makes a file whose holders can be watched; one that exists is left as it is.
pub(super) fn make_watchable(path: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::mkfifoat(rustix::fs::CWD, path, Mode::from_raw_mode(0o600)) {
        Ok(()) | Err(Errno::EXIST) => return Ok(()),
        // Some file systems have no FIFOs. Flocks on ordinary files do, with a look now and then.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Opens the end of a file that a holder keeps. Never waits.
pub(super) fn open_holder_end(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Tells whether somebody holds the file. A missing file is held by nobody.
pub(super) fn is_held(path: &Path) -> io::Result<bool> {
    match open_holder_end(path) {
        // Shared, so that two who look at the same time do not take each other for the holder.
        Ok(end) => Ok(!try_flock(&end, FlockOperation::NonBlockingLockShared)?),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn try_flock(file: impl AsFd, operation: FlockOperation) -> io::Result<bool> {
    loop {
        match rustix::fs::flock(&file, operation) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes a file that others may remove at the same time.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
