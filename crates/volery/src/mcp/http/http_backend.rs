//! What the HTTP server needs beyond the protocol: the holders of tokens, and the handlers of their requests. A trait, so
//! that tests can replace the engine.

use rmcp::handler::server::ServerHandler;
use tokio_util::sync::CancellationToken;

use engine::EngineFuture;
use engine::{EngineError, RunMetrics, TokenHolder};

/// Creates the handlers of one caller: the library needs a new one for each request.
pub(super) type Handlers<H> = Box<dyn Fn() -> H + Send + Sync>;

/// The engine behind the HTTP server.
pub(super) trait HttpBackend: Send + Sync + 'static {
    type Handler: ServerHandler;

    /// Returns the holder of a token.
    fn token_holder(&self, token: &str) -> Option<TokenHolder>;
    /// Returns the handlers for the holder of a token. `leaving` is cancelled when calls must answer now.
    fn handlers(
        &self,
        holder: &TokenHolder,
        leaving: CancellationToken,
    ) -> Result<Handlers<Self::Handler>, EngineError>;
    /// Returns the totals that the holder of a token may see.
    fn run_metrics(&self, holder: &TokenHolder) -> EngineFuture<'_, RunMetrics>;
    /// Tells the engine that the server stops.
    fn leave(&self);
}
