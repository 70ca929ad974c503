//! The outcome of a run: each way to end is a variant and not a string.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Usage;
use crate::duration::display_ms;
use crate::id::BackendName;
use crate::invisible_text::strip_invisible;

/// The most characters of a line of stderr that an explanation includes.
const REASON_CHARS_MAX: usize = 500;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    Succeeded,
    /// Ended early with usable output.
    Partial {
        cause: PartialCause,
    },
    Failed {
        #[serde(flatten)]
        failure: Failure,
    },
    TimedOut {
        limit: TimeLimit,
    },
    Cancelled {
        by: String,
    },
    OverBudget {
        limit: LimitName,
    },
    /// Never ran, for this reason.
    Refused {
        reason: String,
    },
    /// Its worker was lost.
    Interrupted {
        lost: LostProcess,
    },
}

/// Why a run with usable output ended early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum PartialCause {
    TimedOut { limit: TimeLimit },
    Cancelled { by: String },
    OverBudget { limit: LimitName },
    Interrupted { lost: LostProcess },
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Failure {
    /// The agent ended with a code other than 0.
    Exit { code: i32 },
    /// The agent was ended by a signal that was not ours.
    Signal { signal: i32 },
    /// The agent could not be started.
    Spawn { reason: String },
    /// The agent itself reports an error.
    Agent { message: String },
    /// The agent's output does not follow the format of its backend.
    Output { reason: String },
    /// The model did not answer, or would not.
    Model { error: ModelError, message: String },
    /// The conversation cannot be continued.
    Session { reason: String },
    /// The answer does not match the requested format.
    Schema {
        reason: String,
        /// The errors, one per line.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        errors: Vec<String>,
    },
    /// The agent succeeded, and an acceptance command failed.
    Acceptance {
        command: String,
        /// The result of the command.
        reason: String,
        /// The end of its output.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        output: String,
    },
    /// The run passed a resource limit and was killed.
    Limit { limit: LimitName },
    /// The journal could not be written.
    Storage { reason: String },
    /// A defect in Volery.
    Bug { reason: String },
}

/// The reason why a model did not answer; decides about a fallback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelError {
    /// A missing, wrong or insufficient key.
    Denied,
    /// Too many requests, or a quota is used up.
    RateLimit,
    /// The service is temporarily unable to serve.
    Overloaded,
    Unreachable,
    /// The conversation exceeds the model's context.
    TooLong,
    /// The model refused the request.
    Refusal,
    /// No such model.
    Unknown,
    /// The service rejects the request as invalid.
    BadRequest,
    Other,
}

/// A time limit of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeLimit {
    Total,
    Idle,
    /// The keeper's own: the worker did not end the run in time.
    Hard,
}

/// A limit other than time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    Memory,
    Cpu,
    Processes,
    OpenFiles,
    FileSize,
    Depth,
    Children,
    TreeRuns,
    Turns,
    ToolCalls,
    Tokens,
    Cost,
    /// The time in which an agent loop still makes ordinary calls.
    Time,
}

/// Which process of the run was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostProcess {
    /// The client died before a keeper was started: nothing ran.
    BeforeStart,
    Worker,
    /// The worker stopped answering and was killed by its keeper.
    HungWorker,
    KeeperAndWorker,
}

/// The name of an outcome without its details, for lists, filters and sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    Succeeded,
    Partial,
    Failed,
    TimedOut,
    Cancelled,
    OverBudget,
    Refused,
    Interrupted,
}

/// Whether anything besides the agent confirms the success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verification {
    /// All its acceptance commands succeeded.
    Verified,
    /// Only the agent claims it.
    Claimed,
}

/// The final record of a run: its outcome and all details.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    #[serde(flatten)]
    pub outcome: Outcome,
    #[serde(default)]
    pub result: ResultText,
    /// The answer as a value, if a format was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<serde_json::Value>,
    /// The agent's answer was not quite valid JSON and was repaired.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repaired: bool,
    /// The backend that carried it out, if it was not the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<BackendName>,
    /// From the start of the agent to its end.
    pub duration_ms: u64,
    #[serde(default)]
    pub usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The last lines of the error stream, when the run did not succeed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
    /// What the run was waiting for when it timed out, as a clause; empty if it was working, or if that is unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waited_for: String,
    /// Processes of the run that had to be killed at the end.
    #[serde(default)]
    pub killed: u32,
    /// How often the agent was denied something.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub denials_count: u64,
    /// The run's limit on silence, if it ended the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Ending {
    /// Returns an ending without any details.
    pub fn from_outcome(outcome: Outcome) -> Self {
        Self {
            outcome,
            result: ResultText::Nothing,
            structured: None,
            repaired: false,
            backend: None,
            duration_ms: 0,
            usage: Usage::default(),
            exit_code: None,
            stderr_tail: String::new(),
            waited_for: String::new(),
            killed: 0,
            denials_count: 0,
            idle_timeout_ms: None,
        }
    }

    /// Explains in one line how the run ended. A failure without a reason gets the one from stderr; a time-out, what
    /// the run was waiting for.
    pub fn explanation(&self) -> String {
        let silent = self.idle_timeout_ms.map(|ms| format!("silent for {} (idle_timeout)", display_ms(ms)));
        let text = match (&self.outcome, silent) {
            (Outcome::TimedOut { limit: TimeLimit::Idle }, Some(silent)) => format!("timed out: {silent}"),
            (Outcome::Partial { cause: PartialCause::TimedOut { limit: TimeLimit::Idle } }, Some(silent)) => {
                format!("partial: timed out, {silent}, with usable output so far")
            }
            (outcome, _) => outcome.to_string(),
        };
        let reason = match &self.outcome {
            Outcome::Failed { failure } if failure.lacks_reason() => stderr_reason(&self.stderr_tail),
            Outcome::TimedOut { .. } | Outcome::Partial { cause: PartialCause::TimedOut { .. } } => {
                Some(self.waited_for.clone()).filter(|waited_for| !waited_for.is_empty())
            }
            Outcome::Succeeded
            | Outcome::Partial { .. }
            | Outcome::Failed { .. }
            | Outcome::Cancelled { .. }
            | Outcome::OverBudget { .. }
            | Outcome::Refused { .. }
            | Outcome::Interrupted { .. } => None,
        };
        match reason {
            Some(reason) => format!("{text}: {reason}"),
            None => text,
        }
    }
}

