//! The supervision of an agent's process: a state machine over the worker's observations. Pure: time is a parameter,
//! effects are values that the worker carries out.

use serde::{Deserialize, Serialize};

use super::{Event, Failure, LimitName, LostProcess, OnDisconnect, Outcome, StdStream, TimeLimit};
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

/// A request to cancel the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequest {
    pub by: String,
    #[serde(default)]
    pub reason: String,
    /// Kill at once instead of terminating first.
    #[serde(default)]
    pub now: bool,
}

/// How the agent itself ended, as its backend understands it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEnd {
    Done,
    Failed(Failure),
    /// It stopped at a limit that it got as an argument.
    OverBudget(LimitName),
    /// It was never started, because this machine cannot satisfy a requirement.
    Refused(String),
    /// It ended normally without an answer.
    Unanswered,
    /// It was lost with an earlier worker, and cannot be continued.
    Lost,
}

/// An observation of the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SupervisionInput {
    Started,
    /// Another attempt of the same run: the total time continues.
    AttemptRestarted,
    /// The run is retried with its full time.
    Retried,
    Output(StdStream),
    Ended(AgentEnd),
    Cancel(CancelRequest),
    ClientDisconnected(OnDisconnect),
    LimitExceeded(LimitName, String),
    /// The run waits for a person: its timers stop.
    WaitBegan,
    WaitEnded,
    StorageFailed(String),
    /// Time passed.
    Tick,
}

/// How a tree of processes is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopMode {
    Ask,
    Kill,
}

/// The actions for the worker, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Append(Event),
    StopTree(StopMode),
    /// Sweep until no process is left, then write this outcome. Nothing follows.
    Finish(Outcome),
}

#[derive(Debug, Clone, PartialEq)]
enum SupervisionStage {
    /// The agent runs, or is about to.
    Running,
    Stopping {
        outcome: Outcome,
        kill_at: Option<u64>,
    },
    Finished,
}

/// The state machine. Times are milliseconds of any monotonic clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Supervision {
    limits: SupervisionLimits,
    stage: SupervisionStage,
    total_at: u64,
    idle_at: Option<u64>,
    cancel_at: Option<u64>,
    paused_since: Option<u64>,
    /// The time of the last decision to kill or to finish.
    stopped_at: u64,
}

impl Supervision {
    pub fn new(limits: SupervisionLimits, now: u64) -> Self {
        Self {
            limits,
            stage: SupervisionStage::Running,
            total_at: now.saturating_add(limits.timeout_ms),
            idle_at: limits.idle_timeout_ms.map(|idle| now.saturating_add(idle)),
            cancel_at: None,
            paused_since: None,
            stopped_at: now,
        }
    }

    pub fn is_finished(&self) -> bool {
        self.stage == SupervisionStage::Finished
    }

    /// Returns whether nothing has requested a stop: only then may there be another attempt.
    pub fn is_running(&self) -> bool {
        self.stage == SupervisionStage::Running
    }

    /// Returns whether the run is stopping only because of a time-out.
    pub fn is_out_of_time(&self) -> bool {
        matches!(self.stage, SupervisionStage::Stopping { outcome: Outcome::TimedOut { .. }, .. })
    }

    /// Returns when the machine needs its next `Tick`.
    pub fn next_deadline(&self) -> Option<u64> {
        match &self.stage {
            SupervisionStage::Running if self.paused_since.is_some() => self.cancel_at,
            SupervisionStage::Running => {
                [Some(self.total_at), self.idle_at, self.cancel_at].into_iter().flatten().min()
            }
            SupervisionStage::Stopping { kill_at, .. } => *kill_at,
            SupervisionStage::Finished => None,
        }
    }

    /// Returns the moment after which a keeper may call the worker hung; `None` while a person is awaited.
    pub fn hard_deadline(&self, margin_ms: u64) -> Option<u64> {
        match &self.stage {
            SupervisionStage::Running if self.paused_since.is_some() => None,
            // Time for terminating, then for killing and sweeping, then for terminating the children.
            SupervisionStage::Running => {
                Some(self.deadline_after_stop(self.total_at.saturating_add(self.limits.grace_ms), margin_ms))
            }
            SupervisionStage::Stopping { kill_at, .. } => {
                Some(self.deadline_after_stop(kill_at.unwrap_or(self.stopped_at), margin_ms))
            }
            SupervisionStage::Finished => Some(self.deadline_after_stop(self.stopped_at, margin_ms)),
        }
    }

    fn deadline_after_stop(&self, stop_at: u64, margin_ms: u64) -> u64 {
        stop_at.saturating_add(self.limits.grace_ms).saturating_add(margin_ms)
    }

    /// Returns how much of the total time is left.
    pub fn remaining_ms(&self, now: u64) -> u64 {
        self.total_at.saturating_sub(self.paused_since.unwrap_or(now))
    }

