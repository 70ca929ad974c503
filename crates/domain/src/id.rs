//! Ids and names as types that are always valid: parsed once at the boundary, trusted afterwards.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The number of hexadecimal digits in the short form of a run's id.
pub const SHORT_LEN: usize = 8;
/// The fewest digits that are accepted as an abbreviation of a run's id.
pub const ABBREVIATION_MIN: usize = 4;

/// A text that is not a valid name of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {text:?} is not valid: {rule}")]
pub struct IdError {
    pub kind: &'static str,
    pub text: String,
    pub rule: &'static str,
}

impl IdError {
    fn new(kind: &'static str, text: &str, rule: &'static str) -> Self {
        Self { kind, text: text.chars().take(80).collect(), rule }
    }
}

/// One execution of an agent: a UUIDv7, so ids sort by time and the day of a run follows from its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RunId(Uuid);

impl RunId {
    /// Returns the id for a moment and ten random bytes.
    pub fn from_parts(at: Timestamp, random: [u8; 10]) -> Self {
        let millis = u64::try_from(at.as_millisecond()).unwrap_or(0);
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// Returns the short form: the last digits, from the random end.
    pub fn short(self) -> String {
        let hex = self.hex();
        hex[hex.len() - SHORT_LEN..].to_owned()
    }

    /// Returns the 32 digits without hyphens.
    pub fn hex(self) -> String {
        self.0.simple().to_string()
    }

    /// Returns the moment in the id.
    pub fn created_at(self) -> Timestamp {
        let bytes = self.0.as_bytes();
        let millis = bytes[..6].iter().fold(0_i64, |sum, byte| (sum << 8) | i64::from(*byte));
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Returns the UTC day of the run, `2026-11-15`, which names its shard.
    pub fn day(self) -> String {
        self.created_at().strftime("%Y-%m-%d").to_string()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl FromStr for RunId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let rule = "a run id is a UUID of version 7";
        // `Uuid::parse_str` also accepts braces and URNs; a run id has one spelling in files and two for people.
        let plain = text.len() == 36 || text.len() == 32;
        match Uuid::parse_str(text) {
            Ok(uuid) if plain && uuid.get_version_num() == 7 => Ok(Self(uuid)),
            Ok(_) | Err(_) => Err(IdError::new("run id", text, rule)),
        }
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for RunId {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

/// A reference to a run that a person typed: a whole id, or digits from its random end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunRef {
    Whole(RunId),
    /// Lower-case hexadecimal digits that the id ends with.
    Ending(String),
}

impl FromStr for RunRef {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Whole(id));
        }
        let fits = (ABBREVIATION_MIN..32).contains(&text.len());
        if fits && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Self::Ending(text.to_ascii_lowercase()));
        }
        let rule = "give the whole id, or at least 4 hexadecimal digits from its end";
        Err(IdError::new("run id", text, rule))
    }
}

impl RunRef {
    /// Returns whether the reference matches this run.
    pub fn matches(&self, id: RunId) -> bool {
        match self {
            Self::Whole(whole) => *whole == id,
            Self::Ending(ending) => id.hex().ends_with(ending.as_str()),
        }
    }
}

impl fmt::Display for RunRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(id) => id.fmt(f),
            Self::Ending(ending) => f.write_str(ending),
        }
    }
}

macro_rules! text_id {
    ($(#[$meta:meta])* $name:ident, $kind:literal, $rule:literal, $valid:expr) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) { Ok(Self(text.to_owned())) } else { Err(IdError::new($kind, text, $rule)) }
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }
    };
}

text_id!(
    /// The name of an agent. Most names are one plain word. Three kinds consist of several words: `plugin:agent` of
    /// Claude Code, `folder/agent` of opencode, and `format:agent`, which selects one of several files.
    AgentName,
    "agent name",
    "1 to 100 letters, digits, '.', '_' or '-', beginning with a letter, digit or '_'; ':' and '/' join such words",
    |text| text.len() <= 100 && text.split([':', '/']).all(is_agent_word)
);

impl AgentName {
    /// Returns whether the name is one word, so that it can also be a file name.
    pub fn is_plain(&self) -> bool {
        is_agent_word(&self.0)
    }
}

/// Accepts the words that sub-agents-mcp accepts, except those that look like an option or a hidden file.
fn is_agent_word(text: &str) -> bool {
    is_word(text, 100) && !text.starts_with(['.', '-'])
}

text_id!(
    /// The name of a backend.
    BackendName,
    "backend name",
    "1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit",
    |text| is_name(text, 64)
);

text_id!(
    /// A conversation that several runs of one agent continue.
    SessionId,
    "session id",
    "1 to 100 letters, digits, '_' or '-'",
    |text| {
        (1..=100).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    }
);

text_id!(
    /// A caller's own name for a request. A second request with the same key returns the same run.
    IdempotencyKey,
    "idempotency key",
    "1 to 200 printable ASCII characters, none of them a space",
    |text| (1..=200).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
);

text_id!(
    /// A question of a waiting run.
    QuestionId,
    "question id",
    "1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit",
    |text| is_name(text, 64)
);

impl QuestionId {
    /// Returns whether the question is about a permission. Ids of such questions begin with `a`; ids of questions
    /// that need a text begin with another letter.
    pub fn is_permission(&self) -> bool {
        self.as_str().starts_with('a')
    }

    /// Returns whether the question needs a text as its answer.
    pub fn needs_text(&self) -> bool {
        self.as_str().starts_with('w')
    }
}

fn is_name(text: &str, max: usize) -> bool {
    is_word(text, max) && text.as_bytes()[0].is_ascii_alphanumeric()
}

fn is_word(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}
