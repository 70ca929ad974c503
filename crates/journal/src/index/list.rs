//! Query: runs that match a filter, newest first.
//!
//! The query first looks up ids in covering indexes and then reads only the selected rows.

use domain::id::RunId;
use domain::run::OutcomeKind;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::ended_run::{COLUMNS, EndedRun};
use super::open::{Index, IndexError};
use super::run_key::{self, RunKey};

/// The maximum number of rows of one query.
pub const LIST_ROWS_MAX: usize = 1000;

/// A filter on runs; a run must match all conditions that are set.
#[derive(Debug, Clone, Default)]
pub struct ListQuery<'a> {
    pub project: Option<&'a str>,
    pub agent: Option<&'a str>,
    pub session: Option<&'a str>,
    /// Any of these; all when empty.
    pub outcomes: &'a [OutcomeKind],
    pub root: Option<RunId>,
    pub parent: Option<RunId>,
    /// The run or one of its ancestors was requested with this token.
    pub token: Option<&'a str>,
    /// Created at this moment or later.
    pub newer_than_ms: Option<i64>,
    /// Created before this run, which is the last one of the previous page.
    pub before: Option<RunId>,
    /// At most [`LIST_ROWS_MAX`].
    pub limit: usize,
}

/// One scan of one index. It yields ids in order, newest first.
#[derive(Debug)]
pub(super) struct IndexScan {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

impl Index {
    pub fn list(&self, query: &ListQuery<'_>) -> Result<Vec<EndedRun>, IndexError> {
        list(self.current()?, query).map_err(|error| self.error("list runs", error))
    }
}

fn list(connection: &Connection, query: &ListQuery<'_>) -> rusqlite::Result<Vec<EndedRun>> {
    // One transaction for all steps, so that no row can disappear after its id was read.
    let transaction = connection.unchecked_transaction()?;
    let mut keys: Vec<RunKey> = Vec::new();
    for scan in index_scans(query) {
        let mut statement = transaction.prepare(&scan.sql)?;
        let found = statement.query_map(params_from_iter(scan.values), |row| row.get(0))?;
        keys.extend(found.collect::<rusqlite::Result<Vec<RunKey>>>()?);
    }
    keys.sort_unstable_by(|one, other| other.cmp(one));
    keys.truncate(limit(query));
    let mut statement =
        transaction.prepare(&format!("SELECT {COLUMNS} FROM run INDEXED BY run_by_id WHERE id = ?1"))?;
    keys.into_iter().map(|key| statement.query_row([key], EndedRun::from_row)).collect()
}

/// Returns the scans whose combined results contain the answer.
pub(super) fn index_scans(query: &ListQuery<'_>) -> Vec<IndexScan> {
    let key = |id: RunId| Value::Blob(run_key::from_run_id(id).to_vec());
    let text = |text: &str| Value::Text(text.to_owned());
    let terms: Vec<(&str, Value)> = [
        ("parent", query.parent.map(key)),
        ("root", query.root.map(key)),
        ("session", query.session.map(text)),
        ("token", query.token.map(text)),
        ("project", query.project.map(text)),
        ("agent", query.agent.map(text)),
    ]
    .into_iter()
    .filter_map(|(column, value)| Some((column, value?)))
    .collect();
    let names: Vec<&str> = terms.iter().map(|(column, _)| *column).collect();
    let index_name = match names.as_slice() {
        // A tree, a session or a token has few runs, so the other conditions are checked row by row.
        ["parent", ..] => return vec![index_scan(query, "run_by_parent", terms, query.outcomes)],
        ["root", ..] => return vec![index_scan(query, "run_by_root", terms, query.outcomes)],
        ["session", ..] => return vec![index_scan(query, "run_by_session", terms, query.outcomes)],
        ["token", ..] => return vec![index_scan(query, "run_by_token", terms, query.outcomes)],
        [] if query.outcomes.is_empty() => return vec![index_scan(query, "run_by_id", terms, &[])],
        ["project", "agent"] => "run_by_project_agent",
        ["project"] => "run_by_project",
        ["agent"] => "run_by_agent",
        _ => "run_by_outcome",
    };
    let outcomes = if query.outcomes.is_empty() { &OutcomeKind::ALL[..] } else { query.outcomes };
    let mut outcomes = outcomes.to_vec();
    outcomes.sort_unstable();
    outcomes.dedup();
    outcomes.into_iter().map(|outcome| index_scan(query, index_name, terms.clone(), &[outcome])).collect()
}

fn index_scan(
    query: &ListQuery<'_>,
    index_name: &str,
    terms: Vec<(&str, Value)>,
    outcomes: &[OutcomeKind],
) -> IndexScan {
    let mut sql = format!("SELECT id FROM run INDEXED BY {index_name} WHERE id >= ? AND id < ?");
    let least = query.newer_than_ms.map_or([0; 16], run_key::first_at);
    let end = query.before.map_or(run_key::LAST, run_key::from_run_id);
    let mut values = vec![Value::Blob(least.to_vec()), Value::Blob(end.to_vec())];
    for (column, value) in terms {
        sql.push_str(&format!(" AND {column} = ?"));
        values.push(value);
    }
    if !outcomes.is_empty() {
        sql.push_str(&format!(" AND outcome IN ({})", vec!["?"; outcomes.len()].join(", ")));
        values.extend(outcomes.iter().map(|outcome| Value::Text(outcome.as_str().to_owned())));
    }
    sql.push_str(" ORDER BY id DESC LIMIT ?");
    values.push(Value::Integer(i64::try_from(limit(query)).expect("the limit is small")));
    IndexScan { sql, values }
}

fn limit(query: &ListQuery<'_>) -> usize {
    query.limit.min(LIST_ROWS_MAX)
}
