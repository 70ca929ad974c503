//! What is known about the clients: how long each waits for an answer, and how much of one it shows its model.
//!
//! Figures were measured or read in the clients' own code; a client that is not listed gets the careful ones.

use std::collections::BTreeMap;
use std::time::Duration;

/// How much of a result is answered inline, counted as it stands in JSON.
const RESULT_BYTES: usize = 32 << 10;
/// When the clients that are built on the TypeScript SDK give up, which most others are.
const SDK_LIMIT_S: u64 = 60;

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
    /// When it gives up over HTTP, if that is sooner.
    pub(super) http_limit: Option<Duration>,
}

struct Known {
    prefix: &'static str,
    wait_s: u64,
    wait_with_progress_s: u64,
    limit_s: u64,
    resets: bool,
    result_bytes: usize,
    http_limit_s: Option<u64>,
}

const fn known(prefix: &'static str, wait_s: u64, limit_s: u64) -> Known {
    Known {
        prefix,
        wait_s,
        wait_with_progress_s: wait_s,
        limit_s,
        resets: false,
        result_bytes: RESULT_BYTES,
        http_limit_s: None,
    }
}

/// By the beginning of `clientInfo.name` in lower case. The first that fits counts.
const KNOWN: &[Known] = &[
    // Its limit is 30 minutes without progress, over HTTP 5; a model that waits longer than this had better look around.
    Known { resets: true, http_limit_s: Some(300), ..known("claude-code", 600, 1_800) },
    // Keeps about 10 kB of an answer, the head and the tail.
    Known { result_bytes: 8 << 10, ..known("codex", 240, 300) },
    known("gemini", 540, 600),
    // After five minutes without a word, unless its settings name another time.
    known("qwen", 240, 300),
    Known { resets: true, wait_with_progress_s: 300, ..known("opencode", 45, SDK_LIMIT_S) },
    // More than two minutes of silence were seen to be borne; how many is not known.
    Known { resets: true, wait_with_progress_s: 300, ..known("copilot", 100, 130) },
    // Claude Desktop: four minutes, whatever happens.
    known("claude-ai", 200, 240),
    known("claude-desktop", 200, 240),
    known("anthropic", 240, 300),
    // Cursor's window, `cursor-vscode`: it cancels a call after five minutes.
    known("cursor", 270, 300),
    // VS Code gives its own long name and waits until its user cancels; over HTTP its fetch ends after five minutes
    // without a byte.
    Known { resets: true, http_limit_s: Some(300), ..known("visual studio code", 600, 86_400) },
];

/// Names that a library gives to a client that has none of its own: `mcp` is the Python SDK's. Who is behind it is not
/// known, and the OpenAI Agents SDK, which is often behind it, gives up after five seconds.
const LIBRARY_NAMES: &[&str] = &["mcp"];
const UNNAMED: Known = known("mcp", 3, 5);

/// How long calls wait, where the table does not say it or the user says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) unknown: Duration,
    /// By the beginning of a client's name.
    pub(crate) by_client: BTreeMap<String, Duration>,
    /// When Codex gives up, where its own settings say it.
    pub(crate) codex_limit: Option<Duration>,
}

impl Client {
    /// Returns what is known about the client of this name.
    pub(super) fn named(name: &str, waits: &Waits) -> Self {
        let lower = name.to_lowercase();
        let known = match LIBRARY_NAMES.contains(&lower.as_str()) {
            true => Some(&UNNAMED),
            false => KNOWN.iter().find(|known| lower.starts_with(known.prefix)),
        };
        let mut client = known.map_or_else(|| Self::unknown(waits.unknown), Self::from);
        let own_limit = waits.codex_limit.filter(|_| lower.starts_with("codex"));
        if let Some(limit) = own_limit {
            client.limit = limit;
            client.wait = client.wait.min(limit.mul_f64(0.8));
            client.wait_with_progress = client.wait;
        }
        let set = waits.by_client.iter().find(|(prefix, _)| lower.starts_with(&prefix.to_lowercase()));
        if let Some((_, wait)) = set {
            client.wait = *wait;
            client.wait_with_progress = *wait;
            client.http_limit = None;
        }
        if own_limit.is_none() {
            // Whoever raises a wait has raised the client's own limit too.
            client.limit = client.limit.max(client.wait);
        }
        client.name = name.to_owned();
        client
    }

    /// Returns what is known about the client when it comes over HTTP.
    pub(super) fn over_http(mut self) -> Self {
        if let Some(limit) = self.http_limit {
            self.limit = limit;
            self.wait = self.wait.min(limit.mul_f64(0.8));
        }
        self
    }

    fn unknown(wait: Duration) -> Self {
        Self {
            name: String::new(),
            wait,
            wait_with_progress: wait,
            limit: Duration::from_secs(SDK_LIMIT_S),
            resets: false,
            result_bytes: RESULT_BYTES,
            http_limit: None,
        }
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

impl From<&Known> for Client {
    fn from(known: &Known) -> Self {
        Self {
            name: String::new(),
            wait: Duration::from_secs(known.wait_s),
            wait_with_progress: Duration::from_secs(known.wait_with_progress_s),
            limit: Duration::from_secs(known.limit_s),
            resets: known.resets,
            result_bytes: known.result_bytes,
            http_limit: known.http_limit_s.map(Duration::from_secs),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_editors_are_known_by_their_names_with_their_patience() {
        let waits = Waits { unknown: Duration::from_secs(45), by_client: BTreeMap::new(), codex_limit: None };
        let seconds = |name: &str| {
            let client = Client::named(name, &waits);
            let http = client.clone().over_http();
            (client.wait.as_secs(), client.limit.as_secs(), http.wait.as_secs())
        };
        assert_eq!(seconds("cursor-vscode"), (270, 300, 270));
        for name in ["Visual Studio Code", "Visual Studio Code - Insiders"] {
            assert_eq!(seconds(name), (600, 86_400, 240), "a wait of 300 seconds is one");
        }
        assert_eq!(seconds("an editor"), (45, 60, 45));
    }
}
