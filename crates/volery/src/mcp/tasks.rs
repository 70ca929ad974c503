//! The Tasks extension: a task is a run in the journal. Its id is the run's id, whose 74 random bits cannot be guessed, so
//! a task outlives this server and another one can read it.

use domain::id::RunId;
use domain::invisible_text::strip_invisible_in_value;
use domain::run::{CancelRequest, OutcomeKind};
use jiff::{SignedDuration, Timestamp};
use rmcp::model::{
    CallToolResult, CreateTaskResult, DetailedTask, ElicitResult, ErrorData, GetTaskResult, JsonObject, Task,
    TaskPayload, TaskStatus, UpdateTaskParams,
};
use serde_json::Value;

use super::elicit;
use super::tool_call::ToolCall;
use super::tools::{RunReport, is_failure};
use engine::{
    AnswerRequest, CancelRunsRequest, CancelTarget, EngineError, ErrorKind, GetRun, QuestionView, RunView,
};

const POLL_MS: u64 = 1_000;

/// Creates a task for a started run. The run is already on disk, so the task is durable.
pub(super) async fn create(call: &ToolCall<'_>, run: RunId) -> Result<CreateTaskResult, EngineError> {
    let view = view(call, run).await?;
    let mut task = task(call, &view);
    // Also for a run that has just ended: the client polls and finds the result.
    task.status = TaskStatus::Working;
    Ok(CreateTaskResult::new(task))
}

/// Answers `tasks/get`.
pub(super) async fn get(call: &ToolCall<'_>, task_id: &str) -> Result<GetTaskResult, ErrorData> {
    let view = view(call, parse(task_id)?).await.map_err(|error| protocol_error(&error))?;
    let task = task(call, &view);
    let payload = payload(call, view)?;
    Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
}

/// Answers `tasks/update`: sends answers to the run.
pub(super) async fn update(call: &ToolCall<'_>, request: UpdateTaskParams) -> Result<(), ErrorData> {
    let run = parse(&request.task_id)?;
    let view = view(call, run).await.map_err(|error| protocol_error(&error))?;
    let Some(open) = view.needs_answer.first() else { return Ok(()) };
    for (key, response) in request.input_responses {
        if key != elicit::question_key(open) {
            // Answered in the meantime, or unknown: the protocol requires to ignore such keys.
            continue;
        }
        let answer = read_answer(call, open, response)?;
        match call.handler.engine.ask(answer).await {
            Ok(_) => {}
            // Answered in the meantime.
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Usage) => {}
            Err(error) => return Err(protocol_error(&error)),
        }
    }
    Ok(())
}

/// Answers `tasks/cancel`.
pub(super) async fn cancel(call: &ToolCall<'_>, task_id: &str) -> Result<(), ErrorData> {
    let target = CancelTarget::Run(parse(task_id)?.to_string());
    let order = CancelRequest { by: call.client.caller_name(), reason: "tasks/cancel".into(), now: false };
    let cancelled = call.handler.engine.ask(CancelRunsRequest { target, order }).await;
    cancelled.map(|_| ()).map_err(|error| protocol_error(&error))
}

/// Accepts only whole ids: short ones could be guessed.
fn parse(task_id: &str) -> Result<RunId, ErrorData> {
    task_id.parse().map_err(|error| ErrorData::invalid_params(format!("no such task: {error}"), None))
}

async fn view(call: &ToolCall<'_>, run: RunId) -> Result<RunView, EngineError> {
    let result_max = call.client.result_bytes as u64;
    let request = GetRun { run: run.to_string(), result_max, ..GetRun::default() };
    Ok(call.handler.engine.ask(request).await?.run)
}

fn task(call: &ToolCall<'_>, view: &RunView) -> Task {
    let mut message = view.explanation.clone();
    if message.is_empty() {
        message.clone_from(&view.status);
    }
    let updated = last_updated(view).unwrap_or_else(|| view.created_at.clone());
    Task::new(view.run_id.to_string(), status(view), view.created_at.clone(), updated)
        .with_status_message(format!("{}: {message}", view.agent))
        .with_ttl_ms(call.handler.options.retention_ms)
        .with_poll_interval_ms(POLL_MS)
}

/// Returns the time of the last update; for an active run its start plus its duration.
fn last_updated(view: &RunView) -> Option<String> {
    if let Some(ended_at) = &view.ended_at {
        return Some(ended_at.clone());
    }
    let started_at: Timestamp = view.started_at.as_ref()?.parse().ok()?;
    let so_far = SignedDuration::from_millis(i64::try_from(view.duration_ms).ok()?);
    Some(started_at.checked_add(so_far).ok()?.to_string())
}

fn status(view: &RunView) -> TaskStatus {
    match view.needs_answer.first() {
        _ if view.status == OutcomeKind::Cancelled.as_str() => TaskStatus::Cancelled,
        _ if view.ended => TaskStatus::Completed,
        Some(_) => TaskStatus::InputRequired,
        None => TaskStatus::Working,
    }
}

fn payload(call: &ToolCall<'_>, view: RunView) -> Result<TaskPayload, ErrorData> {
    match status(&view) {
        TaskStatus::Cancelled => Ok(TaskPayload::Cancelled),
        TaskStatus::Completed => Ok(TaskPayload::Completed { result: build_result(call, view)? }),
        TaskStatus::InputRequired if call.supports_elicitation() => {
            Ok(TaskPayload::InputRequired { input_requests: elicit::questions(&view)? })
        }
        // Other clients see the question in the status message, and answer with `answer_run`.
        _ => Ok(TaskPayload::Working),
    }
}

/// Returns the result that the call itself would have returned.
fn build_result(call: &ToolCall<'_>, view: RunView) -> Result<JsonObject, ErrorData> {
    let failed = is_failure(&view.status);
    let unwritable =
        |error| ErrorData::internal_error(format!("the result could not be written: {error}"), None);
    let mut report = serde_json::to_value(RunReport::for_client(view, &call.client)).map_err(unwritable)?;
    strip_invisible_in_value(&mut report);
    let result =
        if failed { CallToolResult::structured_error(report) } else { CallToolResult::structured(report) };
    match serde_json::to_value(result).map_err(unwritable)? {
        Value::Object(object) => Ok(object),
        _ => Err(ErrorData::internal_error("a result is an object", None)),
    }
}

fn read_answer(
    call: &ToolCall<'_>,
    question: &QuestionView,
    response: Value,
) -> Result<AnswerRequest, ErrorData> {
    let id = &question.question;
    let result: ElicitResult = serde_json::from_value(response).map_err(|error| {
        ErrorData::invalid_params(format!("the response to {id:?} cannot be read: {error}"), None)
    })?;
    Ok(elicit::to_answer(call, question.run_id, id.clone(), &result))
}

fn protocol_error(error: &EngineError) -> ErrorData {
    match error.kind {
        ErrorKind::Internal | ErrorKind::Backend => ErrorData::internal_error(error.to_string(), None),
        ErrorKind::Usage | ErrorKind::Denied | ErrorKind::NotFound | ErrorKind::Limit => {
            ErrorData::invalid_params(error.to_string(), None)
        }
    }
}
