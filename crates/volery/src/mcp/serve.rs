//! Serves one client over standard input and output until it disconnects or a signal stops the server.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rmcp::service::{RoleServer, serve_directly_with_ct};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::handler::Handler;
use super::in_flight::InFlight;
use super::options::Options;
use super::request_guard::RequestGuard;
use super::stdio;
use super::transport::LineTransport;
use engine::EngineApi;

/// Why the server stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The client closed its end.
    Closed,
    Interrupted,
    Terminated,
}

/// Serves on the process's own standard input and output.
///
/// All answers are written when this returns. The reading thread may still be blocked, and calls may still be waiting:
/// drop the runtime with `shutdown_background`.
pub(crate) async fn serve(engine: Arc<dyn EngineApi>, options: Options) -> io::Result<StopReason> {
    // Before anything else, so that a signal during the start is not lost.
    let stop = stop_signals()?;
    serve_on(engine, options, (io::stdin(), io::stdout()), stop).await
}

/// Returns a future that resolves when a signal stops the server. Signals are caught from here on.
pub(super) fn stop_signals() -> io::Result<impl Future<Output = StopReason>> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupts.recv() => StopReason::Interrupted,
            _ = terminations.recv() => StopReason::Terminated,
        }
    })
}

/// Serves on any pair of streams, until they close or `stop` resolves.
pub(super) async fn serve_on<I, O>(
    engine: Arc<dyn EngineApi>,
    options: Options,
    (input, output): (I, O),
    stop: impl Future<Output = StopReason>,
) -> io::Result<StopReason>
where
    I: Read + Send + 'static,
    O: Write + Send + 'static,
{
    let timing = options.timing.clone();
    let outbox = stdio::start_writer(output)?;
    let incoming = stdio::start_reader(input)?;
    let in_flight = Arc::new(InFlight::default());
    let ended = CancellationToken::new();
    let leaving = CancellationToken::new();
    let transport = LineTransport::new(incoming, outbox.clone(), in_flight.clone(), ended.clone());
    let handler = Handler::new(engine.clone(), options, leaving.clone());
    // Without the library's own handshake, which ends the server if the first message is unexpected.
    let running = serve_directly_with_ct::<RoleServer, _, _, _, _>(
        RequestGuard::new(handler),
        transport,
        None,
        CancellationToken::new(),
    );
    let reason = tokio::select! {
        () = ended.cancelled() => StopReason::Closed,
        () = outbox.closed() => StopReason::Closed,
        reason = stop => reason,
    };
    engine.disconnect();
    // Calls that are almost done may finish; those that wait for a run then answer with its id.
    if timeout(timing.leave_ready, in_flight.wait_until_empty()).await.is_err() {
        leaving.cancel();
        // The remaining calls are not awaited.
        let _ = timeout(timing.leave_answer, in_flight.wait_until_empty()).await;
    }
    // A client that does not read loses its answers.
    let _ = timeout(timing.leave_write, outbox.flush()).await;
    leaving.cancel();
    // Not awaited, because the library would wait for calls in flight.
    drop(running);
    Ok(reason)
}
