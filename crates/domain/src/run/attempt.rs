//! One run may need more than one process of its agent. The end of an attempt, the available backends and the
//! attempts so far decide whether there is another attempt, with which backend, conversation and prompt.

use serde::{Deserialize, Serialize};

use super::{AgentEnd, Failure};
use crate::id::{BackendName, SessionId};

/// The most attempts of a run.
pub const ATTEMPTS_MAX: usize = 16;

/// The parameters of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// 0: the agent's own backend and model; others are its fallbacks, from 1.
    pub choice: usize,
    pub continuation: Continuation,
    pub prompt_kind: PromptKind,
}

/// The conversation of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Continuation {
    New,
    /// The vendor's own, by the vendor's session id.
    Continue(SessionId),
    /// A copy of the vendor's own conversation.
    Fork(SessionId),
    /// A new one, with the history in its prompt.
    Replay,
    /// That of the previous attempt, for which the vendor has no session id.
    PreviousAttempt,
}

/// The kind of a conversation, as it is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationKind {
    New,
    Continued,
    Forked,
    Replayed,
}

/// The kind of prompt of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptKind {
    /// The run's own prompt.
    Prompt,
    /// Continues after an attempt that may have changed something and was rejected by its model's service for lack of
    /// capacity.
    #[serde(rename = "go_on")]
    Continue,
    /// Continues after its worker was lost.
    Resume,
    /// Requests a summary, because the agent gave no answer.
    Summary,
    /// Requests a valid answer, with the errors of the last one.
    Correct,
    /// Repeats the request: the previous attempt timed out, or its program crashed.
    #[serde(rename = "again")]
    Retry,
}

/// A backend and model that the run may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendChoice {
    pub backend: BackendName,
    /// The vendor stores conversations.
    pub supports_sessions: bool,
    /// The vendor can copy a conversation.
    pub supports_fork: bool,
    /// Each tool call is reported, so no report means no call.
    pub reports_tool_calls: bool,
    /// It replies to prompts; a script does not.
    pub is_conversational: bool,
}

/// The conversation before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum History {
    Empty,
    /// A conversation whose id the caller chose and only the backend understands.
    CallerChosen(SessionId),
    /// A conversation of earlier runs that is on record here, with the vendor's session id if a vendor has it too.
    Recorded {
        native: Option<(BackendName, SessionId)>,
        fork: bool,
    },
}

/// The data for the decision about another attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryContext {
    /// The agent's own backend, then its fallbacks in order.
    pub choices: Vec<BackendChoice>,
    pub history: History,
    /// An agent without an answer gets a prompt for a summary.
    pub summary: bool,
    /// One attempt that was cut short is retried.
    pub retry: bool,
}

/// An earlier attempt and its effects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    pub choice: usize,
    pub conversation: ConversationKind,
    pub prompt_kind: PromptKind,
    /// The vendor's session id, once it was reported.
    pub vendor_session: Option<SessionId>,
    /// A tool was used that changes something, or another run was started.
    pub had_side_effects: bool,
}

/// The decision after an attempt has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// The end of the attempt is that of the run.
    Finish,
    Again(Attempt),
}

/// Returns how the run begins.
pub fn first_attempt(context: &RetryContext) -> Attempt {
    Attempt { choice: 0, continuation: initial_thread(context, 0), prompt_kind: PromptKind::Prompt }
}

