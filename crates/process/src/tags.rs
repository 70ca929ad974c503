//! The marks of a run: which run this process is in, and which processes belong to a run.
//!
//! Two marks are set on every agent and inherited by every process that it starts: the limit on file locks, which
//! Linux does not otherwise use and an ordinary process cannot raise again, and an environment variable. Either
//! suffices.

use std::collections::{HashMap, HashSet};
use std::io;

use rustix::process::Pid;

use super::os::ProcessHandle;
use super::proc_fs::{Proc, Stat};
use super::reap;

/// The environment variable that holds a run's tag in hexadecimal.
pub const TAG_VARIABLE: &str = "VOLERY_RUN_TAG";

/// A process of a run.
#[derive(Debug)]
pub struct TaggedProcess {
    pub pid: Pid,
    /// Opened before the marks were checked for the last time, so it certainly refers to the marked process.
    pub handle: ProcessHandle,
    pub parent: Option<Pid>,
    pub comm: String,
    /// Whether only its entry is left, for its parent to collect.
    pub dead: bool,
}

/// Returns the tag of the run that this process is in.
#[cfg(target_os = "linux")]
pub fn own_tag() -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Locks);
    limit.current.filter(|_| limit.current == limit.maximum)
}

/// Returns the tag of the run that this process is in, which is not known on this system.
#[cfg(not(target_os = "linux"))]
pub fn own_tag() -> Option<u64> {
    None
}

/// Returns the processes of a run, including dead ones that nobody has collected.
pub fn tagged_processes(tag: u64) -> io::Result<Vec<TaggedProcess>> {
    let mut proc = Proc::open()?;
    let members = RunMembers::new(tag, &[]);
    // Confirmed at once, since some do not live until the end of the walk.
    let mut processes = Vec::new();
    let found = members.survey(&mut proc, |proc, member| processes.extend(members.confirm(proc, member)))?;
    for member in found.iter().filter(|member| member.is_below_another) {
        processes.extend(members.confirm(&mut proc, member));
    }
    Ok(processes)
}

/// Returns the value of the variable for a tag.
pub(super) fn hex(tag: u64) -> String {
    format!("{tag:016x}")
}

/// How a process was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// By a mark that it carries.
    Carried,
    /// Named by the caller, adopted by the keeper, or below a recognised process.
    Related,
}

/// A process that was recognised.
#[derive(Debug, Clone)]
pub(super) struct RunMember {
    pub(super) stat: Stat,
    mark: Mark,
    /// Recognised only at the end of a walk.
    pub(super) is_below_another: bool,
}

/// Decides which processes belong to a run.
pub(super) struct RunMembers {
    tag: u64,
    variable: Vec<u8>,
    extra_roots: HashSet<Pid>,
    own_pid: Pid,
    /// The keeper, for itself and its worker.
    adopter: Option<Pid>,
}

impl RunMembers {
    /// `extra_roots` names further processes that belong, with their descendants: children that the caller has not
    /// collected, so that their process ids are certain.
    pub(super) fn new(tag: u64, extra_roots: &[Pid]) -> Self {
        Self {
            tag,
            variable: format!("{TAG_VARIABLE}={}", hex(tag)).into_bytes(),
            extra_roots: extra_roots.iter().copied().collect(),
            own_pid: rustix::process::getpid(),
            // In a process that is itself marked, every child is.
            adopter: reap::adopter().filter(|_| own_tag().is_none()),
        }
    }

    /// Walks over all processes once and returns those that belong to the run. `on_found` is called for each as soon
    /// as it is recognised, except for those below another, which are known only at the end.
    pub(super) fn survey(
        &self,
        proc: &mut Proc,
        mut on_found: impl FnMut(&mut Proc, &RunMember),
    ) -> io::Result<Vec<RunMember>> {
        let mut members = Vec::new();
        let mut others = Vec::new();
        let ancestors = self.ancestors(proc);
        proc.visit_all(|proc, stat| {
            if stat.kernel || ancestors.contains(&stat.pid) {
                return;
            }
            match self.recognise(proc, &stat) {
                Some(mark) => {
                    let member = RunMember { stat, mark, is_below_another: false };
                    on_found(proc, &member);
                    members.push(member);
                }
                None => others.push(stat),
            }
        })?;
        add_descendants(&mut members, others);
        Ok(members)
    }

    /// Opens a member and checks it again: only then is it certain that the process id was not reused meanwhile.
    pub(super) fn confirm(&self, proc: &mut Proc, member: &RunMember) -> Option<TaggedProcess> {
        let pid = member.stat.pid;
        let handle = ProcessHandle::open(pid).ok()?;
        let stat = proc.stat(pid)?;
        let same = stat.started == member.stat.started
            && (member.mark == Mark::Related || self.recognise(proc, &stat).is_some());
        let dead = stat.is_dead();
        same.then(|| TaggedProcess { pid, handle, parent: Pid::from_raw(stat.parent), comm: stat.comm, dead })
    }

    /// Returns whether the process carries a mark of the run.
    pub(super) fn is_marked(&self, proc: &mut Proc, stat: &Stat) -> bool {
        self.recognise(proc, stat) == Some(Mark::Carried)
    }

    fn recognise(&self, proc: &mut Proc, stat: &Stat) -> Option<Mark> {
        if self.extra_roots.contains(&stat.pid) {
            return Some(Mark::Related);
        }
        let limit = proc.lock_limit(stat.pid)?;
        match limit.as_tag() {
            Some(tag) if tag == self.tag => return Some(Mark::Carried),
            _ => {}
        }
        if proc.has_variable(stat.pid, &self.variable) {
            return Some(Mark::Carried);
        }
        // An orphan that the keeper adopted and that lowered its limit to hide the mark. The keeper of a nested run
        // has no such limit; processes below that one are not this keeper's children.
        let ours = self.adopter.is_some_and(|adopter| stat.parent == adopter.as_raw_nonzero().get());
        (ours && limit.is_finite()).then_some(Mark::Related)
    }

    /// Returns this process and its ancestors, which never belong to what is swept from here.
    fn ancestors(&self, proc: &mut Proc) -> HashSet<Pid> {
        let mut ancestors = HashSet::from([self.own_pid]);
        let mut next = rustix::process::getppid();
        while let Some(pid) = next.filter(|pid| ancestors.insert(*pid)) {
            next = proc.stat(pid).and_then(|stat| Pid::from_raw(stat.parent));
        }
        ancestors
    }
}

fn add_descendants(members: &mut Vec<RunMember>, others: Vec<Stat>) {
    let mut children: HashMap<i32, Vec<Stat>> = HashMap::new();
    for stat in others {
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut next = 0;
    while let Some(member) = members.get(next) {
        let below = children.remove(&member.stat.pid.as_raw_nonzero().get()).unwrap_or_default();
        members.extend(below.into_iter().map(|stat| RunMember {
            stat,
            mark: Mark::Related,
            is_below_another: true,
        }));
        next += 1;
    }
}
