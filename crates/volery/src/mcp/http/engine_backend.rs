//! The real engine behind the HTTP server, as each token sees it.

use std::sync::Arc;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use super::super::handler::Handler;
use super::super::options::Options;
use super::http_backend::{Handlers, HttpBackend};
use engine::{EngineApi, EngineFuture};
use engine::{EngineError, EngineHandle, RunMetrics, TokenHolder};

pub(super) struct EngineBackend {
    pub(super) app: Arc<EngineHandle>,
    pub(super) options: Options,
}

impl HttpBackend for EngineBackend {
    type Handler = Handler;

    fn token_holder(&self, token: &str) -> Option<TokenHolder> {
        self.app.find_token_holder(token)
    }

    fn handlers(
        &self,
        holder: &TokenHolder,
        leaving: CancellationToken,
    ) -> Result<Handlers<Handler>, EngineError> {
        let engine: Arc<dyn EngineApi> = Arc::new(self.app.for_token_holder(holder)?);
        let options = Options { caller: Some(holder.name.clone()), ..self.options.clone() };
        Ok(Box::new(move || Handler::new(engine.clone(), options.clone(), leaving.clone())))
    }

    fn run_metrics(&self, holder: &TokenHolder) -> EngineFuture<'_, RunMetrics> {
        if holder.all_metrics {
            return self.app.ask(engine::GetRunMetrics).boxed();
        }
        let view = self.app.for_token_holder(holder);
        async move { view?.ask(engine::GetRunMetrics).await }.boxed()
    }

    fn leave(&self) {
        self.app.disconnect();
    }
}
