//! Stops the processes of a run: asks the agent's group, and kills whatever is left of the tree.

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};

use super::agent::Agent;
use super::cgroup::Cgroup;
use super::os::ProcessHandle;
use super::reap;
use super::tags::{Member, Members};
use super::walk::Proc;

/// How long a sweep goes on when processes do not die or make new ones.
const SWEEP: Duration = Duration::from_secs(3);
/// How long a round waits for those it has killed.
const ROUND: Duration = Duration::from_millis(50);

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Killed {
    /// How many processes were killed.
    pub count: u32,
    /// What did not die in time.
    pub left: Vec<Left>,
}

/// A process that was killed and is still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub pid: Pid,
    pub comm: String,
    /// As in a process list: `D` waits for a device and cannot be killed.
    pub state: char,
}

/// Asks an agent to end: SIGTERM to its process group, and SIGCONT, since a stopped process cannot answer.
pub fn ask(agent: &Agent) -> io::Result<()> {
    if agent.has_exited() {
        return Ok(());
    }
    for signal in [Signal::TERM, Signal::CONT] {
        match agent.handle().signal_group(signal) {
            // The group is gone: that is what was asked for.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            answer => answer?,
        }
    }
    Ok(())
}

/// Kills every process of a run, until a look finds none.
///
/// Works for the keeper, the worker, and anybody later who knows the tag. Never kills the caller or those above it.
/// `also` names further roots: children of the caller that it has not collected. Control groups that were made from
/// where this process is are used and removed; for others there is [`super::remove_cgroup`].
pub fn kill_tree(tag: u64, also: &[Pid]) -> io::Result<Killed> {
    let group = Cgroup::existing(tag);
    let at_once = group.as_ref().map_or(0, Cgroup::kill_counted);
    let mut killed = kill_by_marks(tag, also)?;
    killed.count = killed.count.max(at_once);
    if killed.left.is_empty()
        && let Some(group) = group
    {
        group.remove()?;
    }
    Ok(killed)
}

fn kill_by_marks(tag: u64, also: &[Pid]) -> io::Result<Killed> {
    let mut proc = Proc::open()?;
    let members = Members::new(tag, also);
    let deadline = Instant::now() + SWEEP;
    let mut killed = HashSet::new();
    // The first round looks before it kills: a death hands children to another parent, and thereby hides those who
    // are recognised only by theirs. Later rounds kill at sight, or a chain of short-lived processes would escape.
    let mut found = members.survey(&mut proc, |_, _| {})?;
    let mut dying = Vec::new();
    for member in &found {
        dying.extend(kill(&members, &mut proc, member, &mut killed));
    }
    while found.iter().any(|member| !member.stat.is_dead()) && Instant::now() < deadline {
        wait_for(&dying, ROUND);
        dying.clear();
        found = members.survey(&mut proc, |proc, member| {
            dying.extend(kill(&members, proc, member, &mut killed));
        })?;
        for member in found.iter().filter(|member| member.is_below_another) {
            dying.extend(kill(&members, &mut proc, member, &mut killed));
        }
    }
    let left = found.into_iter().filter(|member| !member.stat.is_dead()).map(Left::from).collect();
    Ok(Killed { count: u32::try_from(killed.len()).unwrap_or(u32::MAX), left })
}

/// Whether nothing of a run can be left: the agent is collected, and nobody but this process is a child of whoever
/// adopts its orphans. Costs two small reads instead of a walk over all processes.
pub(super) fn nothing_adopted() -> bool {
    let own = rustix::process::getpid();
    let adopted = reap::adopter().and_then(|adopter| Proc::open().ok()?.children(adopter));
    adopted.is_some_and(|children| children.iter().all(|child| *child == own))
}

/// Waits for a killed process to be gone. Returns whether it was in time.
pub(super) fn ends_in_time(handle: &ProcessHandle) -> bool {
    wait_for(std::slice::from_ref(handle), SWEEP)
}

/// Kills one process, once it is certain which one it is. Returns it while it is dying.
fn kill(
    members: &Members,
    proc: &mut Proc,
    member: &Member,
    killed: &mut HashSet<(Pid, u64)>,
) -> Option<ProcessHandle> {
    if member.stat.is_dead() {
        return None;
    }
    let process = members.confirm(proc, member).filter(|process| !process.dead)?;
    // It may end by itself in between, which is as good.
    process.handle.signal(Signal::KILL).ok()?;
    killed.insert((member.stat.pid, member.stat.started));
    Some(process.handle)
}

/// Waits for processes to be gone. Returns whether all were in time.
fn wait_for(dying: &[ProcessHandle], longest: Duration) -> bool {
    let deadline = Instant::now() + longest;
    dying.iter().all(|handle| {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(timeout) = Timespec::try_from(left) else { return false };
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

impl From<Member> for Left {
    fn from(member: Member) -> Self {
        Self { pid: member.stat.pid, comm: member.stat.comm, state: member.stat.state }
    }
}
