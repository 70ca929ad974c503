//! The exit codes of the program: documented, stable, and decided only here.

use domain::run::{Failure, Outcome, OutcomeKind, PartialCause};

use engine::{ErrorKind, RunView};

/// How the program ends.
///
/// | code | means | outcomes of a run | errors |
/// |---|---|---|---|
/// | 0 | done | `succeeded` | |
/// | 1 | the run failed | `failed`, `interrupted`, `partial` after an interruption | `backend` |
/// | 2 | usage | | `usage` |
/// | 3 | denied by policy | `refused` | `denied` |
/// | 4 | limit reached | `timed_out`, `over_budget`, `failed` at a resource limit, `partial` at a limit | `limit` |
/// | 5 | not found | | `not_found` |
/// | 70 | a defect | `failed` by a defect of Volery | `internal` |
/// | 130 | interrupted | `cancelled`, `partial` after a cancel | |
///
/// A partial result has the code of its cause: a script that checks for 0 never mistakes it for a complete one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    Done,
    RunFailed,
    Usage,
    Denied,
    Limit,
    NotFound,
    Bug,
    Interrupted,
}

impl Exit {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 8] = [
        Self::Done,
        Self::RunFailed,
        Self::Usage,
        Self::Denied,
        Self::Limit,
        Self::NotFound,
        Self::Bug,
        Self::Interrupted,
    ];

    /// Returns the number that the shell sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::RunFailed => 1,
            Self::Usage => 2,
            Self::Denied => 3,
            Self::Limit => 4,
            Self::NotFound => 5,
            Self::Bug => 70,
            Self::Interrupted => 130,
        }
    }

    /// Returns the exit for how a run ended.
    pub(crate) fn from_outcome(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Done,
            Outcome::Partial { cause } => match cause {
                PartialCause::TimedOut { .. } | PartialCause::OverBudget { .. } => Self::Limit,
                PartialCause::Cancelled { .. } => Self::Interrupted,
                PartialCause::Interrupted { .. } => Self::RunFailed,
            },
            Outcome::Failed { failure } => match failure {
                Failure::Limit { .. } => Self::Limit,
                Failure::Bug { .. } => Self::Bug,
                Failure::Exit { .. }
                | Failure::Signal { .. }
                | Failure::Spawn { .. }
                | Failure::Agent { .. }
                | Failure::Output { .. }
                | Failure::Model { .. }
                | Failure::Session { .. }
                | Failure::Schema { .. }
                | Failure::Acceptance { .. }
                | Failure::Storage { .. } => Self::RunFailed,
            },
            Outcome::TimedOut { .. } | Outcome::OverBudget { .. } => Self::Limit,
            Outcome::Cancelled { .. } => Self::Interrupted,
            Outcome::Refused { .. } => Self::Denied,
            Outcome::Interrupted { .. } => Self::RunFailed,
        }
    }

    /// Returns the exit for an outcome if only its name is known.
    pub(crate) fn from_kind(kind: OutcomeKind) -> Self {
        match kind {
            OutcomeKind::Succeeded => Self::Done,
            OutcomeKind::Partial | OutcomeKind::Failed | OutcomeKind::Interrupted => Self::RunFailed,
            OutcomeKind::TimedOut | OutcomeKind::OverBudget => Self::Limit,
            OutcomeKind::Cancelled => Self::Interrupted,
            OutcomeKind::Refused => Self::Denied,
        }
    }

    /// Returns the exit for a run; an active run is not a failure.
    pub(crate) fn from_run(run: &RunView) -> Self {
        match &run.outcome {
            Some(outcome) => Self::from_outcome(outcome),
            None => {
                let outcome_kind = OutcomeKind::ALL.into_iter().find(|kind| kind.as_str() == run.status);
                outcome_kind.map_or(Self::Done, Self::from_kind)
            }
        }
    }

    /// Returns the exit for several runs: that of the first one that did not succeed.
    pub(crate) fn from_runs<'a>(runs: impl IntoIterator<Item = &'a RunView>) -> Self {
        runs.into_iter().map(Self::from_run).find(|exit| *exit != Self::Done).unwrap_or(Self::Done)
    }

    /// Returns the exit for an error.
    pub(crate) fn from_error(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Usage => Self::Usage,
            ErrorKind::Denied => Self::Denied,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Limit => Self::Limit,
            ErrorKind::Backend => Self::RunFailed,
            ErrorKind::Internal => Self::Bug,
        }
    }
}
