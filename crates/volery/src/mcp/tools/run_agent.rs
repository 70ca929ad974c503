//! `run_agent`: starts one run and waits as long as the client allows; then answers with the run's id or a task.

use std::time::Duration;

use domain::budget::RequestedLimits;
use domain::id::RunId;
use domain::permission::{Level, Permission, Rule};
use domain::run::{CancelRequest, OnDisconnect};
use schemars::JsonSchema;
use serde::Deserialize;

use super::super::client_profiles::CancelMeaning;
use super::super::elicit;
use super::super::tasks;
use super::super::tool_call::ToolCall;
use super::super::wait_for_runs::{self, WaitEnd};
use super::catalog::{Hints, NativeTool, ToolReply};
use super::run_report::{RunReport, is_failure};
use engine::{
    Attachment, CancelRunsRequest, CancelTarget, EngineError, GetRun, RunView, StartRequest, StartedRun,
    WaitUntil,
};

pub(super) struct RunAgent;

/// Delegate one task to a specialised agent and get its result. The agent works in its own process and sees only
/// what you give it here, not this conversation.
///
/// Waits for the result and returns it. If the run takes longer than you can be kept waiting, you get its run_id
/// with status "running" instead; nothing is lost: do other work, then call wait_runs. For several independent
/// tasks use run_agents, which runs them in parallel.
///
/// Call list_agents first to learn which agents there are. A run may change files in its directory.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Input {
    #[serde(flatten)]
    request: RunRequest,
    /// How many seconds to wait for the result at most. 0 returns the run_id at once and lets the run go on by
    /// itself. Left out: as long as your client allows.
    wait_s: Option<u64>,
}

/// One task for one agent.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunRequest {
    /// The name of the agent, as list_agents shows it.
    pub(super) agent: String,
    /// The whole task in words: goal, relevant facts, paths, constraints, and what the answer should look like. The
    /// agent knows nothing else. At most 1 MiB.
    pub(super) prompt: String,
    /// The absolute path of the directory to work in. Left out: the project that this server was started in.
    directory: Option<String>,
    /// Background to put before the prompt, for example findings so far.
    context: Option<String>,
    /// Values that the agent asks for beside the prompt, by name, as list_agents shows them. Only for agents with inputs.
    inputs: Option<domain::inputs::Inputs>,
    /// Continues the conversation of the earlier run of the same agent that told this session_id. Letters, digits, _
    /// and -.
    session_id: Option<String>,
    /// true: begins a copy of that conversation with a new session_id and leaves the conversation itself as it is.
    fork: Option<bool>,
    /// Another model than the agent's own.
    model: Option<String>,
    /// A JSON schema (draft 2020-12, no references to other files) that the answer must satisfy, in place of the agent's
    /// own if it has one. The checked value is in `structured` of the result; an answer in another shape is asked for
    /// once more and then fails, with its text kept.
    output_schema: Option<serde_json::Map<String, serde_json::Value>>,
    /// Tighter limits than the agent's own.
    limits: Option<RunLimits>,
    /// A tighter permission than the agent's own, for this run. To ask for more than the agent has is refused, unless your
    /// user's configuration lets callers do so.
    permission: Option<RequestedPermission>,
    /// Your own name for this request. The same key with the same request returns the same run instead of a second
    /// one: use it when you retry.
    idempotency_key: Option<String>,
    /// What happens to the run if this client goes away before the result was delivered: "cancel" after half a
    /// minute, or "continue". Left out: as the agent is configured.
    on_disconnect: Option<OnClientGone>,
}

