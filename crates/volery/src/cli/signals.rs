//! The signals of a terminal, and how a command that waits for its run responds to them.

use std::future::pending;

use tokio::signal::unix::{Signal, SignalKind, signal};

use engine::EngineError;

/// A signal that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceivedSignal {
    Interrupt,
    HangUp,
    Terminate,
}

/// What to do about a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalResponse {
    /// Ask the run to stop, and wait for its end.
    Cancel,
    /// Kill the run now, and wait for its end.
    CancelNow,
    /// Leave immediately; the run is being killed.
    GiveUp,
    /// Leave; the run continues.
    Detach,
    /// Leave; the run follows its `on_disconnect`.
    Leave,
}

/// Returns the response to a signal, given the number of earlier interrupts.
pub(crate) fn respond(received: ReceivedSignal, interrupts_before: u32) -> SignalResponse {
    match (received, interrupts_before) {
        (ReceivedSignal::Interrupt, 0) => SignalResponse::Cancel,
        (ReceivedSignal::Interrupt, 1) => SignalResponse::CancelNow,
        (ReceivedSignal::Interrupt, _) => SignalResponse::GiveUp,
        (ReceivedSignal::HangUp, _) => SignalResponse::Detach,
        (ReceivedSignal::Terminate, _) => SignalResponse::Leave,
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
    /// Listens to no signal: each keeps its default action.
    pub(crate) fn default_actions() -> Self {
        Self::default()
    }

    /// Listens to all signals that are not ignored. `nohup`, or a shell that starts the command in the background, ignores some.
    pub(crate) fn listen() -> Result<Self, EngineError> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let listen = |kind: SignalKind| {
            if is_ignored(&status, kind.as_raw_value()) {
                return Ok(None);
            }
            let failed = |error| EngineError::internal(format!("could not listen to signals: {error}"));
            signal(kind).map(Some).map_err(failed)
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> ReceivedSignal {
        tokio::select! {
            () = wait_for_signal(&mut self.interrupt) => ReceivedSignal::Interrupt,
            () = wait_for_signal(&mut self.hang_up) => ReceivedSignal::HangUp,
            () = wait_for_signal(&mut self.terminate) => ReceivedSignal::Terminate,
        }
    }
}

async fn wait_for_signal(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => match signal.recv().await {
            Some(()) => {}
            None => pending().await,
        },
        None => pending().await,
    }
}

/// Returns whether a signal is ignored, according to `/proc/self/status`.
pub(crate) fn is_ignored(status: &str, number: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    let bit = u32::try_from(number - 1).unwrap_or(u32::MAX);
    1_u64.checked_shl(bit).is_some_and(|bit| mask & bit != 0)
}
