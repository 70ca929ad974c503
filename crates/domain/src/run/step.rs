//! What the worker does next: a machine over what it sees. Pure: time comes in as a number, effects go out
//! as values, and the worker performs them.

use serde::{Deserialize, Serialize};

use super::{Event, Failure, LimitName, Lost, OnDisconnect, Outcome, Stream, TimeLimit};
use crate::budget::Limits;

/// The limits that the machine itself watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupervisionLimits {
    pub timeout_ms: u64,
    pub idle_timeout_ms: Option<u64>,
    pub grace_ms: u64,
}

impl From<&Limits> for SupervisionLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            timeout_ms: limits.timeout_ms,
            idle_timeout_ms: limits.idle_timeout_ms,
            grace_ms: limits.grace_ms,
        }
    }
}

/// An order to cancel the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelOrder {
    pub by: String,
    #[serde(default)]
    pub reason: String,
    /// Kill at once instead of asking first.
    #[serde(default)]
    pub now: bool,
}

/// How the agent itself ended, as its backend understands it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEnd {
    Done,
    Failed(Failure),
    /// It stopped at a limit of its own that it was given.
    OverBudget(LimitName),
    /// It was never started, because what was demanded cannot be had here.
    Refused(String),
    /// It ended in good order and left no answer.
    Unanswered,
    /// It went with an earlier worker, and cannot be continued.
    Lost,
}

/// What the worker saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Started,
    /// Another attempt of the same run: its time goes on.
    StartedAgain,
    /// The run shall be tried once more, with all of its time.
    TriedAgain,
    Output(Stream),
    Ended(AgentEnd),
    Cancel(CancelOrder),
    DoorLeft(OnDisconnect),
    LimitPassed(LimitName, String),
    /// The run waits for a person: its clocks stand still.
    WaitBegan,
    WaitEnded,
    StorageFailed(String),
    /// Time passed.
    Tick,
}

/// How a tree of processes is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopHow {
    Ask,
    Kill,
}

/// What the worker shall do, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Append(Event),
    StopTree(StopHow),
    /// Sweep until no process is left, then write this outcome. Nothing follows.
    Finish(Outcome),
}

#[derive(Debug, Clone, PartialEq)]
enum Stage {
    /// The agent runs, or is about to.
    Going,
    Stopping {
        outcome: Outcome,
        kill_at: Option<u64>,
    },
    Finished,
}

/// The machine. Times are milliseconds of any clock that only goes forward.
#[derive(Debug, Clone, PartialEq)]
pub struct Supervision {
    limits: SupervisionLimits,
    stage: Stage,
    total_at: u64,
    idle_at: Option<u64>,
    cancel_at: Option<u64>,
    paused_since: Option<u64>,
    /// When the last order to kill or to finish was given.
    stopped_at: u64,
}

impl Supervision {
    pub fn new(limits: SupervisionLimits, now: u64) -> Self {
        Self {
            limits,
            stage: Stage::Going,
            total_at: now.saturating_add(limits.timeout_ms),
            idle_at: limits.idle_timeout_ms.map(|idle| now.saturating_add(idle)),
            cancel_at: None,
            paused_since: None,
            stopped_at: now,
        }
    }

    pub fn is_finished(&self) -> bool {
        self.stage == Stage::Finished
    }

    /// Tells whether nothing has asked the run to stop: only then may there be another attempt.
    pub fn is_going(&self) -> bool {
        self.stage == Stage::Going
    }

    /// Tells whether the run is stopping because its time was up, and for nothing else.
    pub fn is_out_of_time(&self) -> bool {
        matches!(self.stage, Stage::Stopping { outcome: Outcome::TimedOut { .. }, .. })
    }

    /// Returns when the machine wants its next `Tick`.
    pub fn next_deadline(&self) -> Option<u64> {
        match &self.stage {
            Stage::Going if self.paused_since.is_some() => self.cancel_at,
            Stage::Going => [Some(self.total_at), self.idle_at, self.cancel_at].into_iter().flatten().min(),
            Stage::Stopping { kill_at, .. } => *kill_at,
            Stage::Finished => None,
        }
    }

    /// Returns the moment after which a keeper may call the worker hung; `None` while a person is awaited.
    pub fn hard_deadline(&self, margin_ms: u64) -> Option<u64> {
        match &self.stage {
            Stage::Going if self.paused_since.is_some() => None,
            // Time for asking, then for killing and sweeping, then for the children to be asked in their turn.
            Stage::Going => {
                Some(self.after_stop(self.total_at.saturating_add(self.limits.grace_ms), margin_ms))
            }
            Stage::Stopping { kill_at, .. } => {
                Some(self.after_stop(kill_at.unwrap_or(self.stopped_at), margin_ms))
            }
            Stage::Finished => Some(self.after_stop(self.stopped_at, margin_ms)),
        }
    }

    fn after_stop(&self, stop_at: u64, margin_ms: u64) -> u64 {
        stop_at.saturating_add(self.limits.grace_ms).saturating_add(margin_ms)
    }

    /// Returns how much of the total time is left.
    pub fn remaining_ms(&self, now: u64) -> u64 {
        self.total_at.saturating_sub(self.paused_since.unwrap_or(now))
    }

