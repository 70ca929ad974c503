//! The events that the process which calls a model writes, one line of JSON each.

use domain::run::ModelError;
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ApiEvent {
    /// The model that answers, according to the service.
    Model {
        model: String,
    },
    Text {
        text: String,
    },
    /// The usage so far, in total.
    Used(Tokens),
    Warned {
        message: String,
    },
    /// The last event of an answer.
    Ended {
        stop: Stop,
    },
    /// The last event if there is no answer, or only a part of one.
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
    /// It refused to continue, and why.
    Refusal(String),
    /// In the service's words.
    Other(String),
}
