//! The guard around every request: a panic becomes an answer, too many at once are turned away, and a client that
//! has not said which protocol it speaks is told how.

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

/// What JSON-RPC leaves to servers for errors of their own.
pub(super) const BUSY: ErrorCode = ErrorCode(-32000);

/// What is said of a call that panicked. The panic itself has been written to stderr by the panic hook.
pub(super) const PANICKED: &str = "a defect in volery: this call panicked, and the server goes on. Runs are not affected; \
     list_runs shows whether one was started. The details are in the server's stderr";

/// What is said of a request beyond the bound.
pub(super) fn busy(at_most: usize) -> String {
    format!("{at_most} requests are already being worked on; wait for some of them, then try again")
}

/// A handler, guarded.
#[derive(Debug)]
pub(super) struct Guard<H> {
    handler: H,
    initialized: AtomicBool,
}

impl<H: ServerHandler> Guard<H> {
    pub(super) fn new(handler: H) -> Self {
        Self { handler, initialized: AtomicBool::new(false) }
    }

    /// Refuses a request that comes before `initialize` and does not say for itself which protocol it speaks.
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

impl<H: ServerHandler> Service<RoleServer> for Guard<H> {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let refusal = Refusal {
            of_a_call: matches!(request, ClientRequest::CallToolRequest(_)),
            version: context.protocol_version(),
        };
        // Kept to the end, whatever becomes of the context: the id is in use until the handler is done.
        let ticket = context.extensions.get::<Ticket>().cloned();
        if ticket.as_ref().is_some_and(|ticket| ticket.admission() == Admission::OverLimit) {
            return refusal.because(BUSY, busy(IN_FLIGHT_MAX));
        }
        self.check_lifecycle(&request, &context)?;
        let handling = AssertUnwindSafe(Service::handle_request(&self.handler, request, context));
        let result = handling.catch_unwind().await;
        drop(ticket);
        let result =
            result.unwrap_or_else(|_| refusal.because(ErrorCode::INTERNAL_ERROR, PANICKED.to_owned()));
        result.map_err(in_a_sentence)
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

/// The library says of a method that is not there only its name.
pub(super) fn in_a_sentence(mut error: ErrorData) -> ErrorData {
    if error.code == ErrorCode::METHOD_NOT_FOUND && !error.message.contains(' ') {
        error.message = format!(
            "this server has no method {}; it offers tools, resources and tasks as its capabilities say",
            error.message
        )
        .into();
    }
    error
}

/// How a request of some kind is refused.
struct Refusal {
    of_a_call: bool,
    version: Option<ProtocolVersion>,
}

impl Refusal {
    /// A tool call is answered with an error that its model can read, anything else with one of the protocol.
    fn because(self, code: ErrorCode, message: String) -> Result<ServerResult, ErrorData> {
        if !self.of_a_call {
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
