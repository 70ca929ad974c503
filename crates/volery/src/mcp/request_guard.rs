//! The guard around every request: answers panics, refuses too many requests at once, and explains the handshake to a
//! client that skipped it.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolResult, ClientNotification, ClientRequest, ContentBlock, ErrorCode, ErrorData, ProtocolVersion,
    ServerConfig, ServerResult,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, Service};

use super::in_flight::{Admission, IN_FLIGHT_MAX, Ticket};

/// A code in the range that JSON-RPC reserves for servers.
pub(super) const BUSY: ErrorCode = ErrorCode(-32000);

/// The answer to a call that panicked. The panic hook has written the panic itself to stderr.
pub(super) const PANICKED: &str = "a defect in volery: this call panicked, and the server goes on. Runs are not affected; \
     list_runs shows whether one was started. The details are in the server's stderr";

/// The answer to a request beyond the limit.
pub(super) fn busy_message(at_most: usize) -> String {
    format!("{at_most} requests are already being worked on; wait for some of them, then try again")
}

/// A guarded handler.
#[derive(Debug)]
pub(super) struct RequestGuard<H> {
    handler: H,
    initialized: AtomicBool,
}

impl<H: ServerHandler> RequestGuard<H> {
    pub(super) fn new(handler: H) -> Self {
        Self { handler, initialized: AtomicBool::new(false) }
    }

    /// Refuses a request that comes before `initialize` and does not name its protocol version itself.
    fn check_lifecycle(
        &self,
        request: &ClientRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match request {
            ClientRequest::InitializeRequest(_) => self.initialized.store(true, Ordering::Relaxed),
            ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => {}
            _ if self.initialized.load(Ordering::Relaxed) || context.meta.protocol_version().is_some() => {}
            _ => {
                let message = "send initialize first, or give io.modelcontextprotocol/protocolVersion and \
                               io.modelcontextprotocol/clientCapabilities in params._meta of each request";
                return Err(ErrorData::invalid_params(message, None));
            }
        }
        Ok(())
    }
}

impl<H: ServerHandler> Service<RoleServer> for RequestGuard<H> {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let refusal = RequestRefusal {
            is_tool_call: matches!(request, ClientRequest::CallToolRequest(_)),
            version: context.protocol_version(),
        };
        // Held until the handler is done, because the id is in use until then.
        let ticket = context.extensions.get::<Ticket>().cloned();
        if ticket.as_ref().is_some_and(|ticket| ticket.admission() == Admission::OverLimit) {
            return refusal.into_result(BUSY, busy_message(IN_FLIGHT_MAX));
        }
        self.check_lifecycle(&request, &context)?;
        let handling = AssertUnwindSafe(Service::handle_request(&self.handler, request, context));
        let result = handling.catch_unwind().await;
        drop(ticket);
        let result =
            result.unwrap_or_else(|_| refusal.into_result(ErrorCode::INTERNAL_ERROR, PANICKED.to_owned()));
        result.map_err(explain_missing_method)
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Service::handle_notification(&self.handler, notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        ServerHandler::get_info(&self.handler)
    }
}

/// Explains a missing method, for which the library reports only the name.
pub(super) fn explain_missing_method(mut error: ErrorData) -> ErrorData {
    if error.code == ErrorCode::METHOD_NOT_FOUND && !error.message.contains(' ') {
        error.message = format!(
            "this server has no method {}; the capabilities in its answer to initialize say what it offers",
            error.message
        )
        .into();
    }
    error
}

/// How to refuse a request.
struct RequestRefusal {
    is_tool_call: bool,
    version: Option<ProtocolVersion>,
}

impl RequestRefusal {
    /// Returns an error that the model can read for a tool call, and a protocol error for other requests.
    fn into_result(self, code: ErrorCode, message: String) -> Result<ServerResult, ErrorData> {
        if !self.is_tool_call {
            return Err(ErrorData::new(code, message, None));
        }
        let mut result =
            ServerResult::CallToolResult(CallToolResult::error(vec![ContentBlock::text(message)]));
        if self.version.is_none_or(|version| version < ProtocolVersion::V_2026_07_28) {
            result.strip_result_type_for_legacy_peer();
        }
        Ok(result)
    }
}
