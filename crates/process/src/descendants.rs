//! Kills one program of a run with its descendants, and nothing else of the run. Finds them by parent, process group and
//! session, since all programs of a run carry the same marks.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::Instant;

use rustix::process::{Pid, Signal};

use super::os::ProcessHandle;
use super::proc_fs::{Proc, Stat};
use super::stop::{Killed, ROUND_MAX, SWEEP_MAX, Survivor, wait_for};
use super::tags::RunMembers;

/// How often the processes are stopped that have started meanwhile, before all are killed.
const STOP_ROUNDS: usize = 16;

/// Kills a program, of which this process is the parent, and what belongs to it. If it `has_exited`, it was collected,
/// and its number may belong to somebody else by now.
pub(super) fn kill(program: Pid, has_exited: bool, tag: u64) -> io::Result<Killed> {
    let mut family = Family::new(program, has_exited, tag)?;
    // Stopped first, all of them: a process that dies hands its children to another parent, which would hide them. A
    // stop cannot be ignored, so after it nothing new is started.
    let mut stopped = HashSet::new();
    for _ in 0..STOP_ROUNDS {
        let found = family.survey()?;
        let fresh: Vec<&Stat> =
            found.iter().filter(|stat| stopped.insert((stat.pid, stat.started))).collect();
        if fresh.is_empty() {
            break;
        }
        for stat in fresh {
            family.signal(stat, Signal::STOP);
        }
    }
    let deadline = Instant::now() + SWEEP_MAX;
    let mut killed = HashSet::new();
    loop {
        let found = family.survey()?;
        if found.is_empty() {
            break;
        }
        let mut dying = Vec::new();
        for stat in &found {
            if let Some(handle) = family.signal(stat, Signal::KILL) {
                killed.insert((stat.pid, stat.started));
                dying.push(handle);
            }
        }
        wait_for(&dying, ROUND_MAX);
        if Instant::now() >= deadline {
            break;
        }
    }
    let left = family.survey()?;
    let survivors =
        left.into_iter().map(|stat| Survivor { pid: stat.pid, comm: stat.comm, state: stat.state });
    let count = u32::try_from(killed.len()).unwrap_or(u32::MAX);
    Ok(Killed { count, survivors: survivors.collect() })
}

/// Returns how many living processes a child of this process has started, directly or not.
pub(super) fn count(ancestor: Pid, tag: u64) -> io::Result<u32> {
    let found = Family::new(ancestor, false, tag)?.survey()?;
    let count = found.iter().filter(|stat| stat.pid != ancestor).count();
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The processes that belong to one program, as far as they were ever seen.
struct Family {
    proc: Proc,
    program: Pid,
    /// The program is collected: only the marks tell whether its number still means its process group.
    has_exited: bool,
    marks: RunMembers,
    /// Those that were seen, also if they are dead by now: their groups and sessions may have other members.
    start_times: HashMap<i32, u64>,
    own_pid: i32,
}

impl Family {
    fn new(program: Pid, has_exited: bool, tag: u64) -> io::Result<Self> {
        Ok(Self {
            proc: Proc::open()?,
            program,
            has_exited,
            marks: RunMembers::new(tag, &[]),
            start_times: HashMap::new(),
            own_pid: raw(rustix::process::getpid()),
        })
    }

    /// Walks over all processes, and returns the living ones that belong to the program.
    fn survey(&mut self) -> io::Result<Vec<Stat>> {
        let mut all = Vec::new();
        self.proc.visit_all(|_, stat| {
            if !stat.kernel {
                all.push(stat);
            }
        })?;
        all.retain(|stat| raw(stat.pid) != self.own_pid);
        let program = raw(self.program);
        // A number that was given to another process would make that process's group look like the program's.
        let is_reused = self.has_exited && all.iter().any(|stat| raw(stat.pid) == program);
        let mut members: HashSet<i32> = HashSet::new();
        loop {
            let before = members.len();
            for stat in &all {
                let pid = raw(stat.pid);
                if !members.contains(&pid) && self.belongs(stat, &members, is_reused) {
                    members.insert(pid);
                    self.start_times.insert(pid, stat.started);
                }
            }
            if members.len() == before {
                break;
            }
        }
        all.retain(|stat| members.contains(&raw(stat.pid)) && !stat.is_dead());
        Ok(all)
    }

    fn belongs(&mut self, stat: &Stat, members: &HashSet<i32>, is_reused: bool) -> bool {
        let (pid, program) = (raw(stat.pid), raw(self.program));
        if pid == program {
            return !self.has_exited;
        }
        if self.start_times.get(&pid) == Some(&stat.started) || members.contains(&stat.parent) {
            return true;
        }
        if stat.group == program {
            return match self.has_exited {
                false => true,
                true => !is_reused && self.marks.is_marked(&mut self.proc, stat),
            };
        }
        // The group or the session of a descendant.
        [stat.group, stat.session]
            .iter()
            .any(|leader| *leader != program && self.start_times.contains_key(leader))
            && self.marks.is_marked(&mut self.proc, stat)
    }

    /// Signals a process after confirming which one it is.
    fn signal(&mut self, stat: &Stat, signal: Signal) -> Option<ProcessHandle> {
        let handle = ProcessHandle::open(stat.pid).ok()?;
        let again = self.proc.stat(stat.pid)?;
        if again.started != stat.started {
            return None;
        }
        // It may end by itself in between, which is just as good.
        handle.signal(signal).ok()?;
        Some(handle)
    }
}

fn raw(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}
