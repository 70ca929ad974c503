//! Landlock: rules that a process lays on itself and on everything that it starts, and never gets rid of.
//!
//! Own system calls instead of a crate: the rule for a namespace's own `/proc` can only be added between fork and exec,
//! where nothing may allocate.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

/// Asks for the version instead of a ruleset.
const VERSION: libc::c_uint = 1;
/// The kind of a rule about a file or everything beneath a directory.
const RULE_PATH_BENEATH: libc::c_int = 1;

/// The right to do something with files, one bit each.
pub(crate) mod file_right {
    pub(crate) const EXECUTE: u64 = 1;
    pub(crate) const WRITE_FILE: u64 = 1 << 1;
    pub(crate) const READ_FILE: u64 = 1 << 2;
    pub(crate) const READ_DIR: u64 = 1 << 3;
    pub(crate) const MAKE_CHAR: u64 = 1 << 6;
    pub(crate) const MAKE_BLOCK: u64 = 1 << 11;
    /// Since version 2: moves and links between directories. Version 1 refuses them all.
    pub(crate) const REFER: u64 = 1 << 13;
    /// Since version 3.
    pub(crate) const TRUNCATE: u64 = 1 << 14;
    /// Since version 5.
    pub(crate) const IOCTL_DEVICE: u64 = 1 << 15;
    /// All rights that version 1 knows.
    pub(crate) const ALL_OF_VERSION_1: u64 = (1 << 13) - 1;
    /// What a rule about a single file may contain.
    pub(crate) const OF_A_FILE: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE;
}

/// Since version 4: to listen and to connect by TCP.
pub(crate) const TCP_RIGHTS: u64 = 0b11;
/// Since version 6: abstract local sockets, and signals to processes outside.
pub(crate) const ALL_SCOPES: u64 = 0b11;

/// What a ruleset restricts. A kernel refuses fields that are set and that it does not know; those that it does not
/// know and that are zero it ignores.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RulesetAttributes {
    pub(crate) files: u64,
    pub(crate) network: u64,
    pub(crate) scopes: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: i32,
}

/// Returns the version of Landlock's interface, or why there is none. The list of security modules is not readable
/// everywhere, and names what was configured, not what a container may use.
pub fn landlock_version() -> io::Result<u32> {
    let (no_ruleset, no_bytes) = (std::ptr::null::<libc::c_void>(), 0_usize);
    // SAFETY: with this flag the call takes no ruleset: it reads no memory of ours and makes nothing.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, no_ruleset, no_bytes, VERSION) };
    match u32::try_from(version) {
        Ok(version) => Ok(version),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Makes a ruleset that allows nothing of what it restricts.
pub(crate) fn create_ruleset(attributes: &RulesetAttributes) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads the attributes and keeps nothing of them.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::from_ref(attributes),
            size_of::<RulesetAttributes>(),
            0,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just given us this descriptor, which it closes on exec.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Allows these rights on a file, or beneath a directory. Safe after fork.
pub(crate) fn allow_beneath(
    ruleset: BorrowedFd<'_>,
    parent: BorrowedFd<'_>,
    allowed: u64,
) -> Result<(), Errno> {
    let rule = PathBeneath { allowed, parent: parent.as_raw_fd() };
    // SAFETY: the kernel reads the rule and keeps nothing of it.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            RULE_PATH_BENEATH,
            std::ptr::from_ref(&rule),
            0,
        )
    };
    if answer == 0 { Ok(()) } else { Err(super::child::last_errno()) }
}

/// Allows reading a part of `/proc` that exists only in the new process: the whole of its namespace's own, or the
/// entry of the process itself. Safe after fork.
pub(super) fn allow_own_proc(ruleset: BorrowedFd<'_>, path: &std::ffi::CStr) -> Result<(), Errno> {
    use rustix::fs::{Mode, OFlags};
    let proc = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    allow_beneath(ruleset, proc.as_fd(), file_right::READ_FILE | file_right::READ_DIR)
}

/// Restricts this thread. `no_new_privs` must be set. Safe after fork.
pub(super) fn restrict_self(ruleset: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the call takes numbers only.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    if answer == 0 { Ok(()) } else { Err(super::child::last_errno()) }
}
