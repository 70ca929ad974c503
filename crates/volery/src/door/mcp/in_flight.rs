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

/// The most answers that wait to be written before no more is read: the client does not read either.
const UNWRITTEN_MAX: usize = 2 * IN_FLIGHT_MAX;

/// All requests in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    state: Mutex<State>,
    changed: Notify,
    memory: Memory,
}

/// How long a request is known that its handler is done with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Memory {
    /// Until its answer is under way.
    #[default]
    Answer,
    /// Not at all: the answer goes another way, and may never be fetched.
    Handler,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<RequestId, Entry>,
    /// Answers that were given and are not yet written.
    unwritten: usize,
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
    /// Returns one for answers that nobody reports.
    pub(super) fn forgetful() -> Self {
        Self { memory: Memory::Handler, ..Self::default() }
    }

    /// Takes a request in, unless one with its id is in flight.
    pub(super) fn register(self: &Arc<Self>, id: &RequestId) -> Option<Ticket> {
        let mut inside = self.lock();
        if inside.entries.contains_key(id) {
            return None;
        }
        let busy = inside.entries.len() + inside.unwritten;
        let admission = if busy < IN_FLIGHT_MAX { Admission::Admitted } else { Admission::OverLimit };
        let state = Arc::new(TicketState {
            id: id.clone(),
            received_at: Instant::now(),
            cancel_reason: OnceLock::new(),
            admission,
            in_flight: Arc::downgrade(self),
        });
        let entry = Entry { ticket: Arc::downgrade(&state), finished: false, cancelled: false };
        inside.entries.insert(id.clone(), entry);
        Some(Ticket(state))
    }

    /// Notes that the client cancelled a request, and why.
    pub(super) fn cancel(&self, id: &RequestId, reason: Option<String>) {
        // Declared first, so that it is dropped after the lock: dropping the last clone takes the lock.
        let ticket;
        let mut inside = self.lock();
        let Some(entry) = inside.entries.get_mut(id) else { return };
        entry.cancelled = true;
        ticket = entry.ticket.upgrade();
        if let Some(state) = &ticket {
            // Only the first reason counts.
            let _ = state.cancel_reason.set(reason);
        }
        if entry.finished {
            inside.entries.remove(id);
        }
        drop(inside);
        self.changed.notify_waiters();
    }

    /// Notes that a request is being answered: the client may use its id again as soon as it reads the answer.
    pub(super) fn answer(&self, id: &RequestId) {
        let mut inside = self.lock();
        inside.entries.remove(id);
        inside.unwritten += 1;
    }

    /// Notes that an answer was written, or never will be.
    pub(super) fn written(&self) {
        self.lock().unwritten -= 1;
        self.changed.notify_waiters();
    }

    /// Waits until the client has read enough for more to be worked on.
    pub(super) async fn room(&self) {
        self.until(|inside| inside.unwritten < UNWRITTEN_MAX).await;
    }

    /// Waits until nothing is in flight.
    pub(super) async fn emptied(&self) {
        self.until(|inside| inside.entries.is_empty() && inside.unwritten == 0).await;
    }

    async fn until(&self, condition: impl Fn(&State) -> bool) {
        loop {
            let changed = self.changed.notified();
            if condition(&self.lock()) {
                return;
            }
            changed.await;
        }
    }

    fn finish(&self, state: &TicketState) {
        let mut inside = self.lock();
        // Its id may be another request's by now.
        let entry = inside.entries.get_mut(&state.id);
        if let Some(entry) = entry.filter(|entry| std::ptr::eq(entry.ticket.as_ptr(), state)) {
            entry.finished = true;
            if entry.cancelled || self.memory == Memory::Handler {
                inside.entries.remove(&state.id);
            }
        }
        drop(inside);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
