//! `run_agents`: starts several runs in parallel, and waits for all of them.

use domain::id::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::client_profiles::ClientProfile;
use super::super::tool_call::ToolCall;
use super::super::wait_for_runs::{self, WaitEnd};
use super::catalog::{Hints, NativeTool, ToolReply};
use super::run_agent::{RunRequest, apply_cancel};
use super::run_report::RunReport;
use engine::{Attachment, EngineError, RunView, WaitRequest, WaitUntil};

pub(super) const RUNS_MAX: usize = 50;
/// The minimum share of each result.
const RESULT_BYTES_MIN: usize = 1 << 10;

pub(super) struct RunAgents;

/// Delegate several independent tasks at once. The agents work in parallel, each in its own process, and see only
/// what you give them here, not this conversation.
///
/// Waits until all have ended and returns their results in the order of the requests. Runs that take longer are
/// returned with status "running": do other work, then call wait_runs with their run_ids. A request that is refused
/// does not stop the others.
///
/// Do not use it for tasks that build on each other's results, or that change the same files.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// The tasks, at most 50.
    #[schemars(length(min = 1, max = 50))]
    runs: Vec<RunRequest>,
    /// How many may run at the same time; further ones are started as others end. Left out: all, within the slots
    /// of the machine.
    #[schemars(range(min = 1))]
    max_parallel: Option<usize>,
    /// How many seconds to wait for the results at most. 0 returns the run_ids at once and lets the runs go on by
    /// themselves. Left out: as long as your client allows.
    wait_s: Option<u64>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct Output {
    /// The runs that were started, in the order of the requests.
    runs: Vec<RunReport>,
    /// The requests that were refused, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<Refused>,
    /// The positions of requests that max_parallel did not let begin in time, counted from 0: call run_agents again
    /// with them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_started: Vec<usize>,
    /// What to do next, where something is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Refused {
    /// The position of the request, counted from 0.
    index: usize,
    agent: String,
    reason: String,
}

impl NativeTool for RunAgents {
    const NAME: &'static str = "run_agents";
    const TITLE: &'static str = "Run agents in parallel";
    const HINTS: Hints = Hints::RUNS;
    const SEARCH_HINT: &'static str = "delegate several tasks to sub-agents in parallel";

    type Input = Input;
    type Output = Output;

    fn cut_short(output: &Output) -> Vec<String> {
        output.runs.iter().filter_map(RunReport::cut_short).collect()
    }

    async fn call(call: &ToolCall<'_>, input: Input) -> Result<ToolReply<Output>, EngineError> {
        let asynchronous = input.wait_s == Some(0);
        let attachment = if asynchronous { Attachment::Detached } else { Attachment::Attached };
        let mut group = Group::new(call, attachment, input.runs);
        let parallel = input.max_parallel.unwrap_or(RUNS_MAX);
        group.start_up_to(parallel).await;
        let mut views = Vec::new();
        while !asynchronous && !group.active.is_empty() {
            let until = if group.waiting.is_empty() { WaitUntil::All } else { WaitUntil::Any };
            match wait_for_runs::wait(call, group.active_ids(), until, call.remaining_wait(input.wait_s))
                .await?
            {
                WaitEnd::Waited(waited) => {
                    let timed_out = waited.timed_out && waited.runs.iter().all(|run| !run.ended);
                    views.extend(group.remove_ended(waited.runs));
                    if timed_out || call.remaining_wait(input.wait_s).is_zero() {
                        break;
                    }
                    group.start_up_to(parallel).await;
                }
                WaitEnd::Question(_) | WaitEnd::Leaving => break,
                WaitEnd::Cancelled(meaning) => {
                    for run in &group.active {
                        apply_cancel(call, *run, meaning).await;
                    }
                    return Ok(ToolReply::Done(Output::default()));
                }
            }
        }
        if !call.handler.leaving.is_cancelled() {
            views.extend(group.detach_remaining().await?);
        }
        Ok(group.reply(views))
    }
}

/// The runs of one call.
struct Group<'a> {
    call: &'a ToolCall<'a>,
    attachment: Attachment,
    /// Not yet started, the next one last.
    waiting: Vec<(usize, RunRequest)>,
    active: Vec<RunId>,
    started: Vec<StartedRun>,
    refused: Vec<Refused>,
}