/// Returns the line of stderr that most likely contains the reason of a failure, without invisible characters.
///
/// It is the last line that mentions an error, else the last line. Indented lines are frames of a stack trace or
/// details of the line above them; Node.js prints its version below a trace.
pub fn stderr_reason(stderr: &str) -> Option<String> {
    const WORDS: [&str; 4] = ["error", "fatal", "panic", "exception"];
    let stderr = strip_invisible(stderr);
    let lines = || stderr.lines().filter(|line| !line.trim().is_empty());
    let is_frame = |line: &&str| line.starts_with([' ', '\t']) || line.starts_with("Node.js v");
    let is_error = |line: &&str| {
        let line = line.to_lowercase();
        WORDS.iter().any(|word| line.contains(word))
    };
    let mut outer = lines().filter(|line| !is_frame(line));
    let line = outer.clone().rfind(is_error).or_else(|| outer.next_back()).or_else(|| lines().next_back())?;
    Some(line.trim().chars().take(REASON_CHARS_MAX).collect())
}

/// The location of a run's answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultText {
    #[default]
    Nothing,
    Inline(String),
    /// In the file `result.txt` of the run.
    File {
        bytes: u64,
    },
}

impl Outcome {
    /// Returns the time limit that ended the run.
    pub fn time_limit(&self) -> Option<TimeLimit> {
        match self {
            Self::TimedOut { limit } | Self::Partial { cause: PartialCause::TimedOut { limit } } => {
                Some(*limit)
            }
            Self::Succeeded
            | Self::Partial { .. }
            | Self::Failed { .. }
            | Self::Cancelled { .. }
            | Self::OverBudget { .. }
            | Self::Refused { .. }
            | Self::Interrupted { .. } => None,
        }
    }

    pub fn kind(&self) -> OutcomeKind {
        match self {
            Self::Succeeded => OutcomeKind::Succeeded,
            Self::Partial { .. } => OutcomeKind::Partial,
            Self::Failed { .. } => OutcomeKind::Failed,
            Self::TimedOut { .. } => OutcomeKind::TimedOut,
            Self::Cancelled { .. } => OutcomeKind::Cancelled,
            Self::OverBudget { .. } => OutcomeKind::OverBudget,
            Self::Refused { .. } => OutcomeKind::Refused,
            Self::Interrupted { .. } => OutcomeKind::Interrupted,
        }
    }

    /// Turns an early end with usable output into a partial success.
    #[must_use]
    pub fn with_output(self, usable: bool) -> Self {
        if !usable {
            return self;
        }
        match self {
            Self::TimedOut { limit } => Self::Partial { cause: PartialCause::TimedOut { limit } },
            Self::Cancelled { by } => Self::Partial { cause: PartialCause::Cancelled { by } },
            Self::OverBudget { limit } => Self::Partial { cause: PartialCause::OverBudget { limit } },
            Self::Interrupted { lost } => Self::Partial { cause: PartialCause::Interrupted { lost } },
            other @ (Self::Succeeded | Self::Partial { .. } | Self::Failed { .. } | Self::Refused { .. }) => {
                other
            }
        }
    }
}

impl OutcomeKind {
    pub const ALL: [Self; 8] = [
        Self::Succeeded,
        Self::Partial,
        Self::Failed,
        Self::TimedOut,
        Self::Cancelled,
        Self::OverBudget,
        Self::Refused,
        Self::Interrupted,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Partial => "partial",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::OverBudget => "over_budget",
            Self::Refused => "refused",
            Self::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for OutcomeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Verification {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Claimed => "claimed",
        }
    }
}

