//! The channels to the runs that this door started: a message to each when the door disconnects, and progress from
//! each meanwhile.

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use domain::id::RunId;
use domain::run::{OnDisconnect, RunSpec};
use tokio::sync::watch;

use crate::api::{Progress, RunView};
use crate::ipc::wire::{self, DoorMessage, LineBuffer, RunMessage};

/// The latest message from a run.
#[derive(Debug, Clone)]
pub(crate) enum RunUpdate {
    Nothing,
    Progress(Progress),
    /// The end is on disk. With the view of the run, if the worker sent one.
    Ended(Option<Arc<RunView>>),
    /// The other side is gone; the journal has the rest.
    Closed,
}

struct RunChannel {
    stream: UnixStream,
    policy: OnDisconnect,
    updates: watch::Receiver<RunUpdate>,
    /// The spec of the run, unless it is long.
    spec: Option<Arc<RunSpec>>,
}

/// The longest prompts of a spec that is held in memory while the run lives.
const SPEC_BYTES_MAX: usize = 64 << 10;

#[derive(Default)]
pub(crate) struct RunChannels {
    open_channels: Arc<Mutex<HashMap<RunId, RunChannel>>>,
    /// The door has disconnected: a run that is added later gets the message at once.
    disconnected: AtomicBool,
    /// How many runs of this door have ended.
    ended: Arc<watch::Sender<u64>>,
}

impl RunChannels {
    /// Adds a run that was just started.
    pub(crate) fn add(&self, spec: RunSpec, stream: UnixStream, policy: OnDisconnect) -> std::io::Result<()> {
        let run = spec.id;
        let texts = [&spec.prompt, &spec.system_prompt];
        let is_short = texts.iter().map(|text| text.len()).sum::<usize>() <= SPEC_BYTES_MAX;
        let spec = is_short.then(|| Arc::new(spec));
        stream.set_nonblocking(true)?;
        let reader = tokio::net::UnixStream::from_std(stream.try_clone()?)?;
        let (updates_tx, updates) = watch::channel(RunUpdate::Nothing);
        let mut channels = self.lock();
        if self.disconnected.load(Ordering::Relaxed) {
            send_disconnecting(&stream, policy);
        }
        channels.insert(run, RunChannel { stream, policy, updates, spec });
        drop(channels);
        let open_channels = Arc::clone(&self.open_channels);
        let ended = Arc::clone(&self.ended);
        tokio::spawn(async move {
            forward_updates(reader, updates_tx).await;
            open_channels.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
            ended.send_modify(|count| *count += 1);
        });
        Ok(())
    }

    pub(crate) fn updates(&self, run: RunId) -> Option<watch::Receiver<RunUpdate>> {
        self.lock().get(&run).map(|channel| channel.updates.clone())
    }

    /// Returns the spec of a live run that this door has started.
    pub(crate) fn spec(&self, run: RunId) -> Option<Arc<RunSpec>> {
        self.lock().get(&run)?.spec.clone()
    }

    /// Counts the runs of this door that have ended.
    pub(crate) fn ended(&self) -> watch::Receiver<u64> {
        self.ended.subscribe()
    }

    /// Lets the run continue without this door.
    pub(crate) fn detach(&self, run: RunId) {
        if let Some(channel) = self.lock().get_mut(&run) {
            channel.policy = OnDisconnect::Continue;
        }
    }

    /// Sends the disconnect policy over each channel. Never waits: the message is smaller than any socket's buffer.
    pub(crate) fn disconnect(&self) {
        let mut channels = self.lock();
        self.disconnected.store(true, Ordering::Relaxed);
        for (_, channel) in channels.drain() {
            send_disconnecting(&channel.stream, channel.policy);
        }
    }

    /// Returns whether the door has disconnected, so that it starts nothing more.
    pub(crate) fn is_disconnected(&self) -> bool {
        self.disconnected.load(Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, RunChannel>> {
        self.open_channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn send_disconnecting(mut stream: &UnixStream, policy: OnDisconnect) {
    // A run that ended meanwhile no longer reads.
    let _ = stream.write_all(&wire::encode_line(&DoorMessage::Disconnecting { policy }));
}

/// Forwards the messages of a run until it has ended or is gone.
pub(crate) async fn forward_updates(stream: tokio::net::UnixStream, updates_tx: watch::Sender<RunUpdate>) {
    let (mut receiver, _sender) = wire::split(stream, LineBuffer::default());
    let mut ended = false;
    while let Some(message) = receiver.recv::<RunMessage>().await {
        let update = match message {
            RunMessage::Progress { progress } => RunUpdate::Progress(progress),
            RunMessage::Ended { view } => {
                ended = true;
                RunUpdate::Ended(view.map(Arc::from))
            }
            RunMessage::Answer { .. } | RunMessage::Refused { .. } => continue,
        };
        if updates_tx.send(update).is_err() {
            return;
        }
    }
    // An end says more than a closed channel.
    if !ended {
        // There may be no receiver.
        let _ = updates_tx.send(RunUpdate::Closed);
    }
}

/// Creates the two ends of a channel; the keeper inherits the second one.
pub(crate) fn create_pair() -> std::io::Result<(UnixStream, OwnedFd)> {
    let (door_end, keeper_end) = UnixStream::pair()?;
    Ok((door_end, OwnedFd::from(keeper_end)))
}
