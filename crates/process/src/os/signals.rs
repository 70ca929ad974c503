//! Signal masks and dispositions, and signals as a descriptor.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::Signal;

/// All signals are blocked in this thread while this value lives.
pub(super) struct Blocked {
    before: libc::sigset_t,
}

impl Drop for Blocked {
    fn drop(&mut self) {
        set_mask(&self.before);
    }
}

/// Blocks all signals in this thread.
pub(super) fn block_all() -> io::Result<Blocked> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises `all`, and pthread_sigmask initialises `before` when it returns 0.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        match libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) {
            0 => Ok(Blocked { before: before.assume_init() }),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// Gives every signal its default meaning. Safe between fork and exec.
pub(super) fn default_all() {
    for signal in 1..=64 {
        // SAFETY: SIG_DFL is a valid disposition; numbers that cannot be set are refused by the kernel.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Unblocks every signal. Safe between fork and exec.
pub(super) fn unblock_all() {
    set_mask(&empty());
}

pub(super) fn empty() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

pub(super) fn full() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises the set.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        set.assume_init()
    }
}

fn set_mask(mask: &libc::sigset_t) {
    // SAFETY: the mask is initialised. It can fail only for a bad first argument.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

/// Makes writing to a peer that is gone an error instead of a signal, as in every Rust program.
pub(super) fn ignore_broken_pipes() {
    // SAFETY: SIG_IGN is a valid disposition for this signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Chosen signals as a descriptor that becomes readable when one arrives.
#[derive(Debug)]
pub struct SignalFd {
    fd: OwnedFd,
}

impl SignalFd {
    /// Blocks the signals in this thread, which must be the only one, and returns their descriptor.
    #[cfg(target_os = "linux")]
    pub(crate) fn new(signals: &[Signal]) -> io::Result<Self> {
        use std::os::fd::FromRawFd;
        let mut set = empty();
        for signal in signals {
            // SAFETY: the set is initialised and the number is that of a signal.
            unsafe { libc::sigaddset(&raw mut set, signal.as_raw()) };
        }
        // SAFETY: the set is initialised; the descriptor that signalfd returns is ours alone.
        unsafe {
            let errno = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            if errno != 0 {
                return Err(io::Error::from_raw_os_error(errno));
            }
            let raw = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if raw < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self { fd: OwnedFd::from_raw_fd(raw) })
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn new(_signals: &[Signal]) -> io::Result<Self> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Returns the next signal that has arrived, or `None` when there is none.
    pub fn next(&self) -> io::Result<Option<Signal>> {
        // The kernel writes records of 128 bytes that begin with the number of the signal.
        let mut record = [0_u8; 128];
        match rustix::io::read(&self.fd, &mut record) {
            Ok(_) => {
                let [a, b, c, d, ..] = record;
                Ok(i32::try_from(u32::from_ne_bytes([a, b, c, d])).ok().and_then(Signal::from_named_raw))
            }
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
