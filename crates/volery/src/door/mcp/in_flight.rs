//! The requests that are being worked on, by id: refuses an id that is in use, bounds their number, and keeps for
//! each when it came and why it was cancelled, which the library does not tell.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use rmcp::model::RequestId;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The most requests that are worked on at a time; each further one is told to come back later.
pub(super) const IN_FLIGHT_MAX: usize = 512;

/// All requests in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    entries: Mutex<HashMap<RequestId, Entry>>,
    changed: Notify,
}

#[derive(Debug)]
struct Entry {
    ticket: Weak<TicketState>,
    /// The handler has returned; its answer is on its way.
    finished: bool,
    /// The library sends no answer to a cancelled request.
    cancelled: bool,
}

/// What a handler knows about its request. The entry lives at least as long as the last clone.
#[derive(Debug, Clone)]
pub(super) struct Ticket(Arc<TicketState>);

#[derive(Debug)]
struct TicketState {
    id: RequestId,
    received_at: Instant,
    cancel_reason: OnceLock<Option<String>>,
    admission: Admission,
    in_flight: Weak<InFlight>,
}

/// Whether there is room for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Admitted,
    OverLimit,
}

impl Ticket {
    /// Returns how long ago the request was read.
    pub(super) fn age(&self) -> Duration {
        self.0.received_at.elapsed()
    }

    pub(super) fn admission(&self) -> Admission {
        self.0.admission
    }

    /// Tells whether the client has cancelled the request.
    pub(super) fn is_cancelled(&self) -> bool {
        self.0.cancel_reason.get().is_some()
    }

    /// Returns the reason that the client gave for cancelling, once it has.
    pub(super) fn cancel_reason(&self) -> Option<&str> {
        self.0.cancel_reason.get()?.as_deref()
    }
}

impl Drop for TicketState {
    fn drop(&mut self) {
        if let Some(in_flight) = self.in_flight.upgrade() {
            in_flight.finish(self);
        }
    }
}

impl InFlight {
    /// Takes a request in, unless one with its id is in flight.
    pub(super) fn register(self: &Arc<Self>, id: &RequestId) -> Option<Ticket> {
        let mut entries = self.lock();
        if entries.contains_key(id) {
            return None;
        }
        let admission =
            if entries.len() < IN_FLIGHT_MAX { Admission::Admitted } else { Admission::OverLimit };
        let state = Arc::new(TicketState {
            id: id.clone(),
            received_at: Instant::now(),
            cancel_reason: OnceLock::new(),
            admission,
            in_flight: Arc::downgrade(self),
        });
        let entry = Entry { ticket: Arc::downgrade(&state), finished: false, cancelled: false };
        entries.insert(id.clone(), entry);
        Some(Ticket(state))
    }

    /// Notes that the client cancelled a request, and why.
    pub(super) fn cancel(&self, id: &RequestId, reason: Option<String>) {
        // Declared first, so that it is dropped after the lock: dropping the last clone takes the lock.
        let ticket;
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(id) else { return };
        entry.cancelled = true;
        ticket = entry.ticket.upgrade();
        if let Some(state) = &ticket {
            // Only the first reason counts.
            let _ = state.cancel_reason.set(reason);
        }
        if entry.finished {
            entries.remove(id);
        }
        drop(entries);
        self.changed.notify_waiters();
    }

    /// Notes that a request is answered: its id is free again.
    pub(super) fn answered(&self, id: &RequestId) {
        self.lock().remove(id);
        self.changed.notify_waiters();
    }

    /// Waits until nothing is in flight.
    pub(super) async fn emptied(&self) {
        loop {
            let changed = self.changed.notified();
            if self.lock().is_empty() {
                return;
            }
            changed.await;
        }
    }

    fn finish(&self, state: &TicketState) {
        let mut entries = self.lock();
        // Its id may be another request's by now.
        if let Some(entry) =
            entries.get_mut(&state.id).filter(|entry| std::ptr::eq(entry.ticket.as_ptr(), state))
        {
            entry.finished = true;
            if entry.cancelled {
                entries.remove(&state.id);
            }
        }
        drop(entries);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
