//! The Tasks extension: a task is a run, seen through the journal. Its id is the run's id, whose 74 random bits
//! nobody guesses, so a task outlives this server and can be read from the next one.

use domain::harmless::clean_value;
use domain::id::RunId;
use domain::run::{CancelOrder, OutcomeKind};
use jiff::{SignedDuration, Timestamp};
use rmcp::model::{
    CallToolResult, CreateTaskResult, DetailedTask, ElicitResult, ErrorData, GetTaskResult, JsonObject, Task,
    TaskPayload, TaskStatus, UpdateTaskParams,
};
use serde_json::Value;

use super::call::Call;
use super::elicit;
use super::tools::{RunReport, is_failure};
use crate::app::{Answer, AppError, Cancel, CancelTarget, ErrorKind, GetRun, RunView, WaitingView};

const POLL_MS: u64 = 1_000;

/// Makes a task of a run that was started. The run is already on disk, so the task is durable.
pub(super) async fn create(call: &Call<'_>, run: RunId) -> Result<CreateTaskResult, AppError> {
    let view = view(call, run).await?;
    let mut task = task(call, &view);
    // Also for a run that has just ended: the client polls, and finds the result.
    task.status = TaskStatus::Working;
    Ok(CreateTaskResult::new(task))
}

/// Answers `tasks/get`.
pub(super) async fn get(call: &Call<'_>, task_id: &str) -> Result<GetTaskResult, ErrorData> {
    let view = view(call, parse(task_id)?).await.map_err(|error| protocol_error(&error))?;
    let task = task(call, &view);
    let payload = payload(call, view)?;
    Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
}

/// Answers `tasks/update`: hands answers on to the run that asked.
pub(super) async fn update(call: &Call<'_>, request: UpdateTaskParams) -> Result<(), ErrorData> {
    let run = parse(&request.task_id)?;
    let view = view(call, run).await.map_err(|error| protocol_error(&error))?;
    let Some(WaitingView::Answer { question: open, .. }) = view.waiting else { return Ok(()) };
    for (question, response) in request.input_responses {
        if question != open {
            // Answered in the meantime, or never asked: the protocol wants such keys ignored, whatever they hold.
            continue;
        }
        let answer = read_answer(call, run, question, response)?;
        match call.door.app.answer(answer).await {
            Ok(_) => {}
            // Answered since it was looked at.
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Usage) => {}
            Err(error) => return Err(protocol_error(&error)),
        }
    }
    Ok(())
}

/// Answers `tasks/cancel`.
pub(super) async fn cancel(call: &Call<'_>, task_id: &str) -> Result<(), ErrorData> {
    let target = CancelTarget::Run(parse(task_id)?.to_string());
    let order = CancelOrder { by: call.client.by(), reason: "tasks/cancel".into(), now: false };
    let cancelled = call.door.app.cancel(Cancel { target, order }).await;
    cancelled.map(|_| ()).map_err(|error| protocol_error(&error))
}

/// Only whole ids: the short ones that people type could be guessed.
fn parse(task_id: &str) -> Result<RunId, ErrorData> {
    task_id.parse().map_err(|error| ErrorData::invalid_params(format!("no such task: {error}"), None))
}

async fn view(call: &Call<'_>, run: RunId) -> Result<RunView, AppError> {
    let result_max = call.client.result_bytes as u64;
    let ask = GetRun { run: run.to_string(), result_max, ..GetRun::default() };
    Ok(call.door.app.get_run(ask).await?.run)
}

fn task(call: &Call<'_>, view: &RunView) -> Task {
    let mut message = view.explanation.clone();
    if message.is_empty() {
        message.clone_from(&view.status);
    }
    let updated = last_updated(view).unwrap_or_else(|| view.created_at.clone());
    Task::new(view.run_id.to_string(), status(view), view.created_at.clone(), updated)
        .with_status_message(format!("{}: {message}", view.agent))
        .with_ttl_ms(call.door.options.retention_ms)
        .with_poll_interval_ms(POLL_MS)
}

/// A run that goes on is as fresh as its duration says.
fn last_updated(view: &RunView) -> Option<String> {
    if let Some(ended_at) = &view.ended_at {
        return Some(ended_at.clone());
    }
    let started_at: Timestamp = view.started_at.as_ref()?.parse().ok()?;
    let so_far = SignedDuration::from_millis(i64::try_from(view.duration_ms).ok()?);
    Some(started_at.checked_add(so_far).ok()?.to_string())
}

fn status(view: &RunView) -> TaskStatus {
    match &view.waiting {
        _ if view.status == OutcomeKind::Cancelled.as_str() => TaskStatus::Cancelled,
        _ if view.ended => TaskStatus::Completed,
        Some(WaitingView::Answer { .. }) => TaskStatus::InputRequired,
        Some(WaitingView::Slot { .. } | WaitingView::Session { .. }) | None => TaskStatus::Working,
    }
}

fn payload(call: &Call<'_>, view: RunView) -> Result<TaskPayload, ErrorData> {
    match status(&view) {
        TaskStatus::Cancelled => Ok(TaskPayload::Cancelled),
        TaskStatus::Completed => Ok(TaskPayload::Completed { result: result_of(call, view)? }),
        TaskStatus::InputRequired if call.takes_questions() => {
            Ok(TaskPayload::InputRequired { input_requests: elicit::questions(&view)? })
        }
        // A client without questions sees them in the status message, and `answer_run` answers them.
        _ => Ok(TaskPayload::Working),
    }
}

/// The result that the call itself would have returned.
fn result_of(call: &Call<'_>, view: RunView) -> Result<JsonObject, ErrorData> {
    let failed = is_failure(&view.status);
    let unwritable =
        |error| ErrorData::internal_error(format!("the result could not be written: {error}"), None);
    let mut report = serde_json::to_value(RunReport::of(view, &call.client)).map_err(unwritable)?;
    clean_value(&mut report);
    let result =
        if failed { CallToolResult::structured_error(report) } else { CallToolResult::structured(report) };
    match serde_json::to_value(result).map_err(unwritable)? {
        Value::Object(object) => Ok(object),
        _ => Err(ErrorData::internal_error("a result is an object", None)),
    }
}

fn read_answer(call: &Call<'_>, run: RunId, question: String, response: Value) -> Result<Answer, ErrorData> {
    let result: ElicitResult = serde_json::from_value(response).map_err(|error| {
        ErrorData::invalid_params(format!("the response to {question:?} cannot be read: {error}"), None)
    })?;
    Ok(elicit::to_answer(call, run, question, &result))
}

fn protocol_error(error: &AppError) -> ErrorData {
    match error.kind {
        ErrorKind::Internal | ErrorKind::Backend => ErrorData::internal_error(error.to_string(), None),
        ErrorKind::Usage | ErrorKind::Denied | ErrorKind::NotFound | ErrorKind::Limit => {
            ErrorData::invalid_params(error.to_string(), None)
        }
    }
}
