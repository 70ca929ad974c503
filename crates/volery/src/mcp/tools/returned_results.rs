//! Records the results that this connection has returned completely, so that a later wait does not repeat them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::run_report::RunReport;

/// The most recorded runs. Beyond this number, the oldest are removed, and a later wait repeats their results.
const RUNS_MAX: usize = 10_000;

/// The runs whose complete result is in an earlier answer.
#[derive(Debug, Default)]
pub(in super::super) struct ReturnedResults(Mutex<BTreeSet<String>>);

impl ReturnedResults {
    /// Records the runs whose result is complete in an answer.
    pub(super) fn record<'a>(&self, reports: impl IntoIterator<Item = &'a RunReport>) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = reports.into_iter().filter(|report| report.has_whole_result());
        runs.extend(whole.map(|report| report.run_id.clone()));
        // Run ids sort in the order of creation, so the first is the oldest.
        while runs.len() > RUNS_MAX {
            runs.pop_first();
        }
    }

    pub(super) fn contains(&self, run_id: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(run_id)
    }
}
