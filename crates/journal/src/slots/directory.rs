//! The directory `slots/`: its paths, its lock, and its lockable files.

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
pub(super) struct SlotsDir {
    path: PathBuf,
}

/// The flock on `queue.lock`. Only its holder tries slots and creates tickets.
pub(super) struct QueueLock {
    file: File,
}

impl SlotsDir {
    pub(super) fn in_home(home: &Path) -> Self {
        Self { path: home.join("slots") }
    }

    pub(super) fn create(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.queue_dir())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn queue_dir(&self) -> PathBuf {
        self.path.join("queue")
    }

    pub(super) fn slot_path(&self, number: u32) -> PathBuf {
        self.path.join(format!("slot-{number}"))
    }

    /// The path of a ticket before it appears in the queue.
    pub(super) fn staged_ticket_path(&self) -> PathBuf {
        self.path.join("ticket.new")
    }

    /// Takes `queue.lock`; `None` if another process holds it for longer than `patience`.
    ///
    /// The lock is held for microseconds and released on death, so only a stopped holder causes the full wait.
    pub(super) fn lock(&self, patience: Duration) -> io::Result<Option<QueueLock>> {
        let path = self.path.join("queue.lock");
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
    /// Returns a number greater than all earlier ones and greater than `floor`.
    pub(super) fn next_number(&mut self, floor: u64) -> io::Result<u64> {
        let mut text = String::new();
        self.file.seek(SeekFrom::Start(0))?;
        // An unreadable counter only matters if tickets exist, and those are the floor.
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

/// Creates a file whose holders can be watched; an existing one stays as it is.
pub(super) fn make_watchable(path: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::mkfifoat(rustix::fs::CWD, path, Mode::from_raw_mode(0o600)) {
        Ok(()) | Err(Errno::EXIST) => return Ok(()),
        // Some filesystems have no FIFOs. There a flock on a regular file and periodic polling replace them.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Opens the end of a file that its holder keeps open. Never blocks.
pub(super) fn open_holder_end(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Returns whether a process holds the file. Nobody holds a missing file.
pub(super) fn is_held(path: &Path) -> io::Result<bool> {
    match open_holder_end(path) {
        // Shared, so that two processes that check at the same time do not take each other for the holder.
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

/// Removes a file that other processes may remove at the same time.
pub(super) fn remove_if_exists(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
