//! Constants of the running system.

/// Returns the size of a page of memory.
pub(crate) fn page_bytes() -> u64 {
    constant(libc::_SC_PAGESIZE).unwrap_or(4096)
}

/// Returns the unit of CPU times in `/proc`.
pub(crate) fn ticks_per_second() -> u64 {
    constant(libc::_SC_CLK_TCK).unwrap_or(100)
}

fn constant(name: libc::c_int) -> Option<u64> {
    // SAFETY: sysconf takes any number and only returns a value.
    let value = unsafe { libc::sysconf(name) };
    u64::try_from(value).ok().filter(|value| *value > 0)
}