struct StartedRun {
    run: RunId,
    index: usize,
    agent: String,
    warnings: Vec<String>,
    reused: bool,
}

impl<'a> Group<'a> {
    fn new(call: &'a ToolCall<'a>, attachment: Attachment, requests: Vec<RunRequest>) -> Self {
        let mut waiting: Vec<_> = requests.into_iter().enumerate().collect();
        waiting.reverse();
        Self { call, attachment, waiting, active: Vec::new(), started: Vec::new(), refused: Vec::new() }
    }

    async fn start_up_to(&mut self, parallel: usize) {
        while self.active.len() < parallel {
            let Some((index, request)) = self.waiting.pop() else { return };
            let agent = request.agent.clone();
            let started = match request.into_start(self.call, self.attachment) {
                Ok(start) => self.call.handler.engine.ask(start).await,
                Err(error) => Err(error),
            };
            match started {
                Ok(started) => {
                    // The same idempotency key twice in one call means one run.
                    if !self.active.contains(&started.run_id) {
                        self.active.push(started.run_id);
                    }
                    let engine::StartedRun { run_id: run, warnings, reused } = started;
                    self.started.push(StartedRun { run, index, agent, warnings, reused });
                }
                Err(error) => self.refused.push(Refused { index, agent, reason: error.to_string() }),
            }
        }
    }

    fn active_ids(&self) -> Vec<String> {
        self.active.iter().map(RunId::to_string).collect()
    }

    fn remove_ended(&mut self, runs: Vec<RunView>) -> Vec<RunView> {
        let ended: Vec<_> = runs.into_iter().filter(|run| run.ended).collect();
        self.active.retain(|run| ended.iter().all(|view| view.run_id != *run));
        ended
    }

    /// Detaches the active runs, and returns their state.
    async fn detach_remaining(&mut self) -> Result<Vec<RunView>, EngineError> {
        if self.active.is_empty() {
            return Ok(Vec::new());
        }
        for run in &self.active {
            self.call.handler.engine.detach(*run);
        }
        let request = WaitRequest { runs: self.active_ids(), until: WaitUntil::All, timeout_ms: Some(0) };
        Ok(self.call.handler.engine.ask(request).await?.runs)
    }

    fn reply(mut self, views: Vec<RunView>) -> ToolReply<Output> {
        let share = self.call.client.result_bytes / self.started.len().max(1);
        let client = ClientProfile { result_bytes: share.max(RESULT_BYTES_MIN), ..self.call.client.clone() };
        self.started.sort_by_key(|started| started.index);
        let runs: Vec<_> = self.started.into_iter().map(|started| report(started, &views, &client)).collect();
        self.call.handler.returned_results.record(&runs);
        let active: Vec<_> = runs.iter().filter(|run| !run.ended).map(|run| run.run_id.as_str()).collect();
        let not_started: Vec<usize> = self.waiting.iter().rev().map(|(index, _)| *index).collect();
        let steps = [
            (!active.is_empty()).then(|| {
                let active = serde_json::json!(active);
                format!("Some runs go on. Do other work, then call wait_runs with run_ids {active}.")
            }),
            (!not_started.is_empty())
                .then(|| "Call run_agents again with the requests in not_started.".to_owned()),
            (!self.refused.is_empty()).then(|| "Correct the requests in refused, or drop them.".to_owned()),
        ];
        let steps: Vec<String> = steps.into_iter().flatten().collect();
        let next = (!steps.is_empty()).then(|| steps.join(" "));
        let nothing_ran = runs.is_empty();
        let output = Output { runs, refused: self.refused, not_started, next };
        if nothing_ran { ToolReply::Failed(output) } else { ToolReply::Done(output) }
    }
}

fn report(started: StartedRun, views: &[RunView], client: &ClientProfile) -> RunReport {
    let report = match views.iter().find(|view| view.run_id == started.run) {
        Some(view) => RunReport::for_client(view.clone(), client),
        None => RunReport::started(started.run.to_string(), started.agent, started.warnings),
    };
    RunReport { reused: started.reused, ..report }
}
