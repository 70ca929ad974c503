//! The server: a listener on loopback, a thread per connection, the script, and the recorded requests.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use crate::connection;
use crate::model_request::ModelRequest;
use crate::script::{ScriptedReply, Times};
use crate::side_requests::SideRule;
use crate::verification::{RequestChecks, Verifier};
use crate::wire::WireFormat;

const CONNECTIONS_MAX: usize = 64;
/// Requests beyond this number are answered but not recorded.
const RECORDED_REQUESTS_MAX: usize = 2000;

/// One recorded request.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRequest {
    /// When the whole request had arrived.
    pub received_at: Instant,
    pub method: String,
    /// With its query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; `null` if it is not JSON.
    pub body: Value,
    pub format: Option<WireFormat>,
    /// The parsed request, if it is for a model.
    pub model_request: Option<ModelRequest>,
    pub purpose: RequestPurpose,
    /// The number of the connection, from 1.
    pub connection: usize,
    /// The client disconnected before its answer was complete.
    pub client_left: bool,
}

/// How a request was classified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPurpose {
    /// It got the reply with this number, from 0, of the script.
    Work(usize),
    /// It was refused because the script had no reply left.
    Unscripted,
    /// A title, a token count, a list of models: it took nothing from the script.
    Side,
    /// It was for another host and was refused, because this server is not a proxy.
    Outside,
    /// It failed the verification that the test asked for.
    Invalid,
    /// The server does not know the path.
    Unknown,
}

/// A running server; it stops when this value is dropped.
pub struct ScriptedServer {
    shared: Arc<ServerState>,
    address: SocketAddr,
    accept_thread: Option<JoinHandle<()>>,
}

/// State that all threads of a server share.
pub(crate) struct ServerState {
    state: Mutex<ScriptState>,
    changed: Condvar,
    pub(crate) stopping: AtomicBool,
    pub(crate) side_rules: Vec<SideRule>,
    connections: AtomicUsize,
    /// How many connections were accepted.
    accepted: AtomicUsize,
}

#[derive(Default)]
struct ScriptState {
    script: Vec<ScriptedReply>,
    /// How often each reply was given.
    given: Vec<u32>,
    /// How many replies were given; ids are derived from it.
    taken: usize,
    requests: Vec<RecordedRequest>,
    verifier: Verifier,
}

impl ScriptState {
    /// Returns the number of the reply to a request: the first whose condition it meets, otherwise the first without.
    fn find(&self, request: &ModelRequest) -> Option<usize> {
        let is_left = |number: usize| match self.script[number].times {
            Times::Number(times) => self.given.get(number).is_none_or(|given| *given < times),
            Times::Always => true,
        };
        let meets = |number: &usize| {
            self.script[*number].when.as_ref().is_some_and(|when| when.matches(request)) && is_left(*number)
        };
        let is_next = |number: &usize| self.script[*number].when.is_none() && is_left(*number);
        let numbers = 0..self.script.len();
        numbers.clone().find(meets).or_else(|| numbers.clone().find(is_next))
    }
}

impl ScriptedServer {
    /// Listens on a free port of loopback.
    pub fn start(script: Vec<ScriptedReply>) -> io::Result<Self> {
        Self::start_with(0, script, Vec::new())
    }

    /// Listens on a port of loopback; 0 selects a free one. `side_rules` take precedence over the built-in ones.
    pub fn start_with(port: u16, script: Vec<ScriptedReply>, side_rules: Vec<SideRule>) -> io::Result<Self> {
        Self::from_listener(TcpListener::bind((Ipv4Addr::LOCALHOST, port))?, script, side_rules)
    }

