//! Tools that become tasks. A task is a run of the scripted engine, and everything about it is answered by our own code.

use std::sync::Arc;
use std::time::Duration;

use domain::id::RunId;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, ErrorData,
};
use rmcp::service::{RequestContext, RoleServer};

use super::fixture::Fixture;
use super::rounds::{self, Round};
use crate::app::{GetRun, Start};
use crate::door::mcp::call::Call;
use crate::door::mcp::front::Front;
use crate::door::mcp::tasks;
use crate::door::mcp::tests::scripted::Scripted;
use serde_json::json;

/// How a job ends, and when.
struct End {
    after: Duration,
    status: &'static str,
    result: String,
}

/// Carries out a tool that supports tasks, if it is one.
pub(super) async fn job(
    fixture: &Fixture,
    request: &CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let arguments = json!(request.arguments);
    let ends = |after_ms: u64, status, result: &str| End {
        after: Duration::from_millis(after_ms),
        status,
        result: result.to_owned(),
    };
    let takes_tasks = context.client_capabilities().is_some_and(|can| can.supports_tasks());
    let tool = &*request.name;
    if ["failing_job", "test_tool_with_task"].contains(&tool) && !takes_tasks {
        let needed = ClientCapabilities::builder().enable_tasks().build();
        return Some(Err(ErrorData::missing_required_client_capability(needed)));
    }
    let end = match tool {
        "slow_compute" => {
            let seconds = arguments["seconds"].as_f64().unwrap_or(1.0).clamp(0.0, 60.0);
            Some(End {
                after: Duration::from_secs_f64(seconds),
                status: "succeeded",
                result: "computed".into(),
            })
        }
        "failing_job" => Some(ends(1_000, "failed", "")),
        "protocol_error_job" => Some(ends(200, "failed", "")),
        "confirm_delete" | "multi_input" => None,
        "test_tool_with_task" => {
            match rounds::filled(request.input_responses.as_ref(), "user_name", "name") {
                Some(name) => Some(ends(200, "succeeded", &format!("Hello, {name}!"))),
                None => {
                    let question = rounds::form("What is your name?", "name", "string");
                    let asked = rounds::ask(json!({"user_name": question}), None);
                    return Some(asked.map(|round| match round {
                        Round::Asks(asks) => CallToolResponse::InputRequired(asks),
                        Round::Says(_) => unreachable!("it was asked"),
                    }));
                }
            }
        }
        _ => return None,
    };
    Some(start(fixture, end, takes_tasks, context).await)
}

async fn start(
    fixture: &Fixture,
    end: Option<End>,
    takes_tasks: bool,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let agent = if end.is_some() { "slow" } else { "asks" };
    let ask = Start { agent: agent.to_owned(), prompt: "x".to_owned(), ..Start::default() };
    let failed = |error: crate::app::AppError| ErrorData::internal_error(error.to_string(), None);
    let run = fixture.engine.start(ask).await.map_err(failed)?.run_id;
    if let Some(end) = end {
        if !takes_tasks {
            tokio::time::sleep(end.after).await;
            return Ok(CallToolResult::success(vec![ContentBlock::text(end.result)]).into());
        }
        tokio::spawn(settle(Arc::clone(&fixture.engine), run, end));
    }
    let task = tasks::create(&Call::new(&fixture.handler, context), run).await.map_err(failed)?;
    Ok(CallToolResponse::Task(task))
}

async fn settle(engine: Arc<Scripted>, run: RunId, end: End) {
    tokio::time::sleep(end.after).await;
    let ask = GetRun { run: run.to_string(), ..GetRun::default() };
    if engine.get_run(ask).await.is_ok_and(|detail| !detail.run.ended) {
        engine.end(run, end.status, &end.result);
    }
}
