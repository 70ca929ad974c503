//! The signals of a terminal and what they ask of a command that waits for its run.

use std::future::pending;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::app::AppError;

/// A signal that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    Interrupt,
    HangUp,
    Terminate,
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Response {
    /// Ask the run to stop, and wait for its end.
    Cancel,
    /// Kill the run now, and wait for its end.
    CancelNow,
    /// Leave at once; the run is being killed.
    GiveUp,
    /// Leave; the run goes on.
    Detach,
    /// Leave; what becomes of the run is what its `on_disconnect` says.
    Leave,
}

/// Returns what a signal asks for, after so many interrupts before it.
pub(crate) fn respond(received: Received, interrupts_before: u32) -> Response {
    match (received, interrupts_before) {
        (Received::Interrupt, 0) => Response::Cancel,
        (Received::Interrupt, 1) => Response::CancelNow,
        (Received::Interrupt, _) => Response::GiveUp,
        (Received::HangUp, _) => Response::Detach,
        (Received::Terminate, _) => Response::Leave,
    }
}

/// The signals that a command listens to.
#[derive(Default)]
pub(crate) struct Signals {
    interrupt: Option<Signal>,
    hang_up: Option<Signal>,
    terminate: Option<Signal>,
}

impl Signals {
    /// Listens to none: every signal does what it does by default.
    pub(crate) fn default_actions() -> Self {
        Self::default()
    }

    /// Listens to all that are not ignored: `nohup`, or a shell that put us in the background, meant that.
    pub(crate) fn listen() -> Result<Self, AppError> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let listen = |kind: SignalKind| {
            if is_ignored(&status, kind.as_raw_value()) {
                return Ok(None);
            }
            let failed = |error| AppError::internal(format!("could not listen to signals: {error}"));
            signal(kind).map(Some).map_err(failed)
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Received {
        tokio::select! {
            () = received(&mut self.interrupt) => Received::Interrupt,
            () = received(&mut self.hang_up) => Received::HangUp,
            () = received(&mut self.terminate) => Received::Terminate,
        }
    }
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => match signal.recv().await {
            Some(()) => {}
            None => pending().await,
        },
        None => pending().await,
    }
}

/// Tells from `/proc/self/status` whether a signal is ignored.
pub(crate) fn is_ignored(status: &str, number: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    let bit = u32::try_from(number - 1).unwrap_or(u32::MAX);
    1_u64.checked_shl(bit).is_some_and(|bit| mask & bit != 0)
}
