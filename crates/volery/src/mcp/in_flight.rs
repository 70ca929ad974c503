//! The requests in progress, by id: refuses an id that is in use, limits their number, and stores when each arrived and
//! why it was cancelled, which the library does not expose.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use rmcp::model::RequestId;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The most requests in progress; further ones are refused with the advice to try again.
pub(super) const IN_FLIGHT_MAX: usize = 512;

/// The most unwritten answers before reading stops, because the client does not read either.
const UNWRITTEN_MAX: usize = 2 * IN_FLIGHT_MAX;

/// All requests in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    state: Mutex<InFlightState>,
    changed: Notify,
    retention: Retention,
}

/// How long a request is tracked after its handler is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Retention {
    /// Until its answer is being sent.
    #[default]
    Answer,
    /// Not at all: the answer takes another path, and may never be fetched.
    Handler,
}

#[derive(Debug, Default)]
struct InFlightState {
    entries: HashMap<RequestId, InFlightEntry>,
    /// Answers that are not yet written.
    unwritten: usize,
}

#[derive(Debug)]
struct InFlightEntry {
    ticket: Weak<TicketState>,
    /// The handler has returned; its answer is being sent.
    finished: bool,
    /// The library sends no answer to a cancelled request.
    cancelled: bool,
}

/// A handler's view of its request. The entry lives at least as long as the last clone.
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

    /// Returns whether the client has cancelled the request.
    pub(super) fn is_cancelled(&self) -> bool {
        self.0.cancel_reason.get().is_some()
    }

    /// Returns the client's reason for cancelling.
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
    /// Returns a tracker that does not learn of answers.
    pub(super) fn without_answers() -> Self {
        Self { retention: Retention::Handler, ..Self::default() }
    }

    /// Registers a request, unless one with its id is in flight.
    pub(super) fn register(self: &Arc<Self>, id: &RequestId) -> Option<Ticket> {
        let mut locked = self.lock();
        if locked.entries.contains_key(id) {
            return None;
        }
        let busy = locked.entries.len() + locked.unwritten;
        let admission = if busy < IN_FLIGHT_MAX { Admission::Admitted } else { Admission::OverLimit };
        let state = Arc::new(TicketState {
            id: id.clone(),
            received_at: Instant::now(),
            cancel_reason: OnceLock::new(),
            admission,
            in_flight: Arc::downgrade(self),
        });
        let entry = InFlightEntry { ticket: Arc::downgrade(&state), finished: false, cancelled: false };
        locked.entries.insert(id.clone(), entry);
        Some(Ticket(state))
    }

    /// Records that the client cancelled a request, and why.
    pub(super) fn cancel(&self, id: &RequestId, reason: Option<String>) {
        // Declared first, so that it is dropped after the lock: dropping the last clone takes the lock.
        let ticket;
        let mut locked = self.lock();
        let Some(entry) = locked.entries.get_mut(id) else { return };
        entry.cancelled = true;
        ticket = entry.ticket.upgrade();
        if let Some(state) = &ticket {
            // Only the first reason counts.
            let _ = state.cancel_reason.set(reason);
        }
        if entry.finished {
            locked.entries.remove(id);
        }
        drop(locked);
        self.changed.notify_waiters();
    }

    /// Records that a request is being answered: the client may reuse its id as soon as it reads the answer.
    pub(super) fn answer(&self, id: &RequestId) {
        let mut locked = self.lock();
        locked.entries.remove(id);
        locked.unwritten += 1;
    }

    /// Records that an answer was written, or never will be.
    pub(super) fn answer_written(&self) {
        self.lock().unwritten -= 1;
        self.changed.notify_waiters();
    }

    /// Waits until the client has read enough answers.
    pub(super) async fn wait_for_capacity(&self) {
        self.wait_until(|locked| locked.unwritten < UNWRITTEN_MAX).await;
    }

    /// Waits until nothing is in flight.
    pub(super) async fn wait_until_empty(&self) {
        self.wait_until(|locked| locked.entries.is_empty() && locked.unwritten == 0).await;
    }

    async fn wait_until(&self, condition: impl Fn(&InFlightState) -> bool) {
        loop {
            let changed = self.changed.notified();
            if condition(&self.lock()) {
                return;
            }
            changed.await;
        }
    }

    fn finish(&self, state: &TicketState) {
        let mut locked = self.lock();
        // The id may belong to another request by now.
        let entry = locked.entries.get_mut(&state.id);
        if let Some(entry) = entry.filter(|entry| std::ptr::eq(entry.ticket.as_ptr(), state)) {
            entry.finished = true;
            if entry.cancelled || self.retention == Retention::Handler {
                locked.entries.remove(&state.id);
            }
        }
        drop(locked);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, InFlightState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
