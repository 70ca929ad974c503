//! The process that calls a model: reads a job, posts the request, and passes the answer on as it arrives. A worker
//! starts it like any agent, so that failures of a connection or of TLS stay in this process. Its key comes from its
//! environment and leaves it in a header, nowhere else.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use domain::run::ModelError;
use serde_json::Value;

use super::address::{self, Address};
use super::failure::{self, ServiceError};
use super::job::Job;
use super::protocol::{ApiEvent, Stop, Tokens};
use super::sse::{BodyPart, SseBody};
use super::wire::ResponseState;

/// The argument that makes this program run as this process.
pub const API_COMMAND: &str = "__api";
/// The longest job: a prompt and a system prompt, escaped.
const JOB_BYTES_MAX: u64 = 16 << 20;
/// The longest answer that is read.
const BODY_BYTES_MAX: u64 = 64 << 20;
/// The most of an error response that is read.
const REFUSAL_BYTES_MAX: u64 = 64 << 10;
const CONNECT_MAX: Duration = Duration::from_secs(30);
const USER_AGENT: &str = concat!("volery/", env!("CARGO_PKG_VERSION"));

/// Carries out the job on standard input. `value` looks up environment variables.
pub fn main(value: &dyn Fn(&str) -> Option<OsString>) -> ExitCode {
    let mut input = Vec::new();
    let job =
        io::stdin().lock().take(JOB_BYTES_MAX).read_to_end(&mut input).map_err(|error| error.to_string());
    let job = job.and_then(|_| serde_json::from_slice::<Job>(&input).map_err(|error| error.to_string()));
    let text = |name: &str| value(name).and_then(|value| value.into_string().ok());
    let mut out = io::stdout().lock();
    let written = match job {
        Ok(job) => carry_out(&job, &text, &mut out),
        Err(error) => {
            let message = format!("what to ask could not be read: {error}");
            write_event(&mut out, &ApiEvent::Failed { error: ModelError::Other, message })
        }
    };
    // If the output is closed, the worker is gone, and so is this process in a moment.
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write_event(out: &mut dyn Write, event: &ApiEvent) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// The outcome of one call.
enum CallOutcome {
    Ended(Stop),
    /// With the error, and whether any text was passed on before.
    Failed(ServiceError, Begun),
    /// The output could not be written.
    OutputClosed(io::Error),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    Yes,
    No,
}

pub(super) fn carry_out(
    job: &Job,
    value: &dyn Fn(&str) -> Option<String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let begun = Instant::now();
    let time = Duration::from_millis(job.timeout_ms);
    let key = job.keys.iter().find_map(|name| value(name)).map(|key| key.trim().to_owned());
    let failed = |error: ServiceError| {
        let message = key
            .as_deref()
            .filter(|key| key.len() >= 8)
            .map_or(error.message.clone(), |key| error.message.replace(key, "[redacted]"));
        ApiEvent::Failed { error: error.error, message }
    };
    if key.is_none() && !job.keys.is_empty() {
        let message = format!("there is no key for {}: set {}", job.service, job.keys.join(" or "));
        return write_event(out, &failed(ServiceError::new(ModelError::Denied, message)));
    }
    let written = job.address_variable.as_ref().and_then(|name| value(name));
    let written = written.as_deref().unwrap_or(&job.address);
    let address = match address::parse(written, key.is_some()) {
        Ok(address) => address,
        Err(message) => {
            return write_event(out, &failed(ServiceError::new(ModelError::Unreachable, message)));
        }
    };
    let agent = match agent(&address, value) {
        Ok(agent) => agent,
        Err(message) => {
            return write_event(out, &failed(ServiceError::new(ModelError::Unreachable, message)));
        }
    };
    let mut retry = 0;
    loop {
        let error = match call(job, &agent, &address, key.as_deref(), out) {
            CallOutcome::Ended(stop) => return write_event(out, &ApiEvent::Ended { stop }),
            CallOutcome::OutputClosed(error) => return Err(error),
            CallOutcome::Failed(error, Begun::Yes) => return write_event(out, &failed(error)),
            CallOutcome::Failed(error, Begun::No) => error,
        };
        let wait = Duration::from_secs(error.retry_after_s.unwrap_or(1 << retry));
        let again = error.error.is_capacity_error() && !error.lasting && retry < job.retries;
        if !again || begun.elapsed() + wait >= time {
            return write_event(out, &failed(error));
        }
        let message =
            format!("{} has no room ({}); asked again in {} s", job.service, error.message, wait.as_secs());
        write_event(out, &ApiEvent::Warned { message })?;
        std::thread::sleep(wait);
        retry += 1;
    }
}

/// Makes the client: no redirect is followed, since the key is for one host only.
fn agent(address: &Address, value: &dyn Fn(&str) -> Option<String>) -> Result<ureq::Agent, String> {
    let mut config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(CONNECT_MAX))
        .user_agent(USER_AGENT);
    if address.is_local {
        config = config.proxy(None);
    }
    if address.is_encrypted {
        config = config.tls_config(address::tls(value)?);
    }
    Ok(config.build().new_agent())
}

