//! Query: outcomes, durations and costs per agent, from sums that triggers maintain.

use domain::Timestamp;
use domain::id::{AgentName, BackendName, RunId};
use domain::run::OutcomeKind;
use rusqlite::{Connection, Row, params_from_iter};

use super::ended_run::{read_amount, read_name, read_run_id, read_time};
use super::open::{Index, IndexError};
use super::run_key::RunKey;

const COLUMNS: &str = "project, agent, backend, runs, succeeded, partial, failed, timed_out, cancelled, over_budget, \
     refused, interrupted, duration_sum_ms, duration_max_ms, cost_runs, cost_sum_microusd, input_tokens_sum, \
     output_tokens_sum, last_ended_at_ms, last_error, last_error_at_ms, last_error_run";

/// The maximum number of rows of one query.
pub const HEALTH_ROWS_MAX: u32 = 1000;

/// The sums of the agents whose runs ended most recently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthTotals {
    /// Sorted by project, agent and backend; at most [`HEALTH_ROWS_MAX`].
    pub rows: Vec<HealthRow>,
    /// How many agents have older runs only and are not in `rows`.
    pub left_out: u64,
}

/// The sums of one agent on one backend in one project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthRow {
    pub project: String,
    pub agent: AgentName,
    pub backend: BackendName,
    pub runs: u64,
    pub outcomes: OutcomeCounts,
    pub duration_sum_ms: u64,
    pub duration_max_ms: u64,
    /// How many runs have a known cost.
    pub cost_runs: u64,
    /// The sum of the known costs.
    pub cost_sum_microusd: u64,
    pub input_tokens_sum: u64,
    pub output_tokens_sum: u64,
    pub last_ended_at: Timestamp,
    pub last_error: Option<LastError>,
}

/// The most recent error that ended a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    pub run: RunId,
    pub at: Timestamp,
    pub text: String,
}

/// The number of runs by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutcomeCounts([u64; OutcomeKind::ALL.len()]);

impl OutcomeCounts {
    pub fn count(&self, kind: OutcomeKind) -> u64 {
        self.0[kind as usize]
    }

    pub fn add(&mut self, kind: OutcomeKind, count: u64) {
        self.0[kind as usize] += count;
    }
}

impl Index {
    /// Returns the sums of one project, or of all projects.
    pub fn health(&self, project: Option<&str>) -> Result<HealthTotals, IndexError> {
        health(self.current()?, project).map_err(|error| self.error("read the sums", error))
    }
}

/// Returns the SQL for the latest rows and for the total number of rows.
pub(super) fn statements(project: Option<&str>) -> [String; 2] {
    let (from, count) = match project {
        Some(_) => ("rollup WHERE project = ?1", "SELECT count(*) FROM rollup WHERE project = ?1"),
        None => ("rollup INDEXED BY rollup_by_end", "SELECT rollups FROM total"),
    };
    let latest =
        format!("SELECT {COLUMNS} FROM {from} ORDER BY last_ended_at_ms DESC LIMIT {HEALTH_ROWS_MAX}");
    [latest, count.to_owned()]
}

fn health(connection: &Connection, project: Option<&str>) -> rusqlite::Result<HealthTotals> {
    let [latest, count] = statements(project);
    // One transaction for both, so that no row can disappear between them.
    let transaction = connection.unchecked_transaction()?;
    let mut statement = transaction.prepare(&latest)?;
    let rows = statement.query_map(params_from_iter(project), from_row)?;
    let mut rows = rows.collect::<rusqlite::Result<Vec<HealthRow>>>()?;
    rows.sort_by(|one, other| {
        (&one.project, &one.agent, &one.backend).cmp(&(&other.project, &other.agent, &other.backend))
    });
    let count = transaction.query_row(&count, params_from_iter(project), |row| read_amount(row, 0))?;
    let left_out = count.saturating_sub(rows.len() as u64);
    Ok(HealthTotals { rows, left_out })
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<HealthRow> {
    let mut outcomes = OutcomeCounts::default();
    for (offset, kind) in OutcomeKind::ALL.into_iter().enumerate() {
        outcomes.add(kind, read_amount(row, 4 + offset)?);
    }
    let last_error = match row.get::<_, Option<RunKey>>(21)? {
        Some(_) => {
            Some(LastError { run: read_run_id(row, 21)?, at: read_time(row, 20)?, text: row.get(19)? })
        }
        None => None,
    };
    Ok(HealthRow {
        project: row.get(0)?,
        agent: read_name(row, 1)?,
        backend: read_name(row, 2)?,
        runs: read_amount(row, 3)?,
        outcomes,
        duration_sum_ms: read_amount(row, 12)?,
        duration_max_ms: read_amount(row, 13)?,
        cost_runs: read_amount(row, 14)?,
        cost_sum_microusd: read_amount(row, 15)?,
        input_tokens_sum: read_amount(row, 16)?,
        output_tokens_sum: read_amount(row, 17)?,
        last_ended_at: read_time(row, 18)?,
        last_error,
    })
}
