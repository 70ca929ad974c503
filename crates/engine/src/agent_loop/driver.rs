//! Carries out the loop of one run: asks the machine what comes next, records it, does it, and records its end. A worker
//! that takes over uses the recorded ends instead of making the calls again.

use backends::api::model_client::{ClientRequest, FailureCause, ModelClientEvent, RequestFailure};
use domain::conversation::{ModelAnswer, ModelRequest};
use domain::invisible_text::one_line;
use domain::run::agent_loop::{
    AgentLoop, LoopEnd, LoopEvent, LoopPlan, NextStep, PlannedToolCall, ToolOutcome,
};
use domain::run::{
    CallClass, CallDetails, CallKind, Event, LimitName, LoopCall, ModelError, StopMode, Usage,
};
use domain::size::head;
use journal::call_files::{CallFiles, read_call_body};
use journal::{RunDir, StoreError};
use serde_json::json;
use tokio::sync::mpsc;

use super::host::LoopHost;
use super::model_process::ModelProcess;
use super::process_starter::ProcessStarter;
use super::signal::LoopSignal;
use super::tool_runner::{ToolRunner, ToolStart};
use crate::clock;
use crate::error_chain::explain;
use crate::failpoint;

/// How much of an answer or output its event contains.
const HEAD_BYTES: usize = 4 << 10;
/// How long a service may send nothing.
const MODEL_IDLE_MS: u64 = 120_000;

/// What a driver is made of.
pub(crate) struct DriverSetup {
    pub(crate) dir: RunDir,
    pub(crate) plan: LoopPlan,
    pub(crate) files: CallFiles,
    pub(crate) starter: ProcessStarter,
    pub(crate) tools: ToolRunner,
    pub(crate) signals_tx: mpsc::Sender<LoopSignal>,
    /// When the run must have ended, on the clock of the worker.
    pub(crate) end_by_ms: u64,
}

/// The loop of a run.
pub(crate) struct LoopDriver {
    dir: RunDir,
    machine: AgentLoop,
    files: CallFiles,
    starter: ProcessStarter,
    tools: ToolRunner,
    signals_tx: mpsc::Sender<LoopSignal>,
    end_by_ms: u64,
    model: Option<ModelProcess>,
    /// The model call in flight.
    model_call: Option<u32>,
    is_stopping: bool,
}

impl LoopDriver {
    pub(crate) fn new(setup: DriverSetup) -> Self {
        let DriverSetup { dir, plan, files, starter, tools, signals_tx, end_by_ms } = setup;
        Self {
            dir,
            machine: AgentLoop::new(plan),
            files,
            starter,
            tools,
            signals_tx,
            end_by_ms,
            model: None,
            model_call: None,
            is_stopping: false,
        }
    }

    /// Returns the result that the model handed over as a value.
    pub(crate) fn structured(&self) -> Option<serde_json::Value> {
        self.tools.structured().cloned()
    }

    /// Starts everything that can be started now. Returns how the loop ended, once it has.
    pub(crate) fn advance(&mut self, host: &mut dyn LoopHost) -> Result<Option<LoopEnd>, StoreError> {
        while !self.is_stopping {
            match self.machine.next() {
                NextStep::End(end) => return Ok(Some(end)),
                NextStep::Wait => break,
                NextStep::ReachLimit { limit, detail } => self.reach_limit(limit, detail, host)?,
                NextStep::CallModel { call, request } => self.call_model(call, *request, host)?,
                NextStep::CallTools(calls) => {
                    for planned in calls {
                        self.call_tool(planned, host)?;
                    }
                }
            }
        }
        Ok(None)
    }

