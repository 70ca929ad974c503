//! Runs the tools of a loop: reads what the model wants, decides whether it may, and performs it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use config::answer::Schema;
use domain::access::{Access, AccessEffect, AccessVerdict};
use domain::conversation::{ToolArguments, ToolCall};
use domain::policy::{Effect, Policy, Use, Verdict};
use domain::run::agent_loop::{FinishStatus, LoopTool, ToolOutcome, ToolRequest, parse_tool_request};
use domain::run::tool_summary::{summarize_tool_call, tool_subject, truncate};
use domain::run::{CallClass, CallKind, CallVerdict, Denial, DenialCause, Event, RunState};
use domain::secret::Redactor;
use domain::size::head;
use journal::RunDir;
use journal::call_files::read_call_body;
use process::{IfMissing, NetworkAccess};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::command::RunningCommand;
use super::file_jobs::{FileJob, FileJobs};
use super::process_starter::{CommandRequest, ProcessStarter};
use super::signal::LoopSignal;
use super::tools::{EditDigests, ResolvedPath};
use crate::error_chain::explain;

/// How much of a result the model gets at once.
const RESULT_BYTES_MAX: usize = 32 << 10;
/// How much of the arguments an event contains; the model's answer has all of them.
const INPUT_BYTES_MAX: usize = 16 << 10;
/// How long a command may run, unless the model says otherwise.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
/// The members of a recorded edit that say what it changes.
const DIGEST_BEFORE: &str = "sha256_before";
const DIGEST_AFTER: &str = "sha256_after";
const REASON_BYTES_MAX: usize = 1 << 10;

/// What the tools of one run may do.
pub(crate) struct ToolRules {
    pub(crate) tools: Vec<LoopTool>,
    pub(crate) access: Access,
    /// The permission of the run, if somebody set one. It can only restrict further.
    pub(crate) policy: Option<Policy>,
    /// Directories and files that commands may change.
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) network: NetworkAccess,
    /// The form of the result.
    pub(crate) result_schema: Option<Schema>,
}

/// The tools of one run.
pub(crate) struct ToolRunner {
    dir: RunDir,
    directory: String,
    rules: ToolRules,
    redactor: Redactor,
    files: FileJobs,
    commands: BTreeMap<u32, RunningCommand>,
    signals_tx: mpsc::Sender<LoopSignal>,
    structured: Option<Value>,
}

/// A call that was read and judged.
pub(crate) struct PreparedCall {
    pub(crate) class: CallClass,
    /// What it does, for people.
    pub(crate) summary: String,
    name: String,
    input: Value,
    state: CallState,
}

enum CallState {
    /// The model's call cannot be carried out, and why.
    Invalid(String),
    Denied {
        verdict: CallVerdict,
        explanation: String,
    },
    Ready {
        request: ToolRequest,
        path: Option<ResolvedPath>,
        verdict: Option<CallVerdict>,
        edit: Option<EditDigests>,
    },
}

/// What became of the start of a call.
pub(crate) enum ToolStart {
    /// A signal reports its end.
    Started,
    Returned {
        text: String,
        is_error: bool,
    },
    Finished {
        success: bool,
        text: String,
    },
}

impl ToolRunner {
    pub(crate) fn new(
        dir: RunDir,
        directory: String,
        (rules, files): (ToolRules, FileJobs),
        (redactor, signals_tx): (Redactor, mpsc::Sender<LoopSignal>),
    ) -> Self {
        let commands = BTreeMap::new();
        Self { dir, directory, rules, redactor, files, commands, signals_tx, structured: None }
    }

    pub(crate) fn structured(&self) -> Option<&Value> {
        self.structured.as_ref()
    }

    pub(crate) fn mask(&self, text: String) -> String {
        self.redactor.redact(&text)
    }

    /// Reads and judges a call.
    pub(crate) fn prepare(&self, tool: &ToolCall) -> PreparedCall {
        let known = LoopTool::from_name(&tool.name);
        let name = known.map_or_else(|| truncate(&tool.name), |tool| tool.name().to_owned());
        let input = match &tool.arguments {
            ToolArguments::Parsed(value) => bounded_input(value),
            ToolArguments::Unreadable(_) => Value::Null,
        };
        let summary = summarize_tool_call(&name, &input, &self.directory);
        let class = known.map_or(CallClass::Pure, LoopTool::class);
        let state = match parse_tool_request(&tool.name, &tool.arguments, &self.rules.tools) {
            Ok(request) => self.judge(request),
            Err(error) => CallState::Invalid(error.to_string()),
        };
        PreparedCall { class, summary, name, input, state }
    }