impl LimitName {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "CPU time",
            Self::Processes => "processes",
            Self::OpenFiles => "open files",
            Self::FileSize => "file size",
            Self::Depth => "depth",
            Self::Children => "children per run",
            Self::TreeRuns => "runs per tree",
            Self::Turns => "turns of the model",
            Self::ToolCalls => "tool calls",
            Self::Time => "time",
            Self::Tokens => "tokens of the model",
            Self::Cost => "cost",
        }
    }
}

impl fmt::Display for Outcome {
    /// Explains the outcome and its reason in a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded => f.write_str("succeeded"),
            Self::Partial { cause } => write!(f, "partial: {cause}, with usable output so far"),
            Self::Failed { failure } => write!(f, "failed: {failure}"),
            Self::TimedOut { limit } => write!(f, "timed out: {limit}"),
            Self::Cancelled { by } => write!(f, "cancelled by {by}"),
            Self::OverBudget { limit } => {
                write!(f, "over budget: the limit on {} was reached", limit.as_str())
            }
            Self::Refused { reason } => write!(f, "refused: {reason}"),
            Self::Interrupted { lost } => write!(f, "interrupted: {lost}"),
        }
    }
}

impl fmt::Display for PartialCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { limit } => write!(f, "timed out, {limit}"),
            Self::Cancelled { by } => write!(f, "cancelled by {by}"),
            Self::OverBudget { limit } => write!(f, "the limit on {} was reached", limit.as_str()),
            Self::Interrupted { lost } => write!(f, "interrupted, {lost}"),
        }
    }
}

impl Failure {
    /// Returns whether this failure has no reason of its own. The program's stderr may contain one.
    pub fn lacks_reason(&self) -> bool {
        match self {
            Self::Exit { .. } | Self::Signal { .. } => true,
            Self::Spawn { .. }
            | Self::Agent { .. }
            | Self::Output { .. }
            | Self::Model { .. }
            | Self::Session { .. }
            | Self::Schema { .. }
            | Self::Acceptance { .. }
            | Self::Limit { .. }
            | Self::Storage { .. }
            | Self::Bug { .. } => false,
        }
    }

    /// An answer without the requested value.
    pub fn missing_value(reason: impl Into<String>) -> Self {
        Self::Schema { reason: reason.into(), errors: Vec::new() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit { code } => write!(f, "the agent exited with code {code}"),
            Self::Signal { signal } => write!(f, "the agent was ended by signal {signal}"),
            Self::Spawn { reason } => write!(f, "the agent could not be started: {reason}"),
            Self::Agent { message } => write!(f, "the agent reports: {message}"),
            Self::Output { reason } => write!(f, "the agent's output could not be used: {reason}"),
            Self::Model { error, message } => write!(f, "{error}: {message}"),
            Self::Session { reason } => write!(f, "the session cannot be continued: {reason}"),
            Self::Schema { reason, errors: _ } => {
                write!(f, "the answer does not have the shape that was asked for: {reason}")
            }
            Self::Acceptance { command, reason, output: _ } => {
                write!(f, "not accepted: {command} {reason}")
            }
            Self::Limit { limit } => write!(f, "killed at its limit on {}", limit.as_str()),
            Self::Storage { reason } => write!(f, "what happened could not be recorded: {reason}"),
            Self::Bug { reason } => write!(f, "a defect in volery: {reason}"),
        }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Denied => "the model's service denies access",
            Self::RateLimit => "the model's service limits its use",
            Self::Overloaded => "the model's service is overloaded",
            Self::Unreachable => "the model's service cannot be reached",
            Self::TooLong => "the conversation is too long for the model",
            Self::Refusal => "the model refuses",
            Self::Unknown => "the model is not known",
            Self::BadRequest => "the model's service takes the request for wrong",
            Self::Other => "the model did not answer",
        })
    }
}

impl ModelError {
    /// Maps an HTTP status to an error, as all model services use it.
    pub fn from_http_status(status: u64) -> Self {
        match status {
            401 | 403 => Self::Denied,
            402 | 429 => Self::RateLimit,
            404 => Self::Unknown,
            413 => Self::TooLong,
            400 | 422 => Self::BadRequest,
            500..=599 => Self::Overloaded,
            _ => Self::Other,
        }
    }

    /// Returns whether a fallback may be used instead: nothing was done, and this service has no capacity.
    pub fn is_capacity_error(self) -> bool {
        match self {
            Self::RateLimit | Self::Overloaded => true,
            Self::Denied
            | Self::Unreachable
            | Self::TooLong
            | Self::Refusal
            | Self::Unknown
            | Self::BadRequest
            | Self::Other => false,
        }
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Total => "the total time-out passed",
            Self::Idle => "silent for too long (idle_timeout)",
            Self::Hard => "the worker did not end the run in time and was killed",
        })
    }
}

impl fmt::Display for LostProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeforeStart => "the program that asked died before anything was started",
            Self::Worker => "the worker was killed",
            Self::HungWorker => "the worker stopped and was killed by its keeper",
            Self::KeeperAndWorker => {
                "keeper and worker were killed or could not write, or the machine restarted"
            }
        })
    }
}
