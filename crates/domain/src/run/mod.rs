//! One execution of an agent: what was asked (`spec`), what happened (`event`), where it stands (`state`),
//! what to do next (`step`), whether it is tried again (`attempt`), and how it ended (`outcome`).

pub mod attempt;
mod changes;
mod event;
mod outcome;
pub mod replay;
mod spec;
mod state;
mod step;
mod usage;

pub use attempt::{Asked, Conversation};
pub use changes::{Branch, ChangedFile, Changes, Commits, FileChange};
pub use event::{
    CallClass, CallKind, CommandExit, Containment, Enforcer, Envelope, Event, Stream, WaitReason,
};
pub use outcome::{
    Cause, Ending, Failure, LimitName, Lost, ModelError, Outcome, OutcomeKind, ResultText, TimeLimit,
    Verification, stderr_reason,
};
pub use spec::{
    Alternative, BackendSpec, Caller, ContainmentDemand, Door, Iac, IacKind, Idempotency, OnDisconnect,
    OnInterrupt, Resumes, RunSpec, SPEC_VERSION, Unattended, UnattendedChoice,
};
pub use state::{
    Acceptance, Attempted, Before, Call, ChildRun, Part, Phase, Question, State, ToolUse, Worktree,
};
pub use step::{AgentEnd, CancelOrder, Effect, Input, StopHow, Supervision, SupervisionLimits};
pub use usage::{Cost, CostBasis, Usage};

#[cfg(test)]
mod tests;
