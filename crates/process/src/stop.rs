//! Stops the processes of a run: asks the agent's group to end, and kills whatever is left of the tree.

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};

use super::agent::AgentProcess;
use super::cgroup::Cgroup;
use super::os::ProcessHandle;
use super::proc_fs::Proc;
use super::reap;
use super::tags::{RunMember, RunMembers};

/// How long a sweep continues if processes do not die or make new ones.
pub(super) const SWEEP_MAX: Duration = Duration::from_secs(3);
/// How long a round waits for the processes that it has killed.
pub(super) const ROUND_MAX: Duration = Duration::from_millis(50);

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Killed {
    /// How many processes were killed.
    pub count: u32,
    /// The processes that did not die in time.
    pub survivors: Vec<Survivor>,
}

/// A process that was killed and is still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    pub pid: Pid,
    pub comm: String,
    /// As in a process list: `D` waits for a device and cannot be killed.
    pub state: char,
}

/// Asks an agent to end: SIGTERM to its process group, and SIGCONT, since a stopped process cannot answer.
pub fn request_termination(agent: &AgentProcess) -> io::Result<()> {
    if agent.has_exited() {
        return Ok(());
    }
    for signal in [Signal::TERM, Signal::CONT] {
        match agent.handle().signal_group(signal) {
            // The group is gone, which is the goal.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            result => result?,
        }
    }
    Ok(())
}

/// Kills every process of a run, until a walk finds none.
///
/// Works for the keeper, the worker, and any later process that knows the tag. Never kills the caller or its
/// ancestors. `extra_roots` names further roots: children of the caller that it has not collected. Control groups
/// that were made from this process's own group are used and removed; for others there is [`super::remove_cgroup`].
pub fn kill_tree(tag: u64, extra_roots: &[Pid]) -> io::Result<Killed> {
    let group = Cgroup::existing(tag);
    let at_once = group.as_ref().map_or(0, Cgroup::kill_counted);
    let mut killed = kill_by_marks(tag, extra_roots)?;
    killed.count = killed.count.max(at_once);
    if killed.survivors.is_empty()
        && let Some(group) = group
    {
        group.remove()?;
    }
    Ok(killed)
}

fn kill_by_marks(tag: u64, extra_roots: &[Pid]) -> io::Result<Killed> {
    let mut proc = Proc::open()?;
    let members = RunMembers::new(tag, extra_roots);
    let deadline = Instant::now() + SWEEP_MAX;
    let mut killed = HashSet::new();
    // The first round looks before it kills: a death hands children to another parent, and so hides those that are
    // recognised only by their parent. Later rounds kill at sight, or a chain of short-lived processes would escape.
    let mut found = members.survey(&mut proc, |_, _| {})?;
    let mut dying = Vec::new();
    for member in &found {
        dying.extend(kill(&members, &mut proc, member, &mut killed));
    }
    while found.iter().any(|member| !member.stat.is_dead()) && Instant::now() < deadline {
        wait_for(&dying, ROUND_MAX);
        dying.clear();
        found = members.survey(&mut proc, |proc, member| {
            dying.extend(kill(&members, proc, member, &mut killed));
        })?;
        for member in found.iter().filter(|member| member.is_below_another) {
            dying.extend(kill(&members, &mut proc, member, &mut killed));
        }
    }
    let left = found.into_iter().filter(|member| !member.stat.is_dead()).map(Survivor::from).collect();
    Ok(Killed { count: u32::try_from(killed.len()).unwrap_or(u32::MAX), survivors: left })
}

/// Returns whether nothing of a run can be left: the agent is collected, and this process is the only child of the
/// process that adopts its orphans. Costs two small reads instead of a walk over all processes.
pub(super) fn nothing_adopted() -> bool {
    let own = rustix::process::getpid();
    let adopted = reap::adopter().and_then(|adopter| Proc::open().ok()?.children(adopter));
    adopted.is_some_and(|children| children.iter().all(|child| *child == own))
}

/// Waits for a killed process to end. Returns whether it did in time.
pub(super) fn ends_in_time(handle: &ProcessHandle) -> bool {
    wait_for(std::slice::from_ref(handle), SWEEP_MAX)
}

/// Kills one process after confirming which one it is. Returns its handle while it is dying.
fn kill(
    members: &RunMembers,
    proc: &mut Proc,
    member: &RunMember,
    killed: &mut HashSet<(Pid, u64)>,
) -> Option<ProcessHandle> {
    if member.stat.is_dead() {
        return None;
    }
    let process = members.confirm(proc, member).filter(|process| !process.dead)?;
    // It may end by itself in between, which is just as good.
    process.handle.signal(Signal::KILL).ok()?;
    killed.insert((member.stat.pid, member.stat.started));
    Some(process.handle)
}

/// Waits for processes to end. Returns whether all did in time.
pub(super) fn wait_for(dying: &[ProcessHandle], longest: Duration) -> bool {
    let deadline = Instant::now() + longest;
    dying.iter().all(|handle| {
        loop {
            let remaining = deadline.saturating_duration_since(Instant::now());
            let Ok(timeout) = Timespec::try_from(remaining) else { return false };
            let mut polled = [PollFd::new(handle, PollFlags::IN)];
            match poll(&mut polled, Some(&timeout)) {
                Ok(0) => return false,
                Ok(_) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    })
}

impl From<RunMember> for Survivor {
    fn from(member: RunMember) -> Self {
        Self { pid: member.stat.pid, comm: member.stat.comm, state: member.stat.state }
    }
}
