//! Asks the kernel which version of Landlock it offers: the list of security modules is not readable everywhere, and
//! names what was configured, not what a container may use.

use std::io;

/// Asks for the version instead of a ruleset.
const VERSION: libc::c_uint = 1;

/// Returns the version of Landlock's interface, or why there is none.
pub fn landlock_version() -> io::Result<u32> {
    let (no_ruleset, no_bytes) = (std::ptr::null::<libc::c_void>(), 0_usize);
    // SAFETY: with this flag the call takes no ruleset: it reads no memory of ours and makes nothing.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, no_ruleset, no_bytes, VERSION) };
    match u32::try_from(version) {
        Ok(version) => Ok(version),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
