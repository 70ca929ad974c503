//! Reads `/proc`: the processes, their parents, and the marks that they carry.
//!
//! Finds nothing where there is no `/proc`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::Pid;

/// The most of an environment that is searched. The kernel allows more, but no sensible agent has it.
const ENVIRONMENT_BYTES_MAX: usize = 1 << 20;
/// More than the kernel writes into any file about one process, except for those that are lists.
const SMALL_FILE_BYTES: usize = 4096;
/// How often a walk looks for processes that started while it ran.
const CATCH_UP_ROUNDS: usize = 64;
/// Of the flags in `stat`: a thread of the kernel.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// `/proc`, opened once for a walk, with a buffer for its small files.
pub(super) struct Proc {
    root: OwnedFd,
    buffer: Vec<u8>,
}

/// One process as `/proc/PID/stat` shows it.
#[derive(Debug, Clone)]
pub(super) struct Stat {
    pub(super) pid: Pid,
    pub(super) parent: i32,
    /// Its process group and its session, by the ids of their first processes.
    pub(super) group: i32,
    pub(super) session: i32,
    pub(super) comm: String,
    pub(super) state: char,
    pub(super) kernel: bool,
    threads: u64,
    /// When it started, in ticks since the boot: with the number, the identity of a process.
    pub(super) started: u64,
    /// Its own CPU time, in ticks.
    pub(super) own_ticks: u64,
    /// The CPU time of its children that ended and were collected, in ticks.
    pub(super) collected_ticks: u64,
    pub(super) resident_pages: u64,
}

/// A resource limit as `/proc/PID/limits` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LockLimit {
    soft: Option<u64>,
    hard: Option<u64>,
}

impl LockLimit {
    /// Returns the number if it has the form of a run's mark: finite, and the same twice.
    pub(super) fn as_tag(self) -> Option<u64> {
        self.soft.filter(|_| self.soft == self.hard)
    }

    /// Returns whether it was ever set.
    pub(super) fn is_finite(self) -> bool {
        self.hard.is_some()
    }
}

impl Stat {
    /// Returns whether only the entry is left. A process whose first thread has ended looks dead and is not.
    pub(super) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x') && self.threads <= 1
    }
}