    fn judge(&self, request: ToolRequest) -> CallState {
        let path = match request.path().map(|path| self.files.resolve(path)).transpose() {
            Ok(path) => path,
            Err(error) => return CallState::Invalid(explain(&error)),
        };
        let target = path.as_ref().map(|path| path.absolute().display().to_string());
        let mut allowed = None;
        for of in request.uses(target) {
            let verdict = self.rules.access.decide(&of);
            match verdict.effect {
                AccessEffect::Allow => allowed = Some(recorded(&verdict)),
                AccessEffect::NeedsApproval | AccessEffect::Deny => return denied_by_access(&verdict),
            }
            if let Some(verdict) = self.denied_by_policy(&of) {
                let explanation = format!("{} is denied: {}.", request.tool().name(), verdict.explanation());
                let verdict = CallVerdict { effect: AccessEffect::Deny, reason: verdict.explanation() };
                return CallState::Denied { verdict, explanation };
            }
        }
        // While other operations are under way, what an edit finds is not known.
        let is_idle = self.files.is_idle();
        let edit = path.as_ref().filter(|_| is_idle).and_then(|path| self.files.plan_edit(&request, path));
        CallState::Ready { request, path, verdict: allowed, edit }
    }

    /// Returns the verdict of the run's permission, if it denies the use. Nobody is asked, so a question is a denial.
    fn denied_by_policy(&self, of: &Use) -> Option<Verdict> {
        let verdict = self.rules.policy.as_ref()?.decide(of);
        (verdict.effect > Effect::Allow).then_some(verdict)
    }

    /// Starts a call that is recorded.
    pub(crate) fn start(
        &mut self,
        call: u32,
        prepared: PreparedCall,
        starter: &ProcessStarter,
        state: &RunState,
    ) -> ToolStart {
        let error = |text: String| ToolStart::Returned { text, is_error: true };
        let (request, path, edit) = match prepared.state {
            CallState::Invalid(reason) => return error(reason),
            CallState::Denied { explanation, .. } => return error(explanation),
            CallState::Ready { request, path, edit, .. } => (request, path, edit),
        };
        match (request, path) {
            (ToolRequest::RunCommand { words, timeout_s }, _) => {
                match self.start_command(call, &words, timeout_s, starter) {
                    Ok(()) => ToolStart::Started,
                    Err(reason) => error(reason),
                }
            }
            (ToolRequest::ReadOutput { call, offset }, _) => self.read_output(call, offset, state),
            (ToolRequest::ReportStep { name }, _) => {
                ToolStart::Returned { text: format!("step: {name}"), is_error: false }
            }
            (ToolRequest::Finish { status, result }, _) => self.finish(status, result),
            (request, Some(path)) => {
                self.files.push(FileJob { call, request, path, edit });
                ToolStart::Started
            }
            (_, None) => error("the call has no path".to_owned()),
        }
    }

