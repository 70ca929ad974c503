//! The guard around every HTTP request: answers panics, and refuses too many requests at once. The counterpart of
//! `RequestGuard`, as a handler, which the library's HTTP service needs.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use rmcp::handler::server::ServerHandler;
use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::request_guard::{BUSY, PANICKED, busy_message, explain_missing_method};

/// The slots for requests in progress, over all callers.
#[derive(Debug, Clone)]
pub(super) struct RequestSlots {
    free: Arc<Semaphore>,
    all: usize,
}

impl RequestSlots {
    pub(super) fn new(all: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(all)), all }
    }

    pub(super) fn in_use(&self) -> usize {
        self.all - self.free.available_permits()
    }

    /// Waits until no request is in progress.
    pub(super) async fn wait_until_empty(&self) {
        // The semaphore is never closed.
        let _ = self.free.acquire_many(u32::try_from(self.all).unwrap_or(u32::MAX)).await;
    }

    fn try_acquire(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }
}

/// A guarded handler.
#[derive(Debug)]
pub(super) struct PanicGuard<H> {
    handler: H,
    slots: RequestSlots,
}

impl<H: ServerHandler> PanicGuard<H> {
    pub(super) fn new(handler: H, slots: RequestSlots) -> Self {
        Self { handler, slots }
    }

    /// Handles a request if there is a slot, and catches its panics.
    async fn guard<T>(
        &self,
        handling: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<Result<T, ErrorData>, (ErrorCode, String)> {
        let Some(_slot) = self.slots.try_acquire() else { return Err((BUSY, busy_message(self.slots.all))) };
        let handled = AssertUnwindSafe(handling).catch_unwind().await;
        let handled = handled.map(|handled| handled.map_err(explain_missing_method));
        handled.map_err(|_| (ErrorCode::INTERNAL_ERROR, PANICKED.to_owned()))
    }
}

/// Methods that get a protocol error if the guard refuses them.
macro_rules! guarded_methods {
    ($($method:ident($($request:ty)?) -> $result:ty;)*) => {$(
        guarded_methods!(@ $method($($request)?) -> $result);
    )*};
    (@ $method:ident($request:ty) -> $result:ty) => {
        async fn $method(
            &self,
            request: $request,
            context: RequestContext<RoleServer>,
        ) -> Result<$result, ErrorData> {
            let handled = self.guard(self.handler.$method(request, context)).await;
            handled.unwrap_or_else(|(code, message)| Err(ErrorData::new(code, message, None)))
        }
    };
    (@ $method:ident() -> $result:ty) => {
        async fn $method(&self, context: RequestContext<RoleServer>) -> Result<$result, ErrorData> {
            let handled = self.guard(self.handler.$method(context)).await;
            handled.unwrap_or_else(|(code, message)| Err(ErrorData::new(code, message, None)))
        }
    };
}

#[expect(deprecated, reason = "what the older generation may ask is handed on as well")]
impl<H: ServerHandler> ServerHandler for PanicGuard<H> {
    guarded_methods! {
        ping() -> ();
        initialize(InitializeRequestParams) -> InitializeResult;
        discover() -> DiscoverResult;
        complete(CompleteRequestParams) -> CompleteResult;
        set_level(SetLevelRequestParams) -> ();
        get_prompt(GetPromptRequestParams) -> GetPromptResponse;
        list_prompts(Option<PaginatedRequestParams>) -> ListPromptsResult;
        list_resources(Option<PaginatedRequestParams>) -> ListResourcesResult;
        list_resource_templates(Option<PaginatedRequestParams>) -> ListResourceTemplatesResult;
        read_resource(ReadResourceRequestParams) -> ReadResourceResponse;
        subscribe(SubscribeRequestParams) -> ();
        unsubscribe(UnsubscribeRequestParams) -> ();
        list_tools(Option<PaginatedRequestParams>) -> ListToolsResult;
        on_custom_request(CustomRequest) -> CustomResult;
        get_task(GetTaskParams) -> GetTaskResult;
        update_task(UpdateTaskParams) -> ();
        cancel_task(CancelTaskParams) -> ();
    }

    /// A tool call gets an error that the model can read.
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let handled = self.guard(self.handler.call_tool(request, context)).await;
        handled.unwrap_or_else(|(_, message)| {
            Ok(CallToolResult::error(vec![ContentBlock::text(message)]).into())
        })
    }

    // Uses no slot: it may last for hours and does nothing.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.handler.listen(context).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.handler.accepted_subscription_filter(requested)
    }

    fn negotiate_initialize(&self, request: &InitializeRequestParams) -> Result<InitializeResult, ErrorData> {
        self.handler.negotiate_initialize(request)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        ServerHandler::supported_protocol_versions(&self.handler)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.handler.get_tool(name)
    }

    fn get_info(&self) -> ServerConfig {
        ServerHandler::get_info(&self.handler)
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        self.handler.on_cancelled(notification, context).await;
    }

    async fn on_progress(
        &self,
        notification: ProgressNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        self.handler.on_progress(notification, context).await;
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.handler.on_initialized(context).await;
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        self.handler.on_roots_list_changed(context).await;
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        context: NotificationContext<RoleServer>,
    ) {
        self.handler.on_custom_notification(notification, context).await;
    }
}