/// What the agent may do in one run. Rules are written as `Bash(git log:*)`, `Edit(src/**)`, `mcp__SERVER__TOOL` or the name
/// of a tool.
#[derive(Debug, Default, Deserialize, JsonSchema)]
struct RequestedPermission {
    /// The most it may do without a rule of yours: "read-only" changes nothing, "safe-edit" also edits files in its
    /// directory, "yolo" does everything.
    level: Option<RequestedLevel>,
    /// What it may do beyond that level.
    allow: Option<Vec<String>>,
    /// What a person is asked about first.
    ask: Option<Vec<String>>,
    /// What it may not do, whatever allows it.
    deny: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum RequestedLevel {
    ReadOnly,
    SafeEdit,
    Yolo,
}

impl RequestedPermission {
    fn parse(self) -> Result<Permission, EngineError> {
        let rules = |texts: Option<Vec<String>>| {
            let texts = texts.unwrap_or_default().into_iter().map(|text| text.parse::<Rule>());
            texts.collect::<Result<Vec<Rule>, _>>().map_err(|error| {
                EngineError::usage(format!("permission: {error}"))
                    .hint("write for example Read or Bash(git log:*)")
            })
        };
        let level = self.level.map(|level| match level {
            RequestedLevel::ReadOnly => Level::ReadOnly,
            RequestedLevel::SafeEdit => Level::SafeEdit,
            RequestedLevel::Yolo => Level::Yolo,
        });
        Ok(Permission { level, allow: rules(self.allow)?, ask: rules(self.ask)?, deny: rules(self.deny)? })
    }
}

/// Limits of one run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
struct RunLimits {
    /// Seconds the run may take in all.
    #[schemars(range(min = 1))]
    timeout_s: Option<u64>,
    /// Seconds the run may be silent.
    #[schemars(range(min = 1))]
    idle_timeout_s: Option<u64>,
    /// Memory of the agent and its processes, in MiB.
    #[schemars(range(min = 1))]
    memory_mib: Option<u64>,
    /// Processor time, in seconds.
    #[schemars(range(min = 1))]
    cpu_s: Option<u64>,
    /// Processes at the same time.
    #[schemars(range(min = 1))]
    processes: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OnClientGone {
    Cancel,
    Continue,
}

impl From<RunLimits> for RequestedLimits {
    fn from(limits: RunLimits) -> Self {
        let ms = |seconds: Option<u64>| seconds.map(|seconds| seconds.saturating_mul(1_000));
        Self {
            timeout_ms: ms(limits.timeout_s),
            idle_timeout_ms: ms(limits.idle_timeout_s),
            memory_bytes: limits.memory_mib.map(|mib| mib.saturating_mul(1 << 20)),
            cpu_ms: ms(limits.cpu_s),
            processes: limits.processes,
            ..Self::default()
        }
    }
}

impl RunRequest {
    pub(super) fn into_start(
        self,
        call: &ToolCall<'_>,
        attachment: Attachment,
    ) -> Result<StartRequest, EngineError> {
        let grace_ms = call.handler.options.disconnect_grace_ms;
        let on_disconnect = self.on_disconnect.map(|choice| match choice {
            OnClientGone::Cancel => OnDisconnect::Cancel { grace_ms },
            OnClientGone::Continue => OnDisconnect::Continue,
        });
        Ok(StartRequest {
            agent: self.agent,
            prompt: self.prompt,
            directory: self.directory,
            context: self.context,
            inputs: self.inputs.unwrap_or_default(),
            session: self.session_id,
            fork: self.fork.unwrap_or_default(),
            model: self.model,
            output_schema: self.output_schema.map(serde_json::Value::Object),
            limits: self.limits.unwrap_or_default().into(),
            idempotency_key: self.idempotency_key,
            on_disconnect,
            attachment,
            permission: self.permission.map(RequestedPermission::parse).transpose()?.unwrap_or_default(),
            unattended: call.unattended(),
            ..StartRequest::default()
        })
    }
}

impl NativeTool for RunAgent {
    const NAME: &'static str = "run_agent";
    const TITLE: &'static str = "Run an agent";
    const HINTS: Hints = Hints::RUNS;
    const SEARCH_HINT: &'static str = "delegate a task to a sub-agent";

    type Input = Input;
    type Output = RunReport;

