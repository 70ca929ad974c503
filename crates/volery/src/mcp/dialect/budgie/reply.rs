//! Renders a run in budgie's format: the same object as text and as structured content. Unlike in budgie, a failure is
//! also a tool error.

use domain::go_duration;
use domain::run::{Outcome, PartialCause};
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;

use super::super::dual_content::{compact, dual_content};
use super::super::failure_reason::{failure_reason, with_stderr};
use engine::RunView;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Output<'a> {
    response: &'a str,
    session_id: &'a str,
    /// Only if there was more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u64>,
}

/// Renders the answer of a run that succeeded.
pub(super) fn answer(run: &RunView, session: &str) -> CallToolResult {
    render(run, run.result.as_deref().unwrap_or_default(), session)
}

/// Renders a run that did not succeed, with the health of its agent.
pub(super) fn failed(run: &RunView, timeout_ms: u64, session: &str, health: Option<&str>) -> CallToolResult {
    let mut text = format!("ERROR: {}", failure(run, timeout_ms));
    let attempts = (run.attempts > 1).then(|| format!("{} attempts", run.attempts));
    let details: Vec<&str> = attempts.as_deref().into_iter().chain(health).collect();
    if !details.is_empty() {
        text.push_str(&format!(" ({})", details.join("; ")));
    }
    let output = run.result.as_deref().map(str::trim).filter(|output| !output.is_empty());
    if let Some(output) = output {
        text.push_str(&format!("\n\nWhat it said before:\n{output}"));
    }
    let mut result = render(run, &text, session);
    result.is_error = Some(true);
    result
}

/// Renders a run that is still active when the client's wait ends.
pub(super) fn still_running(run: &RunView, tool: &str, session: &str) -> CallToolResult {
    let text = format!(
        "The agent is still running, as run {}. Call {tool} again with exactly the same arguments to wait for its \
         answer; it is not started a second time.",
        run.short_id
    );
    render(run, &text, session)
}

/// Renders an error without a run.
pub(super) fn error(message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message)])
}

fn render(run: &RunView, response: &str, session: &str) -> CallToolResult {
    let attempts = Some(run.attempts).filter(|attempts| *attempts > 1);
    dual_content(&Output { response, session_id: session, attempts }, compact)
}

fn failure(run: &RunView, timeout_ms: u64) -> String {
    match run.outcome.as_ref() {
        Some(Outcome::TimedOut { .. } | Outcome::Partial { cause: PartialCause::TimedOut { .. } }) => {
            format!("agent timeout after {}", go_duration::display_ms(timeout_ms))
        }
        Some(Outcome::Failed { .. }) => {
            with_stderr(format!("kiro-cli failed: {}", failure_reason(run)), &run.stderr_tail)
        }
        Some(
            Outcome::Succeeded
            | Outcome::Partial { .. }
            | Outcome::Cancelled { .. }
            | Outcome::OverBudget { .. }
            | Outcome::Refused { .. }
            | Outcome::Interrupted { .. },
        )
        | None => run.explanation.clone(),
    }
}
