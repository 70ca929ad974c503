//! The server: a listener on loopback, a thread per connection, the script, and what was seen.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use crate::ask::Ask;
use crate::connection;
use crate::script::{Reply, Times};
use crate::side::SideRule;
use crate::wire::Format;

const CONNECTIONS_MAX: usize = 64;
/// Requests beyond this number are answered, but no longer kept.
const SEEN_MAX: usize = 2000;

/// One request, as it came in.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// When the whole request had arrived.
    pub received: Instant,
    pub method: String,
    /// With its query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, `null` if it is no JSON.
    pub body: Value,
    pub format: Option<Format>,
    /// What was asked, if it is a request to a model.
    pub ask: Option<Ask>,
    pub purpose: Purpose,
    /// The client was gone before its answer was complete.
    pub left: bool,
}

/// What a request was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It got the reply of the script with this number, from 0.
    Work(usize),
    /// The script had no reply left, so it was refused.
    Unscripted,
    /// A title, a token count, a list of models: it took nothing from the script.
    Side,
    /// It was meant for another host; this server is no proxy and refused it.
    Outside,
    /// Nothing that this server knows.
    Unknown,
}

/// A running server; it ends when this value is dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

/// What all threads of a server share.
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pub(crate) stopping: AtomicBool,
    pub(crate) side_rules: Vec<SideRule>,
    connections: AtomicUsize,
}

#[derive(Default)]
struct State {
    script: Vec<Reply>,
    /// The reply that is next, and how often it was given already.
    next: usize,
    given: u32,
    /// How many replies were taken; ids are made from it.
    taken: usize,
    seen: Vec<Seen>,
}

impl Server {
    /// Listens on a free port of loopback.
    pub fn start(script: Vec<Reply>) -> io::Result<Self> {
        Self::start_with(0, script, Vec::new())
    }

    /// Listens on a port of loopback; 0 is a free one. `side_rules` are asked before those that are built in.
    pub fn start_with(port: u16, script: Vec<Reply>, side_rules: Vec<SideRule>) -> io::Result<Self> {
        Self::on(TcpListener::bind((Ipv4Addr::LOCALHOST, port))?, script, side_rules)
    }

    /// Serves on a socket that listens already.
    pub fn on(listener: TcpListener, script: Vec<Reply>, side_rules: Vec<SideRule>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State { script, ..State::default() }),
            changed: Condvar::new(),
            stopping: AtomicBool::new(false),
            side_rules,
            connections: AtomicUsize::new(0),
        });
        let accepting = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Ok(Self { shared, address, accepting: Some(accepting) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address without a path: what the vendors call a base URL, before their `/v1`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds replies to the end of the script.
    pub fn add(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.lock().script.extend(replies);
    }

    /// Returns all requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.lock().seen.clone()
    }

    /// Returns what was asked of the model so far, side requests left out.
    pub fn asks(&self) -> Vec<Ask> {
        let state = self.shared.lock();
        let work = state.seen.iter().filter(|seen| seen.purpose != Purpose::Side);
        work.filter_map(|seen| seen.ask.clone()).collect()
    }

    /// Waits until something that was seen is as wanted; tells whether that happened in time.
    pub fn wait_until(&self, patience: Duration, wanted: impl Fn(&[Seen]) -> bool) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.lock();
        while !wanted(&state.seen) {
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

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.changed.notify_all();
        if let Some(accepting) = self.accepting.take() {
            // A panic in it was reported when it happened.
            let _ = accepting.join();
        }
    }
}

/// What to do with a request to a model.
pub(crate) struct Taken {
    pub(crate) reply: Option<Reply>,
    pub(crate) purpose: Purpose,
    /// From 1, counting also those that are given several times.
    pub(crate) number: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes the next reply from the script.
    pub(crate) fn take(&self) -> Taken {
        let mut state = self.lock();
        state.taken += 1;
        let (number, taken) = (state.next, state.taken);
        let Some(reply) = state.script.get(number).cloned() else {
            return Taken { reply: None, purpose: Purpose::Unscripted, number: taken };
        };
        state.given += 1;
        let last = match reply.times {
            Times::Number(times) => state.given >= times,
            Times::Always => false,
        };
        if last {
            state.next += 1;
            state.given = 0;
        }
        Taken { reply: Some(reply), purpose: Purpose::Work(number), number: taken }
    }

    /// Keeps a request, and returns where.
    pub(crate) fn keep(&self, seen: Seen) -> Option<usize> {
        let mut state = self.lock();
        let place = (state.seen.len() < SEEN_MAX).then_some(state.seen.len());
        if place.is_some() {
            state.seen.push(seen);
        }
        drop(state);
        self.changed.notify_all();
        place
    }

    /// Notes that the client of a request is gone.
    pub(crate) fn note_left(&self, place: Option<usize>) {
        let mut state = self.lock();
        if let Some(seen) = place.and_then(|place| state.seen.get_mut(place)) {
            seen.left = true;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for somebody to connect; false when the server stops.
    fn wait_for_client(&self, listener: &TcpListener) -> bool {
        let look = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        while !self.stopping.load(Ordering::SeqCst) {
            // The socket may belong to another network, so that it cannot be woken by connecting to it.
            let mut waiting = [PollFd::new(listener, PollFlags::IN)];
            if poll(&mut waiting, Some(&look)).is_ok_and(|ready| ready > 0) {
                return true;
            }
        }
        false
    }

    /// Waits; tells whether the server goes on.
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

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while shared.wait_for_client(listener) {
        let Ok((stream, _)) = listener.accept() else { continue };
        threads.retain(|thread| !thread.is_finished());
        // One too many is dropped, which its client sees as a closed connection.
        if shared.connections.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
            shared.connections.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let shared = Arc::clone(shared);
        threads.push(std::thread::spawn(move || {
            connection::serve(&stream, &shared);
            shared.connections.fetch_sub(1, Ordering::SeqCst);
        }));
    }
    for thread in threads {
        // A panic in it was reported when it happened.
        let _ = thread.join();
    }
}