/// Decides what to do after the end of the last attempt.
pub fn next_attempt(context: &RetryContext, tried: &[AttemptRecord], end: &AgentEnd) -> NextStep {
    let Some(last) = tried.last().filter(|_| tried.len() < ATTEMPTS_MAX) else { return NextStep::Finish };
    let again = match end {
        AgentEnd::Failed(Failure::Model { error, .. }) if error.is_capacity_error() => {
            fall_back(context, last)
        }
        // The agent's own backend must start; a fallback that does not is skipped.
        AgentEnd::Failed(Failure::Spawn { .. }) if last.choice > 0 => fall_back(context, last),
        AgentEnd::Failed(Failure::Session { .. }) => replay_conversation(context, last),
        AgentEnd::Unanswered if context.summary && last.prompt_kind != PromptKind::Summary => Some(Attempt {
            choice: last.choice,
            continuation: Continuation::PreviousAttempt,
            prompt_kind: PromptKind::Summary,
        }),
        AgentEnd::Failed(Failure::Schema { .. }) => ask_for_correction(context, tried, last),
        AgentEnd::Done
        | AgentEnd::Failed(_)
        | AgentEnd::Unanswered
        | AgentEnd::OverBudget(_)
        | AgentEnd::Refused(_)
        | AgentEnd::Lost => None,
    };
    again.map_or(NextStep::Finish, NextStep::Again)
}

/// Returns the retry of a run whose last attempt timed out. There is never a second retry.
pub fn retry_after_timeout(context: &RetryContext, tried: &[AttemptRecord]) -> Option<Attempt> {
    let last = tried.last().filter(|_| context.retry && tried.len() < ATTEMPTS_MAX)?;
    let used = tried.iter().any(|tried| tried.prompt_kind == PromptKind::Retry);
    if used || last.prompt_kind == PromptKind::Summary {
        return None;
    }
    let choice = context.choices.get(last.choice)?;
    let thread = match (&last.vendor_session, last.conversation) {
        (Some(native), _) if choice.supports_sessions => Continuation::Continue(native.clone()),
        (_, ConversationKind::Replayed) => Continuation::Replay,
        (_, ConversationKind::New | ConversationKind::Continued | ConversationKind::Forked) => {
            initial_thread(context, last.choice)
        }
    };
    Some(Attempt { choice: last.choice, continuation: thread, prompt_kind: PromptKind::Retry })
}

/// The same for an attempt whose program crashed.
pub fn retry_after_crash(context: &RetryContext, tried: &[AttemptRecord], end: &AgentEnd) -> Option<Attempt> {
    let crashed = match end {
        AgentEnd::Failed(Failure::Exit { .. } | Failure::Signal { .. }) => true,
        // A program that reports why it failed would fail again.
        AgentEnd::Failed(
            Failure::Agent { .. }
            | Failure::Spawn { .. }
            | Failure::Output { .. }
            | Failure::Model { .. }
            | Failure::Session { .. }
            | Failure::Schema { .. }
            | Failure::Acceptance { .. }
            | Failure::Limit { .. }
            | Failure::Storage { .. }
            | Failure::Bug { .. },
        )
        | AgentEnd::Done
        | AgentEnd::Unanswered
        | AgentEnd::OverBudget(_)
        | AgentEnd::Refused(_)
        | AgentEnd::Lost => false,
    };
    retry_after_timeout(context, tried).filter(|_| crashed)
}

/// Returns how to continue a run whose worker was lost; `None` if that could repeat side effects.
pub fn resume_attempt(context: &RetryContext, tried: &[AttemptRecord]) -> Option<Attempt> {
    let Some(last) = tried.last() else {
        // `AttemptStarted` is written before the agent starts, so without one nothing ran.
        return Some(first_attempt(context));
    };
    let choice = context.choices.get(last.choice)?;
    let native =
        last.vendor_session.clone().filter(|_| choice.supports_sessions && tried.len() < ATTEMPTS_MAX)?;
    Some(Attempt {
        choice: last.choice,
        continuation: Continuation::Continue(native),
        prompt_kind: PromptKind::Resume,
    })
}

