//! How the agents do, in budgie's words: from the journal, so that a new server knows what the last one saw.

use domain::Timestamp;
use domain::go_duration;
use domain::run::{Cause, Outcome, TimeLimit};
use serde::Serialize;

use super::super::super::call::Call;
use crate::app::{AppError, Health, HealthLine, ListRuns, ListScope, RunLine};

const BACKEND: &str = "kiro";
/// What Go writes where there was no such moment.
const NEVER: &str = "0001-01-01T00:00:00Z";
/// How many of the runs that were cut short are looked at.
const CUT_SHORT_MAX: usize = 1_000;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    overall: Overall,
    agents: Vec<Metrics>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Overall {
    total_calls: u64,
    success_calls: u64,
    success_rate: String,
}

/// The sums of one agent.
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

/// Sums up the agents of these names that have been called.
pub(super) async fn report(call: &Call<'_>, agents: &[&str]) -> Result<Report, AppError> {
    let mut all = Vec::new();
    for line in lines(call).await? {
        if agents.contains(&line.agent.as_str()) {
            all.extend(metrics_of(call, line).await?);
        }
    }
    let sum = |of: fn(&Metrics) -> u64| all.iter().map(of).sum::<u64>();
    let (total, success) = (sum(|metrics| metrics.total_calls), sum(|metrics| metrics.success_calls));
    let overall = Overall { total_calls: total, success_calls: success, success_rate: rate(success, total) };
    Ok(Report { overall, agents: all })
}

/// Returns a clause about one agent, for whoever hears of its failure.
pub(super) async fn context(call: &Call<'_>, agent: &str) -> Option<String> {
    let line = lines(call).await.ok()?.into_iter().find(|line| line.agent == agent)?;
    let metrics = metrics_of(call, line).await.ok()??;
    Some(format!(
        "health of {agent}: success rate {}, {} of {} calls failed, {} by time-out",
        metrics.success_rate, metrics.failed_calls, metrics.total_calls, metrics.timeout_calls
    ))
}

async fn lines(call: &Call<'_>) -> Result<Vec<HealthLine>, AppError> {
    let ask = Health { directory: None, scope: ListScope::All };
    let mut lines = call.door.app.health(ask).await?.agents;
    lines.retain(|line| line.backend == BACKEND);
    Ok(lines)
}

/// Counts as budgie does. What somebody cancelled is no call that failed, and none that succeeded.
async fn metrics_of(call: &Call<'_>, line: HealthLine) -> Result<Option<Metrics>, AppError> {
    let newest = |state: &str, limit: usize| ListRuns {
        scope: ListScope::All,
        agent: Some(line.agent.clone()),
        states: vec![state.to_owned()],
        limit,
        ..ListRuns::default()
    };
    let last = call.door.app.list_runs(newest("succeeded", 1)).await?.runs.into_iter().next();
    let cut_short = match line.partial {
        0 => Vec::new(),
        _ => call.door.app.list_runs(newest("partial", CUT_SHORT_MAX)).await?.runs,
    };
    let out_of_time = Outcome::Partial { cause: Cause::TimedOut { limit: TimeLimit::Total } }.to_string();
    let by_time = |run: &&RunLine| run.error.as_ref().is_some_and(|error| error.starts_with(&out_of_time));
    let count = |runs: usize| u64::try_from(runs).unwrap_or(u64::MAX);
    let partial_failed = count(cut_short.iter().filter(|run| run.error.is_some()).count());
    let partial_timed_out = count(cut_short.iter().filter(by_time).count());
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

/// Returns a moment in whole seconds, as budgie writes it.
fn moment(at: Option<String>) -> String {
    let at = at.and_then(|text| text.parse::<Timestamp>().ok());
    at.map_or_else(|| NEVER.to_owned(), |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

#[expect(clippy::cast_precision_loss, reason = "a rate is shown with one digit behind the point")]
pub(super) fn rate(success: u64, total: u64) -> String {
    let rate = if total == 0 { 0.0 } else { success as f64 * 100.0 / total as f64 };
    format!("{rate:.1}%")
}
