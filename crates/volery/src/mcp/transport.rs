//! The library's transport over Volery's own lines: answers unreadable lines, refuses ids that are in flight, and records the
//! reason of a cancellation, which the library hides.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorCode, GetExtensions, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::in_flight::InFlight;
use super::jsonrpc_line::{Incoming, JsonRpcRefusal};
use super::stdio::{Outbox, OutputClosed};

/// Messages in, messages out.
#[derive(Debug)]
pub(super) struct LineTransport {
    incoming: mpsc::Receiver<Incoming>,
    outbox: Outbox,
    in_flight: Arc<InFlight>,
    ended: CancellationToken,
    /// A refusal that is not yet written. Reading pauses meanwhile, so that a client that does not read cannot make us
    /// accumulate answers.
    refusing: Option<oneshot::Receiver<()>>,
}

impl LineTransport {
    /// `ended` is cancelled at the end of the input.
    pub(super) fn new(
        incoming: mpsc::Receiver<Incoming>,
        outbox: Outbox,
        in_flight: Arc<InFlight>,
        ended: CancellationToken,
    ) -> Self {
        Self { incoming, outbox, in_flight, ended, refusing: None }
    }

    fn refuse(&mut self, refusals: &[JsonRpcRefusal]) {
        for refusal in refusals {
            self.refusing = Some(self.outbox.push(refusal.to_line()));
        }
    }

    /// Returns the message if it should be handled.
    fn admit(&mut self, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        match message {
            JsonRpcMessage::Request(mut request) => {
                let Some(ticket) = self.in_flight.register(&request.id) else {
                    let message = "a request with this id is still being worked on; use each id once";
                    let id = request.id.into_json_value();
                    self.refuse(&[JsonRpcRefusal::new(id, ErrorCode::INVALID_REQUEST, message)]);
                    return None;
                };
                request.request.extensions_mut().insert(ticket);
                Some(JsonRpcMessage::Request(request))
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.in_flight.cancel(id, cancelled.params.reason.clone());
                }
                Some(JsonRpcMessage::Notification(notification))
            }
            // A response to a server request; the library drops unknown ones.
            answer @ (JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) => Some(answer),
        }
    }
}

impl Transport<RoleServer> for LineTransport {
    type Error = OutputClosed;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), OutputClosed>> + Send + 'static {
        // Before it is written: a client may reuse the id as soon as it reads the answer.
        let counted = answered_id(&message).map(|id| {
            self.in_flight.answer(&id);
            UnwrittenAnswer(self.in_flight.clone())
        });
        // Queued immediately and not in the future, which may be polled out of order.
        let written = self.outbox.push(to_line(&message));
        async move {
            let result = written.await.map_err(|_| OutputClosed);
            drop(counted);
            result
        }
    }

    /// Cancel safe: may be dropped at any await without losing a message.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(written) = &mut self.refusing {
                // An error means that the output is closed, which ends the server elsewhere.
                let _ = written.await;
                self.refusing = None;
            }
            self.in_flight.wait_for_capacity().await;
            match self.incoming.recv().await {
                Some(Incoming::Message(message)) => {
                    if let Some(message) = self.admit(*message) {
                        return Some(message);
                    }
                }
                Some(Incoming::Refused(refusals)) => self.refuse(&refusals),
                None => {
                    // Not `None`, which would make the library wait five seconds for calls in flight.
                    self.ended.cancel();
                    pending::<Infallible>().await;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), OutputClosed> {
        Ok(())
    }
}

/// An answer being sent; counted until it is written or dropped.
struct UnwrittenAnswer(Arc<InFlight>);

impl Drop for UnwrittenAnswer {
    fn drop(&mut self) {
        self.0.answer_written();
    }
}

fn answered_id(message: &ServerJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(response.id.clone()),
        JsonRpcMessage::Error(error) => error.id.clone(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

fn to_line(message: &ServerJsonRpcMessage) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_else(|error| {
        let id = answered_id(message).map_or(serde_json::Value::Null, RequestId::into_json_value);
        let message = format!("the answer could not be written as JSON: {error}");
        JsonRpcRefusal::new(id, ErrorCode::INTERNAL_ERROR, message).to_line()
    })
}
