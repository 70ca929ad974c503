//! The sessions of the older generation, of one caller: limited in number, and with the reason of each cancellation, which
//! the library hides. Only the service of the caller's token knows their ids, so no other token can use them.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::{self, Stream, StreamExt};
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, GetExtensions, JsonRpcError, JsonRpcMessage,
    ServerJsonRpcMessage,
};
use rmcp::transport::common::server_side_http::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::{SessionId, SessionManager};

use super::super::in_flight::InFlight;
use super::counters::Counters;
use super::limits::HttpLimits;

#[derive(Debug)]
pub(super) struct Sessions {
    library: LocalSessionManager,
    open: Mutex<HashMap<SessionId, Arc<InFlight>>>,
    counters: Arc<Counters>,
    at_most: usize,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum SessionsError {
    #[error("there are {at_most} sessions already")]
    Full { at_most: usize },
    #[error(transparent)]
    Library(#[from] LocalSessionManagerError),
}

impl Sessions {
    pub(super) fn new(counters: Arc<Counters>, limits: &HttpLimits) -> Self {
        let mut library = LocalSessionManager::default();
        library.session_config.keep_alive = Some(limits.session_idle);
        Self { library, open: Mutex::default(), counters, at_most: limits.sessions }
    }

    /// Returns whether another session may be opened, over all callers.
    pub(super) fn has_room(&self) -> bool {
        self.counters.sessions.load(Ordering::Relaxed) < self.at_most
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<InFlight>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_flight(&self, id: &SessionId) -> Option<Arc<InFlight>> {
        self.open().get(id).cloned()
    }
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionsError> {
        if !self.has_room() {
            return Err(SessionsError::Full { at_most: self.at_most });
        }
        let (id, transport) = self.library.create_session().await?;
        self.open().insert(id.clone(), Arc::new(InFlight::without_answers()));
        self.counters.sessions.fetch_add(1, Ordering::Relaxed);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionsError> {
        Ok(self.library.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionsError> {
        Ok(self.library.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionsError> {
        if self.open().remove(id).is_some() {
            self.counters.sessions.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(self.library.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        if let (JsonRpcMessage::Request(request), Some(in_flight)) = (&mut message, self.in_flight(id)) {
            let Some(ticket) = in_flight.register(&request.id) else {
                let text = "a request with this id is still being worked on; use each id once";
                let error =
                    JsonRpcError::new(Some(request.id.clone()), ErrorData::invalid_request(text, None));
                let refusal = ServerSseMessage::from_message(JsonRpcMessage::Error(error));
                return Ok(stream::iter([refusal]).left_stream());
            };
            request.request.extensions_mut().insert(ticket);
        }
        Ok(self.library.create_stream(id, message).await?.right_stream())
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionsError> {
        if let JsonRpcMessage::Notification(notification) = &message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(request) = &cancelled.params.request_id
            && let Some(in_flight) = self.in_flight(id)
        {
            in_flight.cancel(request, cancelled.params.reason.clone());
        }
        Ok(self.library.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.library.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.library.resume(id, last_event_id).await?)
    }
}
