//! The bounds of the HTTP door. What is beyond one is refused at once, as `docs/http.md` says for each.

use std::time::Duration;

/// How much, how many, and how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limits {
    /// Connections at a time; further ones are told to come back.
    pub(super) connections: usize,
    /// Requests that are worked on at a time, over all callers.
    pub(super) requests: usize,
    /// Sessions of the older generation at a time, over all callers.
    pub(super) sessions: usize,
    /// How long such a session may be silent.
    pub(super) session_idle: Duration,
    /// Of a request's body.
    pub(super) body_bytes: usize,
    /// Of a request's line and headers.
    pub(super) head_bytes: usize,
    /// How long a connection may take to send the head of its next request; also how long it may be idle.
    pub(super) head_time: Duration,
    /// How long a request may take to send its body.
    pub(super) body_time: Duration,
    /// An answer that takes longer than this is begun before it is there: some clients wait only so long for a sign.
    pub(super) headers_after: Duration,
    /// How often a sign of life goes out while there is nothing to say.
    pub(super) sign_every: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            requests: 512,
            sessions: 512,
            // Longer than any call waits: a session does not end under a call that is silent.
            session_idle: Duration::from_secs(1_800),
            // Several prompts of the longest kind. Less than a line of standard input may have: here many may write at once.
            body_bytes: 4 << 20,
            head_bytes: 64 << 10,
            head_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
            headers_after: Duration::from_millis(500),
            sign_every: Duration::from_secs(15),
        }
    }
}
