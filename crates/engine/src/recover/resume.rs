//! Resumes interrupted runs: on request, and when a server starts if the agent wants that. Showing a run never
//! resumes it, since that costs money.

use std::sync::Arc;

use domain::id::RunId;
use domain::run::OutcomeKind;
use journal::index::ListQuery;

use crate::admission::resumption::{continuable_session, lost_cause, resumption, resumption_unless_blocked};
use crate::api::{Attachment, EngineError, StartRequest};
use crate::clock;
use crate::engine::{Engine, store_error};

/// Runs that were interrupted longer ago are resumed only on request.
const RESUMED_WITHIN_MS: i64 = 24 * 60 * 60 * 1_000;
/// How many interrupted runs are considered when a server starts.
const CANDIDATES_MAX: usize = 50;

impl Engine {
    /// Returns the request that resumes an interrupted run, if that repeats nothing.
    pub(crate) fn resume_request(&self, typed: &str) -> Result<StartRequest, EngineError> {
        let dir = self.find(typed)?;
        let spec = self.reconcile(&dir)?;
        let (state, _) = journal::read_state(&dir).map_err(store_error)?;
        match lost_cause(&state) {
            Some(lost_cause) => resumption(&spec, &state, lost_cause),
            None => {
                let (_, explanation, _) = self.status(&spec, &state);
                let short = spec.id.short();
                let error = EngineError::usage(format!("the run {short} was not interrupted: {explanation}"));
                Err(match continuable_session(&spec, &state).filter(|_| state.ending().is_some()) {
                    Some(session) => error.hint(format!(
                        "to continue its conversation: volery run {} --session {session} \"…\"",
                        spec.agent
                    )),
                    None => error,
                })
            }
        }
    }

    /// Resumes the runs whose agents want that and whose keeper and worker were both lost. Each is resumed once, by
    /// the first process to do it, and a bounded number of times in a row.
    pub(crate) async fn resume_interrupted(self: &Arc<Self>) -> Result<(), EngineError> {
        for start in self.run_blocking(Self::resumable_runs).await? {
            // `volery resume` reports why a run cannot be resumed, and the others do not depend on it.
            let _ = self.start(start).await;
        }
        Ok(())
    }

    fn resumable_runs(&self) -> Result<Vec<StartRequest>, EngineError> {
        self.ingest()?;
        let outcomes = [OutcomeKind::Interrupted, OutcomeKind::Partial];
        let query = ListQuery {
            outcomes: &outcomes,
            newer_than_ms: Some(clock::now().as_millisecond() - RESUMED_WITHIN_MS),
            limit: CANDIDATES_MAX,
            ..ListQuery::default()
        };
        let found = self.query_index(|index| index.list(&query))?;
        Ok(found.into_iter().filter_map(|run| self.automatic_resumption(run.id)).collect())
    }

    /// Returns the request that resumes a run, if its agent wants that and nobody did it yet.
    fn automatic_resumption(&self, run: RunId) -> Option<StartRequest> {
        let dir = self.home.run_dir(run);
        let spec = dir.read_spec().ok()?;
        let (state, _) = journal::read_state(&dir).ok()?;
        match resumption_unless_blocked(&spec, &state)? {
            Ok(start) => Some(StartRequest { attachment: Attachment::Detached, ..start }),
            Err(_) => None,
        }
    }
}
