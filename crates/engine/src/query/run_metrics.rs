//! Metrics over runs for the monitoring of a server: outcomes, durations and costs, and what is running now.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::run::OutcomeKind;
use journal::index::{
    EndedRun, HealthRow, HealthTotals as EndedSums, LIST_ROWS_MAX, LastError, ListQuery, OutcomeCounts,
};

use crate::api::EngineError;
use crate::ask::{Ask, OnProgress};
use crate::engine::Engine;

/// The most pairs of agent and backend; the others are added up as one.
const PAIRS_MAX: usize = 100;
/// The most runs of one token that are summed up, the newest; for the machine's owner the index has the sums.
const SUMMED_MAX: usize = 20_000;
/// The name of the others, which is not a valid agent name.
const OTHERS: &str = "(others)";

/// The metrics of the runs that the door may see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunMetrics {
    pub running: u64,
    pub waiting: u64,
    /// Of the machine: how many root runs may run at once, how many do, and how many are queued.
    pub slots: u64,
    pub slots_taken: u64,
    pub queued: u64,
    pub agents: Vec<AgentMetrics>,
}

/// The ended runs of one agent on one backend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentMetrics {
    pub agent: String,
    pub backend: String,
    /// By outcome, in the order of `OutcomeKind::ALL`.
    pub outcomes: Vec<(&'static str, u64)>,
    pub runs: u64,
    pub duration_ms: u64,
    /// Of those runs whose cost is known.
    pub cost_microusd: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

/// Sums up the runs that the door may see.
#[derive(Debug, Clone)]
pub struct GetRunMetrics;

impl Ask for GetRunMetrics {
    type Answer = RunMetrics;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<RunMetrics, EngineError> {
        let sum_up =
            |engine: &Engine| engine.sum_up(u64::from(crate::slot_count::slot_count(&engine.own_config())));
        engine.run_blocking(sum_up).await
    }
}

impl Engine {
    fn sum_up(&self, slots: u64) -> Result<RunMetrics, EngineError> {
        let (running, waiting) = self.count_open_runs()?;
        Ok(RunMetrics {
            running,
            waiting,
            slots,
            slots_taken: journal::slots::slots_in_use(self.home.path()).map_or(0, u64::from),
            queued: journal::slots::queue_length(self.home.path()),
            agents: by_agent(self.ended_sums(None)?.rows),
        })
    }

    /// Returns the sums of ended runs, of a project or of all, as far as this door may see them.
    pub(crate) fn ended_sums(&self, project: Option<&str>) -> Result<EndedSums, EngineError> {
        let Some(token) = self.token() else { return self.query_index(|index| index.health(project)) };
        self.query_index(|index| {
            let mut rows = Vec::new();
            let mut before = None;
            loop {
                let (token, limit) = (Some(token), LIST_ROWS_MAX);
                let page =
                    index.list(&ListQuery { project, token, before, limit, ..ListQuery::default() })?;
                before = page.last().map(|run| run.id);
                let last = page.len() < LIST_ROWS_MAX;
                rows.extend(page.into_iter().map(single_run_row));
                if last || rows.len() >= SUMMED_MAX {
                    return Ok(EndedSums { rows, left_out: u64::from(!last) });
                }
            }
        })
    }
}

/// Returns the sums of a single run.
fn single_run_row(run: EndedRun) -> HealthRow {
    let mut outcomes = OutcomeCounts::default();
    outcomes.add(run.outcome, 1);
    HealthRow {
        project: run.project,
        agent: run.agent,
        backend: run.backend,
        runs: 1,
        outcomes,
        duration_sum_ms: run.duration_ms,
        duration_max_ms: run.duration_ms,
        cost_runs: u64::from(run.cost_microusd.is_some()),
        cost_sum_microusd: run.cost_microusd.unwrap_or(0),
        input_tokens_sum: run.input_tokens,
        output_tokens_sum: run.output_tokens,
        last_ended_at: run.ended_at,
        last_error: run.error.map(|text| LastError { run: run.id, at: run.ended_at, text }),
    }
}

/// Adds up rows by agent and backend; the pairs with the fewest runs beyond the limit become one.
pub(crate) fn by_agent(rows: Vec<HealthRow>) -> Vec<AgentMetrics> {
    let mut pairs: BTreeMap<(String, String), AgentMetrics> = BTreeMap::new();
    for row in rows {
        let key = (row.agent.to_string(), row.backend.to_string());
        let sums = pairs.entry(key.clone()).or_insert_with(|| blank(key));
        add(
            sums,
            &AgentMetrics {
                outcomes: OutcomeKind::ALL.map(|kind| (kind.as_str(), row.outcomes.count(kind))).to_vec(),
                runs: row.runs,
                duration_ms: row.duration_sum_ms,
                cost_microusd: row.cost_sum_microusd,
                input_tokens: row.input_tokens_sum,
                output_tokens: row.output_tokens_sum,
                ..AgentMetrics::default()
            },
        );
    }
    let mut all: Vec<AgentMetrics> = pairs.into_values().collect();
    all.sort_by(|one, other| other.runs.cmp(&one.runs).then_with(|| one.agent.cmp(&other.agent)));
    let rest = all.split_off(all.len().min(PAIRS_MAX));
    if !rest.is_empty() {
        let mut others = blank((OTHERS.to_owned(), OTHERS.to_owned()));
        rest.iter().for_each(|sums| add(&mut others, sums));
        all.push(others);
    }
    all
}

fn blank((agent, backend): (String, String)) -> AgentMetrics {
    let outcomes = OutcomeKind::ALL.map(|kind| (kind.as_str(), 0)).to_vec();
    AgentMetrics { agent, backend, outcomes, ..AgentMetrics::default() }
}

fn add(sums: &mut AgentMetrics, more: &AgentMetrics) {
    for ((_, sum), (_, count)) in sums.outcomes.iter_mut().zip(&more.outcomes) {
        *sum += count;
    }
    sums.runs += more.runs;
    sums.duration_ms += more.duration_ms;
    sums.cost_microusd += more.cost_microusd;
    sums.input_tokens += more.input_tokens;
    sums.output_tokens += more.output_tokens;
}
