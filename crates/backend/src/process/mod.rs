//! The one place that starts, marks, limits, stops and collects processes.
//!
//! Everything here is synchronous; whatever can be waited for is handed out as a descriptor for the caller's own
//! poll or tokio loop. It knows runs only by their tag: a number that each process of a run carries.

#[expect(unsafe_code, reason = "the folder for system calls that no safe wrapper offers")]
mod os;

mod agent;
mod capture;
mod cgroup;
mod error;
mod limits;
mod membership;
mod piped;
mod program;
mod reap;
mod spawn;
mod stop;
mod tags;
mod walk;
mod watch;

#[cfg(test)]
mod tests;

pub use agent::Agent;
pub use capture::{CaptureError, CaptureRequest, Captured, capture};
pub use cgroup::remove as remove_cgroup;
pub use error::SpawnError;
pub use limits::ResourceLimits;
pub use membership::{Membership, is_of_own_run, membership};
#[cfg(target_os = "linux")]
pub use os::landlock_version;
pub use os::{Forked, ProcessHandle, SignalFd, exit_worker, fork_worker, inherited_fd, leave_starter};
pub use piped::{Piped, PipedRequest, spawn_piped};
pub use program::find_program;
pub use reap::{ChildStatus, become_subreaper, find_own, has_children, is_stopped, reap_all, signal_fd};
pub use rustix::process::{Pid, Signal};
pub use spawn::{AgentRequest, CgroupUse, KeeperRequest, Started, Stdin, spawn_agent, spawn_keeper};
pub use stop::{Killed, Left, ask, kill_tree};
pub use tags::{Process, TAG_VARIABLE, own_tag, tagged_processes};
pub use watch::TreeUse;
