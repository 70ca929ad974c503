//! Renders a run in the format of sub-agents-mcp: the same object as text and as structured content.

use domain::id::RunId;
use domain::run::{Failure, Outcome, PartialCause};
use rmcp::model::{CallToolResult, MetaObject};
use serde::Serialize;
use serde_json::json;

use super::super::dual_content::{dual_content, pretty};
use super::super::failure_reason::with_stderr;
use engine::RunView;
use engine::clock;

const TIMED_OUT: i32 = 124;
const NOT_FOUND: i32 = 127;
const KILLED: i32 = 137;
const TERMINATED: i32 = 143;
const SIGNALLED: i32 = 128;
const FAILED: i32 = 1;
/// The digits of a request id.
const DIGITS: u32 = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Success,
    Partial,
    Error,
}

#[derive(Debug, Serialize)]
struct RunAgentResponse<'a> {
    result: &'a str,
    agent: &'a str,
    exit_code: i32,
    execution_time: u64,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    request_id: String,
    /// Notes about denials.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

/// The parts of an answer that do not depend on the run.
pub(super) struct SubAgentsReply<'a> {
    pub(super) agent: &'a str,
    pub(super) session: Option<&'a str>,
    pub(super) notes: Vec<String>,
}

impl SubAgentsReply<'_> {
    /// Renders a run that has ended.
    pub(super) fn ended(&self, run: RunView) -> CallToolResult {
        let (status, exit_code) = verdict(&run);
        let text = result_text(&run, status);
        self.render(&run, &text, status, exit_code)
    }

    /// Renders a run that is still active when the client's wait ends.
    pub(super) fn still_running(&self, run: RunView) -> CallToolResult {
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

    /// Renders a call whose service has no key: there is no run.
    pub(super) fn without_key(&self, reason: &str) -> CallToolResult {
        self.render_call((clock::new_run_id(), 0), reason, Status::Error, FAILED)
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
        let response = RunAgentResponse {
            result: text,
            agent: self.agent,
            exit_code,
            execution_time: duration_ms,
            status,
            session_id: self.session,
            request_id: request_id(id),
            notes: &self.notes,
        };
        let mut result = dual_result(&response, status == Status::Error);
        result.meta = self.session.map(|session| {
            let mut meta = MetaObject::new();
            meta.insert("session_id".to_owned(), session.into());
            meta
        });
        result
    }
}

/// Renders an error without a run.
pub(super) fn error(message: &str, available: Option<&[&str]>) -> CallToolResult {
    let mut value = json!({ "status": "error", "error": message });
    if let Some(names) = available {
        value["available_agents"] = json!(names);
    }
    dual_result(&value, true)
}

fn dual_result(value: &impl Serialize, is_error: bool) -> CallToolResult {
    let mut result = dual_content(value, pretty);
    result.is_error = Some(is_error);
    result
}

/// Returns the status and exit code of sub-agents-mcp. A timeout without a result is an error, and so is the exit code of a
/// program that has answered, unless it means that the program was killed.
fn verdict(run: &RunView) -> (Status, i32) {
    let reported_code = run.exit_code.filter(|code| *code != 0);
    let has_result = run.result.as_deref().is_some_and(|result| !result.trim().is_empty());
    match &run.outcome {
        Some(Outcome::Succeeded) => match reported_code {
            None => (Status::Success, 0),
            Some(code @ (TERMINATED | KILLED)) if has_result => (Status::Success, code),
            Some(TIMED_OUT) if has_result => (Status::Partial, TIMED_OUT),
            Some(code) => (Status::Error, code),
        },
        Some(Outcome::Partial { cause }) => {
            let code = match cause {
                PartialCause::TimedOut { .. } => TIMED_OUT,
                PartialCause::Cancelled { .. } => TERMINATED,
                PartialCause::OverBudget { .. } => reported_code.unwrap_or(0),
                PartialCause::Interrupted { .. } => KILLED,
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
                | Failure::Bug { .. } => reported_code.unwrap_or(FAILED),
            };
            (Status::Error, code)
        }
        Some(Outcome::OverBudget { .. } | Outcome::Refused { .. }) | None => (Status::Error, FAILED),
    }
}

/// Returns the answer; for an error the explanation, followed by the partial answer.
fn result_text(run: &RunView, status: Status) -> String {
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

/// Returns a request id in the format of sub-agents-mcp, always the same for the same run.
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
