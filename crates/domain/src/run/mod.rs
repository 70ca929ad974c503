//! One execution of an agent: what was asked (`spec`), what happened (`event`), where it stands (`state`),
//! what to do next (`step`), and how it ended (`outcome`).

mod event;
mod outcome;
mod spec;
mod state;
mod step;
mod usage;

pub use event::{CallClass, CallKind, Containment, Enforcer, Envelope, Event, Stream, WaitReason};
pub use outcome::{
    Cause, Ending, Failure, LimitName, Lost, ModelError, Outcome, OutcomeKind, ResultText, TimeLimit,
};
pub use spec::{
    BackendSpec, Caller, ContainmentDemand, Door, Idempotency, OnDisconnect, OnInterrupt, RunSpec,
    SPEC_VERSION,
};
pub use state::{Before, Call, ChildRun, Phase, Question, State};
pub use step::{AgentEnd, CancelOrder, Effect, Input, StopHow, Supervision, SupervisionLimits};
pub use usage::{Cost, CostBasis, Usage};

#[cfg(test)]
mod tests;
