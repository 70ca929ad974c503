//! One HTTP call to a service: sends a request and reads the answer as it arrives. No redirect is followed, since the
//! key is for one host only.

use std::io::{self, Read};
use std::time::Duration;

use domain::conversation::ModelRequest;
use domain::run::{ModelError, Usage};
use ureq::Timeout;

use super::address::{self, Address};
use super::answer::AnswerBuilder;
use super::answer_stream::AnswerStream;
use super::failure::{self, ServiceError};
use super::model_client::{FailureCause, RequestProgress};
use super::service_config::ServiceConfig;

/// The longest answer that is read.
const BODY_BYTES_MAX: u64 = 64 << 20;
/// The most of an error response that is read.
const REFUSAL_BYTES_MAX: u64 = 64 << 10;
const CONNECT_MAX: Duration = Duration::from_secs(30);
/// How long an unused connection is good for another request: tools may run for minutes between two of them.
const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(300);
const USER_AGENT: &str = concat!("volery/", env!("CARGO_PKG_VERSION"));
/// A shorter value of a key variable is hardly a key, and could occur in any text.
const MASKED_KEY_BYTES_MIN: usize = 8;

/// A service whose address and key were found and checked.
pub(super) struct HttpEndpoint {
    pub(super) config: ServiceConfig,
    address: Address,
    key: Option<String>,
    settings: ureq::config::Config,
}

/// A request in the service's format. Retries send the same bytes.
pub(super) struct PreparedRequest {
    url: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

/// How long a call may take, and how long the service may send nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallLimits {
    pub(super) total: Duration,
    pub(super) idle: Duration,
}

/// Why a call has no answer.
#[derive(Debug)]
pub(super) struct CallError {
    pub(super) error: ServiceError,
    pub(super) cause: FailureCause,
    pub(super) progress: RequestProgress,
    pub(super) usage: Option<Usage>,
    /// The connection broke before any byte of a response.
    pub(super) is_connection_lost: bool,
}

/// A complete answer, and the rest of the response, which must be read before the connection can be used again.
pub(super) struct Call {
    pub(super) answer: AnswerBuilder,
    pub(super) rest: Box<dyn Read>,
}

