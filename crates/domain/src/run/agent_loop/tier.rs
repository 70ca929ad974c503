//! Tiers: words by which a directive asks for a model. The configuration maps each to a list of targets. Decides
//! nothing about which of them is available.

use std::fmt;
use std::str::FromStr;

use crate::admission::is_safe_argument;
use crate::id::BackendName;

/// The most targets of one tier.
pub const TIER_TARGETS_MAX: usize = 16;
/// The words that can be tiers, for people.
pub const TIER_NAME_RULE: &str = "a tier is 1 to 64 letters, digits, '.', '_' or '-'";

const TIER_NAME_BYTES_MAX: usize = 64;

/// Returns whether a word can be a tier.
pub fn is_tier_name(word: &str) -> bool {
    (1..=TIER_NAME_BYTES_MAX).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// A backend, and the model to use with it, written `BACKEND` or `BACKEND/MODEL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierTarget {
    /// In the form of a `BackendName`. Whether the backend exists is not checked.
    pub backend: String,
    /// `None`: the backend's own choice.
    pub model: Option<String>,
}

/// Why a text is not a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TierTargetError {
    #[error("the backend is missing")]
    NoBackend,
    #[error("the model is missing")]
    NoModel,
    #[error("the name of the backend is not valid")]
    Backend,
    #[error("the name of the model is not valid")]
    Model,
}

impl TierTargetError {
    /// Returns how to write it instead.
    pub fn hint(self) -> &'static str {
        match self {
            Self::NoBackend => "write BACKEND or BACKEND/MODEL",
            Self::NoModel => "without '/', the backend chooses its model",
            Self::Backend => "1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit",
            Self::Model => "at most 200 bytes without blanks and control characters, not beginning with '-'",
        }
    }
}

impl FromStr for TierTarget {
    type Err = TierTargetError;

    fn from_str(text: &str) -> Result<Self, TierTargetError> {
        // The names of models may contain '/', those of backends cannot.
        let (backend, model) = match text.split_once('/') {
            Some((backend, model)) => (backend, Some(model)),
            None => (text, None),
        };
        if backend.trim().is_empty() {
            return Err(TierTargetError::NoBackend);
        }
        if backend.parse::<BackendName>().is_err() {
            return Err(TierTargetError::Backend);
        }
        match model {
            Some(model) if model.trim().is_empty() => Err(TierTargetError::NoModel),
            Some(model) if !is_safe_argument(model) || model.contains(char::is_whitespace) => {
                Err(TierTargetError::Model)
            }
            model => Ok(Self { backend: backend.to_owned(), model: model.map(ToOwned::to_owned) }),
        }
    }
}

impl fmt::Display for TierTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.model {
            Some(model) => write!(f, "{}/{model}", self.backend),
            None => f.write_str(&self.backend),
        }
    }
}
