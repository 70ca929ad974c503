//! System calls that no safe wrapper offers, thin and one topic per file.
//!
//! Linux is fully supported. Elsewhere a kernel queue tracks a process instead of a pidfd, and there are no
//! namespaces, no signal descriptors and no tag in the resource limits.

mod channel;
mod child;
mod fork;
mod handle;
mod inherit;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod landlock;
mod launch;
mod posix_spawn;
mod signals;
#[cfg(target_os = "linux")]
mod syscall_filter;
mod sysconf;

pub use fork::{Forked, fork_worker, leave_starter};
pub use handle::ProcessHandle;
pub use inherit::{exit_worker, inherited_fd};
#[cfg(target_os = "linux")]
pub use landlock::landlock_version;
pub use signals::SignalFd;

pub(super) use channel::{pipe, widen};
#[cfg(target_os = "linux")]
pub(super) use child::ChildConfinement;
pub(super) use child::{CgroupFds, LaunchStage};
#[cfg(target_os = "linux")]
pub(super) use landlock::{
    ALL_SCOPES, RulesetAttributes, TCP_RIGHTS, allow_beneath, create_ruleset, file_right,
};
pub(super) use launch::{Init, Launch, LaunchError, Launched, NamespaceMode, launch};
pub(super) use posix_spawn::{PosixSpawnRequest, posix_spawn};
#[cfg(target_os = "linux")]
pub(super) use syscall_filter::{SocketFilter, SyscallFilter, build_syscall_filter, has_syscall_filters};
pub(super) use sysconf::{page_bytes, ticks_per_second};
