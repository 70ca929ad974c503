//! The only crate that starts, marks, limits, stops and collects processes, and the only one with `unsafe` code. Git is
//! one of the programs that it starts: `work_tree` finds out what a run changed.
//!
//! Everything here is synchronous; whatever can be waited for is exposed as a descriptor for the caller's own poll or
//! tokio loop. The module knows runs only by their tag: a number that each process of a run carries.

#[expect(unsafe_code, reason = "the folder for system calls that no safe wrapper offers")]
mod os;

mod agent;
mod capture;
mod cgroup;
mod confinement;
mod descendants;
mod error;
mod limits;
mod membership;
mod piped;
mod proc_fs;
mod program_path;
mod reap;
mod spawn;
mod stop;
mod tags;
mod tree_usage;
pub mod work_tree;

#[cfg(test)]
mod tests;

pub use agent::AgentProcess;
pub use capture::{CaptureError, CaptureRequest, Captured, capture};
pub use cgroup::remove as remove_cgroup;
pub use confinement::{Confinement, IfMissing, NetworkAccess, system_read_paths};
pub use error::SpawnError;
pub use limits::ResourceLimits;
pub use membership::{Membership, belongs_to_own_run, membership};
#[cfg(target_os = "linux")]
pub use os::landlock_version;
pub use os::{Forked, ProcessHandle, SignalFd, exit_worker, fork_worker, inherited_fd, leave_starter};
pub use piped::{Piped, PipedRequest, spawn_piped};
pub use reap::{
    ChildStatus, become_subreaper, find_own_process, has_children, is_stopped, reap_all, signal_fd,
};
pub use rustix::process::{Pid, Signal};
pub use spawn::{AgentRequest, CgroupUse, KeeperRequest, StartedAgent, Stdin, spawn_agent, spawn_keeper};
pub use stop::{Killed, Survivor, kill_tree, request_termination};
pub use tags::{TAG_VARIABLE, TaggedProcess, own_tag, tagged_processes};
pub use tree_usage::TreeUsage;
