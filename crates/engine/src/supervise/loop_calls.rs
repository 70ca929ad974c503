//! The calls of a resumable loop: each is recorded as requested, performed, and recorded as completed. A completed
//! call is never repeated; an uncertain one is repeated only if that changes nothing.

use std::path::Path;

use backends::contract::{AgentAnswer, CallAction, Conclusion, LoopStep, PlannedCall};
use domain::invisible_text::escape_invisible;
use domain::run::{CallClass, CallKind, Event, SupervisionInput};
use journal::StoreError;

use super::children::wait_for_child;
use super::questions::QuestionSource;
use super::supervisor::{AgentHandle, RunSupervisor, WorkerEvent};
use crate::agent_loop::tools::{self, FileRoots, ToolError, ToolOutput, WriteRequest};
use crate::api::StartRequest;
use crate::error_chain::explain;
use crate::failpoint;

/// The most output of a call, and of a text, in one event: as JSON it may take six times as much, and a line of the
/// journal holds 1 MiB.
const CALL_OUTPUT_BYTES_MAX: usize = 128 << 10;

impl RunSupervisor {
    /// Asks the loop for its next call and starts it.
    pub(super) async fn next_turn(&mut self) -> Result<(), StoreError> {
        let AgentHandle::Loop { agent_loop, .. } = &self.handle else { return Ok(()) };
        match agent_loop.next(&self.log.state().calls) {
            LoopStep::Finish(end) => {
                let answer = AgentAnswer::Text(self.log.state().answer());
                self.conclude_attempt(Conclusion::new(end, answer)).await
            }
            LoopStep::Call(planned) => self.start_call(planned).await,
        }
    }

    /// After an interruption: fails the calls with effects that were requested and not completed. The others are
    /// repeated.
    pub(super) fn fail_uncertain_calls(&mut self) -> Result<(), StoreError> {
        let uncertain: Vec<u32> = self
            .log
            .state()
            .calls
            .iter()
            .filter(|(_, call)| call.completed.is_none() && call.class == CallClass::Effect)
            .map(|(number, _)| *number)
            .collect();
        for call in uncertain {
            self.append(Event::CallInDoubt { call })?;
            let message = format!("whether call {call} took effect is not known; it was not repeated");
            self.append(Event::Warned { message: message.clone() })?;
            self.append(Event::CallCompleted { call, ok: false, output: message, details: None })?;
        }
        Ok(())
    }

    async fn start_call(&mut self, planned: PlannedCall) -> Result<(), StoreError> {
        let PlannedCall { call, kind, class, name, input, action } = planned;
        if kind == CallKind::Tool {
            let summary = domain::run::tool_summary::summarize_tool_call(&name, &input, &self.spec.directory);
            self.subscribers.set_activity(summary);
        }
        self.append(Event::CallRequested { call, kind, class, name, input, turn: None, verdict: None })?;
        match class {
            CallClass::Pure => {}
            // The intent of an effect is on disk before the effect.
            CallClass::Idempotent | CallClass::Effect => self.log.sync()?,
        }
        failpoint::reach("worker_requested_call");
        self.perform_action(call, action)?;
        Ok(())
    }

    /// Performs a call; its end returns to the supervisor as an event.
    fn perform_action(&mut self, call: u32, action: CallAction) -> Result<(), StoreError> {
        match action {
            CallAction::Say(text) => {
                let line = text + "\n";
                self.subscribers.push_text(line.as_bytes());
                self.append_text(&line)?;
                self.complete_soon(call, true, String::new());
            }
            CallAction::ReportUsage(usage) => {
                self.append(Event::UsageReported { usage, model: None })?;
                self.complete_soon(call, true, String::new());
            }
            CallAction::Write { path, text } => self.write(call, &path, &text, WriteMode::Replace),
            CallAction::Append { path, text } => self.write(call, &path, &text, WriteMode::Append),
            CallAction::Sleep { ms } => {
                let events_tx = self.events_tx.clone();
                self.track_task(tokio::task::spawn_local(async move {
                    tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
                    let _ = events_tx
                        .send(WorkerEvent::CallCompleted { call, ok: true, output: String::new() })
                        .await;
                }));
            }
            CallAction::PermissionRequest { text } => {
                self.open_question(QuestionSource::Call(call), escape_invisible(&text).into_owned())?;
            }
            CallAction::Delegate { agent, prompt } => self.delegate(call, agent, prompt)?,
        }
        Ok(())
    }

