//! Renders a run in the format of Jarvis.

use domain::run::{Failure, Outcome, PartialCause, stderr_reason};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::json;

use super::super::dual_content::{compact, dual_content};
use super::super::failure_reason::{failure_reason, with_stderr};
use engine::RunView;

const TIMEOUT: &str = "timeout";
const CLI_ERROR: &str = "cli_error";
const PARSE_ERROR: &str = "parse_error";

/// Renders a run that has ended, with notes about denials.
pub(super) fn ended(agent: &str, timeout_ms: Option<u64>, run: &RunView, notes: &[String]) -> CallToolResult {
    let Some((kind, message)) = failure(agent, timeout_ms, run) else { return answer(agent, run, notes) };
    let output = run.result.as_deref().map(str::trim).filter(|output| !output.is_empty());
    let output = output.map(|output| format!("\n\nWhat it said before:\n{output}")).unwrap_or_default();
    let notes: String = notes.iter().map(|note| format!("\n\n{note}")).collect();
    error(&format!("Subagent \"{agent}\" failed ({kind}): {message}{output}{notes}"))
}

/// Renders a run that is still active when the client's wait ends.
pub(super) fn still_running(agent: &str, run: &RunView) -> CallToolResult {
    let text = format!(
        "Subagent \"{agent}\" is still running, as run {}. Call run_subagent again with exactly the same arguments to \
         wait for its answer; it is not started a second time.",
        run.short_id
    );
    let value = json!({ "agent": agent, "result": text, "duration_ms": run.duration_ms, "cost_usd": null });
    dual_content(&value, compact)
}

/// Renders an error.
pub(super) fn error(message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message)])
}

fn answer(agent: &str, run: &RunView, notes: &[String]) -> CallToolResult {
    let cost_usd = run.usage.cost.map(|cost| cost.microusd as f64 / 1e6);
    // With an output schema, the answer is the validated value, without the text around it.
    let value = run.structured.as_ref().map(ToString::to_string);
    let result = value.as_deref().or(run.result.as_deref()).unwrap_or_default();
    let mut value =
        json!({ "agent": agent, "result": result, "duration_ms": run.duration_ms, "cost_usd": cost_usd });
    if !notes.is_empty() {
        value["notes"] = json!(notes);
    }
    dual_content(&value, compact)
}

/// Returns the kind and the message of a failure; `None` if the run succeeded.
fn failure(agent: &str, timeout_ms: Option<u64>, run: &RunView) -> Option<(&'static str, String)> {
    let timed_out = || {
        let after = timeout_ms.unwrap_or(run.duration_ms);
        (TIMEOUT, format!("Subagent \"{agent}\" timed out after {after}ms."))
    };
    Some(match run.outcome.as_ref()? {
        Outcome::Succeeded => return None,
        Outcome::TimedOut { .. } | Outcome::Partial { cause: PartialCause::TimedOut { .. } } => timed_out(),
        Outcome::Failed { failure: Failure::Exit { code } } => {
            let sentence = format!("Claude exited with code {code}");
            let sentence = match stderr_reason(&run.stderr_tail) {
                Some(reason) => format!("{sentence}: {reason}"),
                None => sentence,
            };
            (CLI_ERROR, with_stderr(sentence, &run.stderr_tail))
        }
        Outcome::Failed { failure: Failure::Agent { message } | Failure::Model { message, .. } } => {
            (CLI_ERROR, format!("Claude returned an error. {message}").trim_end().to_owned())
        }
        Outcome::Failed { failure: Failure::Output { .. } } => {
            (PARSE_ERROR, "No result event or text content in Claude output.".to_owned())
        }
        Outcome::Failed { failure: Failure::Schema { reason, errors } } => {
            // With a list of errors, the reason only repeats them in one line.
            let message = if errors.is_empty() { reason.clone() } else { errors.join("\n") };
            (PARSE_ERROR, message)
        }
        Outcome::Failed { .. }
        | Outcome::Partial { .. }
        | Outcome::Cancelled { .. }
        | Outcome::OverBudget { .. }
        | Outcome::Refused { .. }
        | Outcome::Interrupted { .. } => {
            (CLI_ERROR, with_stderr(failure_reason(run).to_owned(), &run.stderr_tail))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_the_documented_kind_and_message() {
        let run_id = "01990000-0000-7000-8000-000000000001".parse().unwrap();
        let describe = |outcome: Outcome| {
            let mut run = crate::sample_run::sample_run(run_id, "scout");
            (run.outcome, run.explanation) = (Some(outcome), "it was explained".to_owned());
            failure("scout", None, &run)
        };
        let failed = |failure: Failure| describe(Outcome::Failed { failure }).unwrap();
        assert_eq!(describe(Outcome::Succeeded), None);
        assert_eq!(failed(Failure::Exit { code: 7 }), ("cli_error", "Claude exited with code 7".to_owned()));
        let (kind, message) = failed(Failure::Output { reason: "nothing".to_owned() });
        assert_eq!(
            (kind, message.as_str()),
            ("parse_error", "No result event or text content in Claude output.")
        );
        let errors = vec!["/a: is missing".to_owned(), "/b: is no number".to_owned()];
        let (kind, message) = failed(Failure::Schema { reason: errors.join("; "), errors: errors.clone() });
        assert_eq!((kind, message), ("parse_error", errors.join("\n")), "each error once");
        let (kind, message) = describe(Outcome::Cancelled { by: "somebody".to_owned() }).unwrap();
        assert_eq!((kind, message.as_str()), ("cli_error", "it was explained"));
    }
}
