//! Going on with runs that were interrupted: by hand, and, where the agent says so, when a server starts. A look never
//! does it, since it spends.

use std::sync::Arc;

use domain::agent::Agent;
use domain::id::RunId;
use domain::inherit::Inherited;
use domain::permission::{GrantSource, Permission};
use domain::run::{Cause, Lost, OnInterrupt, Outcome, OutcomeKind, Resumes, RunSpec, State, Unattended};
use journal::index::ListQuery;

use super::engine::{Engine, store_error};
use super::{AppError, Attachment, Start, conversation, honour};
use crate::clock;

/// What was interrupted longer ago than this is for people to decide about.
const RESUMED_WITHIN_MS: i64 = 24 * 60 * 60 * 1_000;
/// How many interrupted runs are looked at when a server starts.
const LOOKED_AT_MAX: usize = 50;
/// How often a chain of resumptions goes on by itself.
const CHAIN_MAX: u32 = 5;
/// How the idempotency keys of resumptions begin: one for each time in the chain, and one run for each interruption.
const KEY: &str = "resume";

impl Engine {
    /// Returns what has to be started to go on with a run that was interrupted, if that repeats nothing.
    pub(super) fn resumption_of(&self, typed: &str) -> Result<Start, AppError> {
        let dir = self.find(typed)?;
        let spec = self.look(&dir)?;
        let (state, _) = journal::read_state(&dir).map_err(store_error)?;
        match lost(&state) {
            Some(lost) => resumption(&spec, &state, lost),
            None => {
                let (_, explanation, _) = self.status(&spec, &state);
                let short = spec.id.short();
                let error = AppError::usage(format!("the run {short} was not interrupted: {explanation}"));
                Err(match super::runs::session_of(&spec, &state).filter(|_| state.ending().is_some()) {
                    Some(session) => error.hint(format!(
                        "to continue its conversation: volery run {} --session {session} \"…\"",
                        spec.agent
                    )),
                    None => error,
                })
            }
        }
    }

    /// Goes on with the runs whose agents say so and whose keeper and worker were both lost. Once for each, whoever
    /// comes first, and a bounded number of times in a row.
    pub(super) async fn resume_marked(self: &Arc<Self>) -> Result<(), AppError> {
        for start in self.off_loop(Self::all_marked).await? {
            // What stands in the way of one is told by `volery resume`, and does not concern the others.
            let _ = self.start(start).await;
        }
        Ok(())
    }

    fn all_marked(&self) -> Result<Vec<Start>, AppError> {
        self.ingest()?;
        let outcomes = [OutcomeKind::Interrupted, OutcomeKind::Partial];
        let query = ListQuery {
            outcomes: &outcomes,
            newer_than_ms: Some(clock::now().as_millisecond() - RESUMED_WITHIN_MS),
            limit: LOOKED_AT_MAX,
            ..ListQuery::default()
        };
        let found = self.indexed(|index| index.list(&query))?;
        Ok(found.into_iter().filter_map(|run| self.marked(run.id)).collect())
    }

    /// Returns what goes on with a run, if its agent wants that and nobody did it yet.
    fn marked(&self, run: RunId) -> Option<Start> {
        let dir = self.home.run_dir(run);
        let spec = dir.read_spec().ok()?;
        let (state, _) = journal::read_state(&dir).ok()?;
        match resumption_by_itself(&spec, &state)? {
            Ok(start) => Some(Start { attachment: Attachment::Detached, ..start }),
            Err(_) => None,
        }
    }
}

/// Returns what keeps a run from being gone on with when a server starts, although its agent says so.
pub(super) fn obstacle(spec: &RunSpec, state: &State) -> Option<String> {
    let reason = resumption_by_itself(spec, state)?.err()?;
    Some(format!("it is not gone on with by itself: {reason}"))
}

