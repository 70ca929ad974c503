//! Starts child runs for the run's agent, answers its requests, and ends its children with the run.

use std::pin::pin;
use std::sync::Arc;

use domain::admission::ParentRun;
use domain::id::RunId;
use domain::run::{Event, OutcomeKind, RunSpec};
use journal::StoreError;
use tokio::sync::{mpsc, oneshot};

use super::supervisor::{RunSupervisor, WorkerEvent};
use super::{run_ending, socket_connections};
use crate::admission::StartedChild;
use crate::api::{EngineError, Progress, StartRequest, SubmitResult};
use crate::clock;
use crate::engine::Engine;
use crate::failpoint;
use crate::ipc::wire::RunMessage;
use crate::relayed_requests::{self, Relayed};

/// How many progress messages of a child may wait. A child sends five per second, and only the latest matters.
const CHILD_PROGRESS_MAX: usize = 16;

/// Waits for a child run and returns its outcome and its answer. Meanwhile, reports each change of the child's open question.
pub(super) async fn wait_for_child(
    engine: Arc<Engine>,
    run: RunId,
    events_tx: mpsc::Sender<WorkerEvent>,
) -> (OutcomeKind, String) {
    let (progress_tx, mut progress_rx) = mpsc::channel::<Progress>(CHILD_PROGRESS_MAX);
    let mut ended = pin!(engine.wait_for_result(run, progress_tx));
    let mut known = None;
    loop {
        tokio::select! {
            biased;
            ended = &mut ended => return ended,
            Some(progress) = progress_rx.recv() => {
                if progress.needs_answer != known {
                    known = progress.needs_answer;
                    let question = known.clone();
                    // The supervisor may have ended; this wait then ends with the process.
                    let _ = events_tx.send(WorkerEvent::ChildQuestion { run, question }).await;
                }
            }
        }
    }
}

impl RunSupervisor {
    /// Watches the active children that an earlier worker started, if this worker resumes the run.
    pub(super) fn watch_open_children(&self, resumed: bool) {
        if !resumed {
            return;
        }
        let open = self.log.state().children.iter().filter(|(_, child)| child.outcome.is_none());
        for (run, _) in open {
            self.watch_child(*run);
        }
    }

    /// Starts a task that reports the questions and the end of a child.
    fn watch_child(&self, run: RunId) {
        let (engine, events_tx) = (Arc::clone(&self.engine), self.events_tx.clone());
        tokio::task::spawn_local(async move {
            let (outcome, _) = wait_for_child(engine, run, events_tx.clone()).await;
            let _ = events_tx.send(WorkerEvent::ChildEnded { run, outcome }).await;
        });
    }

    /// Records the end of a child, once: a resumed worker may wait for a child twice.
    pub(super) fn record_child_end(&mut self, run: RunId, outcome: OutcomeKind) -> Result<(), StoreError> {
        self.subscribers.set_child_question(run, None);
        let child = self.log.state().children.get(&run);
        if child.is_some_and(|child| child.outcome.is_some()) {
            return Ok(());
        }
        self.append(Event::ChildEnded { run, outcome })
    }

    /// Starts a child run. It is recorded before it starts, so that this run cannot end without knowing it.
    pub(super) fn start_child(
        &mut self,
        start: StartRequest,
    ) -> Result<Result<StartedChild, EngineError>, StoreError> {
        let mut spec = self.spec.clone();
        // A fallback may have its own permission, and its children are limited to that one.
        spec.setup.permission.clone_from(&self.attempt_spec.setup.permission);
        let parent = ParentRun {
            spec,
            children: u32::try_from(self.log.state().children.len()).unwrap_or(u32::MAX),
            tree_runs: 0,
            remaining_ms: self.machine.remaining_ms(clock::monotonic_ms()),
            ancestry: Vec::new(),
        };
        let (log, mut announced, mut unrecorded) = (&mut self.log, None, None);
        let mut on_recorded = |child: &RunSpec| {
            let event = Event::ChildStarted { run: child.id, agent: child.agent.clone() };
            announced = Some(child.id);
            match log.append(clock::now(), event) {
                Ok(_) => {
                    failpoint::reach("worker_recorded_child");
                    Ok(())
                }
                Err(error) => {
                    unrecorded = Some(error);
                    Err(EngineError::internal("the run could not be recorded with its parent"))
                }
            }
        };
        let started = self.engine.start_child(start, parent, &mut on_recorded);
        if let Some(error) = unrecorded {
            return Err(error);
        }
        failpoint::reach("worker_started_child");
        let started = match started {
            Ok(started) => started,
            Err(error) => {
                if let Some(run) = announced {
                    self.append(Event::ChildEnded { run, outcome: OutcomeKind::Failed })?;
                }
                return Ok(Err(error));
            }
        };
        // A repeated request already has its run, perhaps from an earlier worker.
        if !self.log.state().children.contains_key(&started.run_id) {
            self.append(Event::ChildStarted { run: started.run_id, agent: started.agent.clone() })?;
        }
        Ok(Ok(started))
    }

    /// Answers a request of the run's own agent in its own task.
    pub(super) fn handle_request(
        &mut self,
        request: serde_json::Value,
        reply: oneshot::Sender<RunMessage>,
        progress_tx: mpsc::Sender<Progress>,
    ) -> Result<(), StoreError> {
        let engine = Arc::clone(&self.engine);
        let refuse = |error: EngineError| RunMessage::Refused { error };
        let start = match relayed_requests::message_name(&request) {
            SubmitResult::NAME => match relayed_requests::parse::<SubmitResult>(request) {
                Ok(submitted) => return self.handle_submission(submitted.text, reply),
                Err(error) => Err(error),
            },
            StartRequest::NAME => relayed_requests::parse::<StartRequest>(request),
            _ => {
                tokio::task::spawn_local(async move {
                    let answer = socket_connections::answer_request(engine, request, progress_tx).await;
                    // The client may be gone.
                    let _ = reply.send(answer);
                });
                return Ok(());
            }
        };
        let start = match start {
            Ok(start) => start,
            Err(error) => {
                // The client may be gone.
                let _ = reply.send(refuse(error));
                return Ok(());
            }
        };
        // The client may be gone; the child continues without it.
        match self.start_child(start)? {
            Err(error) => {
                let _ = reply.send(refuse(error));
            }
            Ok(StartedChild { run_id: run, started, .. }) => {
                let value = serde_json::to_value(&started).expect("a plain value");
                let _ = reply.send(RunMessage::Answer { value });
                self.watch_child(run);
            }
        }
        Ok(())
    }

    /// Cancels the child runs that are still open, and waits for their grace period: children do not outlive their
    /// parent.
    pub(super) async fn end_children(&mut self) {
        let open: Vec<_> = self
            .log
            .state()
            .children
            .iter()
            .filter(|(_, child)| child.outcome.is_none())
            .map(|(run, _)| *run)
            .collect();
        if open.is_empty() {
            return;
        }
        run_ending::cancel_children(&self.dir, &self.spec, self.log.state());
        let wait = std::time::Duration::from_millis(self.spec.limits.grace_ms + 1_000);
        for run in open {
            let (progress_tx, _progress_rx) = mpsc::channel(1);
            let ended = tokio::time::timeout(wait, self.engine.wait_for_result(run, progress_tx)).await;
            if let Ok((outcome, _)) = ended {
                // The parent's own outcome matters more than this line about its child.
                let _ = self.append(Event::ChildEnded { run, outcome });
            }
        }
    }
}
