//! Which results this connection has returned whole, so that a later wait does not repeat them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::run_report::RunReport;

/// Beyond this number the oldest runs are forgotten; their results would be repeated.
const RUNS_MAX: usize = 10_000;

/// The runs whose whole result is in an earlier answer.
#[derive(Debug, Default)]
pub(in super::super) struct ReturnedResults(Mutex<BTreeSet<String>>);

impl ReturnedResults {
    /// Records the runs of an answer whose results are whole.
    pub(super) fn record<'a>(&self, reports: impl IntoIterator<Item = &'a RunReport>) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = reports.into_iter().filter(|report| report.has_whole_result());
        runs.extend(whole.map(|report| report.run_id.clone()));
        // Ids of runs are in the order of their creation.
        while runs.len() > RUNS_MAX {
            runs.pop_first();
        }
    }

    pub(super) fn contains(&self, run_id: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(run_id)
    }
}