/// Returns an attempt with the next choice. An attempt that may have changed something is continued and not repeated.
fn fall_back(context: &RetryContext, last: &AttemptRecord) -> Option<Attempt> {
    // Only the agent itself can report what it did.
    if last.prompt_kind == PromptKind::Summary {
        return None;
    }
    let number = last.choice + 1;
    let (before, choice) = (context.choices.get(last.choice)?, context.choices.get(number)?);
    if !last.had_side_effects && before.reports_tool_calls {
        let prompt_kind = last.prompt_kind;
        let thread = match prompt_kind {
            // These prompts make sense only with the history of the earlier attempts.
            PromptKind::Continue
            | PromptKind::Resume
            | PromptKind::Summary
            | PromptKind::Correct
            | PromptKind::Retry => continue_with(before, choice, last),
            PromptKind::Prompt => initial_thread(context, number),
        };
        return Some(Attempt { choice: number, continuation: thread, prompt_kind });
    }
    Some(Attempt {
        choice: number,
        continuation: continue_with(before, choice, last),
        prompt_kind: PromptKind::Continue,
    })
}

/// Continues the vendor's conversation if the backend stays the same, otherwise replays it.
fn continue_with(before: &BackendChoice, choice: &BackendChoice, last: &AttemptRecord) -> Continuation {
    match &last.vendor_session {
        Some(native) if choice.supports_sessions && choice.backend == before.backend => {
            Continuation::Continue(native.clone())
        }
        Some(_) | None => Continuation::Replay,
    }
}

/// Requests a valid answer once more, in the same conversation, or with a replay if no vendor stores it.
fn ask_for_correction(
    context: &RetryContext,
    tried: &[AttemptRecord],
    last: &AttemptRecord,
) -> Option<Attempt> {
    let choice = context.choices.get(last.choice).filter(|choice| choice.is_conversational)?;
    if tried.iter().any(|attempt| attempt.prompt_kind == PromptKind::Correct) {
        return None;
    }
    let thread = match (&last.vendor_session, &context.history) {
        (Some(native), _) if choice.supports_sessions => Continuation::Continue(native.clone()),
        (None, History::CallerChosen(session))
            if choice.supports_sessions && last.conversation == ConversationKind::Continued =>
        {
            Continuation::Continue(session.clone())
        }
        _ => Continuation::Replay,
    };
    Some(Attempt { choice: last.choice, continuation: thread, prompt_kind: PromptKind::Correct })
}

/// The vendor has lost the conversation: replays it.
fn replay_conversation(context: &RetryContext, last: &AttemptRecord) -> Option<Attempt> {
    let is_recorded = match context.history {
        History::Recorded { .. } => true,
        // The run's own earlier attempts are always on record.
        History::Empty => last.prompt_kind != PromptKind::Prompt,
        History::CallerChosen(_) => false,
    };
    let by_vendor = match last.conversation {
        ConversationKind::Continued | ConversationKind::Forked => true,
        ConversationKind::New | ConversationKind::Replayed => false,
    };
    let again = is_recorded && by_vendor && !last.had_side_effects;
    again.then_some(Attempt {
        choice: last.choice,
        continuation: Continuation::Replay,
        prompt_kind: last.prompt_kind,
    })
}

fn initial_thread(context: &RetryContext, number: usize) -> Continuation {
    let choice = &context.choices[number];
    match &context.history {
        History::Empty => Continuation::New,
        History::CallerChosen(session) if choice.backend == context.choices[0].backend => {
            Continuation::Continue(session.clone())
        }
        History::CallerChosen(_) => Continuation::New,
        History::Recorded { native: Some((backend, session)), fork }
            if *backend == choice.backend && choice.supports_sessions =>
        {
            match (fork, choice.supports_fork) {
                (false, _) => Continuation::Continue(session.clone()),
                (true, true) => Continuation::Fork(session.clone()),
                (true, false) => Continuation::Replay,
            }
        }
        History::Recorded { .. } => Continuation::Replay,
    }
}

impl Continuation {
    pub fn kind(&self) -> ConversationKind {
        match self {
            Self::New => ConversationKind::New,
            Self::Continue(_) | Self::PreviousAttempt => ConversationKind::Continued,
            Self::Fork(_) => ConversationKind::Forked,
            Self::Replay => ConversationKind::Replayed,
        }
    }
}

#[cfg(test)]
mod tests;