    fn start_command(
        &mut self,
        call: u32,
        words: &[String],
        timeout_s: Option<u64>,
        starter: &ProcessStarter,
    ) -> Result<(), String> {
        let of = Use::Exec(domain::policy::ExecCommand::Argv(words.to_vec()));
        // Without a confinement by the kernel, the arguments decide what a program does, so the rule must fix them.
        let if_missing = match self.rules.access.decide(&of).fixes_arguments {
            true => IfMissing::Allow,
            false => IfMissing::Refuse,
        };
        let ToolRules { writable, readable, network, .. } = &self.rules;
        let request = CommandRequest { words, writable, readable, network: *network, if_missing };
        let started = starter.start_command(&request).map_err(|error| explain(&error))?;
        let timeout = timeout_s.map_or(COMMAND_TIMEOUT, Duration::from_secs);
        let running = RunningCommand::attach(call, started, timeout, &self.signals_tx);
        self.commands.insert(call, running.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Returns the next part of the output of an earlier call.
    fn read_output(&self, call: u64, offset: u64, state: &RunState) -> ToolStart {
        let error = |text: String| ToolStart::Returned { text, is_error: true };
        let earlier = u32::try_from(call).ok().and_then(|call| Some((call, state.calls.get(&call)?)));
        let Some((number, earlier)) = earlier.filter(|(_, earlier)| earlier.kind == CallKind::Tool) else {
            return error(format!("there is no tool call {call} in this run"));
        };
        let text = match (&earlier.body, &earlier.completed) {
            (Some(body), _) => match read_call_body(&self.dir, number, body) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(failure) => return error(format!("could not {}", explain(&failure))),
            },
            (None, Some((_, output))) => output.clone(),
            (None, None) => return error(format!("the call {call} has not ended")),
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        match text.get(from..) {
            Some("") | None => {
                error(format!("the output of the call {call} has {} bytes; use a smaller offset", text.len()))
            }
            Some(rest) => ToolStart::Returned { text: page(number, rest, from, text.len()), is_error: false },
        }
    }

    fn finish(&mut self, status: FinishStatus, result: Value) -> ToolStart {
        let success = status == FinishStatus::Success;
        if let (true, Some(schema)) = (success, &self.rules.result_schema) {
            let errors = schema.errors(&result);
            if !errors.is_empty() {
                let text = format!(
                    "the result does not have the declared form: {}. Call finish again.",
                    errors.join("; ")
                );
                return ToolStart::Returned { text, is_error: true };
            }
        }
        let text = shown(&result);
        if success && !result.is_string() {
            self.structured = Some(result);
        }
        ToolStart::Finished { success, text }
    }

    /// Returns the recorded outcome of a call, for a worker that takes over.
    pub(crate) fn restore(&mut self, tool: &ToolCall, call: u32, ok: bool, text: String) -> ToolOutcome {
        let request = parse_tool_request(&tool.name, &tool.arguments, &self.rules.tools);
        if let (true, Ok(ToolRequest::Finish { status, result })) = (ok, request)
            && let ToolStart::Finished { success, text } = self.finish(status, result)
        {
            return ToolOutcome::Finished { success, text };
        }
        ToolOutcome::Returned { text: self.text_for_model(call, text), is_error: !ok }
    }

    /// Returns the text of a result as the model gets it: its beginning, if it is long.
    pub(crate) fn text_for_model(&self, call: u32, text: String) -> String {
        match text.len() {
            0..=RESULT_BYTES_MAX => text,
            total => page(call, &text, 0, total),
        }
    }

    /// Starts the next file operation. They run one after the other, in the order of their calls.
    pub(crate) fn start_next_file_job(&mut self) {
        self.files.start_next();
    }

    pub(crate) fn handle_command_exit(&mut self, call: u32) {
        if let Some(command) = self.commands.remove(&call) {
            // What could not be ended now is ended by the sweep of the run.
            let _ = command.finish(call, self.signals_tx.clone());
        }
    }

    pub(crate) fn handle_command_timeout(&mut self, call: u32, after: Duration) {
        if let Some(command) = self.commands.get_mut(&call) {
            command.set_stop_reason(&format!("it ran longer than {} s", after.as_secs()));
            self.handle_command_exit(call);
        }
    }

    /// Asks the running commands to end.
    pub(crate) fn request_stop(&mut self) {
        // The run ends without them; their record says that they were requested.
        let _ = self.files.cancel();
        for command in self.commands.values_mut() {
            command.set_stop_reason("the run is stopping");
            // A command that cannot be asked is killed after the grace.
            let _ = process::request_termination(command.agent_mut());
        }
    }

    /// Ends the running commands, and drops file operations that have not begun. Returns the calls of those.
    pub(crate) fn stop_calls(&mut self, reason: &str) -> Vec<u32> {
        let dropped = self.files.cancel();
        let calls: Vec<u32> = self.commands.keys().copied().collect();
        for call in calls {
            if let Some(command) = self.commands.get_mut(&call) {
                command.set_stop_reason(reason);
            }
            self.handle_command_exit(call);
        }
        dropped
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.commands.is_empty()
    }

    /// Kills all commands, and returns what was killed.
    pub(crate) fn sweep(&mut self) -> std::io::Result<process::Killed> {
        let mut all = process::Killed::default();
        for (_, mut command) in std::mem::take(&mut self.commands) {
            let killed = command.agent_mut().sweep()?;
            all.count += killed.count;
            all.survivors.extend(killed.survivors);
        }
        Ok(all)
    }
}

impl PreparedCall {
    /// Uses what an earlier worker recorded before the edit, so that an edit which was made is not an error now.
    pub(crate) fn restore_edit(&mut self, recorded: &Value) {
        let CallState::Ready { edit, .. } = &mut self.state else { return };
        let digest = |key: &str| recorded[key].as_str().map(ToOwned::to_owned);
        if let (Some(before), Some(after)) = (digest(DIGEST_BEFORE), digest(DIGEST_AFTER)) {
            *edit = Some(EditDigests { before, after });
        }
    }

    /// Returns whether a recorded call is an edit of which nobody knows whether it was made.
    pub(crate) fn is_edit_in_doubt(&self, recorded: &Value) -> bool {
        matches!(&self.state, CallState::Ready { request: ToolRequest::EditFile { .. }, .. })
            && recorded[DIGEST_AFTER].as_str().is_none()
    }

    /// Returns the event that records the call before it starts.
    pub(crate) fn requested_event(&self, call: u32, turn: u32) -> Event {
        let mut input = self.input.clone();
        if let (CallState::Ready { edit: Some(edit), .. }, Value::Object(members)) = (&self.state, &mut input)
        {
            members.insert(DIGEST_BEFORE.to_owned(), json!(edit.before));
            members.insert(DIGEST_AFTER.to_owned(), json!(edit.after));
        }
        let verdict = match &self.state {
            CallState::Invalid(_) => None,
            CallState::Denied { verdict, .. } => Some(verdict.clone()),
            CallState::Ready { verdict, .. } => verdict.clone(),
        };
        Event::CallRequested {
            call,
            kind: CallKind::Tool,
            // A refused call changes nothing.
            class: if self.is_refused() { CallClass::Pure } else { self.class },
            name: self.name.clone(),
            input,
            turn: Some(turn),
            verdict,
        }
    }

    pub(crate) fn is_refused(&self) -> bool {
        !matches!(self.state, CallState::Ready { .. })
    }

    pub(crate) fn denial(&self) -> Option<Denial> {
        let CallState::Denied { verdict, .. } = &self.state else { return None };
        Some(Denial {
            tool: self.name.clone(),
            subject: tool_subject(&self.input),
            cause: DenialCause::Rule,
            reason: domain::invisible_text::one_line(head(&verdict.reason, REASON_BYTES_MAX)),
            by: None,
            allow_rules: Vec::new(),
        })
    }

    /// Returns what a model is told about a call whose effect is not known.
    pub(crate) fn doubt_text(&self) -> String {
        format!(
            "unknown: {} was started, and the run was interrupted before its end was recorded. It was not started again. Find out what it has done before you repeat it.",
            self.summary
        )
    }
}

fn recorded(verdict: &AccessVerdict) -> CallVerdict {
    CallVerdict { effect: verdict.effect, reason: verdict.reason() }
}

fn denied_by_access(verdict: &AccessVerdict) -> CallState {
    CallState::Denied { verdict: recorded(verdict), explanation: verdict.explanation() }
}

/// Returns a part of a long output with a note on how to read the rest.
fn page(call: u32, rest: &str, from: usize, total: usize) -> String {
    let part = head(rest, RESULT_BYTES_MAX);
    let end = from + part.len();
    match end < total {
        true => format!(
            "{part}\n[bytes {from} to {end} of {total}; read_output with call {call} and offset {end} returns more]"
        ),
        false => part.to_owned(),
    }
}

/// Returns arguments short enough for an event.
fn bounded_input(input: &Value) -> Value {
    let Value::Object(members) = input else { return json!(head(&input.to_string(), INPUT_BYTES_MAX)) };
    if input.to_string().len() <= INPUT_BYTES_MAX {
        return input.clone();
    }
    let short = |value: &Value| match value {
        Value::String(text) => json!(head(text, 1 << 10)),
        other => json!(head(&other.to_string(), 1 << 10)),
    };
    members
        .iter()
        .take(8)
        .map(|(name, value)| (head(name, 256).to_owned(), short(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn shown(result: &Value) -> String {
    match result {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
    }
}
