//! Sums over runs for those who watch a server: what ended how, how long it took and what it cost, and what goes on now.

use std::collections::BTreeMap;

use domain::run::OutcomeKind;
use journal::index::{
    EndedRun, Health as EndedSums, HealthRow, LIST_ROWS_MAX, LastError, ListQuery, OutcomeCounts,
};

use super::engine::Engine;
use super::{App, AppError, Way};

/// The most pairs of agent and backend that are told apart; the others are added up as one.
const PAIRS_MAX: usize = 100;
/// The most runs of one token that are summed up, the newest; for the machine's owner the index keeps the sums.
const SUMMED_MAX: usize = 20_000;
/// What the others are called, which is no name of an agent.
const OTHERS: &str = "(others)";

/// Everything that is summed up, of the runs that the door may see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    pub running: u64,
    pub waiting: u64,
    /// Of the machine: how many root runs may work at once, how many do, and how many stand in the queue.
    pub slots: u64,
    pub slots_taken: u64,
    pub queued: u64,
    pub agents: Vec<AgentSums>,
}

/// The ended runs of one agent on one backend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentSums {
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

impl App {
    /// Sums up what this door may see.
    pub async fn sums(&self) -> Result<Sums, AppError> {
        let Way::Own(engine) = &self.way else {
            return Err(AppError::denied("sums are for the owner of the machine, not from inside a run"));
        };
        let slots = u64::from(crate::slots::count(self.config()));
        engine.off_loop(move |engine| engine.sum_up(slots)).await
    }
}

impl Engine {
    fn sum_up(&self, slots: u64) -> Result<Sums, AppError> {
        let (running, waiting) = self.going()?;
        Ok(Sums {
            running,
            waiting,
            slots,
            slots_taken: journal::slots::slots_in_use(self.home.path()).map_or(0, u64::from),
            queued: journal::slots::queued(self.home.path()),
            agents: by_agent(self.ended_sums(None)?.rows),
        })
    }

    /// Returns the sums of ended runs, of a project or of all: those that this door may see.
    pub(super) fn ended_sums(&self, project: Option<&str>) -> Result<EndedSums, AppError> {
        let Some(token) = self.token() else { return self.indexed(|index| index.health(project)) };
        self.indexed(|index| {
            let mut rows = Vec::new();
            let mut before = None;
            loop {
                let (token, limit) = (Some(token), LIST_ROWS_MAX);
                let page =
                    index.list(&ListQuery { project, token, before, limit, ..ListQuery::default() })?;
                before = page.last().map(|run| run.id);
                let last = page.len() < LIST_ROWS_MAX;
                rows.extend(page.into_iter().map(row_of));
                if last || rows.len() >= SUMMED_MAX {
                    return Ok(EndedSums { rows, left_out: u64::from(!last) });
                }
            }
        })
    }
}

/// One run as sums.
fn row_of(run: EndedRun) -> HealthRow {
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

/// Adds up rows by agent and backend; the pairs with the fewest runs beyond the bound become one.
pub fn by_agent(rows: Vec<HealthRow>) -> Vec<AgentSums> {
    let mut pairs: BTreeMap<(String, String), AgentSums> = BTreeMap::new();
    for row in rows {
        let key = (row.agent.to_string(), row.backend.to_string());
        let sums = pairs.entry(key.clone()).or_insert_with(|| blank(key));
        add(
            sums,
            &AgentSums {
                outcomes: OutcomeKind::ALL.map(|kind| (kind.as_str(), row.outcomes.of(kind))).to_vec(),
                runs: row.runs,
                duration_ms: row.duration_sum_ms,
                cost_microusd: row.cost_sum_microusd,
                input_tokens: row.input_tokens_sum,
                output_tokens: row.output_tokens_sum,
                ..AgentSums::default()
            },
        );
    }
    let mut all: Vec<AgentSums> = pairs.into_values().collect();
    all.sort_by(|one, other| other.runs.cmp(&one.runs).then_with(|| one.agent.cmp(&other.agent)));
    let rest = all.split_off(all.len().min(PAIRS_MAX));
    if !rest.is_empty() {
        let mut others = blank((OTHERS.to_owned(), OTHERS.to_owned()));
        rest.iter().for_each(|sums| add(&mut others, sums));
        all.push(others);
    }
    all
}

fn blank((agent, backend): (String, String)) -> AgentSums {
    let outcomes = OutcomeKind::ALL.map(|kind| (kind.as_str(), 0)).to_vec();
    AgentSums { agent, backend, outcomes, ..AgentSums::default() }
}

fn add(sums: &mut AgentSums, more: &AgentSums) {
    for ((_, sum), (_, count)) in sums.outcomes.iter_mut().zip(&more.outcomes) {
        *sum += count;
    }
    sums.runs += more.runs;
    sums.duration_ms += more.duration_ms;
    sums.cost_microusd += more.cost_microusd;
    sums.input_tokens += more.input_tokens;
    sums.output_tokens += more.output_tokens;
}
