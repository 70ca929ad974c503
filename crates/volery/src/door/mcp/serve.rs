//! Serves one client over standard input and output until it goes away, or somebody wants the server to.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rmcp::service::{RoleServer, serve_directly_with_ct};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::front::Front;
use super::guard::Guard;
use super::handler::Handler;
use super::in_flight::InFlight;
use super::options::Options;
use super::stdio;
use super::transport::LineTransport;

/// Why the door left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// The client closed its end.
    Closed,
    Interrupted,
    Terminated,
}

/// Serves on the process's own standard input and output.
///
/// Everything is said and written when this returns. The reading thread may still be blocked, and calls may still
/// be waiting: drop the runtime with `shutdown_background`.
pub(crate) async fn serve(app: Arc<dyn Front>, options: Options) -> io::Result<Left> {
    // First of all, so that a signal during the start is not lost.
    let stop = stop_signals()?;
    serve_on(app, options, (io::stdin(), io::stdout()), stop).await
}

/// Returns what ends when somebody wants the server to. Signals are caught from here on.
pub(super) fn stop_signals() -> io::Result<impl Future<Output = Left>> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupts.recv() => Left::Interrupted,
            _ = terminations.recv() => Left::Terminated,
        }
    })
}

/// Serves on any pair of streams, until they close or somebody wants it to stop.
pub(super) async fn serve_on<I, O>(
    app: Arc<dyn Front>,
    options: Options,
    (input, output): (I, O),
    stop: impl Future<Output = Left>,
) -> io::Result<Left>
where
    I: Read + Send + 'static,
    O: Write + Send + 'static,
{
    let pace = options.pace.clone();
    let outbox = stdio::start_writer(output)?;
    let incoming = stdio::start_reader(input)?;
    let in_flight = Arc::new(InFlight::default());
    let ended = CancellationToken::new();
    let leaving = CancellationToken::new();
    let transport = LineTransport::new(incoming, outbox.clone(), in_flight.clone(), ended.clone());
    let handler = Handler::new(app.clone(), options, leaving.clone());
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
    app.leave();
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
