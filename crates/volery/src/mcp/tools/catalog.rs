//! The list of tools, in a fixed order, and the dispatch of calls by name.

use std::sync::{Arc, LazyLock};

use domain::invisible_text::strip_invisible_in_value;
use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult, ErrorData, InputRequiredResult,
    JsonObject, MetaObject, Resource, Tool, ToolAnnotations,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::resources;
use super::super::tool_call::ToolCall;
use super::{
    answer_run, arguments, cancel_run, get_run, health, list_agents, list_runs, run_agent, run_agents,
    schema, wait_runs,
};
use engine::EngineError;

/// A native tool.
pub(super) trait NativeTool: 'static {
    const NAME: &'static str;
    const TITLE: &'static str;
    const HINTS: Hints;
    /// Keywords for clients that load tools on demand.
    const SEARCH_HINT: &'static str;
    /// The result size that the client should show in full, if it supports that.
    const RESULT_CHARS_MAX: Option<u64> = None;

    /// Its doc comment is the tool's description.
    type Input: DeserializeOwned + JsonSchema + Send;
    type Output: Serialize + JsonSchema;

    /// Returns the runs whose results are shown only in part.
    fn cut_short(_output: &Self::Output) -> Vec<String> {
        Vec::new()
    }

    fn call(
        call: &ToolCall<'_>,
        input: Self::Input,
    ) -> impl Future<Output = Result<ToolReply<Self::Output>, EngineError>> + Send;
}

/// The side effects of a tool, for clients that ask before they call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hints {
    pub(super) read_only: bool,
    pub(super) destructive: bool,
    pub(super) idempotent: bool,
    pub(super) open_world: bool,
}

impl Hints {
    /// Changes nothing.
    pub(super) const READ_ONLY: Self =
        Self { read_only: true, destructive: false, idempotent: true, open_world: false };
    /// Starts agents, which may do anything that their permissions allow.
    pub(super) const RUNS: Self =
        Self { read_only: false, destructive: true, idempotent: false, open_world: true };
}

/// The result of a call.
#[derive(Debug)]
pub(super) enum ToolReply<O> {
    Done(O),
    /// The same, marked as an error: the run failed.
    Failed(O),
    Task(Box<CreateTaskResult>),
    /// The client's user must answer a question first.
    Ask(Box<InputRequiredResult>),
}

struct ToolEntry {
    name: &'static str,
    define: fn() -> Tool,
    call: for<'a> fn(&'a ToolCall<'a>, Value) -> BoxFuture<'a, Result<CallToolResponse, EngineError>>,
}

const ENTRIES: &[ToolEntry] = &[
    entry::<list_agents::ListAgents>(),
    entry::<run_agent::RunAgent>(),
    entry::<run_agents::RunAgents>(),
    entry::<wait_runs::WaitRuns>(),
    entry::<get_run::GetRun>(),
    entry::<list_runs::ListRuns>(),
    entry::<cancel_run::CancelRun>(),
    entry::<answer_run::AnswerRun>(),
    entry::<health::HealthTool>(),
];

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| ENTRIES.iter().map(|entry| (entry.define)()).collect());

/// Returns the definitions of all tools.
pub(in super::super) fn list() -> Vec<Tool> {
    TOOLS.clone()
}

/// Calls a tool by name. Errors that the model can fix are answers; only an unknown tool is a protocol error.
pub(in super::super) async fn call(
    call: ToolCall<'_>,
    name: &str,
    arguments: JsonObject,
) -> Result<CallToolResponse, ErrorData> {
    let found = ENTRIES.iter().zip(TOOLS.iter()).find(|(entry, _)| entry.name == name);
    let Some((entry, tool)) = found else {
        return Err(ErrorData::invalid_params("there is no such tool", None));
    };
    let arguments = arguments::without_nulls(Value::Object(arguments));
    let problems = arguments::check(&tool.input_schema, &arguments);
    if !problems.is_empty() {
        return Ok(explain(&EngineError::usage(arguments::explain(name, &problems))).into());
    }
    Ok((entry.call)(&call, arguments).await.unwrap_or_else(|error| explain(&error).into()))
}

/// Returns an error that the model can read. Without structured content, which would have to match the output schema.
fn explain(error: &EngineError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(error.to_string())])
}

const fn entry<T: NativeTool>() -> ToolEntry {
    ToolEntry {
        name: T::NAME,
        define: define::<T>,
        call: |call, arguments| run::<T>(call, arguments).boxed(),
    }
}

async fn run<T: NativeTool>(call: &ToolCall<'_>, arguments: Value) -> Result<CallToolResponse, EngineError> {
    let input = serde_json::from_value(arguments).map_err(|error| {
        EngineError::usage(format!("the arguments of {} cannot be used: {error}", T::NAME))
    })?;
    let to_value = |output| {
        let written = serde_json::to_value(output);
        let mut value = written.map_err(|error| {
            EngineError::internal(format!("the answer could not be written as JSON: {error}"))
        })?;
        strip_invisible_in_value(&mut value);
        Ok::<_, EngineError>(value)
    };
    let links = |output: &T::Output| match resources::can_be_linked(call) {
        true => T::cut_short(output).iter().map(|run| resources::link_to_result(run)).collect(),
        false => Vec::new(),
    };
    Ok(match T::call(call, input).await? {
        ToolReply::Done(output) => {
            let links = links(&output);
            with_links(CallToolResult::structured(to_value(output)?), links).into()
        }
        ToolReply::Failed(output) => {
            let links = links(&output);
            with_links(CallToolResult::structured_error(to_value(output)?), links).into()
        }
        ToolReply::Task(task) => CallToolResponse::Task(*task),
        ToolReply::Ask(ask) => CallToolResponse::InputRequired(*ask),
    })
}

fn with_links(mut result: CallToolResult, links: Vec<Resource>) -> CallToolResult {
    result.content.extend(links.into_iter().map(ContentBlock::resource_link));
    result
}

fn define<T: NativeTool>() -> Tool {
    let (description, input) = schema::input_schema::<T::Input>();
    let Hints { read_only, destructive, idempotent, open_world } = T::HINTS;
    let annotations = ToolAnnotations::with_title(T::TITLE)
        .read_only(read_only)
        .destructive(destructive)
        .idempotent(idempotent)
        .open_world(open_world);
    let mut meta = MetaObject::new();
    meta.insert("anthropic/searchHint".into(), T::SEARCH_HINT.into());
    if let Some(chars) = T::RESULT_CHARS_MAX {
        meta.insert("anthropic/maxResultSizeChars".into(), chars.into());
    }
    Tool::new(T::NAME, description, Arc::new(input))
        .with_title(T::TITLE)
        .with_raw_output_schema(Arc::new(schema::output_schema::<T::Output>()))
        .with_annotations(annotations)
        .with_meta(meta)
}
