//! A door inside a run: sends every request to the run's worker over the run's socket, which a process finds by its
//! tag, independent of its environment.

use std::path::PathBuf;

use process::{self, Membership};
use serde::de::DeserializeOwned;

use crate::api::{EngineError, Progress};
use crate::clock;
use crate::env;
use crate::ipc::run_socket;
use crate::ipc::wire::{self, DoorMessage, LineBuffer, RunMessage};

/// Returns the tag of the run that this door is in. A door with an unclear membership is refused: outside of runs it
/// would have the rights of the machine's owner.
pub(crate) fn own_run_tag() -> Result<Option<u64>, EngineError> {
    let variable = env::get(process::TAG_VARIABLE);
    let variable = variable.as_ref().map(|value| value.to_string_lossy());
    match process::membership(clock::TAG_MIN, variable.as_deref()) {
        Membership::Outside => Ok(None),
        Membership::Run(tag) => Ok(Some(tag)),
        Membership::Unclear(reason) => Err(unclear_membership(&reason)),
    }
}

fn unclear_membership(reason: &str) -> EngineError {
    let message = format!("it is not clear whether this process is inside a run: {reason}");
    EngineError::denied(message).hint(
        "Volery marks the processes of a run by the limit on file locks (RLIMIT_LOCKS); outside of runs that has to be \
         unlimited: ulimit -x unlimited, LimitLOCKS=infinity in a unit of systemd, or `locks` in \
         /etc/security/limits.conf, and VOLERY_RUN_TAG must not be set",
    )
}

/// The connection of a door inside a run to the run's worker.
pub struct Relay {
    socket: PathBuf,
}

impl Relay {
    /// Creates a relay to the worker of the run with this tag.
    pub(crate) fn new(tag: u64) -> Result<Self, EngineError> {
        let home = env::state_home().ok_or_else(|| {
            unreachable_worker("VOLERY_HOME, or HOME if that is not set, must be an absolute path")
        })?;
        Ok(Self { socket: run_socket::path_in(&home, tag) })
    }

    /// Sends a request to the worker, and forwards progress until it answers.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        request: serde_json::Value,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<T, EngineError> {
        let stream =
            run_socket::connect(&self.socket).map_err(|error| unreachable_worker(&error.to_string()))?;
        let stream = stream.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(stream));
        let stream = stream.map_err(|error| unreachable_worker(&error.to_string()))?;
        let (mut receiver, mut sender) = wire::split(stream, LineBuffer::default());
        let request_message = DoorMessage::Ask { request };
        sender.send(&request_message).await.map_err(|error| unreachable_worker(&error.to_string()))?;
        while let Some(message) = receiver.recv::<RunMessage>().await {
            match message {
                RunMessage::Progress { progress: update } => progress(update),
                RunMessage::Refused { error } => return Err(error),
                RunMessage::Answer { value } => {
                    let answer = serde_json::from_value(value);
                    return answer.map_err(|error| {
                        EngineError::internal(format!("could not read the answer: {error}"))
                    });
                }
                RunMessage::Ended { .. } => {}
            }
        }
        Err(unreachable_worker("it closed the connection; the run is ending"))
    }
}

fn unreachable_worker(reason: &str) -> EngineError {
    let message = format!("this process is inside a run, and the run's worker cannot be reached: {reason}");
    EngineError::denied(message)
        .hint("child runs are started through the worker; VOLERY_HOME must be as it was outside")
}
