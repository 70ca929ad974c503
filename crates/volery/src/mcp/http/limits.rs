//! The limits of the HTTP server. `docs/http.md` describes the refusal of each.

use std::time::Duration;

/// Sizes, counts and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HttpLimits {
    /// Concurrent connections; further ones get 503.
    pub(super) connections: usize,
    /// Concurrent requests, over all callers.
    pub(super) requests: usize,
    /// Concurrent sessions of the older generation, over all callers.
    pub(super) sessions: usize,
    /// How long such a session may be idle.
    pub(super) session_idle: Duration,
    /// The size of a request's body.
    pub(super) body_bytes: usize,
    /// The size of a request's line and headers.
    pub(super) head_bytes: usize,
    /// How long a connection may take to send the head of its next request; also how long it may be idle.
    pub(super) head_time: Duration,
    /// How long a request may take to send its body.
    pub(super) body_time: Duration,
    /// After this time the headers of a pending answer are sent, because some clients do not wait longer.
    pub(super) headers_after: Duration,
    /// The interval of keepalives while an answer is pending.
    pub(super) keepalive_interval: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 512,
            requests: 512,
            sessions: 512,
            // Longer than any call waits, so that a session does not end during a silent call.
            session_idle: Duration::from_secs(1_800),
            // Enough for several of the longest prompts. Less than a line of standard input, because many clients may send at once.
            body_bytes: 4 << 20,
            head_bytes: 64 << 10,
            head_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
            headers_after: Duration::from_millis(500),
            keepalive_interval: Duration::from_secs(15),
        }
    }
}