    fn cut_short(output: &RunReport) -> Vec<String> {
        output.cut_short().into_iter().collect()
    }

    async fn call(call: &ToolCall<'_>, input: Input) -> Result<ToolReply<RunReport>, EngineError> {
        let agent = input.request.agent.clone();
        let asynchronous = input.wait_s == Some(0);
        let attachment = if asynchronous { Attachment::Detached } else { Attachment::Attached };
        let started = match call.resumed {
            Some(run_id) => StartedRun { run_id, reused: false, warnings: Vec::new() },
            None => call.handler.engine.ask(input.request.into_start(call, attachment)?).await?,
        };
        let run = started.run_id;
        let reused = started.reused;
        let handle = || {
            let report = RunReport::started(run.to_string(), agent, started.warnings);
            RunReport { reused, ..report }
        };
        if asynchronous {
            return Ok(ToolReply::Done(handle()));
        }
        let patience = call.remaining_wait(input.wait_s);
        let first = if call.supports_tasks() {
            patience.min(call.handler.options.timing.task_after)
        } else {
            patience
        };
        match wait_for(call, run, first).await? {
            WaitEnd::Waited(mut waited) => match waited.runs.pop() {
                Some(view) if view.ended => Ok(reply(view, reused, call)),
                _ if call.supports_tasks() => {
                    call.handler.engine.detach(run);
                    tasks::create(call, run).await.map(|task| ToolReply::Task(Box::new(task)))
                }
                Some(view) => {
                    call.handler.engine.detach(run);
                    Ok(reply(view, reused, call))
                }
                None => Ok(ToolReply::Done(handle())),
            },
            WaitEnd::Question(view) => {
                call.handler.engine.detach(run);
                if call.supports_tasks() {
                    return tasks::create(call, run).await.map(|task| ToolReply::Task(Box::new(task)));
                }
                if let Some(ask) = elicit::input_required(call, &view) {
                    return Ok(ToolReply::Ask(Box::new(ask)));
                }
                let request = GetRun { run: run.to_string(), ..GetRun::default() };
                Ok(reply(call.handler.engine.ask(request).await?.run, reused, call))
            }
            WaitEnd::Cancelled(meaning) => {
                apply_cancel(call, run, meaning).await;
                Ok(ToolReply::Done(handle()))
            }
            // Not detached: the run follows its `on_disconnect`.
            WaitEnd::Leaving => Ok(ToolReply::Done(handle().leaving())),
        }
    }
}

async fn wait_for(call: &ToolCall<'_>, run: RunId, at_most: Duration) -> Result<WaitEnd, EngineError> {
    wait_for_runs::wait(call, vec![run.to_string()], WaitUntil::All, at_most).await
}

fn reply(view: RunView, reused: bool, call: &ToolCall<'_>) -> ToolReply<RunReport> {
    let failed = is_failure(&view.status);
    let report = RunReport { reused, ..RunReport::for_client(view, &call.client) };
    call.handler.returned_results.record([&report]);
    if failed { ToolReply::Failed(report) } else { ToolReply::Done(report) }
}

/// Applies the cancellation of a call to its run.
pub(in super::super) async fn apply_cancel(call: &ToolCall<'_>, run: RunId, meaning: CancelMeaning) {
    match meaning {
        CancelMeaning::StopWaiting => call.handler.engine.detach(run),
        CancelMeaning::CancelRun => {
            let reason = call.ticket.as_ref().and_then(|ticket| ticket.cancel_reason());
            let order = CancelRequest {
                by: call.client.caller_name(),
                reason: reason.unwrap_or("the client cancelled the call").to_owned(),
                now: false,
            };
            // A cancelled call is not answered. If cancelling fails, the run ends by itself, and lists show it.
            let _ = call
                .handler
                .engine
                .ask(CancelRunsRequest { target: CancelTarget::Run(run.to_string()), order })
                .await;
        }
    }
}
