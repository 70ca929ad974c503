//! What the door counts about itself, for the metrics.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use http::StatusCode;

/// The statuses that are told apart; the others count by their first digit.
const STATUSES: [u16; 12] = [200, 202, 400, 401, 403, 404, 405, 408, 413, 415, 500, 503];

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicUsize,
    pub(super) connections_refused: AtomicU64,
    pub(super) connections_accepted: AtomicU64,
    pub(super) sessions: AtomicUsize,
    answered: [AtomicU64; STATUSES.len()],
    answered_otherwise: AtomicU64,
}

impl Counters {
    pub(super) fn answered(&self, status: StatusCode) {
        let place = STATUSES.iter().position(|known| *known == status.as_u16());
        let counter = place.map_or(&self.answered_otherwise, |place| &self.answered[place]);
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how often each status was answered.
    pub(super) fn answers(&self) -> Vec<(String, u64)> {
        let known = STATUSES.iter().zip(&self.answered);
        let known = known.map(|(status, count)| (status.to_string(), count.load(Ordering::Relaxed)));
        let others = ("other".to_owned(), self.answered_otherwise.load(Ordering::Relaxed));
        known.chain([others]).collect()
    }
}

/// One more as long as it lives.
#[derive(Debug)]
pub(super) struct Counted<'a>(pub(super) &'a AtomicUsize);

impl<'a> Counted<'a> {
    pub(super) fn new(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
