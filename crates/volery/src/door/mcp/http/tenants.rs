//! One service of the library for each token that has come: with sessions of its own, and handlers that see only the
//! token's runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::handler::server::ServerHandler;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::counters::Counters;
use super::guarded::{Guarded, Places};
use super::house::Handlers;
use super::limits::Limits;
use super::sessions::Sessions;
use crate::app::AppError;

pub(super) struct Tenant<H> {
    pub(super) service: StreamableHttpService<Guarded<H>, Sessions>,
    pub(super) sessions: Arc<Sessions>,
}

pub(super) struct Tenants<H> {
    known: Mutex<HashMap<String, Arc<Tenant<H>>>>,
    limits: Limits,
    counters: Arc<Counters>,
    places: Places,
    /// Ends every stream.
    closing: CancellationToken,
}

impl<H: ServerHandler> Tenants<H> {
    pub(super) fn new(
        limits: Limits,
        counters: Arc<Counters>,
        places: Places,
        closing: CancellationToken,
    ) -> Self {
        Self { known: Mutex::default(), limits, counters, places, closing }
    }

    /// Returns the service of a caller, made when it comes for the first time. There are as many as there are tokens,
    /// whose number is bounded.
    pub(super) fn of(
        &self,
        caller: &str,
        handlers: impl FnOnce() -> Result<Handlers<H>, AppError>,
    ) -> Result<Arc<Tenant<H>>, AppError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tenant) = known.get(caller) {
            return Ok(Arc::clone(tenant));
        }
        let tenant = Arc::new(self.tenant(handlers()?));
        known.insert(caller.to_owned(), Arc::clone(&tenant));
        Ok(tenant)
    }

    fn tenant(&self, handlers: Handlers<H>) -> Tenant<H> {
        let sessions = Arc::new(Sessions::new(Arc::clone(&self.counters), &self.limits));
        let config = StreamableHttpServerConfig::default()
            .with_sse_keep_alive(Some(self.limits.sign_every))
            .with_max_request_body_bytes(self.limits.body_bytes)
            // The door has looked at both already, for every path.
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_cancellation_token(self.closing.child_token());
        let places = self.places.clone();
        let make = move || Ok(Guarded::new(handlers(), places.clone()));
        let service = StreamableHttpService::new(make, Arc::clone(&sessions), config);
        Tenant { service, sessions }
    }
}
