//! A door inside a run: every request goes to the run's worker over the run's socket, which a process finds by
//! the tag it carries, whatever became of its environment.

use std::path::PathBuf;

use backend::process::{self, Membership};
use serde::de::DeserializeOwned;

use super::{AppError, Progress, Request};
use crate::wire::{self, Inbound, Tell, Word};
use crate::{clock, env, sockets};

/// Returns the tag of the run that this door is in. A door that cannot tell is refused: outside of runs it would have the
/// rights of the machine's owner.
pub(super) fn own_run_tag() -> Result<Option<u64>, AppError> {
    let variable = env::get(process::TAG_VARIABLE);
    let variable = variable.as_ref().map(|value| value.to_string_lossy());
    match process::membership(clock::TAG_MIN, variable.as_deref()) {
        Membership::Outside => Ok(None),
        Membership::Run(tag) => Ok(Some(tag)),
        Membership::Unclear(reason) => Err(unclear_membership(&reason)),
    }
}

fn unclear_membership(reason: &str) -> AppError {
    let message = format!("it is not clear whether this process is inside a run: {reason}");
    AppError::denied(message).hint(
        "Volery marks the processes of a run by the limit on file locks (RLIMIT_LOCKS); outside of runs that has to be \
         unlimited: ulimit -x unlimited, LimitLOCKS=infinity in a unit of systemd, or `locks` in \
         /etc/security/limits.conf, and VOLERY_RUN_TAG must not be set",
    )
}

pub(super) struct Relay {
    socket: PathBuf,
}

impl Relay {
    /// Returns the way to the worker of the run that carries this tag.
    pub(super) fn new(tag: u64) -> Result<Self, AppError> {
        let home = env::state_home().ok_or_else(|| {
            unreachable_worker("VOLERY_HOME, or HOME if that is not set, must be an absolute path")
        })?;
        Ok(Self { socket: sockets::path_in(&home, tag) })
    }

    /// Asks the worker, passing on signs of life until it answers.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        request: Request,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<T, AppError> {
        let stream =
            sockets::connect(&self.socket).map_err(|error| unreachable_worker(&error.to_string()))?;
        let stream = stream.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(stream));
        let stream = stream.map_err(|error| unreachable_worker(&error.to_string()))?;
        let (mut hearing, mut saying) = wire::split(stream, Inbound::default());
        let word = Word::Ask { request: Box::new(request) };
        saying.say(&word).await.map_err(|error| unreachable_worker(&error.to_string()))?;
        while let Some(tell) = hearing.hear::<Tell>().await {
            match tell {
                Tell::Progress { progress: sign } => progress(sign),
                Tell::Refused { error } => return Err(error),
                Tell::Answer { value } => {
                    let answer = serde_json::from_value(value);
                    return answer
                        .map_err(|error| AppError::internal(format!("could not read the answer: {error}")));
                }
                Tell::Ended { .. } => {}
            }
        }
        Err(unreachable_worker("it closed the connection; the run is ending"))
    }
}

fn unreachable_worker(reason: &str) -> AppError {
    let message = format!("this process is inside a run, and the run's worker cannot be reached: {reason}");
    AppError::denied(message)
        .hint("child runs are started through the worker; VOLERY_HOME must be as it was outside")
}
