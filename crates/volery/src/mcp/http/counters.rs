//! The server's own counters, for the metrics.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use http::StatusCode;

/// The statuses with their own counter; the others share one.
const STATUSES: [u16; 12] = [200, 202, 400, 401, 403, 404, 405, 408, 413, 415, 500, 503];

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicUsize,
    pub(super) connections_refused: AtomicU64,
    pub(super) connections_accepted: AtomicU64,
    pub(super) sessions: AtomicUsize,
    answered: [AtomicU64; STATUSES.len()],
    answered_other: AtomicU64,
}

impl Counters {
    pub(super) fn answered(&self, status: StatusCode) {
        let index = STATUSES.iter().position(|known| *known == status.as_u16());
        let counter = index.map_or(&self.answered_other, |index| &self.answered[index]);
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how often each status was answered.
    pub(super) fn answers(&self) -> Vec<(String, u64)> {
        let known = STATUSES.iter().zip(&self.answered);
        let known = known.map(|(status, count)| (status.to_string(), count.load(Ordering::Relaxed)));
        let others = ("other".to_owned(), self.answered_other.load(Ordering::Relaxed));
        known.chain([others]).collect()
    }
}

/// Increments a counter for as long as it lives.
#[derive(Debug)]
pub(super) struct CounterGuard<'a>(pub(super) &'a AtomicUsize);

impl<'a> CounterGuard<'a> {
    pub(super) fn new(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for CounterGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
