//! A run as sub-agents-mcp would answer it: the same object as text and as structured content.

use domain::id::RunId;
use domain::run::{Cause, Failure, Outcome};
use rmcp::model::{CallToolResult, MetaObject};
use serde::Serialize;
use serde_json::json;

use super::super::reason::with_stderr;
use super::super::twice::{pretty, twice};
use crate::app::RunView;
use crate::clock;

const TIMED_OUT: i32 = 124;
const NOT_FOUND: i32 = 127;
const KILLED: i32 = 137;
const TERMINATED: i32 = 143;
const SIGNALLED: i32 = 128;
const FAILED: i32 = 1;
/// How many of the digits of an id are in a request's.
const DIGITS: u32 = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Success,
    Partial,
    Error,
}

#[derive(Debug, Serialize)]
struct Response<'a> {
    result: &'a str,
    agent: &'a str,
    exit_code: i32,
    execution_time: u64,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    request_id: String,
    /// What the agent was denied or did not get.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

/// Who was asked, for the answer.
pub(super) struct Reply<'a> {
    pub(super) agent: &'a str,
    pub(super) session: Option<&'a str>,
    pub(super) notes: Vec<String>,
}

impl Reply<'_> {
    /// Renders a run that has ended.
    pub(super) fn ended(&self, run: RunView) -> CallToolResult {
        let (status, exit_code) = verdict(&run);
        let text = said(&run, status);
        self.render(&run, &text, status, exit_code)
    }

    /// Renders a run that the client would not wait for any longer.
    pub(super) fn going(&self, run: RunView) -> CallToolResult {
        let so_far = run.partial.as_deref().map(str::trim).filter(|partial| !partial.is_empty());
        let so_far = so_far.map(|partial| format!("\n\nSo far it has said:\n{partial}")).unwrap_or_default();
        let text = format!(
            "The agent is still running, as run {}. Call run_agent again with exactly the same arguments to wait for \
             its answer; it is not started a second time.{so_far}",
            run.short_id
        );
        self.render(&run, &text, Status::Partial, TIMED_OUT)
    }

    /// Renders a call whose program is not installed: there is no run.
    pub(super) fn not_installed(&self, reason: &str) -> CallToolResult {
        self.render_call((clock::new_run_id(), 0), reason, Status::Error, NOT_FOUND)
    }

    fn render(&self, run: &RunView, text: &str, status: Status, exit_code: i32) -> CallToolResult {
        self.render_call((run.run_id, run.duration_ms), text, status, exit_code)
    }

    fn render_call(
        &self,
        (id, duration_ms): (RunId, u64),
        text: &str,
        status: Status,
        exit_code: i32,
    ) -> CallToolResult {
        let response = Response {
            result: text,
            agent: self.agent,
            exit_code,
            execution_time: duration_ms,
            status,
            session_id: self.session,
            request_id: request_id(id),
            notes: &self.notes,
        };
        let mut result = both(&response, status == Status::Error);
        result.meta = self.session.map(|session| {
            let mut meta = MetaObject::new();
            meta.insert("session_id".to_owned(), session.into());
            meta
        });
        result
    }
}

/// Renders what came to no run.
pub(super) fn error(message: &str, available: Option<&[&str]>) -> CallToolResult {
    let mut value = json!({ "status": "error", "error": message });
    if let Some(names) = available {
        value["available_agents"] = json!(names);
    }
    both(&value, true)
}

fn both(value: &impl Serialize, is_error: bool) -> CallToolResult {
    let mut result = twice(value, pretty);
    result.is_error = Some(is_error);
    result
}

/// Returns status and exit code as sub-agents-mcp counts them. A time-out without a result is an error, and so is the exit
/// code of a program that has answered, unless it says that somebody has ended it.
fn verdict(run: &RunView) -> (Status, i32) {
    let told = run.exit_code.filter(|code| *code != 0);
    let has_result = run.result.as_deref().is_some_and(|result| !result.trim().is_empty());
    match &run.outcome {
        Some(Outcome::Succeeded) => match told {
            None => (Status::Success, 0),
            Some(code @ (TERMINATED | KILLED)) if has_result => (Status::Success, code),
            Some(TIMED_OUT) if has_result => (Status::Partial, TIMED_OUT),
            Some(code) => (Status::Error, code),
        },
        Some(Outcome::Partial { cause }) => {
            let code = match cause {
                Cause::TimedOut { .. } => TIMED_OUT,
                Cause::Cancelled { .. } => TERMINATED,
                Cause::OverBudget { .. } => told.unwrap_or(0),
                Cause::Interrupted { .. } => KILLED,
            };
            (Status::Partial, code)
        }
        Some(Outcome::TimedOut { .. }) => (Status::Error, TIMED_OUT),
        Some(Outcome::Cancelled { .. }) => (Status::Error, TERMINATED),
        Some(Outcome::Interrupted { .. }) => (Status::Error, KILLED),
        Some(Outcome::Failed { failure }) => {
            let code = match failure {
                Failure::Exit { code } => *code,
                Failure::Signal { signal } => SIGNALLED + signal,
                Failure::Spawn { .. } => NOT_FOUND,
                Failure::Agent { .. }
                | Failure::Output { .. }
                | Failure::Model { .. }
                | Failure::Session { .. }
                | Failure::Schema { .. }
                | Failure::Acceptance { .. }
                | Failure::Limit { .. }
                | Failure::Storage { .. }
                | Failure::Bug { .. } => told.unwrap_or(FAILED),
            };
            (Status::Error, code)
        }
        Some(Outcome::OverBudget { .. } | Outcome::Refused { .. }) | None => (Status::Error, FAILED),
    }
}

/// Returns the answer; for an error what happened, and then what there is of an answer.
fn said(run: &RunView, status: Status) -> String {
    let answer = run.result.as_deref().map(str::trim).filter(|text| !text.is_empty());
    match (status, answer) {
        (Status::Success | Status::Partial, Some(answer)) => answer.to_owned(),
        (Status::Success | Status::Partial, None) => "No output".to_owned(),
        (Status::Error, answer) => {
            let explanation = match (&run.outcome, run.exit_code) {
                (Some(Outcome::Succeeded), Some(code)) => Failure::Exit { code }.to_string(),
                _ => run.explanation.clone(),
            };
            match answer {
                Some(answer) => format!("{explanation}\n\n{answer}"),
                None => with_stderr(explanation, &run.stderr_tail),
            }
        }
    }
}

/// Returns an id of the shape that sub-agents-mcp gives, which is the same whenever the same run is answered.
fn request_id(run: RunId) -> String {
    let random = run.hex();
    let tail = u64::from_str_radix(&random[random.len() - 12..], 16).unwrap_or_default();
    let mut number = tail % 36_u64.pow(DIGITS);
    let mut digits = Vec::new();
    for _ in 0..DIGITS {
        digits.push(char::from_digit(u32::try_from(number % 36).unwrap_or_default(), 36).unwrap_or('0'));
        number /= 36;
    }
    let digits: String = digits.into_iter().rev().collect();
    format!("run_agent_{}_{digits}", run.created_at().as_millisecond())
}
