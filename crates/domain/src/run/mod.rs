//! One execution of an agent: its request (`spec`), its events (`event`), the state that follows from them (`state`),
//! the supervision of its process (`supervision`), short texts for people about its steps (`tool_summary`), further attempts (`attempt`), and how it ended (`outcome`).

pub mod agent_loop;
mod answer_origin;
pub mod attempt;
mod changes;
mod denial;
mod event;
mod exit;
mod outcome;
pub mod replay;
mod spec;
mod state;
mod supervision;
pub mod tool_summary;
mod usage;

pub use answer_origin::AnswerOrigin;
pub use attempt::{ConversationKind, PromptKind};
pub use changes::{Branch, ChangedFile, Changes, Commits, FileChange};
pub use denial::{Denial, DenialCause};
pub use event::{
    CallBody, CallClass, CallDetails, CallKind, CallVerdict, CommandExit, Containment, Enforcer, Envelope,
    Event, NetworkRestriction, StdStream, WaitReason,
};
pub use exit::Exit;
pub use outcome::{
    Ending, Failure, LimitName, LostProcess, ModelError, Outcome, OutcomeKind, PartialCause, ResultText,
    TimeLimit, Verification, stderr_reason,
};
pub use spec::{
    BackendSpec, Caller, CallerOrigin, ContainmentDemand, Iac, IacKind, Idempotency, OnDisconnect,
    OnInterrupt, ResolvedFallback, ResumedRun, RunSpec, SPEC_VERSION, Unattended, UnattendedChoice,
};
pub use state::{
    Acceptance, AttemptState, Cancellation, ChildRun, LoopCall, ModelUsage, Phase, ProgressMark, RunQuestion,
    RunState, ToolUse, Worktree,
};
pub use supervision::{
    AgentEnd, CancelRequest, Effect, StopMode, Supervision, SupervisionInput, SupervisionLimits,
};
pub use usage::{Cost, CostBasis, Usage};

#[cfg(test)]
mod tests;
