//! A run as budgie would answer it: the same object as text and as structured content. A failure is an error of the
//! tool too, which budgie's own were not.

use domain::go_duration;
use domain::run::{Cause, Outcome};
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;

use super::super::reason::{reason, with_stderr};
use super::super::twice::{compact, twice};
use crate::app::RunView;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Output<'a> {
    response: &'a str,
    session_id: &'a str,
    /// Only where there was more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u64>,
}

/// Renders the answer of a run that succeeded.
pub(super) fn answer(run: &RunView, session: &str) -> CallToolResult {
    render(run, run.result.as_deref().unwrap_or_default(), session)
}

/// Renders a run that did not succeed, with how its agent does otherwise.
pub(super) fn failed(run: &RunView, timeout_ms: u64, session: &str, health: Option<&str>) -> CallToolResult {
    let mut text = format!("ERROR: {}", failure(run, timeout_ms));
    let attempts = (run.attempts > 1).then(|| format!("{} attempts", run.attempts));
    let beside: Vec<&str> = attempts.as_deref().into_iter().chain(health).collect();
    if !beside.is_empty() {
        text.push_str(&format!(" ({})", beside.join("; ")));
    }
    let said = run.result.as_deref().map(str::trim).filter(|said| !said.is_empty());
    if let Some(said) = said {
        text.push_str(&format!("\n\nWhat it said before:\n{said}"));
    }
    let mut result = render(run, &text, session);
    result.is_error = Some(true);
    result
}

/// Renders a run that the client would not wait for any longer.
pub(super) fn going(run: &RunView, tool: &str, session: &str) -> CallToolResult {
    let text = format!(
        "The agent is still running, as run {}. Call {tool} again with exactly the same arguments to wait for its \
         answer; it is not started a second time.",
        run.short_id
    );
    render(run, &text, session)
}

/// Renders what came to no run.
pub(super) fn error(message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message)])
}

fn render(run: &RunView, response: &str, session: &str) -> CallToolResult {
    let attempts = Some(run.attempts).filter(|attempts| *attempts > 1);
    twice(&Output { response, session_id: session, attempts }, compact)
}

fn failure(run: &RunView, timeout_ms: u64) -> String {
    match run.outcome.as_ref() {
        Some(Outcome::TimedOut { .. } | Outcome::Partial { cause: Cause::TimedOut { .. } }) => {
            format!("agent timeout after {}", go_duration::display_ms(timeout_ms))
        }
        Some(Outcome::Failed { .. }) => {
            with_stderr(format!("kiro-cli failed: {}", reason(run)), &run.stderr_tail)
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
