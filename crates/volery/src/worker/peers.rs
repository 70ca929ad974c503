//! Who connects to the run's socket: doors that watch or nudge, and the run's own agent with requests.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use backend::process;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

use super::desk::Seen;
use crate::app::{AppError, Engine, Progress, Request};
use crate::wire::{self, Inbound, Saying, Tell, Word};

/// The most connections at a time.
const CONNECTIONS_MAX: usize = 128;

/// Between an accept that failed and the next try.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Accepts connections for as long as the run lives.
pub(super) async fn accept(
    listener: UnixListener,
    tag: u64,
    attempt: Rc<Cell<usize>>,
    desk: mpsc::Sender<Seen>,
) {
    let places = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // Too many open files, say: others may be closed by then.
            Err(_) => {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let (desk, attempt) = (desk.clone(), attempt.get());
        tokio::task::spawn_local(async move {
            attend(stream, tag, attempt, desk).await;
            drop(place);
        });
    }
}

async fn attend(stream: UnixStream, tag: u64, attempt: usize, desk: mpsc::Sender<Seen>) {
    // All processes of an attempt are gone before the next one begins, so one that lives is of the attempt under way.
    let inside = is_inside(&stream, tag);
    let (mut hearing, saying) = wire::split(stream, Inbound::default());
    let mut saying = Some(saying);
    while let Some(word) = hearing.hear::<Word>().await {
        match word {
            Word::Look => {
                if desk.send(Seen::Look).await.is_err() {
                    return;
                }
            }
            Word::Watch => {
                let Some(saying) = saying.take() else { return };
                if desk.send(Seen::Watcher(saying)).await.is_err() {
                    return;
                }
            }
            Word::Ask { request } => {
                let Some(mut out) = saying.take() else { return };
                let tell = if inside {
                    ask(attempt, *request, &mut out, &desk).await
                } else {
                    Tell::Refused {
                        error: AppError::denied("only a process of this run may ask it for something"),
                    }
                };
                if out.say(&tell).await.is_err() {
                    return;
                }
                saying = Some(out);
            }
            // Only the door that holds the leash may say these.
            Word::Go | Word::Abort | Word::Left { .. } => return,
        }
    }
}

/// Tells by the kernel's word whether the peer is a process of this run.
fn is_inside(stream: &UnixStream, tag: u64) -> bool {
    let pid = stream.peer_cred().ok().and_then(|credentials| credentials.pid());
    pid.and_then(process::Pid::from_raw).is_some_and(|pid| process::is_of_own_run(pid, tag))
}

/// Hands a request to the desk and passes on signs of life until the answer is there.
async fn ask(attempt: usize, request: Request, out: &mut Saying, desk: &mpsc::Sender<Seen>) -> Tell {
    let gone = || Tell::Refused { error: AppError::internal("the run is ending") };
    let (reply, mut answer) = oneshot::channel();
    let (signs, mut seen_signs) = mpsc::channel::<Progress>(16);
    if desk.send(Seen::Ask { attempt, request: Box::new(request), reply, signs }).await.is_err() {
        return gone();
    }
    loop {
        tokio::select! {
            answer = &mut answer => return answer.unwrap_or_else(|_| gone()),
            Some(progress) = seen_signs.recv() => {
                if out.say(&Tell::Progress { progress }).await.is_err() {
                    return gone();
                }
            }
        }
    }
}

/// Answers a request of the run's agent. Starting was planned at the desk, which knows what is left to spend.
pub(super) async fn answer(engine: Arc<Engine>, request: Request, signs: mpsc::Sender<Progress>) -> Tell {
    let mut pass_on = move |progress: Progress| {
        // A full channel only means that a sign of life is skipped.
        let _ = signs.try_send(progress);
    };
    match engine.serve(request, &mut pass_on).await {
        Ok(value) => Tell::Answer { value },
        Err(error) => Tell::Refused { error },
    }
}
