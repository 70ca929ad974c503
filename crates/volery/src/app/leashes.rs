//! The leashes of the runs that this door started: a word to each when the door leaves, and signs of life from
//! each while it stays.

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use domain::id::RunId;
use domain::run::OnDisconnect;
use tokio::sync::watch;

use super::Progress;
use crate::wire::{self, Inbound, Tell, Word};

/// What is known of a run through its leash.
#[derive(Debug, Clone)]
pub(super) enum Heard {
    Nothing,
    Progress(Progress),
    Ended,
    /// The other side is gone; the journal tells the rest.
    Closed,
}

struct Leash {
    stream: UnixStream,
    policy: OnDisconnect,
    heard: watch::Receiver<Heard>,
}

#[derive(Default)]
pub(super) struct Leashes {
    held: Arc<Mutex<HashMap<RunId, Leash>>>,
    /// How many runs of this door have ended.
    ended: Arc<watch::Sender<u64>>,
}

impl Leashes {
    /// Takes hold of a run that was just started.
    pub(super) fn hold(&self, run: RunId, stream: UnixStream, policy: OnDisconnect) -> std::io::Result<()> {
        stream.set_nonblocking(true)?;
        let listening = tokio::net::UnixStream::from_std(stream.try_clone()?)?;
        let (told, heard) = watch::channel(Heard::Nothing);
        self.lock().insert(run, Leash { stream, policy, heard });
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
        for (_, leash) in self.lock().drain() {
            // A run that ended meanwhile no longer listens.
            let _ = (&leash.stream).write_all(&wire::line(&Word::Left { policy: leash.policy }));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Leash>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes on what a run tells until it has ended or is gone.
pub(super) async fn listen(stream: tokio::net::UnixStream, told: watch::Sender<Heard>) {
    let (mut hearing, _saying) = wire::split(stream, Inbound::default());
    while let Some(tell) = hearing.hear::<Tell>().await {
        let heard = match tell {
            Tell::Progress { progress } => Heard::Progress(progress),
            Tell::Ended => Heard::Ended,
            Tell::Answer { .. } | Tell::Refused { .. } => continue,
        };
        if told.send(heard).is_err() {
            return;
        }
    }
    // Nobody may be waiting.
    let _ = told.send(Heard::Closed);
}

/// Makes the two ends of a leash; the far one is inherited by the keeper.
pub(super) fn pair() -> std::io::Result<(UnixStream, OwnedFd)> {
    let (near, far) = UnixStream::pair()?;
    Ok((near, OwnedFd::from(far)))
}
