//! Serves many clients over HTTP until somebody wants the server to leave. Runs go on as they were told.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::options::{Options, Pace};
use super::super::serve::{Left, stop_signals};
use super::allowed::Allowed;
use super::counters::Counted;
use super::door::Door;
use super::house::House;
use super::limits::Limits;
use super::product::Product;
use crate::app::App;

/// What one more connection than the most is told.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nretry-after: 1\r\nconnection: close\r\n\
    content-length: 46\r\n\r\nthis server has as many clients as it can have";
/// How many are told so at a time; beyond that connections are closed without a word.
const TOLD_MAX: usize = 64;
const TOLD_WITHIN: Duration = Duration::from_secs(1);
/// How long nothing is accepted after that failed, which it does when there are no descriptors left.
const BREATH: Duration = Duration::from_millis(50);

/// A place that clients can connect to.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl Listening {
    pub(crate) async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { address: listener.local_addr()?, listener })
    }
}

/// Tells whether only this machine can connect to an address.
pub(crate) fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Serves the app until a signal comes.
pub(crate) async fn serve(
    listening: Listening,
    app: Arc<App>,
    options: Options,
    allowed: Allowed,
) -> io::Result<Left> {
    let stop = stop_signals()?;
    let pace = options.pace.clone();
    let door = Door::new(Arc::new(Product { app, options }), allowed, Limits::default());
    Ok(serve_door(listening, Arc::new(door), &pace, stop).await)
}

/// Serves any house until somebody wants it to stop.
pub(super) async fn serve_door<H: House>(
    listening: Listening,
    door: Arc<Door<H>>,
    pace: &Pace,
    stop: impl Future<Output = Left>,
) -> Left {
    let connections = TaskTracker::new();
    let shutdown = CancellationToken::new();
    let told = Arc::new(AtomicUsize::new(0));
    let mut stop = pin!(stop);
    let left = loop {
        tokio::select! {
            biased;
            left = &mut stop => break left,
            accepted = listening.listener.accept() => match accepted {
                Ok((stream, _)) if door.counters.connections.load(Ordering::Relaxed) < door.limits.connections => {
                    door.counters.connections_accepted.fetch_add(1, Ordering::Relaxed);
                    let counted = OwnCount::new(&door);
                    connections.spawn(converse(stream, counted, shutdown.clone()));
                }
                Ok((stream, _)) => {
                    door.counters.connections_refused.fetch_add(1, Ordering::Relaxed);
                    if told.load(Ordering::Relaxed) < TOLD_MAX {
                        connections.spawn(tell_full(stream, Arc::clone(&told)));
                    }
                }
                Err(_) => sleep(BREATH).await,
            },
        }
    };
    drop(listening);
    door.house.leave();
    // Calls that are as good as done may finish; those that wait for a run then answer with its handle.
    if timeout(pace.leave_ready, door.places.emptied()).await.is_err() {
        door.leaving.cancel();
        // The rest is not ready, and is not waited for.
        let _ = timeout(pace.leave_answer, door.places.emptied()).await;
    }
    door.leaving.cancel();
    shutdown.cancel();
    connections.close();
    // What is answered is written first; only then are the streams ended that would go on.
    if timeout(pace.leave_write, connections.wait()).await.is_err() {
        door.closing.cancel();
        let _ = timeout(pace.leave_write, connections.wait()).await;
    }
    left
}

/// A connection that is counted as long as it lives.
struct OwnCount<H: House>(Arc<Door<H>>);

impl<H: House> OwnCount<H> {
    fn new(door: &Arc<Door<H>>) -> Self {
        door.counters.connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(door))
    }
}

impl<H: House> Drop for OwnCount<H> {
    fn drop(&mut self) {
        self.0.counters.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn converse<H: House>(stream: TcpStream, counted: OwnCount<H>, shutdown: CancellationToken) {
    // Only slower without it.
    let _ = stream.set_nodelay(true);
    let door = Arc::clone(&counted.0);
    let limits = door.limits.clone();
    let answer = service_fn(move |request| {
        let door = Arc::clone(&door);
        async move { Ok::<_, Infallible>(door.answer(request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.head_time).max_header_size(limits.head_bytes);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    // An error is a client that spoke no HTTP, was too slow, or is gone: there is nobody to tell.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
    drop(counted);
}

async fn tell_full(mut stream: TcpStream, told: Arc<AtomicUsize>) {
    let _counted = Counted::new(&told);
    // Whoever does not listen is not told.
    let _ = timeout(TOLD_WITHIN, async {
        stream.write_all(FULL).await?;
        stream.shutdown().await?;
        // What it sends is read over, else the end of the connection would overtake the answer.
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    })
    .await;
}
