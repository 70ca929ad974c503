//! Who is told how the run goes: the door that started it, and whoever watches it.

use domain::run::{Phase, RunSpec, State};

use crate::app::{Progress, RunView};
use crate::clock;
use crate::wire::{self, Saying, Tell};

/// Signs of life are at least this far apart.
const TELL_EVERY_MS: u64 = 200;
/// The most peers that are told; more are refused.
const PEERS_MAX: usize = 64;
/// The longest message with a view; a socket's buffer holds more.
const VIEW_BYTES_MAX: usize = 64 << 10;
/// The end of the agent's text that is shown.
const TAIL_BYTES: usize = 600;

pub(super) struct Audience {
    peers: Vec<Saying>,
    tail: Vec<u8>,
    activity: String,
    started_ms: u64,
    told_ms: u64,
    pending: bool,
}

impl Audience {
    pub(super) fn new(leash: Saying) -> Self {
        Self {
            peers: vec![leash],
            tail: Vec::new(),
            activity: "started".to_owned(),
            started_ms: clock::monotonic_ms(),
            told_ms: 0,
            pending: true,
        }
    }

    pub(super) fn join(&mut self, peer: Saying) {
        if self.peers.len() < PEERS_MAX {
            self.peers.push(peer);
            self.pending = true;
            self.told_ms = 0;
        }
    }

    /// Remembers the end of what the agent wrote.
    pub(super) fn heard(&mut self, bytes: &[u8]) {
        let recent = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        self.tail.extend_from_slice(recent);
        let excess = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..excess);
        self.pending = true;
    }

    pub(super) fn note(&mut self, activity: String) {
        self.activity = activity;
        self.pending = true;
    }

    /// Returns when there is something to tell.
    pub(super) fn next_tell(&self) -> Option<u64> {
        self.pending.then_some(self.told_ms + TELL_EVERY_MS)
    }

    pub(super) fn tell_if_due(&mut self, spec: &RunSpec, state: &State) {
        let now = clock::monotonic_ms();
        if !self.pending || now < self.told_ms + TELL_EVERY_MS || self.peers.is_empty() {
            return;
        }
        self.pending = false;
        self.told_ms = now;
        let (status, activity) = match &state.phase {
            Phase::Waiting(reason) => ("waiting", reason.activity()),
            Phase::Stopping => ("stopping", "stopping".to_owned()),
            Phase::Accepted | Phase::Running | Phase::Ended(_) => ("running", self.activity.clone()),
        };
        let progress = Progress {
            run_id: spec.id,
            agent: spec.agent.to_string(),
            status: status.to_owned(),
            elapsed_ms: now - self.started_ms,
            activity,
            text_tail: String::from_utf8_lossy(&self.tail).into_owned(),
        };
        let tell = Tell::Progress { progress };
        self.peers.retain_mut(|peer| peer.say_now(&tell).is_ok());
    }

    /// Tells everybody that the outcome is on disk, and sends the run's view to the door that started it. A peer that does
    /// not listen is not waited for.
    pub(super) async fn ended(&mut self, view: Option<RunView>) {
        let plain = wire::line(&Tell::Ended { view: None });
        let with_view = view.map(|view| wire::line(&Tell::Ended { view: Some(Box::new(view)) }));
        // A longer line could fill the peer's buffer; the door then reads the run from the disk.
        let mut with_view = with_view.filter(|line| line.len() <= VIEW_BYTES_MAX);
        for peer in &mut self.peers {
            // The first peer is the leash, while the door that holds it is there.
            let line = with_view.take();
            let said = peer.say_line(line.as_deref().unwrap_or(&plain));
            let _ = tokio::time::timeout(std::time::Duration::from_millis(100), said).await;
        }
    }
}