    /// Records a part of the answer, in as many events as it needs.
    pub(super) fn append_text(&mut self, text: &str) -> Result<(), StoreError> {
        let mut rest = text;
        while !rest.is_empty() {
            let piece = domain::size::head(rest, CALL_OUTPUT_BYTES_MAX);
            self.append(Event::AnswerAppended { text: piece.to_owned() })?;
            rest = &rest[piece.len()..];
        }
        Ok(())
    }

    fn write(&mut self, call: u32, path: &str, text: &str, mode: WriteMode) {
        let written = write_file(&self.spec.directory, path, text, (mode, call));
        failpoint::reach("worker_made_effect");
        let output = match &written {
            Ok(_) => format!("wrote {path}"),
            Err(error) => format!("could not write {path}: {}", explain(error)),
        };
        self.complete_soon(call, written.is_ok(), output);
    }

    /// Runs another agent as a child and appends its result to the answer.
    fn delegate(&mut self, call: u32, agent: String, prompt: String) -> Result<(), StoreError> {
        let start = StartRequest {
            agent,
            prompt,
            directory: Some(self.spec.directory.clone()),
            // The same call after an interruption finds the same child.
            idempotency_key: Some(format!("{}:{call}", self.spec.id)),
            ..StartRequest::default()
        };
        let run = match self.start_child(start)? {
            Ok(started) => started.run_id,
            Err(error) => {
                self.complete_soon(call, false, error.to_string());
                return Ok(());
            }
        };
        let engine = std::sync::Arc::clone(&self.engine);
        let events_tx = self.events_tx.clone();
        self.track_task(tokio::task::spawn_local(async move {
            let (outcome, output) = wait_for_child(engine, run, events_tx.clone()).await;
            let _ = events_tx.send(WorkerEvent::ChildEnded { run, outcome }).await;
            let ok = outcome == domain::run::OutcomeKind::Succeeded;
            let _ = events_tx.send(WorkerEvent::CallCompleted { call, ok, output }).await;
        }));
        Ok(())
    }

    /// Completes a call through the event loop, so that nothing recurses.
    fn complete_soon(&mut self, call: u32, ok: bool, output: String) {
        let events_tx = self.events_tx.clone();
        self.track_task(tokio::task::spawn_local(async move {
            let _ = events_tx.send(WorkerEvent::CallCompleted { call, ok, output }).await;
        }));
    }

    fn track_task(&mut self, started: tokio::task::JoinHandle<()>) {
        if let AgentHandle::Loop { task, .. } = &mut self.handle {
            *task = Some(started.abort_handle());
        }
    }

    /// Records that a call is completed, and starts the next.
    pub(super) async fn complete_call(
        &mut self,
        call: u32,
        ok: bool,
        output: String,
    ) -> Result<(), StoreError> {
        let call_state = self.log.state().calls.get(&call);
        if call_state.is_none_or(|call_state| call_state.completed.is_some()) {
            return Ok(());
        }
        let delegated = call_state.is_some_and(|call_state| call_state.name == "delegate");
        let output = domain::size::head(&output, CALL_OUTPUT_BYTES_MAX).to_owned();
        if delegated {
            self.append_text(&format!("{}\n", output.trim_end()))?;
        }
        self.append(Event::CallCompleted { call, ok, output, details: None })?;
        failpoint::reach("worker_completed_call");
        self.step(SupervisionInput::Output(domain::run::StdStream::Stdout)).await?;
        if self.finished { Ok(()) } else { self.next_turn().await }
    }
}

/// How a rehearsal changes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteMode {
    Replace,
    Append,
}

/// Writes a file beneath the directory.
fn write_file(
    directory: &str,
    path: &str,
    text: &str,
    (mode, call): (WriteMode, u32),
) -> Result<ToolOutput, ToolError> {
    let roots = FileRoots::open(Path::new(directory), &[], &[]).map_err(|source| ToolError::Io {
        attempt: "open the directory",
        path: directory.to_owned(),
        source,
    })?;
    let target = roots.resolve(path)?;
    match mode {
        WriteMode::Replace => {
            tools::write(&roots, &target, &WriteRequest { content: text, call: &call.to_string() })
        }
        WriteMode::Append => tools::append(&roots, &target, text),
    }
}
