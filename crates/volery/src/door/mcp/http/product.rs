//! The house of the product: the app, as each token sees it.

use std::sync::Arc;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use super::super::front::{Answering, Front};
use super::super::handler::Handler;
use super::super::options::Options;
use super::house::{Handlers, House};
use crate::app::{App, AppError, Sums, TokenHolder};

pub(super) struct Product {
    pub(super) app: Arc<App>,
    pub(super) options: Options,
}

impl House for Product {
    type Handler = Handler;

    fn holder_of(&self, token: &str) -> Option<TokenHolder> {
        self.app.holder_of(token)
    }

    fn handlers(
        &self,
        holder: &TokenHolder,
        leaving: CancellationToken,
    ) -> Result<Handlers<Handler>, AppError> {
        let app: Arc<dyn Front> = Arc::new(self.app.seen_by(holder)?);
        let options = Options { caller: Some(holder.name.clone()), ..self.options.clone() };
        Ok(Box::new(move || Handler::new(app.clone(), options.clone(), leaving.clone())))
    }

    fn sums(&self, holder: &TokenHolder) -> Answering<'_, Sums> {
        if holder.all_metrics {
            return self.app.sums().boxed();
        }
        let seen = self.app.seen_by(holder);
        async move { seen?.sums().await }.boxed()
    }

    fn leave(&self) {
        self.app.leave();
    }
}
