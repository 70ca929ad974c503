//! Serves connections to the run's socket: of doors that watch or wake the worker, and of the run's own agent with
//! requests.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

use super::supervisor::WorkerEvent;
use crate::api::{EngineError, Progress};
use crate::engine::Engine;
use crate::ipc::wire::{self, DoorMessage, LineBuffer, MessageSender, RunMessage};
use crate::relayed_requests;

/// The most connections at a time.
const CONNECTIONS_MAX: usize = 128;

/// The pause after an accept that failed.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Accepts connections for as long as the run lives.
pub(super) async fn accept(
    listener: UnixListener,
    tag: u64,
    attempt: Rc<Cell<usize>>,
    events_tx: mpsc::Sender<WorkerEvent>,
) {
    let slots = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // For example too many open files: others may be closed by then.
            Err(_) => {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else { continue };
        let (events_tx, attempt) = (events_tx.clone(), attempt.get());
        tokio::task::spawn_local(async move {
            serve_connection(stream, tag, attempt, events_tx).await;
            drop(slot);
        });
    }
}

async fn serve_connection(
    stream: UnixStream,
    tag: u64,
    attempt: usize,
    events_tx: mpsc::Sender<WorkerEvent>,
) {
    // All processes of an attempt are gone before the next one starts, so a live process belongs to the current
    // attempt.
    let is_own_process = is_process_of_run(&stream, tag);
    let (mut receiver, sender) = wire::split(stream, LineBuffer::default());
    let mut sender = Some(sender);
    while let Some(message) = receiver.recv::<DoorMessage>().await {
        match message {
            DoorMessage::CheckInbox => {
                if events_tx.send(WorkerEvent::CheckInbox).await.is_err() {
                    return;
                }
            }
            DoorMessage::Watch => {
                let Some(sender) = sender.take() else { return };
                if events_tx.send(WorkerEvent::Subscriber(sender)).await.is_err() {
                    return;
                }
            }
            DoorMessage::Ask { request } => {
                let Some(mut out) = sender.take() else { return };
                let reply = if is_own_process {
                    forward_request(attempt, request, &mut out, &events_tx).await
                } else {
                    RunMessage::Refused {
                        error: EngineError::denied("only a process of this run may ask it for something"),
                    }
                };
                if out.send(&reply).await.is_err() {
                    return;
                }
                sender = Some(out);
            }
            // Only the door that holds the run's channel may send these.
            DoorMessage::Go | DoorMessage::Abort | DoorMessage::Disconnecting { .. } => return,
        }
    }
}

/// Returns whether the peer is a process of this run, by the credentials from the kernel.
fn is_process_of_run(stream: &UnixStream, tag: u64) -> bool {
    let pid = stream.peer_cred().ok().and_then(|credentials| credentials.pid());
    pid.and_then(process::Pid::from_raw).is_some_and(|pid| process::belongs_to_own_run(pid, tag))
}

/// Passes a request to the supervisor, and forwards progress until the answer arrives.
async fn forward_request(
    attempt: usize,
    request: serde_json::Value,
    out: &mut MessageSender,
    events_tx: &mpsc::Sender<WorkerEvent>,
) -> RunMessage {
    let run_is_ending = || RunMessage::Refused { error: EngineError::internal("the run is ending") };
    let (reply, mut answer) = oneshot::channel();
    let (progress_tx, mut progress_rx) = mpsc::channel::<Progress>(16);
    if events_tx.send(WorkerEvent::Ask { attempt, request, reply, progress_tx }).await.is_err() {
        return run_is_ending();
    }
    loop {
        tokio::select! {
            answer = &mut answer => return answer.unwrap_or_else(|_| run_is_ending()),
            Some(progress) = progress_rx.recv() => {
                if out.send(&RunMessage::Progress { progress }).await.is_err() {
                    return run_is_ending();
                }
            }
        }
    }
}

/// Answers a request of the run's agent. The supervisor itself handles starts, since it knows the remaining budget.
pub(super) async fn answer_request(
    engine: Arc<Engine>,
    request: serde_json::Value,
    progress_tx: mpsc::Sender<Progress>,
) -> RunMessage {
    let mut forward = move |progress: Progress| {
        // If the channel is full, this progress message is dropped.
        let _ = progress_tx.try_send(progress);
    };
    match relayed_requests::serve(&engine, request, &mut forward).await {
        Ok(value) => RunMessage::Answer { value },
        Err(error) => RunMessage::Refused { error },
    }
}
