//! Writing rows: one transaction each, patient with other writers, and never a reason to fail a door.

use std::time::{Duration, Instant};

use domain::id::RunId;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, params_from_iter};

use super::ended::{COLUMNS, EndedRun, amount_at};
use super::key;
use super::open::{Index, IndexError, apply_migrations};

/// What became of a write. The index is a cache, so a write that failed is a fact and not a failure.
#[derive(Debug)]
#[must_use = "a run whose row was not written stays in `open/`"]
pub enum Written {
    /// How many rows were added or removed.
    Done {
        rows: u64,
    },
    NotDone(IndexError),
}

impl Written {
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }

    /// Returns the number of rows, or the failure, for whoever cannot go on without.
    pub fn done(self) -> Result<u64, IndexError> {
        match self {
            Self::Done { rows } => Ok(rows),
            Self::NotDone(error) => Err(error),
        }
    }
}

impl Index {
    /// Adds ended runs. One that is there already is left as it is.
    pub fn insert(&mut self, runs: &[EndedRun]) -> Written {
        let sql = format!(
            "INSERT INTO run ({COLUMNS}) VALUES ({}) ON CONFLICT (id) DO NOTHING",
            vec!["?"; 19].join(", ")
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
    pub fn remove(&mut self, runs: &[RunId]) -> Written {
        self.write("remove runs", |transaction| {
            let mut statement = transaction.prepare("DELETE FROM run INDEXED BY run_by_id WHERE id = ?1")?;
            let mut rows = 0;
            for run in runs {
                rows += statement.execute([key::of(*run)])? as u64;
            }
            Ok(rows)
        })
    }

    /// Removes everything, and says that the index is incomplete.
    pub fn clear(&mut self) -> Written {
        self.write("remove all runs", |transaction| {
            let rows = count_of(transaction)?;
            // Dropping is one step where deleting would take the triggers through a million rows.
            transaction.execute_batch(
                "DROP TABLE run; DROP TABLE rollup; DROP TABLE total; DROP TABLE completeness;",
            )?;
            apply_migrations(transaction)?;
            Ok(rows)
        })
    }

    /// Says that all ended runs have been inserted.
    pub fn mark_complete(&mut self) -> Written {
        if let Err(error) = self.end_rebuild() {
            return Written::NotDone(error);
        }
        self.write("mark the index complete", |transaction| {
            let rows = transaction.execute("UPDATE completeness SET complete = 1", [])?;
            Ok(rows as u64)
        })
    }

    /// Returns how many runs there are.
    pub fn count(&self) -> Result<u64, IndexError> {
        count_of(self.current()?).map_err(|error| self.error("count runs", error))
    }

    fn write(
        &mut self,
        doing: &'static str,
        change: impl Fn(&Transaction<'_>) -> rusqlite::Result<u64>,
    ) -> Written {
        if let Err(error) = self.current() {
            return Written::NotDone(error);
        }
        let deadline = Instant::now() + self.patience;
        loop {
            match attempt(&mut self.connection, &change) {
                Ok(rows) => {
                    self.shorten_log();
                    return Written::Done { rows };
                }
                Err(error) if is_busy(&error) && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Written::NotDone(self.error(doing, error)),
            }
        }
    }
}

fn attempt(
    connection: &mut Connection,
    change: impl Fn(&Transaction<'_>) -> rusqlite::Result<u64>,
) -> rusqlite::Result<u64> {
    // A transaction that begins as a reader cannot become a writer when another has written in between.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let rows = change(&transaction)?;
    transaction.commit()?;
    Ok(rows)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn count_of(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row("SELECT runs FROM total", [], |row| amount_at(row, 0))
}