/// Returns what goes on with a run, or why that cannot be, if its agent wants it done by itself.
fn resumption_by_itself(spec: &RunSpec, state: &State) -> Option<Result<Start, AppError>> {
    let lost = lost(state).filter(|lost| matches!(lost, Lost::KeeperAndWorker | Lost::BeforeStart))?;
    // A child belongs to its parent, which ended with it and delegates anew.
    if spec.on_interrupt != OnInterrupt::Resume || spec.parent.is_some() {
        return None;
    }
    if times_resumed(spec) >= CHAIN_MAX {
        let message = format!("it and those before it were interrupted {} times in a row", CHAIN_MAX + 1);
        return Some(Err(AppError::usage(message)));
    }
    Some(resumption(spec, state, lost))
}

/// Returns what has to be started to go on with an interrupted run.
fn resumption(spec: &RunSpec, state: &State, lost: Lost) -> Result<Start, AppError> {
    let short = spec.id.short();
    let is_of_dialect = !spec.setup.inherit.is_empty();
    let surely_nothing = spec.on_interrupt == OnInterrupt::Resume || lost == Lost::BeforeStart;
    let begun = !(state.attempts.is_empty() && surely_nothing);
    let start = Start {
        agent: spec.agent.to_string(),
        prompt: spec.prompt.clone(),
        directory: Some(spec.directory.clone()),
        model: spec.model.clone(),
        output_schema: spec.setup.output_schema.clone(),
        limits: (&spec.limits).into(),
        on_disconnect: Some(spec.on_disconnect),
        permission: if is_of_dialect { Permission::default() } else { by_caller(spec) },
        definition: is_of_dialect.then(|| Box::new(agent_of_dialect(spec))),
        unattended: spec.unattended.clone().map(Unattended::AsBefore),
        // Whoever comes first goes on with it; who comes later is told of that run.
        idempotency_key: Some(format!("{KEY}-{}-{}", times_resumed(spec) + 1, spec.id)),
        // What was not begun is told as before.
        resumes: Some(Resumes {
            run: spec.id,
            begun: begun || spec.resumes.is_some_and(|before| before.begun),
        }),
        ..Start::default()
    };
    if !begun {
        let session = spec.session.as_ref().map(ToString::to_string);
        return Ok(Start { session, fork: spec.fork, ..start });
    }
    if !honour::starts_a_process(&spec.backend) {
        let message = format!("the run {short} had begun, and its steps would be taken once more");
        return Err(AppError::usage(message).hint(format!("volery show {short} tells how far it came")));
    }
    match super::runs::session_of(spec, state) {
        Some(session) => Ok(Start { session: Some(session), ..start }),
        None => {
            let message = format!("the run {short} had begun and named no session to go on with");
            Err(AppError::usage(message).hint(format!("volery show {short} tells how far it came")))
        }
    }
}

/// Returns the agent of a run of a dialect: it is defined only there, so it is as the run's record has it, and may do what it might
/// then. The environment of the server is not on record, and whoever continues the run may have more in theirs.
fn agent_of_dialect(spec: &RunSpec) -> Agent {
    let mut agent = conversation::recorded_agent(spec.clone());
    agent.setup.inherit.remove(&Inherited::Environment);
    agent
}

/// Returns what the caller asked the run to be allowed and denied.
fn by_caller(spec: &RunSpec) -> Permission {
    let grant = spec.grants.iter().find(|grant| grant.source == GrantSource::Caller);
    grant.map(|grant| grant.asked.clone()).unwrap_or_default()
}

/// Returns who was lost, if that ended the run.
fn lost(state: &State) -> Option<Lost> {
    match &state.ending()?.outcome {
        Outcome::Interrupted { lost } | Outcome::Partial { cause: Cause::Interrupted { lost } } => {
            Some(*lost)
        }
        Outcome::Succeeded
        | Outcome::Partial { .. }
        | Outcome::Failed { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Cancelled { .. }
        | Outcome::OverBudget { .. }
        | Outcome::Refused { .. } => None,
    }
}

/// Returns how many resumptions led to this run.
fn times_resumed(spec: &RunSpec) -> u32 {
    let key = spec.idempotency.as_ref().map(|known| known.key.as_str()).unwrap_or_default();
    let number = key.strip_prefix(KEY).and_then(|rest| rest.strip_prefix('-'));
    number.and_then(|rest| rest.split('-').next()).and_then(|number| number.parse().ok()).unwrap_or(0)
}
