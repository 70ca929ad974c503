//! The process that calls a service for a run: reads requests, sends them, and passes the answers on as they arrive. A
//! worker starts it like any agent, so that failures of a connection or of TLS stay in this process. Its key comes
//! from its environment and leaves it in a header, nowhere else.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::run::{ModelError, Usage};

use super::failure::ServiceError;
use super::http_call::HttpEndpoint;
use super::model_client::{
    AtEndOfInput, ClientConfig, ClientInput, ClientRequest, EVENT_BYTES_MAX, FailureCause, ModelClientEvent,
    RequestFailure, RequestProgress,
};
use super::request_run;
use crate::line_splitter::{LineSplitter, OutputLine};

/// The argument that makes this program run as this process.
pub const API_COMMAND: &str = "__api";
/// The longest line of input: a conversation.
const INPUT_LINE_BYTES_MAX: usize = 64 << 20;
/// How many requests are sent at once. Further ones wait.
const REQUESTS_MAX: usize = 4;
const WAITING_MAX: usize = 64;
/// How long a request waits for the connection of the answer before it, whose last bytes are still on their way. A
/// service that leaves its responses open makes a run wait once only.
const REUSE_WAIT: Duration = Duration::from_secs(2);

/// Serves the requests on standard input. `value` looks up environment variables.
pub fn main(value: &dyn Fn(&str) -> Option<OsString>) -> ExitCode {
    let text = |name: &str| value(name).and_then(|value| value.into_string().ok());
    let served = serve(&mut io::stdin().lock(), Box::new(io::stdout()), &text);
    // If the output is closed, the worker is gone, and so is this process in a moment.
    if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Serves the requests of an input until it ends.
pub(super) fn serve(
    input: &mut dyn Read,
    out: Box<dyn Write + Send>,
    value: &dyn Fn(&str) -> Option<String>,
) -> io::Result<()> {
    let mut lines = InputLines::new(input);
    let config = lines.next_line()?.map(|line| parse_config(&line));
    let (service, at_end) = match config {
        Some(Ok(config)) => (HttpEndpoint::open(config.service, value), config.at_end_of_input),
        Some(Err(message)) => (Err(ServiceError::new(ModelError::Other, message)), AtEndOfInput::Abandon),
        None => return Ok(()),
    };
    let scheduler = Arc::new(RequestScheduler {
        service,
        state: Mutex::new(ClientState {
            out,
            requests: BTreeMap::new(),
            waiting: VecDeque::new(),
            idle_agents: Vec::new(),
            draining: 0,
            leaves_responses_open: false,
            output_error: None,
        }),
        changed: Condvar::new(),
    });
    while let Some(line) = lines.next_line()? {
        match parse_line(&line) {
            Ok(ClientInput::Request(request)) => scheduler.add(*request),
            Ok(ClientInput::Cancel(id)) => scheduler.cancel(id),
            Err(message) => scheduler.write_unrelated(&ModelClientEvent::InvalidInput { message }),
        }
    }
    scheduler.end(at_end)
}

fn parse_config(line: &OutputLine) -> Result<ClientConfig, String> {
    match line {
        OutputLine::Whole(line) => {
            serde_json::from_slice(line).map_err(|error| format!("the configuration is invalid: {error}"))
        }
        OutputLine::TooLong => Err("the configuration is too long".to_owned()),
    }
}

fn parse_line(line: &OutputLine) -> Result<ClientInput, String> {
    match line {
        OutputLine::Whole(line) => {
            serde_json::from_slice(line).map_err(|error| format!("a line of input is invalid: {error}"))
        }
        OutputLine::TooLong => Err("a line of input is too long".to_owned()),
    }
}

/// The lines of an input as they arrive.
struct InputLines<'a> {
    input: &'a mut dyn Read,
    splitter: LineSplitter,
    ready: VecDeque<OutputLine>,
}

impl<'a> InputLines<'a> {
    fn new(input: &'a mut dyn Read) -> Self {
        Self { input, splitter: LineSplitter::with_max(INPUT_LINE_BYTES_MAX), ready: VecDeque::new() }
    }