    /// Serves on a listening socket.
    pub fn from_listener(
        listener: TcpListener,
        script: Vec<ScriptedReply>,
        side_rules: Vec<SideRule>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let shared = Arc::new(ServerState {
            state: Mutex::new(ScriptState { script, ..ScriptState::default() }),
            changed: Condvar::new(),
            stopping: AtomicBool::new(false),
            side_rules,
            connections: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
        });
        let accept_thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Ok(Self { shared, address, accept_thread: Some(accept_thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL without a path: the base URL of the vendors, before their `/v1`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds replies to the end of the script.
    pub fn add(&self, replies: impl IntoIterator<Item = ScriptedReply>) {
        self.shared.lock().script.extend(replies);
    }

    /// Refuses, from now on, requests in Anthropic's protocol that the service would refuse.
    pub fn verify(&self, checks: RequestChecks) {
        self.shared.lock().verifier.checks = checks;
    }

    /// Returns how many connections were accepted.
    pub fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.lock().requests.clone()
    }

    /// Returns the requests to the model so far, without side requests.
    pub fn model_requests(&self) -> Vec<ModelRequest> {
        let state = self.shared.lock();
        let work = state.requests.iter().filter(|seen| seen.purpose != RequestPurpose::Side);
        work.filter_map(|seen| seen.model_request.clone()).collect()
    }

    /// Waits until the recorded requests meet a condition; returns `false` after `patience`.
    pub fn wait_until(&self, patience: Duration, condition: impl Fn(&[RecordedRequest]) -> bool) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.lock();
        while !condition(&state.requests) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.changed.notify_all();
        if let Some(accept_thread) = self.accept_thread.take() {
            // A panic in it was reported when it happened.
            let _ = accept_thread.join();
        }
    }
}

/// The next reply of the script for a request to a model.
pub(crate) struct NextReply {
    pub(crate) reply: Option<ScriptedReply>,
    pub(crate) purpose: RequestPurpose,
    /// From 1, counting repeated replies as well.
    pub(crate) number: usize,
}

impl ServerState {
    fn lock(&self) -> MutexGuard<'_, ScriptState> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn take(&self, request: &ModelRequest) -> NextReply {
        let mut state = self.lock();
        state.taken += 1;
        let taken = state.taken;
        let Some(number) = state.find(request) else {
            return NextReply { reply: None, purpose: RequestPurpose::Unscripted, number: taken };
        };
        if state.given.len() <= number {
            state.given.resize(number + 1, 0);
        }
        state.given[number] += 1;
        let reply = state.script[number].clone();
        NextReply { reply: Some(reply), purpose: RequestPurpose::Work(number), number: taken }
    }

    /// Returns why a request in Anthropic's protocol is refused.
    pub(crate) fn verify(&self, body: &Value) -> Result<(), String> {
        self.lock().verifier.check(body)
    }

    /// Remembers the content of an answer in Anthropic's protocol, for the verification of later requests.
    pub(crate) fn remember(&self, model: &str, content: &Value) {
        self.lock().verifier.remember(model, content);
    }

    /// Records a request and returns its index.
    pub(crate) fn record(&self, seen: RecordedRequest) -> Option<usize> {
        let mut state = self.lock();
        let index = (state.requests.len() < RECORDED_REQUESTS_MAX).then_some(state.requests.len());
        if index.is_some() {
            state.requests.push(seen);
        }
        drop(state);
        self.changed.notify_all();
        index
    }

    /// Marks the client of a request as disconnected.
    pub(crate) fn mark_client_left(&self, index: Option<usize>) {
        let mut state = self.lock();
        if let Some(seen) = index.and_then(|index| state.requests.get_mut(index)) {
            seen.client_left = true;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for a client to connect; `false` when the server stops.
    fn wait_for_client(&self, listener: &TcpListener) -> bool {
        let poll_interval = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        while !self.stopping.load(Ordering::SeqCst) {
            // The socket may belong to another network namespace, so connecting to it cannot wake this thread.
            let mut waiting = [PollFd::new(listener, PollFlags::IN)];
            if poll(&mut waiting, Some(&poll_interval)).is_ok_and(|ready| ready > 0) {
                return true;
            }
        }
        false
    }

    /// Waits, and returns whether the server continues to run.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut state = self.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.stopping.load(Ordering::SeqCst) || left.is_zero() {
                return !self.stopping.load(Ordering::SeqCst);
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<ServerState>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while shared.wait_for_client(listener) {
        let Ok((stream, _)) = listener.accept() else { continue };
        threads.retain(|thread| !thread.is_finished());
        // A connection beyond the limit is dropped, which its client sees as a closed connection.
        if shared.connections.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
            shared.connections.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let number = shared.accepted.fetch_add(1, Ordering::SeqCst) + 1;
        let shared = Arc::clone(shared);
        threads.push(std::thread::spawn(move || {
            connection::serve(&stream, &shared, number);
            shared.connections.fetch_sub(1, Ordering::SeqCst);
        }));
    }
    for thread in threads {
        // A panic in it was reported when it happened.
        let _ = thread.join();
    }
}
