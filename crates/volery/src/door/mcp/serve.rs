//! Serves one client over standard input and output until it goes away, or somebody wants the server to.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rmcp::service::{RoleServer, serve_directly_with_ct};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::clients::Waits;
use super::engine::Engine;
use super::guard::Guard;
use super::handler::{Handler, Pace};
use super::in_flight::InFlight;
use super::stdio;
use super::transport::LineTransport;

/// What can be set about the door.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    pub waits: Waits,
    pub pace: Pace,
}

/// Why the door left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The client closed its end.
    Closed,
    Interrupted,
    Terminated,
}

/// Serves on the process's own standard input and output.
///
/// Everything is said and written when this returns. The reading thread may still be blocked, and calls may still
/// be waiting: drop the runtime with `shutdown_background`.
pub async fn serve(engine: Arc<dyn Engine>, options: Options) -> io::Result<Left> {
    // First of all, so that a signal during the start is not lost.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let stop = async move {
        tokio::select! {
            _ = interrupts.recv() => Left::Interrupted,
            _ = terminations.recv() => Left::Terminated,
        }
    };
    serve_on(engine, options, (io::stdin(), io::stdout()), stop).await
}

/// Serves on any pair of streams, until they close or somebody wants it to stop.
pub(super) async fn serve_on<I, O>(
    engine: Arc<dyn Engine>,
    options: Options,
    (input, output): (I, O),
    stop: impl Future<Output = Left>,
) -> io::Result<Left>
where
    I: Read + Send + 'static,
    O: Write + Send + 'static,
{
    let Options { waits, pace } = options;
    let outbox = stdio::start_writer(output)?;
    let incoming = stdio::start_reader(input)?;
    let in_flight = Arc::new(InFlight::default());
    let ended = CancellationToken::new();
    let leaving = CancellationToken::new();
    let transport = LineTransport::new(incoming, outbox.clone(), in_flight.clone(), ended.clone());
    let handler = Handler::new(engine.clone(), pace.clone(), waits, leaving.clone());
    // Without the library's own handshake: it ends the server when the first message is not the one it expects.
    let running = serve_directly_with_ct::<RoleServer, _, _, _, _>(
        Guard::new(handler),
        transport,
        None,
        CancellationToken::new(),
    );
    let left = tokio::select! {
        () = ended.cancelled() => Left::Closed,
        () = outbox.closed() => Left::Closed,
        left = stop => left,
    };
    engine.leave();
    // Calls that are as good as done may finish; those that wait for a run then answer with its handle.
    if timeout(pace.leave_ready, in_flight.emptied()).await.is_err() {
        leaving.cancel();
        // The rest is not ready, and is not waited for.
        let _ = timeout(pace.leave_answer, in_flight.emptied()).await;
    }
    // A client that does not read loses what it does not read.
    let _ = timeout(pace.leave_write, outbox.flush()).await;
    leaving.cancel();
    // Not awaited: the library would wait for calls in flight.
    drop(running);
    Ok(left)
}