    /// Takes one input in and returns what to do.
    pub fn step(&mut self, now: u64, input: Input) -> Vec<Effect> {
        if self.is_finished() {
            return Vec::new();
        }
        match input {
            Input::Started => {
                self.restart_clocks(now);
                Vec::new()
            }
            Input::StartedAgain | Input::Output(_) => {
                self.idle_at = self.limits.idle_timeout_ms.map(|idle| now.saturating_add(idle));
                Vec::new()
            }
            Input::TriedAgain => {
                if self.is_out_of_time() {
                    self.stage = Stage::Going;
                }
                self.restart_clocks(now);
                Vec::new()
            }
            Input::Ended(end) => {
                self.stopped_at = now;
                self.finish(end)
            }
            Input::Cancel(order) => self.cancel(now, order),
            Input::DoorLeft(policy) => self.door_left(now, policy),
            Input::LimitPassed(limit, detail) => {
                let event = Event::LimitPassed { limit, detail };
                let outcome = Outcome::Failed { failure: Failure::Limit { limit } };
                self.stop(now, event, outcome, StopHow::Kill)
            }
            Input::WaitBegan => {
                self.paused_since.get_or_insert(now);
                Vec::new()
            }
            Input::WaitEnded => {
                self.unpause(now);
                Vec::new()
            }
            Input::StorageFailed(reason) => {
                // Nothing can be recorded any more, so nothing may go on.
                self.stopped_at = now;
                self.stage = Stage::Finished;
                let failure = Failure::Storage { reason };
                vec![Effect::StopTree(StopHow::Kill), Effect::Finish(Outcome::Failed { failure })]
            }
            Input::Tick => self.tick(now),
        }
    }

    fn restart_clocks(&mut self, now: u64) {
        self.total_at = now.saturating_add(self.limits.timeout_ms);
        self.idle_at = self.limits.idle_timeout_ms.map(|idle| now.saturating_add(idle));
    }

    fn unpause(&mut self, now: u64) {
        let Some(since) = self.paused_since.take() else { return };
        let paused = now.saturating_sub(since);
        self.total_at = self.total_at.saturating_add(paused);
        self.idle_at = self.idle_at.map(|at| at.saturating_add(paused));
    }

    fn finish(&mut self, end: AgentEnd) -> Vec<Effect> {
        let outcome = match std::mem::replace(&mut self.stage, Stage::Finished) {
            Stage::Stopping { outcome, .. } => outcome,
            Stage::Going | Stage::Finished => match end {
                AgentEnd::Done => Outcome::Succeeded,
                AgentEnd::Failed(failure) => Outcome::Failed { failure },
                AgentEnd::OverBudget(limit) => Outcome::OverBudget { limit },
                AgentEnd::Refused(reason) => Outcome::Refused { reason },
                AgentEnd::Unanswered => {
                    Outcome::Failed { failure: Failure::Output { reason: "there is no answer".to_owned() } }
                }
                AgentEnd::Lost => Outcome::Interrupted { lost: Lost::Worker },
            },
        };
        vec![Effect::Finish(outcome)]
    }

    fn cancel(&mut self, now: u64, order: CancelOrder) -> Vec<Effect> {
        let CancelOrder { by, reason, now: at_once } = order;
        let how = if at_once { StopHow::Kill } else { StopHow::Ask };
        let event = Event::CancelAsked { by: by.clone(), reason };
        self.stop(now, event, Outcome::Cancelled { by }, how)
    }

    fn door_left(&mut self, now: u64, policy: OnDisconnect) -> Vec<Effect> {
        if let OnDisconnect::Cancel { grace_ms } = policy {
            self.cancel_at = Some(now.saturating_add(grace_ms));
        }
        vec![Effect::Append(Event::DoorLeft { policy })]
    }

    /// Begins to stop, or hurries a stop that has begun; the first reason stays the outcome.
    fn stop(&mut self, now: u64, event: Event, outcome: Outcome, how: StopHow) -> Vec<Effect> {
        self.stopped_at = now;
        let kill_at = match how {
            StopHow::Ask => Some(now.saturating_add(self.limits.grace_ms)),
            StopHow::Kill => None,
        };
        match &mut self.stage {
            Stage::Finished => Vec::new(),
            Stage::Going => {
                let because = outcome.to_string();
                self.stage = Stage::Stopping { outcome, kill_at };
                vec![
                    Effect::Append(event),
                    Effect::Append(Event::StopAsked { how, because }),
                    Effect::StopTree(how),
                ]
            }
            Stage::Stopping { kill_at: pending, .. } => match (how, pending.take()) {
                // A second order of any kind means that somebody is tired of waiting.
                (StopHow::Kill | StopHow::Ask, Some(_)) => {
                    vec![Effect::Append(event), Effect::StopTree(StopHow::Kill)]
                }
                (StopHow::Kill | StopHow::Ask, None) => Vec::new(),
            },
        }
    }

    fn tick(&mut self, now: u64) -> Vec<Effect> {
        match &mut self.stage {
            Stage::Finished => Vec::new(),
            Stage::Stopping { kill_at, .. } => match kill_at {
                Some(at) if *at <= now => {
                    *kill_at = None;
                    self.stopped_at = now;
                    vec![Effect::StopTree(StopHow::Kill)]
                }
                Some(_) | None => Vec::new(),
            },
            Stage::Going => self.tick_going(now),
        }
    }

    fn tick_going(&mut self, now: u64) -> Vec<Effect> {
        if self.cancel_at.is_some_and(|at| at <= now) {
            self.cancel_at = None;
            let by = "the disconnect of the client".to_owned();
            return self
                .cancel(now, CancelOrder { by, reason: "on_disconnect = cancel".to_owned(), now: false });
        }
        if self.paused_since.is_some() {
            return Vec::new();
        }
        let limit = if self.total_at <= now {
            TimeLimit::Total
        } else if self.idle_at.is_some_and(|at| at <= now) {
            TimeLimit::Idle
        } else {
            return Vec::new();
        };
        let event = Event::Warned { message: limit.to_string() };
        self.stop(now, event, Outcome::TimedOut { limit }, StopHow::Ask)
    }
}
