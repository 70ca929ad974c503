//! A value that never prints itself, and the redactor for everything that is written.

mod detection;
mod masking;

use std::fmt;

pub use detection::{find_literal_secrets, mask_literal_secrets};
pub use masking::{lines_without_secrets, prose_without_keys, value_without_secrets, words_without_secrets};

/// The shortest secret that is masked in texts; shorter ones would blank out ordinary words.
const REDACTED_MIN: usize = 8;
const MASK: &str = "[redacted]";

/// A text that must not reach a log, an error or a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the value, for the only caller that passes it on.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// Replaces known secret values in text.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    secrets: Vec<Secret>,
}

impl Redactor {
    pub fn new(secrets: Vec<Secret>) -> Self {
        let mut secrets: Vec<Secret> =
            secrets.into_iter().filter(|secret| secret.0.len() >= REDACTED_MIN).collect();
        // Agents that print JSON show a secret with quotes or line breaks in its escaped form.
        let escaped: Vec<Secret> = secrets.iter().filter_map(json_escaped).collect();
        secrets.extend(escaped);
        // The longest first, so that a secret that contains another is masked whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.0.len()));
        Self { secrets }
    }

    /// Returns the text with every known secret masked.
    pub fn redact(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| {
            if text.contains(&secret.0) { text.replace(&secret.0, MASK) } else { text }
        })
    }

    /// Returns whether the name of an environment variable marks its value as a secret.
    pub fn names_secret(name: &str) -> bool {
        let name = name.to_ascii_uppercase();
        ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"].iter().any(|word| name.contains(word))
    }

    /// Returns the same for a variable or a header of an MCP server.
    pub fn names_server_secret(name: &str) -> bool {
        Self::names_secret(name) || name.eq_ignore_ascii_case("authorization")
    }
}

/// Masks secrets in a stream of bytes that arrives in chunks. Holds back at most a possible beginning of a secret.
#[derive(Debug, Default)]
pub struct StreamRedactor {
    secrets: Vec<Secret>,
    pending: Vec<u8>,
}

impl StreamRedactor {
    pub fn new(redactor: &Redactor) -> Self {
        Self { secrets: redactor.secrets.clone(), pending: Vec::new() }
    }

    /// Returns the bytes that can be written so far.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.secrets.is_empty() {
            return bytes.to_vec();
        }
        let mut stream = std::mem::take(&mut self.pending);
        stream.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(stream.len());
        let mut at = 0;
        while at < stream.len() {
            let rest = &stream[at..];
            if let Some(secret) = self.secrets.iter().find(|secret| rest.starts_with(secret.0.as_bytes())) {
                out.extend_from_slice(MASK.as_bytes());
                at += secret.0.len();
            } else if self.secrets.iter().any(|secret| secret.0.as_bytes().starts_with(rest)) {
                self.pending = rest.to_vec();
                break;
            } else {
                out.push(rest[0]);
                at += 1;
            }
        }
        out
    }

    /// Returns the held-back bytes at the end of the stream.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }
}

/// Returns the secret as it is spelled inside a JSON string, if that differs.
fn json_escaped(secret: &Secret) -> Option<Secret> {
    let quoted = serde_json::Value::from(secret.expose()).to_string();
    let escaped = quoted.strip_prefix('"')?.strip_suffix('"')?;
    (escaped != secret.expose()).then(|| Secret::new(escaped))
}

#[cfg(test)]
mod tests;
