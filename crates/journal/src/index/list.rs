//! The question "which runs were there, newest first".
//!
//! Ids are looked up first, from indexes that hold everything the question asks about, then the few rows.

use domain::id::RunId;
use domain::run::OutcomeKind;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::ended::{COLUMNS, EndedRun};
use super::key::{self, Key};
use super::open::{Index, IndexError};

/// The most rows that one question returns.
pub const LIST_ROWS_MAX: usize = 1000;

/// Which runs are asked for: those that fit all that is given.
#[derive(Debug, Clone, Default)]
pub struct ListQuery<'a> {
    pub project: Option<&'a str>,
    pub agent: Option<&'a str>,
    pub session: Option<&'a str>,
    /// Any of these; all when empty.
    pub outcomes: &'a [OutcomeKind],
    pub root: Option<RunId>,
    pub parent: Option<RunId>,
    /// Asked for with this token, they or the runs above them.
    pub token: Option<&'a str>,
    /// Created at this moment or later.
    pub newer_than_ms: Option<i64>,
    /// Created before this run: the last one of the page before.
    pub before: Option<RunId>,
    /// At most [`LIST_ROWS_MAX`].
    pub limit: usize,
}

/// One walk along one index. The ids that it gives are sorted, newest first.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

impl Index {
    /// Returns ended runs, newest first.
    pub fn list(&self, query: &ListQuery<'_>) -> Result<Vec<EndedRun>, IndexError> {
        list(self.current()?, query).map_err(|error| self.error("list runs", error))
    }
}

fn list(connection: &Connection, query: &ListQuery<'_>) -> rusqlite::Result<Vec<EndedRun>> {
    // One view for all steps: a row must not go between its id and itself.
    let transaction = connection.unchecked_transaction()?;
    let mut keys: Vec<Key> = Vec::new();
    for walk in walks(query) {
        let mut statement = transaction.prepare(&walk.sql)?;
        let found = statement.query_map(params_from_iter(walk.values), |row| row.get(0))?;
        keys.extend(found.collect::<rusqlite::Result<Vec<Key>>>()?);
    }
    keys.sort_unstable_by(|one, other| other.cmp(one));
    keys.truncate(limit(query));
    let mut statement =
        transaction.prepare(&format!("SELECT {COLUMNS} FROM run INDEXED BY run_by_id WHERE id = ?1"))?;
    keys.into_iter().map(|key| statement.query_row([key], EndedRun::from_row)).collect()
}

/// Returns the walks whose results together hold the answer.
pub(super) fn walks(query: &ListQuery<'_>) -> Vec<Walk> {
    let key = |id: RunId| Value::Blob(key::of(id).to_vec());
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
    let along = match names.as_slice() {
        // A tree, a session or a token has few runs: whatever else is asked is checked row by row.
        ["parent", ..] => return vec![walk(query, "run_by_parent", terms, query.outcomes)],
        ["root", ..] => return vec![walk(query, "run_by_root", terms, query.outcomes)],
        ["session", ..] => return vec![walk(query, "run_by_session", terms, query.outcomes)],
        ["token", ..] => return vec![walk(query, "run_by_token", terms, query.outcomes)],
        [] if query.outcomes.is_empty() => return vec![walk(query, "run_by_id", terms, &[])],
        ["project", "agent"] => "run_by_project_agent",
        ["project"] => "run_by_project",
        ["agent"] => "run_by_agent",
        _ => "run_by_outcome",
    };
    let outcomes = if query.outcomes.is_empty() { &OutcomeKind::ALL[..] } else { query.outcomes };
    let mut outcomes = outcomes.to_vec();
    outcomes.sort_unstable();
    outcomes.dedup();
    outcomes.into_iter().map(|outcome| walk(query, along, terms.clone(), &[outcome])).collect()
}

fn walk(query: &ListQuery<'_>, along: &str, terms: Vec<(&str, Value)>, outcomes: &[OutcomeKind]) -> Walk {
    let mut sql = format!("SELECT id FROM run INDEXED BY {along} WHERE id >= ? AND id < ?");
    let least = query.newer_than_ms.map_or([0; 16], key::least_at);
    let end = query.before.map_or(key::LAST, key::of);
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
    Walk { sql, values }
}

fn limit(query: &ListQuery<'_>) -> usize {
    query.limit.min(LIST_ROWS_MAX)
}
