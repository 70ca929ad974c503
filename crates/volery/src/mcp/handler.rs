//! Answers each method, in both generations of the protocol. Tools, tasks and resources have their own files; prompts and
//! completions are not supported.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::invisible_text::escape_invisible;
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

use super::client_profiles::ClientProfile;
use super::elicit;
use super::options::Options;
use super::tasks;
use super::tool_call::ToolCall;
use super::tools::ReturnedResults;
use engine::EngineApi;

/// How long a client may cache the list of tools, which never changes while a server runs.
const TOOLS_TTL_MS: u64 = 3_600_000;
const CALLER_CHARS_MAX: usize = 100;

/// The state of the server: the engine has all of it, except for the caller.
pub(super) struct Handler {
    pub(super) engine: Arc<dyn EngineApi>,
    pub(super) options: Options,
    pub(super) leaving: CancellationToken,
    /// The results that this connection has returned.
    pub(super) returned_results: ReturnedResults,
    caller: Mutex<String>,
}

impl Handler {
    pub(super) fn new(engine: Arc<dyn EngineApi>, options: Options, leaving: CancellationToken) -> Self {
        let returned_results = ReturnedResults::default();
        Self { engine, options, leaving, returned_results, caller: Mutex::default() }
    }

    /// Returns the profile of the request's client, and sets its name as the engine's caller.
    pub(super) fn client_for(&self, context: &RequestContext<RoleServer>) -> ClientProfile {
        let name = context.client_info().map(|client| tidy_name(&client.name)).unwrap_or_default();
        self.note_caller(&name);
        ClientProfile::for_name(&name, &self.options.waits)
    }

    fn note_caller(&self, name: &str) {
        let mut caller = self.caller.lock().unwrap_or_else(PoisonError::into_inner);
        if !name.is_empty() && *caller != name {
            name.clone_into(&mut caller);
            self.engine.set_caller(name);
        }
    }
}

impl Handler {
    /// The library answers with empty lists even if the capability was not declared.
    fn check_resources<M: ConstString>(&self) -> Result<(), ErrorData> {
        match self.options.tool_registry.has_resources() {
            true => Ok(()),
            false => Err(ErrorData::method_not_found::<M>()),
        }
    }
}

/// Returns the error for a caller that exceeds its rate limit.
fn too_many_calls(per_minute: u32, wait: Duration) -> CallToolResult {
    let seconds = wait.as_secs() + 1;
    let message = format!(
        "too many calls: {per_minute} a minute are allowed. Try again in {seconds} s, and wait for runs instead of \
         looking at them again and again. [serve] calls_per_minute in the configuration sets the limit"
    );
    CallToolResult::error(vec![ContentBlock::text(message)])
}

/// Shortens a client's name and escapes invisible characters, because records and messages contain it.
fn tidy_name(name: &str) -> String {
    escape_invisible(name).chars().take(CALLER_CHARS_MAX).collect()
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ToolsCapability::default());
        let tool_registry = &self.options.tool_registry;
        capabilities.resources = tool_registry.has_resources().then(ResourcesCapability::default);
        let tasks = (TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
        capabilities.extensions = tool_registry.has_tasks().then(|| ExtensionCapabilities::from([tasks]));
        let server =
            Implementation::new(tool_registry.server(), env!("CARGO_PKG_VERSION")).with_title("Volery");
        ServerConfig::new(capabilities)
            .with_server_info(server)
            .with_instructions(tool_registry.instructions())
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let result = self.negotiate_initialize(&request)?;
        self.note_caller(&tidy_name(&request.client_info.name));
        // Later requests of this session use the negotiated version, not the requested one.
        context.peer.set_peer_info(request.with_protocol_version(result.protocol_version.clone()));
        Ok(result)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.options.tool_registry.tools()).with_ttl_ms(TOOLS_TTL_MS))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let mut call = ToolCall::new(self, context);
        let caller = self.options.caller.as_deref().unwrap_or(&call.client.name);
        if let Err(wait) = self.options.rate.acquire(caller, Instant::now()) {
            return Ok(too_many_calls(self.options.rate.per_minute(), wait).into());
        }
        if let Some(state) = &request.request_state {
            let (run, answered) = elicit::resume(&call, state, request.input_responses).await?;
            (call.resumed, call.elicitation_declined) = (Some(run), !answered);
        }
        self.options.tool_registry.call(call, &request.name, arguments).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        tasks::get(&ToolCall::new(self, context), &request.task_id).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::update(&ToolCall::new(self, context), request).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::cancel(&ToolCall::new(self, context), &request.task_id).await
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.check_resources::<ListResourcesRequestMethod>()?;
        self.options.tool_registry.resources(&ToolCall::new(self, context)).await
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.check_resources::<ListResourceTemplatesRequestMethod>()?;
        let templates = self.options.tool_registry.resource_templates();
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.check_resources::<ReadResourceRequestMethod>()?;
        let read =
            self.options.tool_registry.read_resource(&ToolCall::new(self, context), &request.uri).await;
        read.map(ReadResourceResponse::Complete)
    }

    // The library answers these with empty lists even if the capability was not declared.
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