    fn next_line(&mut self) -> io::Result<Option<OutputLine>> {
        let mut piece = vec![0; 64 << 10];
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Ok(Some(line));
            }
            match self.input.read(&mut piece) {
                Ok(0) => return Ok(self.splitter.finish().map(OutputLine::Whole)),
                Ok(bytes) => self.ready.extend(self.splitter.feed(&piece[..bytes])),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The state that the input and all requests share.
pub(super) struct RequestScheduler {
    /// The error is the answer to every request.
    pub(super) service: Result<HttpEndpoint, ServiceError>,
    state: Mutex<ClientState>,
    changed: Condvar,
}

struct ClientState {
    out: Box<dyn Write + Send>,
    /// Requests without their last event.
    requests: BTreeMap<u64, ActiveRequest>,
    waiting: VecDeque<ClientRequest>,
    /// Each has one connection, so that a cancelled request closes its own only.
    idle_agents: Vec<ureq::Agent>,
    /// Connections whose response is complete but for its last bytes.
    draining: usize,
    /// A response did not end within `REUSE_WAIT` after its answer.
    leaves_responses_open: bool,
    output_error: Option<io::Error>,
}

#[derive(Default)]
struct ActiveRequest {
    agent: Option<ureq::Agent>,
    usage: Option<Usage>,
    was_sent: bool,
    has_content: bool,
}

/// A client of the service, and whether its connection served another request before.
pub(super) struct PooledAgent {
    pub(super) agent: ureq::Agent,
    pub(super) is_reused: bool,
}

impl RequestScheduler {
    fn lock(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, ClientState>, time: Duration) -> MutexGuard<'a, ClientState> {
        self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }

    fn add(self: &Arc<Self>, request: ClientRequest) {
        let mut state = self.lock();
        let id = request.id;
        if state.requests.contains_key(&id) || state.waiting.iter().any(|waiting| waiting.id == id) {
            let message = format!("request {id} is not finished yet");
            self.write(&mut state, &ModelClientEvent::InvalidInput { message });
        } else if state.requests.len() < REQUESTS_MAX {
            self.start(&mut state, request);
        } else if state.waiting.len() < WAITING_MAX {
            state.waiting.push_back(request);
        } else {
            let message = "too many requests wait for an answer".to_owned();
            self.write(&mut state, &not_sent(id, FailureCause::Unsupported, message));
        }
    }

    fn start(self: &Arc<Self>, state: &mut ClientState, request: ClientRequest) {
        let id = request.id;
        state.requests.insert(id, ActiveRequest::default());
        let scheduler = Arc::clone(self);
        // Nobody waits for the thread: a cancelled one may hang in the lookup of a name, and ends with the process.
        let started = std::thread::Builder::new().spawn(move || {
            let _guard = FinishGuard { scheduler: &scheduler, id };
            request_run::run(&scheduler, &request);
        });
        if let Err(error) = started {
            let message = format!("no thread could be started: {error}");
            state.requests.remove(&id);
            self.write(state, &not_sent(id, FailureCause::Service, message));
        }
    }

    fn cancel(&self, id: u64) {
        let mut state = self.lock();
        if let Some(at) = state.waiting.iter().position(|waiting| waiting.id == id) {
            state.waiting.remove(at);
            self.write(&mut state, &not_sent(id, FailureCause::Cancelled, "cancelled".to_owned()));
            return;
        }
        let Some(request) = state.requests.remove(&id) else { return };
        let progress = match (request.was_sent, request.has_content) {
            (false, _) => RequestProgress::NotAccepted,
            (true, false) => RequestProgress::Unknown,
            (true, true) => RequestProgress::AnswerBegun,
        };
        let failure = RequestFailure {
            usage: request.usage,
            progress,
            ..failure(id, FailureCause::Cancelled, "cancelled".to_owned())
        };
        request.close();
        self.write(&mut state, &ModelClientEvent::Failed(failure));
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for unfinished requests, or abandons them.
    fn end(&self, at_end: AtEndOfInput) -> io::Result<()> {
        let mut state = self.lock();
        if at_end == AtEndOfInput::Finish {
            while !(state.requests.is_empty() && state.waiting.is_empty()) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        state.abandon_all();
        state.output_error.take().map_or(Ok(()), Err)
    }

    fn write_unrelated(&self, event: &ModelClientEvent) {
        self.write(&mut self.lock(), event);
    }

    fn write(&self, state: &mut ClientState, event: &ModelClientEvent) {
        if state.output_error.is_some() {
            return;
        }
        let written = self.encode(event).and_then(|line| {
            state.out.write_all(line.as_bytes())?;
            state.out.flush()
        });
        if let Err(error) = written {
            state.output_error = Some(error);
            state.abandon_all();
            self.changed.notify_all();
        }
    }

    /// Returns the line of an event, without the key.
    fn encode(&self, event: &ModelClientEvent) -> io::Result<String> {
        let mut line = serde_json::to_string(event)?;
        if let (true, ModelClientEvent::Answered { id, answer }) = (line.len() >= EVENT_BYTES_MAX, event) {
            let failure = RequestFailure {
                usage: answer.usage,
                progress: RequestProgress::AnswerBegun,
                ..failure(*id, FailureCause::Service, "the answer is too long".to_owned())
            };
            line = serde_json::to_string(&ModelClientEvent::Failed(failure))?;
        }
        if let Ok(service) = &self.service {
            service.mask(&mut line);
        }
        line.push('\n');
        Ok(line)
    }

    /// Writes an event of a request, unless it was cancelled.
    pub(super) fn report(&self, id: u64, event: &ModelClientEvent) {
        let mut state = self.lock();
        if let Some(request) = state.requests.get_mut(&id) {
            if let ModelClientEvent::Used { usage, .. } = event {
                request.usage = Some(*usage);
            }
            request.has_content |= matches!(event, ModelClientEvent::Text { .. });
            self.write(&mut state, event);
        }
    }

    /// Writes the last event of a request and starts one that waits; `false` if the request was cancelled, which
    /// closed its connection.
    pub(super) fn finish(self: &Arc<Self>, id: u64, last: &ModelClientEvent, connection: Connection) -> bool {
        let mut state = self.lock();
        let is_active = state.requests.remove(&id).is_some();
        if is_active {
            match connection {
                Connection::Draining => state.draining += 1,
                Connection::Idle(agent) => state.idle_agents.push(agent),
                Connection::Closed => {}
            }
            self.write(&mut state, last);
        }
        while state.requests.len() < REQUESTS_MAX {
            let Some(next) = state.waiting.pop_front() else { break };
            self.start(&mut state, next);
        }
        drop(state);
        self.changed.notify_all();
        is_active
    }

    /// Makes a connection available again after the end of its response was read.
    pub(super) fn finish_draining(&self, agent: ureq::Agent) {
        let mut state = self.lock();
        state.draining = state.draining.saturating_sub(1);
        state.idle_agents.push(agent);
        drop(state);
        self.changed.notify_all();
    }

    /// Returns a client for the next call of a request; `None` if the request was cancelled.
    pub(super) fn take_agent(&self, service: &HttpEndpoint, id: u64) -> Option<PooledAgent> {
        let deadline = Instant::now() + REUSE_WAIT;
        let mut state = self.lock();
        while state.idle_agents.is_empty()
            && state.draining > 0
            && !state.leaves_responses_open
            && state.requests.contains_key(&id)
        {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.leaves_responses_open = true;
                break;
            }
            state = self.wait(state, left);
        }
        let state = &mut *state;
        let request = state.requests.get_mut(&id)?;
        let pooled = match state.idle_agents.pop() {
            Some(agent) => PooledAgent { agent, is_reused: true },
            None => PooledAgent { agent: service.new_agent(), is_reused: false },
        };
        request.agent = Some(pooled.agent.clone());
        request.was_sent = true;
        Some(pooled)
    }

    /// Waits before another attempt, and returns whether the request still wants one.
    pub(super) fn pause(&self, id: u64, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut state = self.lock();
        while state.requests.contains_key(&id) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.wait(state, left);
        }
        false
    }

    /// Makes the connection of a request available to others while the request waits for its next attempt.
    pub(super) fn release_agent(&self, id: u64) {
        let mut state = self.lock();
        let agent = state.requests.get_mut(&id).and_then(|request| request.agent.take());
        state.idle_agents.extend(agent);
    }
}

impl ClientState {
    fn abandon_all(&mut self) {
        self.waiting.clear();
        std::mem::take(&mut self.requests).into_values().for_each(ActiveRequest::close);
    }
}

impl ActiveRequest {
    /// Closes the connection, so that the service stops to work on the request.
    fn close(self) {
        if let Some(agent) = self.agent {
            agent.shutdown();
        }
    }
}

/// What became of the connection of a request.
pub(super) enum Connection {
    /// The last bytes of the response are still to be read.
    Draining,
    Idle(ureq::Agent),
    Closed,
}

/// Ends a request whose thread panicked.
struct FinishGuard<'a> {
    scheduler: &'a Arc<RequestScheduler>,
    id: u64,
}

impl Drop for FinishGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let message = "the model client failed while it handled the answer".to_owned();
            let failure = RequestFailure {
                progress: RequestProgress::Unknown,
                ..failure(self.id, FailureCause::Service, message)
            };
            self.scheduler.finish(self.id, &ModelClientEvent::Failed(failure), Connection::Closed);
        }
    }
}

/// Returns a failure of a request that no service has seen.
fn failure(id: u64, cause: FailureCause, message: String) -> RequestFailure {
    RequestFailure {
        id,
        cause,
        error: ModelError::Other,
        message,
        is_retryable: false,
        retry_after_ms: None,
        progress: RequestProgress::NotAccepted,
        usage: None,
    }
}

fn not_sent(id: u64, cause: FailureCause, message: String) -> ModelClientEvent {
    ModelClientEvent::Failed(failure(id, cause, message))
}
