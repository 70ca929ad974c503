//! What the HTTP door needs beyond the protocol: who may come in, and who answers them. A trait, so that tests can put
//! another house behind the same door.

use rmcp::handler::server::ServerHandler;
use tokio_util::sync::CancellationToken;

use super::super::front::Answering;
use crate::app::{AppError, Sums, TokenHolder};

/// Makes the handlers of one caller: the library wants a new one for each request.
pub(super) type Handlers<H> = Box<dyn Fn() -> H + Send + Sync>;

/// Who is behind the door.
pub(super) trait House: Send + Sync + 'static {
    type Handler: ServerHandler;

    /// Returns whose a token is.
    fn holder_of(&self, token: &str) -> Option<TokenHolder>;
    /// Returns who answers the holder of a token. `leaving` is cancelled when answers have to be given now.
    fn handlers(
        &self,
        holder: &TokenHolder,
        leaving: CancellationToken,
    ) -> Result<Handlers<Self::Handler>, AppError>;
    /// Sums up what the holder of a token may know.
    fn sums(&self, holder: &TokenHolder) -> Answering<'_, Sums>;
    /// The server leaves.
    fn leave(&self);
}
