//! Determines which run a process is in. A process of a run can lower its mark, so one mark alone proves little: this
//! also checks the other mark and the ancestor processes.

use rustix::process::Pid;

use super::proc_fs::Proc;
use super::reap;

/// How many ancestors are checked. Real chains have a few dozen.
const ANCESTORS_MAX: usize = 512;

/// The argument in the command line of every keeper.
#[cfg(target_os = "linux")]
const KEEPER_ARGUMENT: &[u8] = b"__keeper";

/// The run that a process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    Outside,
    /// In the run with this tag.
    Run(u64),
    /// Its marks contradict each other, or are not those of a run; the text explains how.
    Unclear(String),
}

/// Returns the run that this process is in. Tags are not smaller than `tag_min`; `variable` is the value of
/// `VOLERY_RUN_TAG`.
#[cfg(target_os = "linux")]
pub fn membership(tag_min: u64, variable: Option<&str>) -> Membership {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Locks);
    let tag = match (limit.current, limit.maximum) {
        (None, None) => None,
        (Some(soft), Some(hard)) if soft == hard && soft >= tag_min => Some(soft),
        (soft, hard) => {
            let number = hard.or(soft).unwrap_or_default();
            return Membership::Unclear(format!("its limit on file locks is {number}"));
        }
    };
    // Smaller numbers mark programs that are started outside of runs, such as those that `doctor` tries.
    let variable_tag = variable
        .and_then(|value| u64::from_str_radix(value, 16).ok())
        .filter(|variable_tag| *variable_tag >= tag_min);
    match (tag, variable_tag) {
        (_, None) => {}
        (Some(tag), Some(variable_tag)) if tag == variable_tag => {}
        (Some(_), Some(_)) => {
            let contradiction = "VOLERY_RUN_TAG and its limit on file locks name different runs";
            return Membership::Unclear(contradiction.to_owned());
        }
        (None, Some(_)) => {
            let contradiction = "VOLERY_RUN_TAG is set, and its limit on file locks is not";
            return Membership::Unclear(contradiction.to_owned());
        }
    }
    match (ancestor_contradiction(tag, tag_min), tag) {
        (Some(contradiction), _) => Membership::Unclear(contradiction.to_owned()),
        (None, Some(tag)) => Membership::Run(tag),
        (None, None) => Membership::Outside,
    }
}

/// Returns the run that this process is in, which is not known on this system.
#[cfg(not(target_os = "linux"))]
pub fn membership(_tag_min: u64, _variable: Option<&str>) -> Membership {
    Membership::Outside
}

/// Returns how the ancestor processes contradict this process's own mark. A process with rights over resources can
/// raise its limit again, and any process can take the tag of a run with a lower number.
#[cfg(target_os = "linux")]
fn ancestor_contradiction(tag: Option<u64>, tag_min: u64) -> Option<&'static str> {
    let mut proc = Proc::open().ok()?;
    let mut next = Pid::from_raw(proc.own_stat()?.parent);
    for _ in 0..ANCESTORS_MAX {
        let pid = next?;
        let carried = proc.lock_limit(pid)?.as_tag().filter(|carried| *carried >= tag_min);
        if carried.is_some() && carried != tag {
            return Some("a process above it is in another run");
        }
        // A process without a mark below a keeper has lost its mark.
        if tag.is_none() && proc.has_argument(pid, KEEPER_ARGUMENT) {
            return Some("the keeper of a run is above it");
        }
        next = Pid::from_raw(proc.stat(pid)?.parent);
    }
    None
}

/// Returns, for a worker, whether a process belongs to its run: the process and all its ancestors, up to the worker
/// or the keeper that adopts orphans, carry the tag. The tag alone is not enough: a process of another run can lower
/// its own to it.
pub fn belongs_to_own_run(pid: Pid, tag: u64) -> bool {
    let Ok(mut proc) = Proc::open() else { return false };
    let (own, adopter) = (rustix::process::getpid(), reap::adopter());
    let mut next = pid;
    for _ in 0..ANCESTORS_MAX {
        if proc.lock_limit(next).and_then(|limit| limit.as_tag()) != Some(tag) {
            return false;
        }
        let Some(parent) = proc.stat(next).and_then(|stat| Pid::from_raw(stat.parent)) else { return false };
        if parent == own || Some(parent) == adopter {
            return true;
        }
        next = parent;
    }
    false
}