    /// Handles a report of a task. Call [`Self::advance`] afterwards.
    pub(crate) fn handle(&mut self, signal: LoopSignal, host: &mut dyn LoopHost) -> Result<(), StoreError> {
        match signal {
            LoopSignal::ModelOutput(bytes) => {
                let events = self.model.as_mut().map(|model| model.feed(&bytes)).unwrap_or_default();
                events.into_iter().try_for_each(|event| self.handle_model_event(event, host))
            }
            LoopSignal::ModelErrors(bytes) => {
                if let Some(model) = &mut self.model {
                    model.add_errors(&bytes);
                }
                Ok(())
            }
            LoopSignal::ModelClosed => self.handle_model_end(host),
            LoopSignal::FileEnded { call, result } => {
                let output = result.unwrap_or_else(Into::into);
                self.complete_tool(call, output.text, output.is_error, host)?;
                self.tools.start_next_file_job();
                Ok(())
            }
            LoopSignal::CommandExited { call } => {
                self.tools.handle_command_exit(call);
                Ok(())
            }
            LoopSignal::CommandTimedOut { call, after } => {
                self.tools.handle_command_timeout(call, after);
                Ok(())
            }
            LoopSignal::CommandEnded { call, end } => {
                let (text, is_error) = end.into_text();
                self.complete_tool(call, text, is_error, host)
            }
            LoopSignal::OutOfTime if self.machine.limit().is_none() => {
                let detail = "the time for further steps is over".to_owned();
                self.reach_limit(LimitName::Time, detail, host)?;
                let dropped = self.tools.stop_calls("the time of the run is almost over");
                let text = "not executed: the time of the run is almost over";
                dropped.into_iter().try_for_each(|call| self.complete_tool(call, text.to_owned(), true, host))
            }
            LoopSignal::OutOfTime => Ok(()),
        }
    }

