//! Exits with a code after a signal instead of dying from it, as Grok documents.

use rustix::process::Signal;

/// The offset that shells add to the number of a signal.
const OFFSET: libc::c_int = 128;

/// Exits with 128 plus the number of the signal on SIGTERM and SIGINT.
pub(crate) fn exit_with_signal_code() {
    let handler: extern "C" fn(libc::c_int) = exit_on_signal;
    for signal in [Signal::TERM, Signal::INT] {
        // SAFETY: the handler only calls `_exit`, which may be called at any moment.
        unsafe { libc::signal(signal.as_raw(), handler as libc::sighandler_t) };
    }
}

extern "C" fn exit_on_signal(signal: libc::c_int) {
    // SAFETY: `_exit` is safe within a handler and does not return.
    unsafe { libc::_exit(OFFSET + signal) }
}
