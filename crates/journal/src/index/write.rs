//! Writes rows in one transaction each and retries while other writers are busy. A failure never fails the caller's
//! command.

use std::time::{Duration, Instant};

use domain::id::RunId;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, params_from_iter};

use super::ended_run::{COLUMNS, EndedRun, read_amount};
use super::open::{Index, IndexError, apply_migrations};
use super::run_key;

/// The outcome of a write. The index is a cache, so a failed write is an ordinary result and not an error.
#[derive(Debug)]
#[must_use = "a run whose row was not written stays in `open/`"]
pub enum WriteOutcome {
    /// How many rows were added or removed.
    Done {
        rows: u64,
    },
    Failed(IndexError),
}

impl WriteOutcome {
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }

    /// Returns the number of rows, or the error for callers that require the write.
    pub fn into_result(self) -> Result<u64, IndexError> {
        match self {
            Self::Done { rows } => Ok(rows),
            Self::Failed(error) => Err(error),
        }
    }
}

impl Index {
    /// Adds ended runs. Existing rows stay unchanged.
    pub fn insert(&mut self, runs: &[EndedRun]) -> WriteOutcome {
        let sql = format!(
            "INSERT INTO run ({COLUMNS}) VALUES ({}) ON CONFLICT (id) DO NOTHING",
            vec!["?"; 20].join(", ")
        );
        self.write("add runs", |transaction| {
            let mut statement = transaction.prepare(&sql)?;
            let mut rows = 0;
            for run in runs {
                rows += statement.execute(params_from_iter(run.values()))? as u64;
            }
            Ok(rows)
        })
    }

    /// Removes runs, for retention.
    pub fn remove(&mut self, runs: &[RunId]) -> WriteOutcome {
        self.write("remove runs", |transaction| {
            let mut statement = transaction.prepare("DELETE FROM run INDEXED BY run_by_id WHERE id = ?1")?;
            let mut rows = 0;
            for run in runs {
                rows += statement.execute([run_key::from_run_id(*run)])? as u64;
            }
            Ok(rows)
        })
    }

    /// Removes all runs and marks the index incomplete.
    pub fn clear(&mut self) -> WriteOutcome {
        self.write("remove all runs", |transaction| {
            let rows = count_runs(transaction)?;
            // Dropping the tables is one step; deleting would run the triggers for up to a million rows.
            transaction.execute_batch(
                "DROP TABLE run; DROP TABLE rollup; DROP TABLE total; DROP TABLE completeness;",
            )?;
            apply_migrations(transaction)?;
            Ok(rows)
        })
    }

    /// Marks the index complete, after all ended runs have been inserted.
    pub fn mark_complete(&mut self) -> WriteOutcome {
        if let Err(error) = self.end_rebuild() {
            return WriteOutcome::Failed(error);
        }
        self.write("mark the index complete", |transaction| {
            let rows = transaction.execute("UPDATE completeness SET complete = 1", [])?;
            Ok(rows as u64)
        })
    }

    pub fn count(&self) -> Result<u64, IndexError> {
        count_runs(self.current()?).map_err(|error| self.error("count runs", error))
    }

    fn write(
        &mut self,
        doing: &'static str,
        change: impl Fn(&Transaction<'_>) -> rusqlite::Result<u64>,
    ) -> WriteOutcome {
        if let Err(error) = self.current() {
            return WriteOutcome::Failed(error);
        }
        let deadline = Instant::now() + self.patience;
        loop {
            match attempt(&mut self.connection, &change) {
                Ok(rows) => {
                    self.shorten_log();
                    return WriteOutcome::Done { rows };
                }
                Err(error) if is_busy(&error) && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return WriteOutcome::Failed(self.error(doing, error)),
            }
        }
    }
}

fn attempt(
    connection: &mut Connection,
    change: impl Fn(&Transaction<'_>) -> rusqlite::Result<u64>,
) -> rusqlite::Result<u64> {
    // A transaction that begins as a reader cannot become a writer if another has written in between.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let rows = change(&transaction)?;
    transaction.commit()?;
    Ok(rows)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn count_runs(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row("SELECT runs FROM total", [], |row| read_amount(row, 0))
}
