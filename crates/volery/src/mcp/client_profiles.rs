//! The limits of the MCP client of a session: how long it waits for an answer, and how much of an answer its model
//! sees. `backends` knows them by the name of the client; an unlisted client gets conservative ones.

use std::collections::BTreeMap;
use std::time::Duration;

use backends::client_setup::{ClientPatience, RESULT_BYTES};

/// The timeout of the TypeScript SDK, which most other clients use.
const SDK_LIMIT_S: u64 = 60;

/// The limits of one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientProfile {
    pub(super) name: String,
    /// A call is answered after this time, with the results so far.
    pub(super) wait: Duration,
    /// The same, for a call with progress notifications.
    pub(super) wait_with_progress: Duration,
    /// The timeout of the client itself.
    pub(super) limit: Duration,
    /// Whether a progress notification restarts the client's timeout.
    pub(super) progress_resets_limit: bool,
    pub(super) result_bytes: usize,
    /// Its timeout over HTTP, if that is shorter.
    pub(super) http_limit: Option<Duration>,
}

/// Default names of libraries: `mcp` is the Python SDK's. The actual client is unknown, and the OpenAI Agents SDK, which
/// often uses it, times out after five seconds.
const LIBRARY_NAMES: &[&str] = &["mcp"];
const UNNAMED_CLIENT: ClientPatience = ClientPatience::new("mcp", 3, 5);

/// How long calls wait for clients that are not in the table or that the user configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) unknown: Duration,
    /// By prefixes of the client's name.
    pub(crate) by_client: BTreeMap<String, Duration>,
    /// The timeout of Codex, if its own settings name one.
    pub(crate) codex_limit: Option<Duration>,
}

impl ClientProfile {
    /// Returns the profile of the client with this name.
    pub(super) fn for_name(name: &str, waits: &Waits) -> Self {
        let lower = name.to_lowercase();
        let known = match LIBRARY_NAMES.contains(&lower.as_str()) {
            true => Some(&UNNAMED_CLIENT),
            false => backends::clients::patience_by_name(&lower),
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
            // A user who raises the wait has raised the client's own limit too.
            client.limit = client.limit.max(client.wait);
        }
        client.name = name.to_owned();
        client
    }

    /// Returns the profile of the client over HTTP.
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
            progress_resets_limit: false,
            result_bytes: RESULT_BYTES,
            http_limit: None,
        }
    }

    /// Returns the name that is recorded with cancels and answers.
    pub(super) fn caller_name(&self) -> String {
        if self.name.is_empty() { "an MCP client".to_owned() } else { self.name.clone() }
    }

    /// Interprets a cancellation: as the end of the wait, or of the run.
    ///
    /// `since` is the time since the call arrived or, for a client whose timeout progress restarts, since the last progress.
    pub(super) fn interpret_cancel(&self, reason: Option<&str>, since: Duration) -> CancelMeaning {
        let reason = reason.unwrap_or_default().to_lowercase();
        let mentions_timeout = ["timeout", "timed out", "time-out", "time out", "deadline"]
            .iter()
            .any(|phrase| reason.contains(phrase));
        if mentions_timeout || since >= self.limit.mul_f64(0.9) {
            CancelMeaning::StopWaiting
        } else {
            CancelMeaning::CancelRun
        }
    }
}

impl From<&ClientPatience> for ClientProfile {
    fn from(known: &ClientPatience) -> Self {
        Self {
            name: String::new(),
            wait: Duration::from_secs(known.wait_s),
            wait_with_progress: Duration::from_secs(known.wait_with_progress_s),
            limit: Duration::from_secs(known.limit_s),
            progress_resets_limit: known.progress_resets_limit,
            result_bytes: known.result_bytes,
            http_limit: known.http_limit_s.map(Duration::from_secs),
        }
    }
}

/// The meaning of a client's cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CancelMeaning {
    /// The client timed out; the run continues.
    StopWaiting,
    /// The user wants the run to end.
    CancelRun,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editors_have_profiles_by_name() {
        let waits = Waits { unknown: Duration::from_secs(45), by_client: BTreeMap::new(), codex_limit: None };
        let seconds = |name: &str| {
            let client = ClientProfile::for_name(name, &waits);
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