    /// Processes one input and returns the actions.
    pub fn step(&mut self, now: u64, input: SupervisionInput) -> Vec<Effect> {
        if self.is_finished() {
            return Vec::new();
        }
        match input {
            SupervisionInput::Started => {
                self.restart_clocks(now);
                Vec::new()
            }
            SupervisionInput::AttemptRestarted | SupervisionInput::Output(_) => {
                self.idle_at = self.limits.idle_timeout_ms.map(|idle| now.saturating_add(idle));
                Vec::new()
            }
            SupervisionInput::Retried => {
                if self.is_out_of_time() {
                    self.stage = SupervisionStage::Running;
                }
                self.restart_clocks(now);
                Vec::new()
            }
            SupervisionInput::Ended(end) => {
                self.stopped_at = now;
                self.finish(end)
            }
            SupervisionInput::Cancel(order) => self.cancel(now, order),
            SupervisionInput::ClientDisconnected(policy) => self.client_disconnected(now, policy),
            SupervisionInput::LimitExceeded(limit, detail) => {
                let event = Event::LimitExceeded { limit, detail };
                let outcome = Outcome::Failed { failure: Failure::Limit { limit } };
                self.stop(now, event, outcome, StopMode::Kill)
            }
            SupervisionInput::WaitBegan => {
                self.paused_since.get_or_insert(now);
                Vec::new()
            }
            SupervisionInput::WaitEnded => {
                self.unpause(now);
                Vec::new()
            }
            SupervisionInput::StorageFailed(reason) => {
                // Nothing can be recorded any more, so the run must end.
                self.stopped_at = now;
                self.stage = SupervisionStage::Finished;
                let failure = Failure::Storage { reason };
                vec![Effect::StopTree(StopMode::Kill), Effect::Finish(Outcome::Failed { failure })]
            }
            SupervisionInput::Tick => self.tick(now),
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
        let outcome = match std::mem::replace(&mut self.stage, SupervisionStage::Finished) {
            SupervisionStage::Stopping { outcome, .. } => outcome,
            SupervisionStage::Running | SupervisionStage::Finished => match end {
                AgentEnd::Done => Outcome::Succeeded,
                AgentEnd::Failed(failure) => Outcome::Failed { failure },
                // An agent loop stops by itself shortly before the time-out.
                AgentEnd::OverBudget(LimitName::Time) => Outcome::TimedOut { limit: TimeLimit::Total },
                AgentEnd::OverBudget(limit) => Outcome::OverBudget { limit },
                AgentEnd::Refused(reason) => Outcome::Refused { reason },
                AgentEnd::Unanswered => {
                    Outcome::Failed { failure: Failure::Output { reason: "there is no answer".to_owned() } }
                }
                AgentEnd::Lost => Outcome::Interrupted { lost: LostProcess::Worker },
            },
        };
        vec![Effect::Finish(outcome)]
    }

    fn cancel(&mut self, now: u64, order: CancelRequest) -> Vec<Effect> {
        let CancelRequest { by, reason, now: at_once } = order;
        let how = if at_once { StopMode::Kill } else { StopMode::Ask };
        let event = Event::CancelRequested { by: by.clone(), reason };
        self.stop(now, event, Outcome::Cancelled { by }, how)
    }

    fn client_disconnected(&mut self, now: u64, policy: OnDisconnect) -> Vec<Effect> {
        if let OnDisconnect::Cancel { grace_ms } = policy {
            self.cancel_at = Some(now.saturating_add(grace_ms));
        }
        vec![Effect::Append(Event::ClientDisconnected { policy })]
    }

    /// Begins to stop, or speeds up a stop; the first reason stays the outcome.
    fn stop(&mut self, now: u64, event: Event, outcome: Outcome, how: StopMode) -> Vec<Effect> {
        self.stopped_at = now;
        let kill_at = match how {
            StopMode::Ask => Some(now.saturating_add(self.limits.grace_ms)),
            StopMode::Kill => None,
        };
        match &mut self.stage {
            SupervisionStage::Finished => Vec::new(),
            SupervisionStage::Running => {
                let because = outcome.to_string();
                self.stage = SupervisionStage::Stopping { outcome, kill_at };
                vec![
                    Effect::Append(event),
                    Effect::Append(Event::StopRequested { how, because }),
                    Effect::StopTree(how),
                ]
            }
            SupervisionStage::Stopping { kill_at: pending, .. } => match (how, pending.take()) {
                // A second request of any kind means that somebody is tired of waiting.
                (StopMode::Kill | StopMode::Ask, Some(_)) => {
                    vec![Effect::Append(event), Effect::StopTree(StopMode::Kill)]
                }
                (StopMode::Kill | StopMode::Ask, None) => Vec::new(),
            },
        }
    }

    fn tick(&mut self, now: u64) -> Vec<Effect> {
        match &mut self.stage {
            SupervisionStage::Finished => Vec::new(),
            SupervisionStage::Stopping { kill_at, .. } => match kill_at {
                Some(at) if *at <= now => {
                    *kill_at = None;
                    self.stopped_at = now;
                    vec![Effect::StopTree(StopMode::Kill)]
                }
                Some(_) | None => Vec::new(),
            },
            SupervisionStage::Running => self.tick_running(now),
        }
    }

    fn tick_running(&mut self, now: u64) -> Vec<Effect> {
        if self.cancel_at.is_some_and(|at| at <= now) {
            self.cancel_at = None;
            let by = "the disconnect of the client".to_owned();
            return self
                .cancel(now, CancelRequest { by, reason: "on_disconnect = cancel".to_owned(), now: false });
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
        self.stop(now, event, Outcome::TimedOut { limit }, StopMode::Ask)
    }
}
