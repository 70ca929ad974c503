//! Agents and runs as MCP resources.

use domain::id::RunRef;
use domain::invisible_text::{strip_invisible_in_place, strip_invisible_in_value};
use rmcp::model::{
    ErrorData, ListResourcesResult, MetaObject, ProtocolVersion, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use serde::Serialize;
use serde_json::json;

use super::event_page;
use super::tool_call::ToolCall;
use engine::{EngineError, ErrorKind, GetRun, ListAgents};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
pub(super) const SCHEME: &str = "volery://";
/// The size limit of a page of a result or of events.
const PAGE_BYTES: usize = 256 << 10;
const EVENTS_MAX: usize = 500;
const AGENTS_MAX: usize = 500;

/// Returns whether the client knows links in results, which this revision introduced.
pub(super) fn can_be_linked(call: &ToolCall<'_>) -> bool {
    call.context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2025_06_18)
}

/// Returns a link to the whole result of a run.
pub(super) fn link_to_result(run: &str) -> Resource {
    Resource::new(format!("{SCHEME}runs/{run}/result"), format!("result-{run}"))
        .with_title("The whole result")
        .with_description("The whole result of the run, in pages; get_run reads the same.")
        .with_mime_type(TEXT)
}

/// Answers `resources/list`: the agents. Runs come and go, and are reached by their templates.
pub(super) async fn list(call: &ToolCall<'_>) -> Result<ListResourcesResult, ErrorData> {
    let overview = Resource::new(format!("{SCHEME}agents"), "agents")
        .with_title("Agents")
        .with_description("All agents that can be delegated to.")
        .with_mime_type(JSON);
    let mut resources = vec![overview];
    // If the project cannot be read, reading the overview reports why.
    if let Ok(list) = call.handler.engine.ask(ListAgents::default()).await {
        resources.extend(list.agents.into_iter().take(AGENTS_MAX).map(|agent| {
            Resource::new(format!("{SCHEME}agents/{}", agent.name), agent.name)
                .with_description(agent.description)
                .with_mime_type(JSON)
        }));
    }
    Ok(ListResourcesResult::with_all_items(resources))
}

/// Answers `resources/templates/list`.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = |path: &str, name: &str, title: &str, description: &str| {
        ResourceTemplate::new(format!("{SCHEME}{path}"), name)
            .with_title(title)
            .with_description(description)
            .with_mime_type(JSON)
    };
    vec![
        template("agents/{name}", "agent", "Agent", "One agent: what it is for and how it is driven."),
        template("runs/{id}", "run", "Run", "One run: how it stands, and its result."),
        template(
            "runs/{id}/result{?offset}",
            "run-result",
            "Result of a run",
            "What a run answered, from a byte on; _meta.next_offset begins the next page.",
        )
        .with_mime_type(TEXT),
        template(
            "runs/{id}/events{?from}",
            "run-events",
            "Events of a run",
            "What happened in a run, from an event number on; next_event begins the next page.",
        ),
    ]
}

/// Answers `resources/read`.
pub(super) async fn read(call: &ToolCall<'_>, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let Some(address) = Address::parse(uri) else { return Err(unknown(uri)) };
    let text = match address {
        Address::Agents => {
            let list = call.handler.engine.ask(ListAgents::default()).await;
            to_text(&list.map_err(|error| failed(uri, &error))?)?
        }
        Address::Agent(name) => {
            let list = call.handler.engine.ask(ListAgents::default()).await;
            let list = list.map_err(|error| failed(uri, &error))?;
            let agent = list.agents.into_iter().find(|agent| agent.name == name);
            to_text(&agent.ok_or_else(|| unknown(uri))?)?
        }
        Address::Run(run) => {
            let request = GetRun { run: run.to_string(), result_max: PAGE_BYTES as u64, ..GetRun::default() };
            let detail = call.handler.engine.ask(request).await;
            to_text(&detail.map_err(|error| failed(uri, &error))?.run)?
        }
        Address::Result(run, offset) => return read_result(call, uri, &run, offset).await,
        Address::Events(run, from) => {
            let events_from = Some(from);
            let request =
                GetRun { run: run.to_string(), events_from, events_max: EVENTS_MAX, ..GetRun::default() };
            let detail = call.handler.engine.ask(request).await.map_err(|error| failed(uri, &error))?;
            let (events, cut_at) = event_page::page(detail.events, PAGE_BYTES);
            to_text(&json!({
                "run_id": detail.run.run_id,
                "events": events,
                "next_event": cut_at.or(detail.next_event),
            }))?
        }
    };
    let contents = ResourceContents::text(text, uri).with_mime_type(JSON);
    Ok(ReadResourceResult::new(vec![contents]))
}

