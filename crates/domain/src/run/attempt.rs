//! One run may need more than one process of its agent. How an attempt ended, what the run may choose from and what was
//! tried so far say whether there is another one, and with which backend, which conversation and which words.

use serde::{Deserialize, Serialize};

use super::{AgentEnd, Failure};
use crate::id::{BackendName, SessionId};

/// More attempts than this are never made, whatever happens.
pub const ATTEMPTS_MAX: usize = 16;

/// What an attempt is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// 0: the agent's own backend and model; others count its fallbacks from 1.
    pub choice: usize,
    pub thread: Thread,
    pub asked: Asked,
}

/// The conversation that an attempt is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thread {
    New,
    /// The vendor's own, by the vendor's name for it.
    Continue(SessionId),
    /// A copy of the vendor's own.
    Fork(SessionId),
    /// A new one that is told what was said before.
    Replay,
    /// That of the attempt before, for which the vendor has no name.
    Last,
}

/// The kind of a thread, as it is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conversation {
    New,
    Continued,
    Forked,
    Replayed,
}

/// What the agent is asked in an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// The run's own prompt.
    Prompt,
    /// To go on after an attempt that may have changed something and found no room at its model.
    GoOn,
    /// To go on after its worker was lost.
    Resume,
    /// To say what it did, since it answered nothing.
    Summary,
    /// To answer again in the form that was asked for, told what was wrong.
    Correct,
    /// To do it after all: the attempt before ran out of time, or its program broke.
    Again,
}

/// A backend and model that the run may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub backend: BackendName,
    /// The vendor keeps conversations.
    pub sessions: bool,
    /// The vendor can copy a conversation.
    pub forks: bool,
    /// Each use of a tool is told, so that none told means none made.
    pub tells_tools: bool,
    /// It answers what it is asked; a script says what it says.
    pub converses: bool,
}

/// What was said before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Past {
    Nothing,
    /// A conversation whose id the caller chose and only the backend understands.
    Chosen(SessionId),
    /// A conversation of earlier runs that is on record here; with the vendor's name for it where a vendor has it too.
    Known {
        native: Option<(BackendName, SessionId)>,
        fork: bool,
    },
}

/// What the run may choose from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circumstances {
    /// The agent's own backend, then its fallbacks in order.
    pub choices: Vec<Choice>,
    pub past: Past,
    /// An agent that answers nothing is asked for a summary.
    pub summary: bool,
    /// One attempt that was cut short is made again.
    pub retry: bool,
}

/// An attempt that was made, and its traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    pub choice: usize,
    pub conversation: Conversation,
    pub asked: Asked,
    /// The vendor's name for the conversation, once it was told.
    pub native: Option<SessionId>,
    /// A tool was used that changes something, or another run was started.
    pub acted: bool,
}

/// What to do after an attempt has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Its end is the run's.
    Finish,
    Again(Attempt),
}

/// Returns how the run begins.
pub fn first(circumstances: &Circumstances) -> Attempt {
    Attempt { choice: 0, thread: thread_of(circumstances, 0), asked: Asked::Prompt }
}

/// Decides what follows on the end of the last attempt.
pub fn next(circumstances: &Circumstances, tried: &[Tried], end: &AgentEnd) -> Next {
    let Some(last) = tried.last().filter(|_| tried.len() < ATTEMPTS_MAX) else { return Next::Finish };
    let again = match end {
        AgentEnd::Failed(Failure::Model { error, .. }) if error.is_shortage() => {
            fall_back(circumstances, last)
        }
        // The agent's own backend must start; a fallback that does not is passed over.
        AgentEnd::Failed(Failure::Spawn { .. }) if last.choice > 0 => fall_back(circumstances, last),
        AgentEnd::Failed(Failure::Session { .. }) => replay(circumstances, last),
        AgentEnd::Unanswered if circumstances.summary && last.asked != Asked::Summary => {
            Some(Attempt { choice: last.choice, thread: Thread::Last, asked: Asked::Summary })
        }
        AgentEnd::Failed(Failure::Schema { .. }) => correct(circumstances, tried, last),
        AgentEnd::Done
        | AgentEnd::Failed(_)
        | AgentEnd::Unanswered
        | AgentEnd::OverBudget(_)
        | AgentEnd::Refused(_)
        | AgentEnd::Lost => None,
    };
    again.map_or(Next::Finish, Next::Again)
}

/// Returns the second try of a run whose last attempt ran out of time. There is never a third.
pub fn after_time_out(circumstances: &Circumstances, tried: &[Tried]) -> Option<Attempt> {
    let last = tried.last().filter(|_| circumstances.retry && tried.len() < ATTEMPTS_MAX)?;
    let used = tried.iter().any(|tried| tried.asked == Asked::Again);
    if used || last.asked == Asked::Summary {
        return None;
    }
    let choice = circumstances.choices.get(last.choice)?;
    let thread = match (&last.native, last.conversation) {
        (Some(native), _) if choice.sessions => Thread::Continue(native.clone()),
        (_, Conversation::Replayed) => Thread::Replay,
        (_, Conversation::New | Conversation::Continued | Conversation::Forked) => {
            thread_of(circumstances, last.choice)
        }
    };
    Some(Attempt { choice: last.choice, thread, asked: Asked::Again })
}

