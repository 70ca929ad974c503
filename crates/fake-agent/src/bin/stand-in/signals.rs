//! A signal that ends the program with a code instead of by itself, as Grok documents it.

use rustix::process::Signal;

/// What a shell would add to the number of a signal.
const OFFSET: libc::c_int = 128;

/// Ends the program with 128 and the number of the signal, for the two that ask a program to leave.
pub(crate) fn end_with_a_code() {
    let handler: extern "C" fn(libc::c_int) = leave;
    for signal in [Signal::TERM, Signal::INT] {
        // SAFETY: the handler only calls `_exit`, which may be called at any moment.
        unsafe { libc::signal(signal.as_raw(), handler as libc::sighandler_t) };
    }
}

extern "C" fn leave(signal: libc::c_int) {
    // SAFETY: `_exit` is safe within a handler and does not return.
    unsafe { libc::_exit(OFFSET + signal) }
}