/// Calls the service once, and passes the answer on.
fn call(
    job: &Job,
    agent: &ureq::Agent,
    address: &Address,
    key: Option<&str>,
    out: &mut dyn Write,
) -> CallOutcome {
    let posted = job.wire.post(&job.request, job.quirks);
    let mut request = agent.post(address.with(&posted.path)).header("content-type", "application/json");
    for (name, value) in posted.headers {
        request = request.header(name, value);
    }
    if let Some(key) = key {
        let (name, value) = job.wire.key_header(key);
        request = request.header(name, value);
    }
    let mut response = match request.send(posted.body.to_string()) {
        Ok(response) => response,
        Err(error) => return CallOutcome::Failed(unreachable(&error), Begun::No),
    };
    let status = response.status().as_u16();
    if response.status().is_redirection() {
        let message =
            format!("status {status}: the service is elsewhere, and the key goes to no other address");
        return CallOutcome::Failed(ServiceError::new(ModelError::Unreachable, message), Begun::No);
    }
    if !response.status().is_success() {
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let retry_after = retry_after.map(ToOwned::to_owned);
        let mut body = Vec::new();
        // What came before an error is enough.
        let _ = response.body_mut().as_reader().take(REFUSAL_BYTES_MAX).read_to_end(&mut body);
        return CallOutcome::Failed(failure::refused(status, retry_after.as_deref(), &body), Begun::No);
    }
    let reader = response.body_mut().with_config().limit(BODY_BYTES_MAX).reader();
    let mut answer_reader = ResponseReader {
        job,
        out,
        state: ResponseState::default(),
        reported_tokens: Tokens::default(),
        model: None,
        begun: Begun::No,
    };
    match answer_reader.read_answer(reader) {
        Ok(stop) => CallOutcome::Ended(stop),
        Err(StreamError::OutputClosed(error)) => CallOutcome::OutputClosed(error),
        Err(StreamError::Service(error)) => CallOutcome::Failed(error, answer_reader.begun),
    }
}

enum StreamError {
    Service(ServiceError),
    OutputClosed(io::Error),
}

impl From<ServiceError> for StreamError {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

/// Reads one answer.
struct ResponseReader<'a> {
    job: &'a Job,
    out: &'a mut dyn Write,
    state: ResponseState,
    reported_tokens: Tokens,
    model: Option<String>,
    begun: Begun,
}

impl ResponseReader<'_> {
    fn read_answer(&mut self, mut reader: impl Read) -> Result<Stop, StreamError> {
        let mut body = SseBody::default();
        let mut piece = vec![0; 16 << 10];
        let mut lost = None;
        while !self.state.over {
            match reader.read(&mut piece) {
                Ok(0) => break,
                Ok(bytes) => {
                    for part in body.feed(&piece[..bytes]) {
                        self.handle_part(part)?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    lost = Some(error.to_string());
                    break;
                }
            }
        }
        let (last, document) = body.finish();
        // An incomplete event from a broken connection does not count.
        if let (Some(part), None) = (last, &lost) {
            self.handle_part(part)?;
        }
        if let Some(document) = document {
            self.handle_document(&document)?;
        }
        match (self.state.stop.take(), self.state.over, lost) {
            (Some(stop), _, _) => Ok(stop),
            (None, true, _) => Ok(Stop::Whole),
            (None, false, lost) => {
                let why = lost.map(|error| format!(": {error}")).unwrap_or_default();
                let message = format!("the stream ended before the answer did{why}");
                Err(ServiceError::new(ModelError::Other, message).into())
            }
        }
    }

    fn handle_part(&mut self, part: BodyPart) -> Result<(), StreamError> {
        let event = match part {
            BodyPart::Event(event) => event,
            BodyPart::TooLong => {
                return Err(ServiceError::new(ModelError::Other, "an event of the stream is too long").into());
            }
        };
        if event == b"[DONE]" {
            self.state.over = true;
            return Ok(());
        }
        let Ok(event) = serde_json::from_slice::<Value>(&event) else {
            return Err(ServiceError::new(ModelError::Other, "an event of the stream is no JSON").into());
        };
        let text = self.job.wire.handle_event(&event, &mut self.state);
        self.pass_on(text)
    }

    fn handle_document(&mut self, document: &[u8]) -> Result<(), StreamError> {
        let Ok(document) = serde_json::from_slice::<Value>(document) else {
            let begins = String::from_utf8_lossy(document);
            let begins = domain::size::head(begins.trim(), 200);
            let message = format!("the service answered with no stream and no JSON: {begins}");
            return Err(ServiceError::new(ModelError::Other, message).into());
        };
        let text = match failure::is_error(&document) {
            true => Err(failure::from_document(&document)),
            false => self.job.wire.handle_document(&document, &mut self.state),
        };
        self.pass_on(text)
    }

    /// Writes what is new, also if it ends with a failure.
    fn pass_on(&mut self, text: Result<String, ServiceError>) -> Result<(), StreamError> {
        if self.state.model != self.model {
            self.model.clone_from(&self.state.model);
            if let Some(model) = self.model.clone() {
                self.write_event(&ApiEvent::Model { model })?;
            }
        }
        if self.state.tokens != self.reported_tokens {
            self.reported_tokens = self.state.tokens;
            self.write_event(&ApiEvent::Used(self.reported_tokens))?;
        }
        let text = text?;
        if !text.is_empty() {
            self.begun = Begun::Yes;
            self.write_event(&ApiEvent::Text { text })?;
        }
        Ok(())
    }

    fn write_event(&mut self, event: &ApiEvent) -> Result<(), StreamError> {
        write_event(self.out, event).map_err(StreamError::OutputClosed)
    }
}

fn unreachable(error: &ureq::Error) -> ServiceError {
    let kind = match error {
        ureq::Error::Protocol(_) | ureq::Error::Http(_) | ureq::Error::LargeResponseHeader(..) => {
            ModelError::Other
        }
        _ => ModelError::Unreachable,
    };
    ServiceError::new(kind, error.to_string())
}