/// Reads a page of a result as plain text.
async fn read_result(
    call: &ToolCall<'_>,
    uri: &str,
    run: &RunRef,
    offset: u64,
) -> Result<ReadResourceResult, ErrorData> {
    let request = GetRun {
        run: run.to_string(),
        result_offset: offset,
        result_max: PAGE_BYTES as u64,
        ..GetRun::default()
    };
    let run = call.handler.engine.ask(request).await.map_err(|error| failed(uri, &error))?.run;
    let mut text = run.result.unwrap_or_default();
    strip_invisible_in_place(&mut text);
    let mut contents = ResourceContents::text(text, uri).with_mime_type(TEXT);
    if let Some(next) = run.result_next_offset {
        let mut meta = MetaObject::new();
        meta.insert("next_offset".to_owned(), next.into());
        contents = contents.with_meta(meta);
    }
    Ok(ReadResourceResult::new(vec![contents]))
}

/// A parsed URI.
#[derive(Debug)]
enum Address<'a> {
    Agents,
    Agent(&'a str),
    Run(RunRef),
    /// With the byte at which the page begins.
    Result(RunRef, u64),
    Events(RunRef, u64),
}

impl<'a> Address<'a> {
    fn parse(uri: &'a str) -> Option<Self> {
        let (path, query) = match uri.strip_prefix(SCHEME)?.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (uri.strip_prefix(SCHEME)?, None),
        };
        let number = |key: &str| match query {
            Some(query) => query.strip_prefix(key)?.strip_prefix('=')?.parse().ok(),
            None => Some(0),
        };
        match path.split('/').collect::<Vec<_>>().as_slice() {
            ["agents"] => Some(Self::Agents),
            ["agents", name] => Some(Self::Agent(name)),
            ["runs", run] => Some(Self::Run(run.parse().ok()?)),
            ["runs", run, "result"] => Some(Self::Result(run.parse().ok()?, number("offset")?)),
            ["runs", run, "events"] => Some(Self::Events(run.parse().ok()?, number("from")?)),
            _ => None,
        }
    }
}

fn to_text(value: &impl Serialize) -> Result<String, ErrorData> {
    let mut value = serde_json::to_value(value).map_err(|error| {
        ErrorData::internal_error(format!("the resource could not be written: {error}"), None)
    })?;
    strip_invisible_in_value(&mut value);
    Ok(value.to_string())
}

fn unknown(uri: &str) -> ErrorData {
    let shown: String = uri.chars().take(200).collect();
    let message = format!(
        "no resource {shown:?}; there are {SCHEME}agents, {SCHEME}agents/{{name}}, {SCHEME}runs/{{id}}, \
         {SCHEME}runs/{{id}}/result and {SCHEME}runs/{{id}}/events"
    );
    ErrorData::resource_not_found(message, Some(json!({ "uri": shown })))
}

fn failed(uri: &str, error: &EngineError) -> ErrorData {
    match error.kind {
        ErrorKind::NotFound => ErrorData::resource_not_found(error.to_string(), Some(json!({ "uri": uri }))),
        ErrorKind::Usage | ErrorKind::Denied | ErrorKind::Limit => {
            ErrorData::invalid_params(error.to_string(), None)
        }
        ErrorKind::Internal | ErrorKind::Backend => ErrorData::internal_error(error.to_string(), None),
    }
}
