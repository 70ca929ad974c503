//! Serves many clients over HTTP until a signal stops the server. Runs then follow their `on_disconnect`.

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

use super::super::options::{Options, Timing};
use super::super::serve::{StopReason, stop_signals};
use super::counters::CounterGuard;
use super::engine_backend::EngineBackend;
use super::http_backend::HttpBackend;
use super::limits::HttpLimits;
use super::origin_check::OriginCheck;
use super::router::RequestRouter;
use engine::EngineHandle;

/// The response to a connection beyond the limit.
const SERVER_FULL_RESPONSE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nretry-after: 1\r\nconnection: close\r\n\
    content-length: 46\r\n\r\nthis server has as many clients as it can have";
/// How many such connections get the response at a time; others are closed without one.
const REJECTIONS_MAX: usize = 64;
const REJECTION_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause after a failed `accept`, for example without free file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// A bound listener.
#[derive(Debug)]
pub(crate) struct HttpListener {
    socket: TcpListener,
    pub(crate) address: SocketAddr,
}

impl HttpListener {
    pub(crate) async fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        Ok(Self { address: socket.local_addr()?, socket })
    }
}

/// Returns whether only this machine can connect to an address.
pub(crate) fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Serves the engine until a signal arrives.
pub(crate) async fn serve(
    listener: HttpListener,
    app: Arc<EngineHandle>,
    options: Options,
    origin_check: OriginCheck,
) -> io::Result<StopReason> {
    let stop = stop_signals()?;
    let timing = options.timing.clone();
    let router =
        RequestRouter::new(Arc::new(EngineBackend { app, options }), origin_check, HttpLimits::default());
    Ok(serve_connections(listener, Arc::new(router), &timing, stop).await)
}

/// Serves any backend until `stop` resolves.
pub(super) async fn serve_connections<H: HttpBackend>(
    listener: HttpListener,
    router: Arc<RequestRouter<H>>,
    timing: &Timing,
    stop: impl Future<Output = StopReason>,
) -> StopReason {
    let connections = TaskTracker::new();
    let shutdown = CancellationToken::new();
    let rejecting = Arc::new(AtomicUsize::new(0));
    let mut stop = pin!(stop);
    let reason = loop {
        tokio::select! {
            biased;
            reason = &mut stop => break reason,
            accepted = listener.socket.accept() => match accepted {
                Ok((stream, _)) if router.counters.connections.load(Ordering::Relaxed) < router.limits.connections => {
                    router.counters.connections_accepted.fetch_add(1, Ordering::Relaxed);
                    let counted = CountedConnection::new(&router);
                    connections.spawn(serve_connection(stream, counted, shutdown.clone()));
                }
                Ok((stream, _)) => {
                    router.counters.connections_refused.fetch_add(1, Ordering::Relaxed);
                    if rejecting.load(Ordering::Relaxed) < REJECTIONS_MAX {
                        connections.spawn(reject_connection(stream, Arc::clone(&rejecting)));
                    }
                }
                Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
            },
        }
    };
    drop(listener);
    router.backend.leave();
    // Calls that are almost done may finish; those that wait for a run then answer with its id.
    if timeout(timing.leave_ready, router.slots.wait_until_empty()).await.is_err() {
        router.leaving.cancel();
        // The remaining calls are not awaited.
        let _ = timeout(timing.leave_answer, router.slots.wait_until_empty()).await;
    }
    router.leaving.cancel();
    shutdown.cancel();
    connections.close();
    // Answers are written first; only then are the remaining streams closed.
    if timeout(timing.leave_write, connections.wait()).await.is_err() {
        router.closing.cancel();
        let _ = timeout(timing.leave_write, connections.wait()).await;
    }
    reason
}

/// A connection that is counted for as long as it lives.
struct CountedConnection<H: HttpBackend>(Arc<RequestRouter<H>>);

impl<H: HttpBackend> CountedConnection<H> {
    fn new(router: &Arc<RequestRouter<H>>) -> Self {
        router.counters.connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(router))
    }
}

impl<H: HttpBackend> Drop for CountedConnection<H> {
    fn drop(&mut self) {
        self.0.counters.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve_connection<H: HttpBackend>(
    stream: TcpStream,
    counted: CountedConnection<H>,
    shutdown: CancellationToken,
) {
    // Without it the connection is only slower.
    let _ = stream.set_nodelay(true);
    let router = Arc::clone(&counted.0);
    let limits = router.limits.clone();
    let answer = service_fn(move |request| {
        let router = Arc::clone(&router);
        async move { Ok::<_, Infallible>(router.answer(request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.head_time).max_header_size(limits.head_bytes);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    // An error means that the client does not speak HTTP, is too slow, or is gone. It cannot be answered.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
    drop(counted);
}

async fn reject_connection(mut stream: TcpStream, rejecting: Arc<AtomicUsize>) {
    let _counted = CounterGuard::new(&rejecting);
    // Best effort: the client may not read it.
    let _ = timeout(REJECTION_TIMEOUT, async {
        stream.write_all(SERVER_FULL_RESPONSE).await?;
        stream.shutdown().await?;
        // Drain the input: closing a socket with unread data would discard the response.
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    })
    .await;
}
