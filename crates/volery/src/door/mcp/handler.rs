//! What the server answers to each method, in both generations of the protocol. Tools, tasks and resources have
//! their own files; prompts and completions do not exist and say so.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, ConstString, ContentBlock, ErrorData, ExtensionCapabilities,
    GetTaskParams, GetTaskResult, Implementation, InitializeRequestParams, InitializeResult, JsonObject,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
    ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestMethod, ReadResourceRequestParams, ReadResourceResponse,
    ResourcesCapability, ServerCapabilities, ServerConfig, TASKS_EXTENSION_ID, ToolsCapability,
    UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer};
use tokio_util::sync::CancellationToken;

use super::call::Call;
use super::clients::Client;
use super::elicit;
use super::front::Front;
use super::options::Options;
use super::tasks;

/// How long a client may keep the list of tools, which never changes while a server runs.
const TOOLS_TTL_MS: u64 = 3_600_000;
const CALLER_CHARS_MAX: usize = 100;

/// The state of the door: all of it is in the app, except for who is asking.
pub(super) struct Handler {
    pub(super) app: Arc<dyn Front>,
    pub(super) options: Options,
    pub(super) leaving: CancellationToken,
    caller: Mutex<String>,
}

impl Handler {
    pub(super) fn new(app: Arc<dyn Front>, options: Options, leaving: CancellationToken) -> Self {
        Self { app, options, leaving, caller: Mutex::default() }
    }

    /// Returns what is known about the client of this request, and tells the app its name.
    pub(super) fn client_of(&self, context: &RequestContext<RoleServer>) -> Client {
        let name = context.client_info().map(|client| tidy_name(&client.name)).unwrap_or_default();
        self.note_caller(&name);
        Client::named(&name, &self.options.waits)
    }

    fn note_caller(&self, name: &str) {
        let mut caller = self.caller.lock().unwrap_or_else(PoisonError::into_inner);
        if !name.is_empty() && *caller != name {
            name.clone_into(&mut caller);
            self.app.set_caller(name);
        }
    }
}

impl Handler {
    /// The library answers with empty lists even where the capability was not declared.
    fn check_resources<M: ConstString>(&self) -> Result<(), ErrorData> {
        match self.options.surface.has_resources() {
            true => Ok(()),
            false => Err(ErrorData::method_not_found::<M>()),
        }
    }
}

/// Tells a caller to slow down.
fn too_many(per_minute: u32, wait: Duration) -> CallToolResult {
    let seconds = wait.as_secs() + 1;
    let message = format!(
        "too many calls: {per_minute} a minute are allowed. Try again in {seconds} s, and wait for runs instead of \
         looking at them again and again. [serve] calls_per_minute in the configuration sets the limit"
    );
    CallToolResult::error(vec![ContentBlock::text(message)])
}

/// A client's name goes into records and messages, so it is kept short and printable.
fn tidy_name(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(CALLER_CHARS_MAX).collect()
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ToolsCapability::default());
        let surface = &self.options.surface;
        capabilities.resources = surface.has_resources().then(ResourcesCapability::default);
        let tasks = (TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
        capabilities.extensions = surface.has_tasks().then(|| ExtensionCapabilities::from([tasks]));
        let server = Implementation::new(surface.server(), env!("CARGO_PKG_VERSION")).with_title("Volery");
        ServerConfig::new(capabilities).with_server_info(server).with_instructions(surface.instructions())
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let result = self.negotiate_initialize(&request)?;
        self.note_caller(&tidy_name(&request.client_info.name));
        // Later requests of this session speak what was agreed, not what was asked for.
        context.peer.set_peer_info(request.with_protocol_version(result.protocol_version.clone()));
        Ok(result)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.options.surface.tools()).with_ttl_ms(TOOLS_TTL_MS))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let mut call = Call::new(self, context);
        let caller = self.options.caller.as_deref().unwrap_or(&call.client.name);
        if let Err(wait) = self.options.rate.take(caller, Instant::now()) {
            return Ok(too_many(self.options.rate.per_minute(), wait).into());
        }
        if let Some(state) = &request.request_state {
            let (run, answered) = elicit::resume(&call, state, request.input_responses).await?;
            (call.resumed, call.unasked) = (Some(run), !answered);
        }
        self.options.surface.call(call, &request.name, arguments).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        tasks::get(&Call::new(self, context), &request.task_id).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::update(&Call::new(self, context), request).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::cancel(&Call::new(self, context), &request.task_id).await
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.check_resources::<ListResourcesRequestMethod>()?;
        self.options.surface.resources(&Call::new(self, context)).await
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.check_resources::<ListResourceTemplatesRequestMethod>()?;
        let templates = self.options.surface.resource_templates();
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.check_resources::<ReadResourceRequestMethod>()?;
        let read = self.options.surface.read_resource(&Call::new(self, context), &request.uri).await;
        read.map(ReadResourceResponse::Complete)
    }

    // The library answers these with empty lists even where the capability was not declared.
    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }
}
