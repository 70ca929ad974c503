//! A value that never prints itself, and the one redactor that everything written passes.

mod shown;
mod written;

use std::fmt;

pub use shown::{lines_without_secrets, prose_without_keys, value_without_secrets, words_without_secrets};
pub use written::{without_written_secrets, written_secrets};

/// The shortest secret that is searched for in text; shorter ones would blank out ordinary words.
const REDACTED_MIN: usize = 8;
const MASK: &str = "[redacted]";

/// A text that must not reach a log, an error or a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the value, for the one place that hands it on.
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

    /// Tells whether an environment variable's name says that its value is a secret.
    pub fn names_secret(name: &str) -> bool {
        let name = name.to_ascii_uppercase();
        ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"].iter().any(|word| name.contains(word))
    }

    /// Tells the same of a variable or a header that a server is handed.
    pub fn names_handed_secret(name: &str) -> bool {
        Self::names_secret(name) || name.eq_ignore_ascii_case("authorization")
    }
}

/// Masks secrets in a stream of bytes that arrives in pieces. Holds back at most what could be the beginning
/// of a secret.
#[derive(Debug, Default)]
pub struct StreamRedactor {
    secrets: Vec<Secret>,
    held: Vec<u8>,
}

impl StreamRedactor {
    pub fn new(redactor: &Redactor) -> Self {
        Self { secrets: redactor.secrets.clone(), held: Vec::new() }
    }

    /// Returns what can be written of the stream so far.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.secrets.is_empty() {
            return bytes.to_vec();
        }
        let mut stream = std::mem::take(&mut self.held);
        stream.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(stream.len());
        let mut at = 0;
        while at < stream.len() {
            let rest = &stream[at..];
            if let Some(secret) = self.secrets.iter().find(|secret| rest.starts_with(secret.0.as_bytes())) {
                out.extend_from_slice(MASK.as_bytes());
                at += secret.0.len();
            } else if self.secrets.iter().any(|secret| secret.0.as_bytes().starts_with(rest)) {
                self.held = rest.to_vec();
                break;
            } else {
                out.push(rest[0]);
                at += 1;
            }
        }
        out
    }

    /// Returns what was held back, at the end of the stream.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

/// Returns the secret as it stands inside a JSON string, if that differs.
fn json_escaped(secret: &Secret) -> Option<Secret> {
    let quoted = serde_json::Value::from(secret.expose()).to_string();
    let escaped = quoted.strip_prefix('"')?.strip_suffix('"')?;
    (escaped != secret.expose()).then(|| Secret::new(escaped))
}

#[cfg(test)]
mod tests;