/// The same for an attempt whose program ended as it should not.
pub fn after_crash(circumstances: &Circumstances, tried: &[Tried], end: &AgentEnd) -> Option<Attempt> {
    let crashed = match end {
        AgentEnd::Failed(Failure::Exit { .. } | Failure::Signal { .. }) => true,
        // A program that says why it failed would say so again.
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
    after_time_out(circumstances, tried).filter(|_| crashed)
}

/// Returns how a run goes on whose worker was lost; nothing if that could repeat what was done.
pub fn resume(circumstances: &Circumstances, tried: &[Tried]) -> Option<Attempt> {
    let Some(last) = tried.last() else {
        // Written before anything starts: where nothing was begun, nothing ran.
        return Some(first(circumstances));
    };
    let choice = circumstances.choices.get(last.choice)?;
    let native = last.native.clone().filter(|_| choice.sessions && tried.len() < ATTEMPTS_MAX)?;
    Some(Attempt { choice: last.choice, thread: Thread::Continue(native), asked: Asked::Resume })
}

/// The next choice in order. Where the last attempt may have changed something, it is continued and not repeated.
fn fall_back(circumstances: &Circumstances, last: &Tried) -> Option<Attempt> {
    // What an agent did can only be told by itself.
    if last.asked == Asked::Summary {
        return None;
    }
    let number = last.choice + 1;
    let (before, choice) = (circumstances.choices.get(last.choice)?, circumstances.choices.get(number)?);
    if !last.acted && before.tells_tools {
        let asked = last.asked;
        let thread = match asked {
            // What it was asked makes sense only where the attempts before it are known.
            Asked::GoOn | Asked::Resume | Asked::Summary | Asked::Correct | Asked::Again => {
                continued(before, choice, last)
            }
            Asked::Prompt => thread_of(circumstances, number),
        };
        return Some(Attempt { choice: number, thread, asked });
    }
    Some(Attempt { choice: number, thread: continued(before, choice, last), asked: Asked::GoOn })
}

/// The same conversation by its vendor where the backend stays the same, else by telling it.
fn continued(before: &Choice, choice: &Choice, last: &Tried) -> Thread {
    match &last.native {
        Some(native) if choice.sessions && choice.backend == before.backend => {
            Thread::Continue(native.clone())
        }
        Some(_) | None => Thread::Replay,
    }
}

/// An answer in the wrong form is asked for once more, in the same conversation; where nobody keeps that, it is told.
fn correct(circumstances: &Circumstances, tried: &[Tried], last: &Tried) -> Option<Attempt> {
    let choice = circumstances.choices.get(last.choice).filter(|choice| choice.converses)?;
    if tried.iter().any(|attempt| attempt.asked == Asked::Correct) {
        return None;
    }
    let thread = match (&last.native, &circumstances.past) {
        (Some(native), _) if choice.sessions => Thread::Continue(native.clone()),
        (None, Past::Chosen(session)) if choice.sessions && last.conversation == Conversation::Continued => {
            Thread::Continue(session.clone())
        }
        _ => Thread::Replay,
    };
    Some(Attempt { choice: last.choice, thread, asked: Asked::Correct })
}

/// The vendor does not know its conversation any more: it is told what was said.
fn replay(circumstances: &Circumstances, last: &Tried) -> Option<Attempt> {
    let known = match circumstances.past {
        Past::Known { .. } => true,
        // What the run itself said before is known in any case.
        Past::Nothing => last.asked != Asked::Prompt,
        Past::Chosen(_) => false,
    };
    let by_vendor = match last.conversation {
        Conversation::Continued | Conversation::Forked => true,
        Conversation::New | Conversation::Replayed => false,
    };
    let again = known && by_vendor && !last.acted;
    again.then_some(Attempt { choice: last.choice, thread: Thread::Replay, asked: last.asked })
}

fn thread_of(circumstances: &Circumstances, number: usize) -> Thread {
    let choice = &circumstances.choices[number];
    match &circumstances.past {
        Past::Nothing => Thread::New,
        Past::Chosen(session) if choice.backend == circumstances.choices[0].backend => {
            Thread::Continue(session.clone())
        }
        Past::Chosen(_) => Thread::New,
        Past::Known { native: Some((backend, session)), fork }
            if *backend == choice.backend && choice.sessions =>
        {
            match (fork, choice.forks) {
                (false, _) => Thread::Continue(session.clone()),
                (true, true) => Thread::Fork(session.clone()),
                (true, false) => Thread::Replay,
            }
        }
        Past::Known { .. } => Thread::Replay,
    }
}

impl Thread {
    pub fn conversation(&self) -> Conversation {
        match self {
            Self::New => Conversation::New,
            Self::Continue(_) | Self::Last => Conversation::Continued,
            Self::Fork(_) => Conversation::Forked,
            Self::Replay => Conversation::Replayed,
        }
    }
}

#[cfg(test)]
mod tests;
