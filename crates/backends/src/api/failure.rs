//! Classifies the failure of a service by the status and the body of its response.

use domain::run::ModelError;
use serde_json::Value;

/// Why there is no answer, or only a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServiceError {
    pub(super) error: ModelError,
    pub(super) message: String,
    /// When the service says to retry.
    pub(super) retry_after_s: Option<u64>,
    /// A retry is useless: money is missing, not time.
    pub(super) lasting: bool,
}

impl ServiceError {
    pub(super) fn new(error: ModelError, message: impl Into<String>) -> Self {
        Self { error, message: message.into(), retry_after_s: None, lasting: false }
    }
}

/// Phrases of services that mean the same whatever the status, in lower case.
const PHRASES: [(&str, ModelError); 25] = [
    ("context_length_exceeded", ModelError::TooLong),
    ("maximum context length", ModelError::TooLong),
    ("prompt is too long", ModelError::TooLong),
    ("request_too_large", ModelError::TooLong),
    ("too large for model", ModelError::TooLong),
    ("exceeds the maximum number of tokens", ModelError::TooLong),
    ("exceeds the context window", ModelError::TooLong),
    ("maximum prompt length", ModelError::TooLong),
    ("exceeds the available context size", ModelError::TooLong),
    ("exceed context limit", ModelError::TooLong),
    ("model_not_found", ModelError::Unknown),
    ("invalid_model", ModelError::Unknown),
    ("invalid model", ModelError::Unknown),
    ("api key not valid", ModelError::Denied),
    ("api_key_invalid", ModelError::Denied),
    ("incorrect api key", ModelError::Denied),
    ("authentication_error", ModelError::Denied),
    ("permission_error", ModelError::Denied),
    ("insufficient_quota", ModelError::RateLimit),
    ("credit balance is too low", ModelError::RateLimit),
    ("rate_limit", ModelError::RateLimit),
    ("resource_exhausted", ModelError::RateLimit),
    ("overloaded_error", ModelError::Overloaded),
    ("content_policy_violation", ModelError::Refusal),
    ("content_filter", ModelError::Refusal),
];
/// Phrases that say that money is missing, not time.
const LASTING: [&str; 3] = ["insufficient_quota", "credit balance", "billing"];

/// Returns whether a document is an error and not an answer.
pub(super) fn is_error(document: &Value) -> bool {
    let has = |key: &str| document.get(key).is_some_and(|value| !value.is_null());
    has("error") || has("detail") || document["object"] == "error" || document["type"] == "error"
}

/// Interprets an error document that came with a successful status.
pub(super) fn from_document(document: &Value) -> ServiceError {
    let code = ["/error/code", "/error/status", "/code", "/status"]
        .iter()
        .find_map(|pointer| document.pointer(pointer).and_then(Value::as_u64));
    from_status_and_document(code.filter(|code| (400..600).contains(code)), document)
}

/// Interprets the response to a refused request.
pub(super) fn refused(status: u16, retry_after: Option<&str>, body: &[u8]) -> ServiceError {
    let text = String::from_utf8_lossy(body);
    let document = serde_json::from_slice::<Value>(body).unwrap_or(Value::Null);
    let mut error = match &document {
        Value::Null => {
            let words = format!("status {status}: {}", first_line(&text));
            ServiceError::new(ModelError::from_http_status(status.into()), words.trim_end_matches([':', ' ']))
        }
        document => from_status_and_document(Some(status.into()), document),
    };
    let header = retry_after.and_then(|value| value.trim().parse::<f64>().ok());
    error.retry_after_s = header.and_then(whole_seconds).or(error.retry_after_s);
    error
}

fn from_status_and_document(status: Option<u64>, document: &Value) -> ServiceError {
    let document = document.as_array().and_then(|list| list.first()).unwrap_or(document);
    let kinds = ["/error/type", "/error/code", "/error/status", "/type", "/code"];
    let kinds: Vec<&str> =
        kinds.iter().filter_map(|pointer| document.pointer(pointer).and_then(Value::as_str)).collect();
    let pointers = ["/error/message", "/message", "/error", "/detail"];
    let message_text = pointers.iter().find_map(|pointer| document.pointer(pointer).and_then(Value::as_str));
    let message = message_text.map_or_else(|| document.to_string(), ToOwned::to_owned);
    let all = format!("{} {message}", kinds.join(" ")).to_lowercase();
    let by_phrase = PHRASES.iter().find(|(words, _)| all.contains(words)).map(|(_, error)| *error);
    let by_status = status.map(ModelError::from_http_status);
    let error = match (by_phrase, by_status) {
        // Some services describe the error in words, with a status for any wrong request.
        (
            Some(by_phrase),
            None | Some(ModelError::BadRequest | ModelError::Other | ModelError::Overloaded),
        ) => by_phrase,
        (Some(ModelError::TooLong), Some(_)) => ModelError::TooLong,
        (_, Some(by_status)) => by_status,
        (None, None) => ModelError::Other,
    };
    let shown = match (status, kinds.first()) {
        (Some(status), Some(kind)) => format!("status {status}, {kind}: {message}"),
        (Some(status), None) => format!("status {status}: {message}"),
        (None, Some(kind)) => format!("{kind}: {message}"),
        (None, None) => message,
    };
    ServiceError {
        error,
        message: domain::size::head(shown.trim(), 2_000).to_owned(),
        retry_after_s: google_delay(document),
        lasting: LASTING.iter().any(|words| all.contains(words)),
    }
}

/// Returns the delay that Google puts among the details of an error, such as `2s` or `1.5s`.
fn google_delay(document: &Value) -> Option<u64> {
    let details = document.pointer("/error/details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail["retryDelay"].as_str())?;
    whole_seconds(delay.strip_suffix('s')?.parse().ok()?)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
fn whole_seconds(seconds: f64) -> Option<u64> {
    (0.0..1e9).contains(&seconds).then(|| seconds.ceil() as u64)
}

fn first_line(text: &str) -> &str {
    domain::size::head(text.trim().lines().next().unwrap_or_default(), 200)
}
