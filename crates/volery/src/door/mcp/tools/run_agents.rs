//! `run_agents`: several runs side by side, with one wait for all of them.

use domain::id::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::call::Call;
use super::super::clients::Client;
use super::super::waiting::{self, WaitEnd};
use super::catalogue::{Hints, NativeTool, Reply};
use super::report::RunReport;
use super::run_agent::{RunRequest, obey_cancel};
use crate::app::{AppError, Attachment, RunView, Wait, WaitUntil};

pub(super) const RUNS_MAX: usize = 50;
/// How much of each result is shown at least, however many there are.
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

    async fn call(call: &Call<'_>, input: Input) -> Result<Reply<Output>, AppError> {
        let asynchronous = input.wait_s == Some(0);
        let attachment = if asynchronous { Attachment::Detached } else { Attachment::Attached };
        let mut group = Group::new(call, attachment, input.runs);
        let parallel = input.max_parallel.unwrap_or(RUNS_MAX);
        group.start_up_to(parallel).await;
        let mut views = Vec::new();
        while !asynchronous && !group.going.is_empty() {
            let until = if group.waiting.is_empty() { WaitUntil::All } else { WaitUntil::Any };
            match waiting::wait(call, group.going_ids(), until, call.patience(input.wait_s)).await? {
                WaitEnd::Waited(waited) => {
                    let timed_out = waited.timed_out && waited.runs.iter().all(|run| !run.ended);
                    views.extend(group.take_ended(waited.runs));
                    if timed_out || call.patience(input.wait_s).is_zero() {
                        break;
                    }
                    group.start_up_to(parallel).await;
                }
                WaitEnd::Asked(_) | WaitEnd::Leaving => break,
                WaitEnd::Cancelled(meaning) => {
                    for run in &group.going {
                        obey_cancel(call, *run, meaning).await;
                    }
                    return Ok(Reply::Done(Output::default()));
                }
            }
        }
        if !call.door.leaving.is_cancelled() {
            views.extend(group.hand_over().await?);
        }
        Ok(group.reply(views))
    }
}

/// The runs of one call.
struct Group<'a> {
    call: &'a Call<'a>,
    attachment: Attachment,
    /// Not yet started, the next one last.
    waiting: Vec<(usize, RunRequest)>,
    going: Vec<RunId>,
    started: Vec<Started>,
    refused: Vec<Refused>,
}

struct Started {
    run: RunId,
    index: usize,
    agent: String,
    warnings: Vec<String>,
    reused: bool,
}

impl<'a> Group<'a> {
    fn new(call: &'a Call<'a>, attachment: Attachment, requests: Vec<RunRequest>) -> Self {
        let mut waiting: Vec<_> = requests.into_iter().enumerate().collect();
        waiting.reverse();
        Self { call, attachment, waiting, going: Vec::new(), started: Vec::new(), refused: Vec::new() }
    }

    async fn start_up_to(&mut self, parallel: usize) {
        while self.going.len() < parallel {
            let Some((index, request)) = self.waiting.pop() else { return };
            let agent = request.agent.clone();
            let started = match request.into_start(self.call, self.attachment) {
                Ok(start) => self.call.door.app.start(start).await,
                Err(error) => Err(error),
            };
            match started {
                Ok(started) => {
                    // The same idempotency key twice in one call means one run.
                    if !self.going.contains(&started.run_id) {
                        self.going.push(started.run_id);
                    }
                    let crate::app::Started { run_id: run, warnings, reused } = started;
                    self.started.push(Started { run, index, agent, warnings, reused });
                }
                Err(error) => self.refused.push(Refused { index, agent, reason: error.to_string() }),
            }
        }
    }

    fn going_ids(&self) -> Vec<String> {
        self.going.iter().map(RunId::to_string).collect()
    }

    fn take_ended(&mut self, runs: Vec<RunView>) -> Vec<RunView> {
        let ended: Vec<_> = runs.into_iter().filter(|run| run.ended).collect();
        self.going.retain(|run| ended.iter().all(|view| view.run_id != *run));
        ended
    }

    /// Lets go of the runs that have not ended, and returns how they stand.
    async fn hand_over(&mut self) -> Result<Vec<RunView>, AppError> {
        if self.going.is_empty() {
            return Ok(Vec::new());
        }
        for run in &self.going {
            self.call.door.app.detach(*run);
        }
        let ask = Wait { runs: self.going_ids(), until: WaitUntil::All, timeout_ms: Some(0) };
        Ok(self.call.door.app.wait(ask, &mut |_| {}).await?.runs)
    }

    fn reply(mut self, views: Vec<RunView>) -> Reply<Output> {
        let share = self.call.client.result_bytes / self.started.len().max(1);
        let client = Client { result_bytes: share.max(RESULT_BYTES_MIN), ..self.call.client.clone() };
        self.started.sort_by_key(|started| started.index);
        let runs: Vec<_> = self.started.into_iter().map(|started| report(started, &views, &client)).collect();
        let going: Vec<_> = runs.iter().filter(|run| !run.ended).map(|run| run.run_id.as_str()).collect();
        let next = (!going.is_empty()).then(|| {
            format!(
                "Some runs go on. Do other work, then call wait_runs with run_ids {}.",
                serde_json::json!(going)
            )
        });
        let not_started = self.waiting.iter().rev().map(|(index, _)| *index).collect();
        let nothing_ran = runs.is_empty();
        let output = Output { runs, refused: self.refused, not_started, next };
        if nothing_ran { Reply::Failed(output) } else { Reply::Done(output) }
    }
}

fn report(started: Started, views: &[RunView], client: &Client) -> RunReport {
    let report = match views.iter().find(|view| view.run_id == started.run) {
        Some(view) => RunReport::of(view.clone(), client),
        None => RunReport::started(started.run.to_string(), started.agent, started.warnings),
    };
    RunReport { reused: started.reused, ..report }
}
