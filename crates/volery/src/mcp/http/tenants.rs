//! One service of the library for each token: with its own sessions, and handlers that see only the token's runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::handler::server::ServerHandler;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::counters::Counters;
use super::http_backend::Handlers;
use super::limits::HttpLimits;
use super::panic_guard::{PanicGuard, RequestSlots};
use super::sessions::Sessions;
use engine::EngineError;

pub(super) struct Tenant<H> {
    pub(super) service: StreamableHttpService<PanicGuard<H>, Sessions>,
    pub(super) sessions: Arc<Sessions>,
}

pub(super) struct Tenants<H> {
    by_caller: Mutex<HashMap<String, Arc<Tenant<H>>>>,
    limits: HttpLimits,
    counters: Arc<Counters>,
    slots: RequestSlots,
    /// Ends every stream.
    closing: CancellationToken,
}

impl<H: ServerHandler> Tenants<H> {
    pub(super) fn new(
        limits: HttpLimits,
        counters: Arc<Counters>,
        slots: RequestSlots,
        closing: CancellationToken,
    ) -> Self {
        Self { by_caller: Mutex::default(), limits, counters, slots, closing }
    }

    /// Returns the service of a caller, and creates it for the first request. There is one per token, whose number is limited.
    pub(super) fn get_or_create(
        &self,
        caller: &str,
        handlers: impl FnOnce() -> Result<Handlers<H>, EngineError>,
    ) -> Result<Arc<Tenant<H>>, EngineError> {
        let mut tenants = self.by_caller.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tenant) = tenants.get(caller) {
            return Ok(Arc::clone(tenant));
        }
        let tenant = Arc::new(self.tenant(handlers()?));
        tenants.insert(caller.to_owned(), Arc::clone(&tenant));
        Ok(tenant)
    }

    fn tenant(&self, handlers: Handlers<H>) -> Tenant<H> {
        let sessions = Arc::new(Sessions::new(Arc::clone(&self.counters), &self.limits));
        let config = StreamableHttpServerConfig::default()
            .with_sse_keep_alive(Some(self.limits.keepalive_interval))
            .with_max_request_body_bytes(self.limits.body_bytes)
            // The router has checked both already, for every path.
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_cancellation_token(self.closing.child_token());
        let slots = self.slots.clone();
        let make = move || Ok(PanicGuard::new(handlers(), slots.clone()));
        let service = StreamableHttpService::new(make, Arc::clone(&sessions), config);
        Tenant { service, sessions }
    }
}
