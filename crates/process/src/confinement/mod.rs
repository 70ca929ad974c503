//! Confinement: which files, hosts and processes a program and everything that it starts can reach. The kernel enforces
//! it with Landlock, a filter of system calls, and fewer rights over the system.
//!
//! Not held: modes, owners and times of files outside can be changed by whoever owns them; names and sizes can be read;
//! the argument lists of other processes only where the process has a `/proc` of its own. Landlock has no rule for
//! these. Everything beneath a granted directory has the same rights: an exception inside cannot be expressed.

mod request;
mod system_paths;

#[cfg(target_os = "linux")]
mod prepared;

pub use request::{Confinement, IfMissing, NetworkAccess};
pub use system_paths::system_read_paths;

#[cfg(target_os = "linux")]
pub(super) use prepared::PreparedConfinement;