impl HttpEndpoint {
    /// Finds the key and the address. `value` looks up environment variables.
    pub(super) fn open(
        config: ServiceConfig,
        value: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ServiceError> {
        let key = config.keys.iter().find_map(|name| value(name)).map(|key| key.trim().to_owned());
        if key.is_none() && !config.keys.is_empty() {
            let message = format!("there is no key for {}: set {}", config.name, config.keys.join(" or "));
            return Err(ServiceError::new(ModelError::Denied, message));
        }
        let written = config.address_variable.as_ref().and_then(|name| value(name));
        let written = written.as_deref().unwrap_or(&config.address);
        let unreachable = |message| ServiceError::new(ModelError::Unreachable, message);
        let address = address::parse(written, key.is_some()).map_err(unreachable)?;
        let settings = settings(&address, value).map_err(unreachable)?;
        Ok(Self { config, address, key, settings })
    }

    /// Returns a client with a connection of its own.
    pub(super) fn new_agent(&self) -> ureq::Agent {
        self.settings.new_agent()
    }

    /// Removes the key from a line of output. The service may have repeated it.
    pub(super) fn mask(&self, line: &mut String) {
        let key = self.key.as_deref().filter(|key| key.len() >= MASKED_KEY_BYTES_MIN);
        let Some(key) = key else { return };
        let escaped = serde_json::Value::from(key).to_string();
        let escaped = escaped.trim_matches('"');
        if line.contains(escaped) {
            *line = line.replace(escaped, "[redacted]");
        }
    }

    /// Formats a request; an error if the protocol cannot express it.
    pub(super) fn prepare(&self, request: &ModelRequest) -> Result<PreparedRequest, ServiceError> {
        let posted = self.config.wire.post(request, self.config.quirks)?;
        let mut headers = vec![("content-type", "application/json".to_owned())];
        headers.extend(posted.headers.into_iter().map(|(name, value)| (name, value.to_owned())));
        headers.extend(self.key.as_deref().map(|key| self.config.wire.key_header(key)));
        let body = posted.body.to_string().into_bytes();
        Ok(PreparedRequest { url: self.address.with(&posted.path), headers, body })
    }

    /// Sends a request once. `report` is called with each part of the answer.
    pub(super) fn call(
        &self,
        agent: &ureq::Agent,
        prepared: &PreparedRequest,
        limits: CallLimits,
        report: &mut dyn FnMut(&mut AnswerBuilder),
    ) -> Result<Call, CallError> {
        let mut request = agent.post(&prepared.url);
        for (name, value) in &prepared.headers {
            request = request.header(*name, value);
        }
        let request = request
            .config()
            .timeout_global(Some(limits.total))
            .timeout_per_read(Some(limits.idle))
            .timeout_connect(Some(CONNECT_MAX))
            .build();
        let mut response = request.send(&prepared.body[..]).map_err(|error| not_answered(&error))?;
        let status = response.status().as_u16();
        if response.status().is_redirection() {
            let message =
                format!("status {status}: the service is elsewhere, and the key goes to no other address");
            return Err(refused(ServiceError::new(ModelError::Unreachable, message), status));
        }
        if !response.status().is_success() {
            let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
            let retry_after = retry_after.map(ToOwned::to_owned);
            let mut body = Vec::new();
            // What came before an error is enough.
            let _ = response.body_mut().as_reader().take(REFUSAL_BYTES_MAX).read_to_end(&mut body);
            return Err(refused(failure::refused(status, retry_after.as_deref(), &body), status));
        }
        let body = response.into_body().into_with_config().limit(BODY_BYTES_MAX).reader();
        self.read_answer(Box::new(body), report)
    }

    fn read_answer(
        &self,
        mut body: Box<dyn Read>,
        report: &mut dyn FnMut(&mut AnswerBuilder),
    ) -> Result<Call, CallError> {
        let mut stream = AnswerStream::new(self.config.wire);
        let (mut piece, mut lost) = (vec![0; 16 << 10], None);
        let mut result = Ok(());
        while result.is_ok() && !stream.answer.is_over {
            match body.read(&mut piece) {
                Ok(0) => break,
                Ok(bytes) => result = stream.feed(&piece[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    lost = Some(ureq::Error::from(error));
                    break;
                }
            }
            report(&mut stream.answer);
        }
        if result.is_ok() && !stream.answer.is_over {
            let why = lost.as_ref().map(ToString::to_string);
            result = stream.finish(why.as_deref());
        }
        report(&mut stream.answer);
        let Err(error) = result else { return Ok(Call { answer: stream.answer, rest: body }) };
        let progress = match stream.answer.has_content() {
            true => RequestProgress::AnswerBegun,
            false => RequestProgress::Unknown,
        };
        let usage = stream.answer.usage();
        let cause = lost.as_ref().map_or(FailureCause::Service, cause);
        Err(CallError { error, cause, progress, usage, is_connection_lost: false })
    }
}

fn settings(
    address: &Address,
    value: &dyn Fn(&str) -> Option<String>,
) -> Result<ureq::config::Config, String> {
    let mut config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_age(CONNECTION_IDLE_MAX)
        .user_agent(USER_AGENT);
    if address.is_local {
        config = config.proxy(None);
    }
    if address.is_encrypted {
        config = config.tls_config(address::tls(value)?);
    }
    Ok(config.build())
}

/// The cause of a call that failed with this error.
fn cause(error: &ureq::Error) -> FailureCause {
    match error {
        ureq::Error::Timeout(Timeout::PerRead) => FailureCause::IdleTimeout,
        ureq::Error::Timeout(Timeout::Global) => FailureCause::TotalTimeout,
        _ => FailureCause::Service,
    }
}

fn refused(error: ServiceError, status: u16) -> CallError {
    // A gateway sends 500, 502 or 504 also when the service behind it works on the request.
    let progress = match status {
        503 | 529 => RequestProgress::NotAccepted,
        500..=599 => RequestProgress::Unknown,
        _ => RequestProgress::NotAccepted,
    };
    CallError { error, cause: FailureCause::Service, progress, usage: None, is_connection_lost: false }
}

/// Describes an error before any response.
fn not_answered(error: &ureq::Error) -> CallError {
    let kind = match error {
        ureq::Error::Protocol(_) | ureq::Error::Http(_) | ureq::Error::LargeResponseHeader(..) => {
            ModelError::Other
        }
        _ => ModelError::Unreachable,
    };
    let is_connection_lost = match error {
        ureq::Error::Io(error) => matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
        ),
        _ => false,
    };
    let was_sent = is_connection_lost
        || matches!(
            error,
            ureq::Error::Protocol(_)
                | ureq::Error::LargeResponseHeader(..)
                | ureq::Error::Timeout(Timeout::PerRead | Timeout::Global)
        );
    CallError {
        error: ServiceError::new(kind, error.to_string()),
        cause: cause(error),
        progress: if was_sent { RequestProgress::Unknown } else { RequestProgress::NotAccepted },
        usage: None,
        is_connection_lost,
    }
}
