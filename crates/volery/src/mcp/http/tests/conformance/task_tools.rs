//! Tools that become tasks. A task is a run of the scripted engine, and Volery's own code answers all requests about it.

use std::sync::Arc;
use std::time::Duration;

use domain::id::RunId;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, ErrorData,
};
use rmcp::service::{RequestContext, RoleServer};

use super::fixture::Fixture;
use super::input_rounds::{self, Round};
use crate::mcp::tasks;
use crate::mcp::tests::scripted_engine::ScriptedEngine;
use crate::mcp::tool_call::ToolCall;
use engine::EngineApi;
use engine::{GetRun, StartRequest};
use serde_json::json;

/// When a job ends, and with which status.
struct JobEnd {
    after: Duration,
    status: &'static str,
    result: String,
}

/// Runs a tool that supports tasks; `None` for other tools.
pub(super) async fn job(
    fixture: &Fixture,
    request: &CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let arguments = json!(request.arguments);
    let ends = |after_ms: u64, status, result: &str| JobEnd {
        after: Duration::from_millis(after_ms),
        status,
        result: result.to_owned(),
    };
    let supports_tasks = context.client_capabilities().is_some_and(|can| can.supports_tasks());
    let tool = &*request.name;
    if ["failing_job", "test_tool_with_task"].contains(&tool) && !supports_tasks {
        let needed = ClientCapabilities::builder().enable_tasks().build();
        return Some(Err(ErrorData::missing_required_client_capability(needed)));
    }
    let end = match tool {
        "slow_compute" => {
            let seconds = arguments["seconds"].as_f64().unwrap_or(1.0).clamp(0.0, 60.0);
            Some(JobEnd {
                after: Duration::from_secs_f64(seconds),
                status: "succeeded",
                result: "computed".into(),
            })
        }
        "failing_job" => Some(ends(1_000, "failed", "")),
        "protocol_error_job" => Some(ends(200, "failed", "")),
        "confirm_delete" | "multi_input" => None,
        "test_tool_with_task" => {
            match input_rounds::filled(request.input_responses.as_ref(), "user_name", "name") {
                Some(name) => Some(ends(200, "succeeded", &format!("Hello, {name}!"))),
                None => {
                    let question = input_rounds::form("What is your name?", "name", "string");
                    let response = input_rounds::ask(json!({"user_name": question}), None);
                    return Some(response.map(|round| match round {
                        Round::Ask(ask) => CallToolResponse::InputRequired(ask),
                        Round::Text(_) => unreachable!("it was asked"),
                    }));
                }
            }
        }
        _ => return None,
    };
    Some(start(fixture, end, supports_tasks, context).await)
}

async fn start(
    fixture: &Fixture,
    end: Option<JobEnd>,
    supports_tasks: bool,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let agent = if end.is_some() { "slow" } else { "asks" };
    let request = StartRequest { agent: agent.to_owned(), prompt: "x".to_owned(), ..StartRequest::default() };
    let failed = |error: engine::EngineError| ErrorData::internal_error(error.to_string(), None);
    let engine: &dyn EngineApi = &*fixture.engine;
    let run = engine.ask(request).await.map_err(failed)?.run_id;
    if let Some(end) = end {
        if !supports_tasks {
            tokio::time::sleep(end.after).await;
            return Ok(CallToolResult::success(vec![ContentBlock::text(end.result)]).into());
        }
        tokio::spawn(settle(Arc::clone(&fixture.engine), run, end));
    }
    let task = tasks::create(&ToolCall::new(&fixture.handler, context), run).await.map_err(failed)?;
    Ok(CallToolResponse::Task(task))
}

async fn settle(engine: Arc<ScriptedEngine>, run: RunId, end: JobEnd) {
    tokio::time::sleep(end.after).await;
    let request = GetRun { run: run.to_string(), ..GetRun::default() };
    let scripted: &dyn EngineApi = &*engine;
    if scripted.ask(request).await.is_ok_and(|detail| !detail.run.ended) {
        engine.end(run, end.status, &end.result);
    }
}