impl Proc {
    pub(super) fn open() -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: openat(CWD, c"/proc", flags, Mode::empty())?, buffer: Vec::with_capacity(4096) })
    }

    /// Calls `visit` once for every process, including those that start meanwhile.
    ///
    /// Processes that live for less time than a plain listing takes would escape it: those that start behind it are
    /// found by the process ids that the kernel has assigned since. So a walk that sees no process proves that there
    /// is none, unless the ids wrap around at that very moment.
    pub(super) fn visit_all(&mut self, mut visit: impl FnMut(&mut Self, Stat)) -> io::Result<()> {
        let mut newest = self.newest_number();
        let listed = self.pids()?;
        for pid in listed.iter().copied() {
            if let Some(stat) = self.stat(pid) {
                visit(self, stat);
            }
        }
        for _ in 0..CATCH_UP_ROUNDS {
            let now = self.newest_number();
            let (Some(before), Some(after)) = (newest, now) else { return Ok(()) };
            if before == after {
                return Ok(());
            }
            for pid in unlisted(before, after, &listed) {
                // Threads have numbers too, and can be looked up, but are not listed.
                if let Some(stat) = self.stat(pid)
                    && self.is_process(pid)
                {
                    visit(self, stat);
                }
            }
            newest = now;
        }
        Ok(())
    }

    /// Returns the id that the kernel assigned last to a process or thread.
    fn newest_number(&mut self) -> Option<i32> {
        self.read_small("loadavg")?;
        std::str::from_utf8(&self.buffer).ok()?.split_whitespace().last()?.parse().ok()
    }

    /// Returns whether an id belongs to a whole process and not to one of its further threads.
    fn is_process(&mut self, pid: Pid) -> bool {
        self.read_small(&format!("{pid}/status")).is_some()
            && std::str::from_utf8(&self.buffer).is_ok_and(|text| {
                let group = text.lines().find_map(|line| line.strip_prefix("Tgid:"));
                group.and_then(|group| group.trim().parse().ok()) == Some(pid.as_raw_nonzero().get())
            })
    }

    /// Returns the ids of all processes, in rising order.
    fn pids(&self) -> io::Result<Vec<Pid>> {
        let mut pids = Vec::with_capacity(256);
        for entry in rustix::fs::Dir::read_from(&self.root)? {
            let entry = entry?;
            let number = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
            pids.extend(number.and_then(Pid::from_raw));
        }
        Ok(pids)
    }

    /// Returns the process, unless it is gone.
    pub(super) fn stat(&mut self, pid: Pid) -> Option<Stat> {
        self.read_small(&format!("{pid}/stat"))?;
        parse_stat(pid, &self.buffer)
    }

    /// Returns this process, with the ids that this `/proc` has for it and its parent: in a pid namespace they may
    /// differ from those that the kernel reports to it.
    pub(super) fn own_stat(&mut self) -> Option<Stat> {
        self.read_small("self/stat")?;
        let number = self.buffer.split(|byte| *byte == b' ').next()?;
        let pid = std::str::from_utf8(number).ok()?.parse().ok().and_then(Pid::from_raw)?;
        parse_stat(pid, &self.buffer)
    }

    /// Returns the limit on file locks.
    pub(super) fn lock_limit(&mut self, pid: Pid) -> Option<LockLimit> {
        self.read_small(&format!("{pid}/limits"))?;
        parse_lock_limit(&self.buffer)
    }

    /// Returns whether the process started with this `NAME=value` in its environment, as far as this process may read it.
    pub(super) fn has_variable(&mut self, pid: Pid, variable: &[u8]) -> bool {
        if self.read_long(&format!("{pid}/environ"), ENVIRONMENT_BYTES_MAX).is_none() {
            return false;
        }
        self.buffer.split(|byte| *byte == 0).any(|entry| entry == variable)
    }

    /// Returns whether this is one of the arguments that the process was started with.
    pub(super) fn has_argument(&mut self, pid: Pid, argument: &[u8]) -> bool {
        self.read_small(&format!("{pid}/cmdline")).is_some()
            && self.buffer.split(|byte| *byte == 0).any(|word| word == argument)
    }

    /// Returns the share of memory that the process uses: what it shares is divided among the sharers.
    pub(super) fn proportional_bytes(&mut self, pid: Pid) -> Option<u64> {
        self.read_small(&format!("{pid}/smaps_rollup"))?;
        let text = std::str::from_utf8(&self.buffer).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
    }

    /// Returns the children of a process with a single thread, or `None` if the kernel does not list them.
    ///
    /// A list that others change meanwhile may lack some, but is never empty when there are any.
    pub(super) fn children(&mut self, pid: Pid) -> Option<Vec<Pid>> {
        self.read_long(&format!("{pid}/task/{pid}/children"), 65536)?;
        let text = std::str::from_utf8(&self.buffer).ok()?;
        Some(
            text.split_whitespace()
                .filter_map(|number| number.parse().ok().and_then(Pid::from_raw))
                .collect(),
        )
    }

    /// Reads a file that the kernel hands over in one piece.
    fn read_small(&mut self, path: &str) -> Option<()> {
        let file = self.open_file(path)?;
        self.buffer.resize(SMALL_FILE_BYTES, 0);
        let count = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut self.buffer[..])).ok();
        self.buffer.truncate(count.unwrap_or(0));
        count.map(|_| ())
    }

    /// Reads a file to its end, or up to a limit.
    fn read_long(&mut self, path: &str, bytes_max: usize) -> Option<()> {
        let file = self.open_file(path)?;
        self.buffer.clear();
        loop {
            let used = self.buffer.len();
            self.buffer.resize(used + SMALL_FILE_BYTES, 0);
            let room = self.buffer.get_mut(used..).unwrap_or_default();
            let count = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut *room));
            self.buffer.truncate(used + count.unwrap_or(0));
            if count.ok()? == 0 || self.buffer.len() >= bytes_max {
                return Some(());
            }
        }
    }

    fn open_file(&self, path: &str) -> Option<OwnedFd> {
        openat(&self.root, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
    }
}

/// Returns the ids after `before`, up to `after`, that a listing does not have: a process that started before the
/// listing ended may be in it.
fn unlisted(before: i32, after: i32, listed: &[Pid]) -> impl Iterator<Item = Pid> {
    let numbers = (before.saturating_add(1)..=after).filter_map(Pid::from_raw);
    numbers.filter(|pid| !listed.contains(pid))
}

/// Parses `pid (comm) state parent …`. The comm may contain anything, also parentheses.
fn parse_stat(pid: Pid, text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let comm = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The first field after the comm is the third of the manual page.
    let number = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<u64>().ok());
    Some(Stat {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        comm,
        state: fields.first()?.chars().next()?,
        kernel: number(9)? & KERNEL_THREAD != 0,
        threads: number(20)?,
        started: number(22)?,
        own_ticks: number(14)? + number(15)?,
        collected_ticks: number(16)? + number(17)?,
        resident_pages: number(24)?,
    })
}

fn parse_lock_limit(text: &[u8]) -> Option<LockLimit> {
    let text = std::str::from_utf8(text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    let mut fields = line.split_ascii_whitespace().map(|field| field.parse().ok());
    Some(LockLimit { soft: fields.next()?, hard: fields.next()? })
}
