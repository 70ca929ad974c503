//! The leashes of the runs that this door started: a word to each when the door leaves, and signs of life from
//! each while it stays.

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use domain::id::RunId;
use domain::run::{OnDisconnect, RunSpec};
use tokio::sync::watch;

use super::{Progress, RunView};
use crate::wire::{self, Inbound, Tell, Word};

/// What is known of a run through its leash.
#[derive(Debug, Clone)]
pub(super) enum Heard {
    Nothing,
    Progress(Progress),
    /// The end is on disk. With the view that the worker sent, if it sent one.
    Ended(Option<Arc<RunView>>),
    /// The other side is gone; the journal tells the rest.
    Closed,
}

struct Leash {
    stream: UnixStream,
    policy: OnDisconnect,
    heard: watch::Receiver<Heard>,
    /// What was written for the run, unless it is long.
    spec: Option<Arc<RunSpec>>,
}

/// The longest texts of a spec that are held for as long as the run goes on.
const HELD_BYTES_MAX: usize = 64 << 10;

#[derive(Default)]
pub(super) struct Leashes {
    held: Arc<Mutex<HashMap<RunId, Leash>>>,
    /// The door has left: whatever is started yet is told so at once.
    left: AtomicBool,
    /// How many runs of this door have ended.
    ended: Arc<watch::Sender<u64>>,
}

impl Leashes {
    /// Takes hold of a run that was just started.
    pub(super) fn hold(
        &self,
        spec: RunSpec,
        stream: UnixStream,
        policy: OnDisconnect,
    ) -> std::io::Result<()> {
        let run = spec.id;
        let texts = [&spec.prompt, &spec.system_prompt];
        let is_short = texts.iter().map(|text| text.len()).sum::<usize>() <= HELD_BYTES_MAX;
        let spec = is_short.then(|| Arc::new(spec));
        stream.set_nonblocking(true)?;
        let listening = tokio::net::UnixStream::from_std(stream.try_clone()?)?;
        let (told, heard) = watch::channel(Heard::Nothing);
        let mut leashes = self.lock();
        if self.left.load(Ordering::Relaxed) {
            say_left(&stream, policy);
        }
        leashes.insert(run, Leash { stream, policy, heard, spec });
        drop(leashes);
        let held = Arc::clone(&self.held);
        let ended = Arc::clone(&self.ended);
        tokio::spawn(async move {
            listen(listening, told).await;
            held.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
            ended.send_modify(|count| *count += 1);
        });
        Ok(())
    }

    pub(super) fn heard(&self, run: RunId) -> Option<watch::Receiver<Heard>> {
        self.lock().get(&run).map(|leash| leash.heard.clone())
    }

    /// Returns what was written for a run that this door has started and that goes on.
    pub(super) fn spec(&self, run: RunId) -> Option<Arc<RunSpec>> {
        self.lock().get(&run)?.spec.clone()
    }

    /// Counts the runs of this door that have ended.
    pub(super) fn ended(&self) -> watch::Receiver<u64> {
        self.ended.subscribe()
    }

    /// The run goes on whatever becomes of this door.
    pub(super) fn detach(&self, run: RunId) {
        if let Some(leash) = self.lock().get_mut(&run) {
            leash.policy = OnDisconnect::Continue;
        }
    }

    /// Says over each leash what shall happen. Never waits: a word is smaller than any socket's buffer.
    pub(super) fn leave(&self) {
        let mut leashes = self.lock();
        self.left.store(true, Ordering::Relaxed);
        for (_, leash) in leashes.drain() {
            say_left(&leash.stream, leash.policy);
        }
    }

    /// Tells whether the door has left, so that nothing new is begun.
    pub(super) fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Leash>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn say_left(mut stream: &UnixStream, policy: OnDisconnect) {
    // A run that ended meanwhile no longer listens.
    let _ = stream.write_all(&wire::line(&Word::Left { policy }));
}

/// Passes on what a run tells until it has ended or is gone.
pub(super) async fn listen(stream: tokio::net::UnixStream, told: watch::Sender<Heard>) {
    let (mut hearing, _saying) = wire::split(stream, Inbound::default());
    let mut ended = false;
    while let Some(tell) = hearing.hear::<Tell>().await {
        let heard = match tell {
            Tell::Progress { progress } => Heard::Progress(progress),
            Tell::Ended { view } => {
                ended = true;
                Heard::Ended(view.map(Arc::from))
            }
            Tell::Answer { .. } | Tell::Refused { .. } => continue,
        };
        if told.send(heard).is_err() {
            return;
        }
    }
    // An end says more than that nobody is there any more.
    if !ended {
        // Nobody may be waiting.
        let _ = told.send(Heard::Closed);
    }
}

/// Makes the two ends of a leash; the far one is inherited by the keeper.
pub(super) fn pair() -> std::io::Result<(UnixStream, OwnedFd)> {
    let (near, far) = UnixStream::pair()?;
    Ok((near, OwnedFd::from(far)))
}