    /// Returns whether nothing of the loop runs any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopping && self.tools.has_ended()
    }

    /// Stops the loop: asks its commands to end, or kills them.
    pub(crate) fn stop(&mut self, how: StopMode) {
        self.is_stopping = true;
        if let (Some(model), Some(call)) = (&self.model, self.model_call.take()) {
            model.cancel(u64::from(call));
        }
        if let Some(model) = &mut self.model {
            model.close();
        }
        match how {
            StopMode::Ask => self.tools.request_stop(),
            StopMode::Kill => _ = self.tools.stop_calls("the run is stopping"),
        }
    }

    /// Kills all processes of the loop, and returns how many there were and those that could not be killed.
    pub(crate) fn sweep(&mut self) -> std::io::Result<process::Killed> {
        let mut all = self.tools.sweep()?;
        if let Some(mut model) = self.model.take() {
            let killed = model.agent_mut().sweep()?;
            all.count += killed.count;
            all.survivors.extend(killed.survivors);
        }
        Ok(all)
    }

    fn reach_limit(
        &mut self,
        limit: LimitName,
        detail: String,
        host: &mut dyn LoopHost,
    ) -> Result<(), StoreError> {
        host.append(Event::LimitExceeded { limit, detail })?;
        self.machine.apply(LoopEvent::LimitReached(limit));
        Ok(())
    }

    fn call_model(
        &mut self,
        call: u32,
        request: ModelRequest,
        host: &mut dyn LoopHost,
    ) -> Result<(), StoreError> {
        match host.state().calls.get(&call).cloned() {
            Some(LoopCall { completed: Some((ok, output)), body, .. }) => {
                self.machine.apply(LoopEvent::ModelCalled);
                return self.restore_model_call(call, ok, output, body);
            }
            Some(LoopCall { completed: None, .. }) => {
                let message = format!(
                    "the worker was lost during the model call {call}, which is made again; its service may charge for both"
                );
                host.append(Event::Warned { message })?;
            }
            None => {}
        }
        let input =
            json!({"messages": request.messages.len(), "max_output_tokens": request.max_output_tokens});
        host.append(Event::CallRequested {
            call,
            kind: CallKind::Model,
            class: CallClass::Pure,
            name: request.model.clone(),
            input,
            turn: Some(call),
            verdict: None,
        })?;
        host.set_activity(format!("asks {}", one_line(&request.model)));
        failpoint::reach("loop_requested_model");
        self.machine.apply(LoopEvent::ModelCalled);
        self.model_call = Some(call);
        if let Err(reason) = self.start_model(host) {
            return self.fail_model_call(call, (ModelError::Other, reason), None, host);
        }
        let timeout_ms = self.end_by_ms.saturating_sub(clock::monotonic_ms()).max(1);
        let request = ClientRequest { id: u64::from(call), request, timeout_ms, idle_ms: MODEL_IDLE_MS };
        if self.model.as_ref().is_some_and(|model| model.request(request)) {
            return Ok(());
        }
        let reason = "the process that calls the model does not take requests".to_owned();
        self.fail_model_call(call, (ModelError::Other, reason), None, host)
    }

    /// Starts the process that calls the model, unless it runs.
    fn start_model(&mut self, host: &mut dyn LoopHost) -> Result<(), String> {
        if self.model.is_some() {
            return Ok(());
        }
        let (started, event, first_line) = self.starter.start_model_client()?;
        let attached = ModelProcess::attach(started, first_line, &self.signals_tx);
        self.model = Some(attached.map_err(|error| error.to_string())?);
        host.append(event).map_err(|error| explain(&error))
    }

    /// Applies the recorded end of a model call.
    fn restore_model_call(
        &mut self,
        call: u32,
        ok: bool,
        output: String,
        body: Option<domain::run::CallBody>,
    ) -> Result<(), StoreError> {
        if !ok {
            self.machine.apply(LoopEvent::ModelFailed { error: ModelError::Other, message: output });
            return Ok(());
        }
        let Some(body) = body else {
            let message = format!("the record of the model call {call} has no answer");
            self.machine.apply(LoopEvent::ModelFailed { error: ModelError::Other, message });
            return Ok(());
        };
        let bytes = read_call_body(&self.dir, call, &body)?;
        let path = self.dir.path().to_owned();
        let answer: ModelAnswer =
            serde_json::from_slice(&bytes).map_err(|source| StoreError::Malformed { path, source })?;
        self.machine.apply(LoopEvent::ModelAnswered(Box::new(answer)));
        Ok(())
    }

    fn handle_model_event(
        &mut self,
        event: ModelClientEvent,
        host: &mut dyn LoopHost,
    ) -> Result<(), StoreError> {
        let is_current = |id: u64| self.model_call.is_some_and(|call| u64::from(call) == id);
        match event {
            ModelClientEvent::Text { id, text } if is_current(id) => {
                host.push_text(&text);
                Ok(())
            }
            ModelClientEvent::Retrying { id, message, .. } if is_current(id) => {
                host.set_activity(one_line(&message));
                host.append(Event::Warned { message })
            }
            ModelClientEvent::Answered { id, answer } => {
                match self.model_call.take_if(|call| u64::from(*call) == id) {
                    Some(call) => self.complete_model_call(call, *answer, host),
                    None => Ok(()),
                }
            }
            ModelClientEvent::Failed(RequestFailure { id, cause, error, message, usage, .. }) => {
                match self.model_call.filter(|call| u64::from(*call) == id) {
                    Some(call) => {
                        let error = match cause {
                            FailureCause::IdleTimeout | FailureCause::TotalTimeout => ModelError::Unreachable,
                            FailureCause::Service | FailureCause::Cancelled | FailureCause::Unsupported => {
                                error
                            }
                        };
                        self.fail_model_call(call, (error, message), usage, host)
                    }
                    None => Ok(()),
                }
            }
            ModelClientEvent::InvalidInput { message } => host.append(Event::Warned { message }),
            ModelClientEvent::Model { .. }
            | ModelClientEvent::Used { .. }
            | ModelClientEvent::Text { .. }
            | ModelClientEvent::Retrying { .. } => Ok(()),
        }
    }

    fn complete_model_call(
        &mut self,
        call: u32,
        answer: ModelAnswer,
        host: &mut dyn LoopHost,
    ) -> Result<(), StoreError> {
        failpoint::reach("loop_model_answered");
        let value = serde_json::to_value(&answer).expect("all keys of an answer are texts");
        let body = Some(self.files.store_json(call, value)?);
        let text = answer.turn.text.clone();
        let details = CallDetails { usage: answer.usage, model: answer.answered_by.clone(), body };
        host.append(Event::CallCompleted {
            call,
            ok: true,
            output: head(&text, HEAD_BYTES).to_owned(),
            details: Some(Box::new(details)),
        })?;
        failpoint::reach("loop_completed_model");
        if !text.trim().is_empty() {
            let text = head(&text, 64 << 10).trim_end();
            host.append(Event::AnswerAppended { text: format!("{text}\n") })?;
        }
        self.machine.apply(LoopEvent::ModelAnswered(Box::new(answer)));
        Ok(())
    }

    fn fail_model_call(
        &mut self,
        call: u32,
        (error, message): (ModelError, String),
        usage: Option<Usage>,
        host: &mut dyn LoopHost,
    ) -> Result<(), StoreError> {
        self.model_call = None;
        host.append(Event::CallCompleted {
            call,
            ok: false,
            output: head(&message, HEAD_BYTES).to_owned(),
            // A service may charge for an answer that it did not finish.
            details: Some(Box::new(CallDetails { usage, ..CallDetails::default() })),
        })?;
        self.machine.apply(LoopEvent::ModelFailed { error, message });
        Ok(())
    }

    /// Handles the end of the process that calls the model. It is started again for the next call.
    fn handle_model_end(&mut self, host: &mut dyn LoopHost) -> Result<(), StoreError> {
        let Some(mut model) = self.model.take() else { return Ok(()) };
        let errors = one_line(model.errors());
        // It has closed its output; whatever is left of it must not outlive its replacement.
        let _ = model.agent_mut().end_alone();
        let Some(call) = self.model_call else { return Ok(()) };
        let mut message =
            format!("the process that calls the model (pid {}) ended unexpectedly", model.pid());
        if !errors.is_empty() {
            message = format!("{message}: {errors}");
        }
        self.fail_model_call(call, (ModelError::Other, message), None, host)
    }

    fn call_tool(&mut self, planned: PlannedToolCall, host: &mut dyn LoopHost) -> Result<(), StoreError> {
        let PlannedToolCall { call, turn, tool } = planned;
        let recorded = host.state().calls.get(&call).cloned();
        let known = recorded.as_ref().and_then(|recorded| recorded.completed.clone());
        if let Some((ok, output)) = known {
            let text = match recorded.and_then(|recorded| recorded.body) {
                Some(body) => String::from_utf8_lossy(&read_call_body(&self.dir, call, &body)?).into_owned(),
                None => output,
            };
            self.machine.apply(LoopEvent::ToolCalled { call });
            let outcome = self.tools.restore(&tool, call, ok, text);
            self.machine.apply(LoopEvent::ToolEnded { call, outcome });
            return Ok(());
        }
        let mut prepared = self.tools.prepare(&tool);
        if let Some(recorded) = &recorded {
            prepared.restore_edit(&recorded.input);
        }
        let is_in_doubt = |recorded: &LoopCall| {
            recorded.class == CallClass::Effect || prepared.is_edit_in_doubt(&recorded.input)
        };
        if recorded.as_ref().is_some_and(is_in_doubt) {
            // The command may have run before the worker was lost, so it is not started again.
            host.append(Event::CallInDoubt { call })?;
            self.machine.apply(LoopEvent::ToolCalled { call });
            let text = prepared.doubt_text();
            host.append(Event::Warned { message: format!("call {call}: {text}") })?;
            return self.complete_tool(call, text, true, host);
        }
        host.append(prepared.requested_event(call, turn))?;
        host.set_activity(prepared.summary.clone());
        self.machine.apply(LoopEvent::ToolCalled { call });
        if let Some(denial) = prepared.denial() {
            host.append(Event::ToolDenied { denial })?;
        }
        if prepared.class != CallClass::Pure && !prepared.is_refused() {
            // The intent of an effect is on disk before the effect, with everything that led to it.
            self.files.sync()?;
            host.sync()?;
        }
        failpoint::reach("loop_requested_tool");
        match self.tools.start(call, prepared, &self.starter, host.state()) {
            ToolStart::Started => Ok(()),
            ToolStart::Returned { text, is_error } => self.complete_tool(call, text, is_error, host),
            ToolStart::Finished { success, text } => {
                self.record_tool_end(call, true, &text, host)?;
                self.machine
                    .apply(LoopEvent::ToolEnded { call, outcome: ToolOutcome::Finished { success, text } });
                Ok(())
            }
        }
    }

    /// Records the end of a tool call and returns its text to the model.
    fn complete_tool(
        &mut self,
        call: u32,
        text: String,
        is_error: bool,
        host: &mut dyn LoopHost,
    ) -> Result<(), StoreError> {
        failpoint::reach("loop_tool_ended");
        let text = self.tools.mask(text);
        self.record_tool_end(call, !is_error, &text, host)?;
        let text = self.tools.text_for_model(call, text);
        self.machine.apply(LoopEvent::ToolEnded { call, outcome: ToolOutcome::Returned { text, is_error } });
        Ok(())
    }

    fn record_tool_end(
        &mut self,
        call: u32,
        ok: bool,
        text: &str,
        host: &mut dyn LoopHost,
    ) -> Result<(), StoreError> {
        let body = if text.len() > HEAD_BYTES { Some(self.files.store_text(call, text)?) } else { None };
        let details = CallDetails { usage: None, model: None, body };
        host.append(Event::CallCompleted {
            call,
            ok,
            output: head(text, HEAD_BYTES).to_owned(),
            details: Some(Box::new(details)),
        })?;
        failpoint::reach("loop_completed_tool");
        Ok(())
    }
}
