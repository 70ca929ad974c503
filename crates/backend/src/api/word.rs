//! What the process that asks a model says, a line of JSON each.

use domain::run::ModelError;
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Word {
    /// The model that answers, by the service's word.
    Model {
        model: String,
    },
    Text {
        text: String,
    },
    /// What was used so far, in all.
    Used(Tokens),
    Warned {
        message: String,
    },
    /// The last word of an answer.
    Ended {
        stop: Stop,
    },
    /// The last word where there is no answer, or not all of one.
    Failed {
        error: ModelError,
        message: String,
    },
}

/// Tokens of a request and its answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tokens {
    /// Of the request, neither read from a cache nor written to one.
    pub(super) fresh: u64,
    pub(super) cache_read: u64,
    pub(super) cache_written: u64,
    pub(super) output: u64,
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stop {
    Whole,
    /// It had no tokens left.
    Length,
    /// It would not say more, and why.
    Refusal(String),
    /// In the service's words.
    Other(String),
}
