//! What is known about the clients: how long each waits for an answer, and how much of one it shows its model.
//!
//! Figures were measured or read in the clients' own code; a client that is not listed gets the careful ones.

use std::collections::BTreeMap;
use std::time::Duration;

/// How much of a result is answered inline, counted as it stands in JSON.
const RESULT_BYTES: usize = 32 << 10;
/// How long a call waits for a client that is not known; the SDKs give up at 60 s.
const WAIT_S: u64 = 45;

/// What is known about one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) name: String,
    /// A call is answered after this long, with what is there so far.
    pub(super) wait: Duration,
    /// The same, for a call that is sent progress.
    pub(super) wait_with_progress: Duration,
    /// When the client itself gives up on a call.
    pub(super) limit: Duration,
    /// Whether a progress notification makes its clock start again.
    pub(super) resets: bool,
    pub(super) result_bytes: usize,
}

struct Known {
    prefix: &'static str,
    wait_s: u64,
    wait_with_progress_s: u64,
    limit_s: u64,
    resets: bool,
    result_bytes: usize,
}

const fn known(prefix: &'static str, wait_s: u64, limit_s: u64) -> Known {
    Known { prefix, wait_s, wait_with_progress_s: wait_s, limit_s, resets: false, result_bytes: RESULT_BYTES }
}

/// By the beginning of `clientInfo.name` in lower case. The first that fits counts.
const KNOWN: &[Known] = &[
    // Its limit is 30 minutes without progress; a model that waits longer than this had better look around.
    Known { resets: true, ..known("claude-code", 600, 1_800) },
    // Keeps about 10 kB of an answer, the head and the tail.
    Known { result_bytes: 8 << 10, ..known("codex", 240, 300) },
    known("gemini", 540, 600),
    known("qwen", 540, 600),
    Known { resets: true, wait_with_progress_s: 300, ..known("opencode", WAIT_S, 60) },
    // Claude Desktop: four minutes, whatever happens.
    known("claude-ai", 200, 240),
    known("claude-desktop", 200, 240),
    known("anthropic", 240, 300),
];

const UNKNOWN: Known = known("", WAIT_S, 60);

/// Waits that the user has set: for all clients, or by the beginning of a client's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits {
    pub all: Option<Duration>,
    pub by_client: BTreeMap<String, Duration>,
}

impl Client {
    /// Returns what is known about the client of this name.
    pub(super) fn named(name: &str, waits: &Waits) -> Self {
        let lower = name.to_lowercase();
        let known = KNOWN.iter().find(|known| lower.starts_with(known.prefix));
        let known = known.unwrap_or(&UNKNOWN);
        let mut client = Self {
            name: name.to_owned(),
            wait: Duration::from_secs(known.wait_s),
            wait_with_progress: Duration::from_secs(known.wait_with_progress_s),
            limit: Duration::from_secs(known.limit_s),
            resets: known.resets,
            result_bytes: known.result_bytes,
        };
        let set = waits.by_client.iter().find(|(prefix, _)| lower.starts_with(&prefix.to_lowercase()));
        if let Some(wait) = set.map(|(_, wait)| *wait).or(waits.all) {
            client.wait = wait;
            client.wait_with_progress = wait;
            // Whoever raises the wait has raised the client's limit too.
            client.limit = client.limit.max(wait);
        }
        client
    }

    /// Returns who a cancel or an answer is recorded as.
    pub(super) fn by(&self) -> String {
        if self.name.is_empty() { "an MCP client".to_owned() } else { self.name.clone() }
    }

    /// Tells what a cancellation means: the end of the wait, or of the run.
    ///
    /// `since` is the time since the call came in or, for a client whose clock progress resets, since the last
    /// progress.
    pub(super) fn meaning_of_cancel(&self, reason: Option<&str>, since: Duration) -> CancelMeaning {
        let reason = reason.unwrap_or_default().to_lowercase();
        let says_time_out = ["timeout", "timed out", "time-out", "time out", "deadline"]
            .iter()
            .any(|word| reason.contains(word));
        if says_time_out || since >= self.limit.mul_f64(0.9) {
            CancelMeaning::StopWaiting
        } else {
            CancelMeaning::CancelRun
        }
    }
}

/// What a client that cancels a call wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CancelMeaning {
    /// It gave up; the run goes on.
    StopWaiting,
    /// Somebody wants the run to end.
    CancelRun,
}
