//! The health of agents in budgie's format. From the journal, so that it survives a restart of the server.

use domain::Timestamp;
use domain::go_duration;
use domain::run::{Outcome, PartialCause, TimeLimit};
use serde::Serialize;

use super::super::super::tool_call::ToolCall;
use engine::{AgentHealthSummary, EngineError, HealthRequest, ListRuns, ListScope, RunSummary};

const BACKEND: &str = "kiro";
/// Go's zero time.
const NEVER: &str = "0001-01-01T00:00:00Z";
/// How many partial runs are counted.
const CUT_SHORT_MAX: usize = 1_000;

#[derive(Debug, Serialize)]
pub(super) struct BudgieHealthReport {
    overall: HealthTotals,
    agents: Vec<Metrics>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct HealthTotals {
    total_calls: u64,
    success_calls: u64,
    success_rate: String,
}

/// The totals of one agent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metrics {
    agent: String,
    total_calls: u64,
    success_calls: u64,
    failed_calls: u64,
    timeout_calls: u64,
    success_rate: String,
    avg_duration: String,
    last_success: String,
    last_failure: String,
    last_error: String,
}

/// Returns the totals of these agents, without those that were never called.
pub(super) async fn report(call: &ToolCall<'_>, agents: &[&str]) -> Result<BudgieHealthReport, EngineError> {
    let mut all = Vec::new();
    for line in lines(call).await? {
        if agents.contains(&line.agent.as_str()) {
            all.extend(agent_metrics(call, line).await?);
        }
    }
    let sum = |field: fn(&Metrics) -> u64| all.iter().map(field).sum::<u64>();
    let (total, success) = (sum(|metrics| metrics.total_calls), sum(|metrics| metrics.success_calls));
    let overall =
        HealthTotals { total_calls: total, success_calls: success, success_rate: rate(success, total) };
    Ok(BudgieHealthReport { overall, agents: all })
}

/// Returns a clause about the health of one agent, for its error messages.
pub(super) async fn context(call: &ToolCall<'_>, agent: &str) -> Option<String> {
    let line = lines(call).await.ok()?.into_iter().find(|line| line.agent == agent)?;
    let metrics = agent_metrics(call, line).await.ok()??;
    Some(format!(
        "health of {agent}: success rate {}, {} of {} calls failed, {} by time-out",
        metrics.success_rate, metrics.failed_calls, metrics.total_calls, metrics.timeout_calls
    ))
}

async fn lines(call: &ToolCall<'_>) -> Result<Vec<AgentHealthSummary>, EngineError> {
    let request = HealthRequest { directory: None, scope: ListScope::All };
    let mut lines = call.handler.engine.ask(request).await?.agents;
    lines.retain(|line| line.backend == BACKEND);
    Ok(lines)
}

/// Counts as budgie does: a cancelled call counts neither as failed nor as succeeded.
async fn agent_metrics(
    call: &ToolCall<'_>,
    line: AgentHealthSummary,
) -> Result<Option<Metrics>, EngineError> {
    let newest = |state: &str, limit: usize| ListRuns {
        scope: ListScope::All,
        agent: Some(line.agent.clone()),
        states: vec![state.to_owned()],
        limit,
        ..ListRuns::default()
    };
    let last = call.handler.engine.ask(newest("succeeded", 1)).await?.runs.into_iter().next();
    let cut_short = match line.partial {
        0 => Vec::new(),
        _ => call.handler.engine.ask(newest("partial", CUT_SHORT_MAX)).await?.runs,
    };
    let timed_out_text =
        Outcome::Partial { cause: PartialCause::TimedOut { limit: TimeLimit::Total } }.to_string();
    let is_timeout =
        |run: &&RunSummary| run.error.as_ref().is_some_and(|error| error.starts_with(&timed_out_text));
    let count = |runs: usize| u64::try_from(runs).unwrap_or(u64::MAX);
    let partial_failed = count(cut_short.iter().filter(|run| run.error.is_some()).count());
    let partial_timed_out = count(cut_short.iter().filter(is_timeout).count());
    let failed = line.failed + partial_failed;
    let total = line.succeeded + failed;
    if total == 0 {
        return Ok(None);
    }
    Ok(Some(Metrics {
        total_calls: total,
        success_calls: line.succeeded,
        failed_calls: failed,
        timeout_calls: line.timed_out + partial_timed_out,
        success_rate: rate(line.succeeded, total),
        avg_duration: go_duration::display_ms(line.mean_ms.unwrap_or(0)),
        last_success: moment(last.and_then(|run| run.ended_at)),
        last_failure: moment(line.last_error_at),
        last_error: line.last_error.unwrap_or_default(),
        agent: line.agent,
    }))
}

/// Formats a timestamp in whole seconds, as budgie does.
fn moment(at: Option<String>) -> String {
    let at = at.and_then(|text| text.parse::<Timestamp>().ok());
    at.map_or_else(|| NEVER.to_owned(), |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

#[expect(clippy::cast_precision_loss, reason = "a rate is shown with one digit behind the point")]
pub(super) fn rate(success: u64, total: u64) -> String {
    let rate = if total == 0 { 0.0 } else { success as f64 * 100.0 / total as f64 };
    format!("{rate:.1}%")
}
