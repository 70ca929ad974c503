//! The protocol of the model client, a process that calls one service for a whole run: what its starter writes to it,
//! and what it writes back, one line of JSON each. Pure: bytes in, events out.

use std::path::Path;

use domain::conversation::{ModelAnswer, ModelRequest};
use domain::run::{ModelError, Usage};
use serde::{Deserialize, Serialize};

use super::client_process::API_COMMAND;
use super::service_config::ServiceConfig;
use crate::contract::EnvValue;
use crate::line_splitter::{LineSplitter, OutputLine};

/// The longest event. The client fails a request whose answer would be longer.
pub(super) const EVENT_BYTES_MAX: usize = 32 << 20;

/// The first line of input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ClientConfig {
    pub(super) service: ServiceConfig,
    pub(super) at_end_of_input: AtEndOfInput,
}

/// What the client does with unfinished requests when its input ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtEndOfInput {
    /// Abandons them: nobody waits for their answers.
    Abandon,
    /// Finishes them: all requests were written at once.
    Finish,
}

/// Every further line of input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClientInput {
    Request(Box<ClientRequest>),
    Cancel(u64),
}

/// A request, with its limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientRequest {
    /// Chosen by the starter; all events of the request carry it. It must differ from those of unfinished requests.
    pub id: u64,
    pub request: ModelRequest,
    /// How long the request may take, with all retries.
    pub timeout_ms: u64,
    /// How long the service may send nothing.
    pub idle_ms: u64,
}

/// An event of the client. `Answered` or `Failed` is the last of its request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelClientEvent {
    /// The model that answers, according to the service.
    Model {
        id: u64,
        model: String,
    },
    /// The next piece of the answer's text.
    Text {
        id: u64,
        text: String,
    },
    /// The usage so far, in total.
    Used {
        id: u64,
        usage: Usage,
    },
    /// The service could not answer; the request is sent again after a while.
    Retrying {
        id: u64,
        error: ModelError,
        message: String,
        wait_ms: u64,
    },
    Answered {
        id: u64,
        answer: Box<ModelAnswer>,
    },
    Failed(RequestFailure),
    /// A line of input could not be read, so that it belongs to no request.
    InvalidInput {
        message: String,
    },
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestFailure {
    pub id: u64,
    pub cause: FailureCause,
    /// How the service's failure is classified; `Other` for other causes.
    pub error: ModelError,
    pub message: String,
    /// The same request may succeed later.
    pub is_retryable: bool,
    /// When the service says to retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    pub progress: RequestProgress,
    /// What the service reported before the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCause {
    /// The service refused the request, could not be reached, or sent no usable answer.
    Service,
    /// The service sent nothing for too long.
    IdleTimeout,
    TotalTimeout,
    Cancelled,
    /// Nothing was sent: the protocol cannot express the request, or too many requests wait.
    Unsupported,
}

/// How far a request came, which decides whether the service may have charged for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestProgress {
    /// No byte of it was sent, or the service refused it.
    NotAccepted,
    /// It was sent, and no part of an answer arrived: nobody knows whether the service worked on it.
    Unknown,
    /// A part of an answer arrived.
    AnswerBegun,
}

/// How the client is started: like any agent process, with its input open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelClientLaunch {
    pub argv: Vec<String>,
    /// Names of variables that are passed on if they are set.
    pub optional_env: Vec<String>,
    pub env_overrides: Vec<(String, EnvValue)>,
    /// The first bytes of its input; requests follow.
    pub input: Vec<u8>,
}

/// Returns how the client of a service is started.
///
/// `key_file` is a JSON file that may hold the key, under the name of one of the service's variables.
pub fn launch(
    service: &ServiceConfig,
    key_file: Option<&str>,
    current_exe: &Path,
    at_end_of_input: AtEndOfInput,
) -> ModelClientLaunch {
    let from_file = |file: &str| {
        let first = service.keys.first()?;
        Some((first.clone(), EnvValue::FromFile { file: file.into(), keys: service.keys.clone() }))
    };
    let config = ClientConfig { service: service.clone(), at_end_of_input };
    ModelClientLaunch {
        argv: vec![current_exe.display().to_string(), API_COMMAND.to_owned()],
        optional_env: service.keys.iter().chain(&service.address_variable).cloned().collect(),
        env_overrides: key_file.and_then(from_file).into_iter().collect(),
        input: line(&config),
    }
}

/// Returns the line that sends a request.
pub fn encode_request(request: ClientRequest) -> Vec<u8> {
    line(&ClientInput::Request(Box::new(request)))
}

/// Returns the line that cancels a request. Its last event is `Failed`, unless it was answered before.
pub fn encode_cancel(id: u64) -> Vec<u8> {
    line(&ClientInput::Cancel(id))
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("all keys of these types are texts");
    line.push(b'\n');
    line
}

/// Reads the client's output.
#[derive(Debug)]
pub struct ModelClientReader {
    lines: LineSplitter,
}

impl Default for ModelClientReader {
    fn default() -> Self {
        Self { lines: LineSplitter::with_max(EVENT_BYTES_MAX) }
    }
}

impl ModelClientReader {
    /// Adds output and returns the events that it completes. Lines that are no events are skipped.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<ModelClientEvent> {
        let lines = self.lines.feed(bytes);
        let parse = |line| match line {
            OutputLine::Whole(line) => serde_json::from_slice(&line).ok(),
            OutputLine::TooLong => None,
        };
        lines.into_iter().filter_map(parse).collect()
    }
}
