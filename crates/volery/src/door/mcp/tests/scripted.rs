//! A scripted engine: runs are values in memory whose ends the test decides. The name of the agent says how a run
//! begins.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::id::RunId;
use futures::FutureExt;
use jiff::Timestamp;
use tokio::sync::Notify;

use super::super::front::{Answering, Front};
use crate::app::{
    AgentList, AgentView, Answer, Answered, AppError, Attachment, Cancel, CancelTarget, Cancelled,
    CancelledRun, Folder, FoundAgents, GetRun, Health, HealthReport, ListAgents, ListRuns, OutputPage,
    Progress, ReadOutput, RunDetail, RunLine, RunList, RunView, Start, Started, Wait, WaitUntil, Waited,
    WaitingView,
};

#[derive(Debug, Default)]
pub(in crate::door::mcp) struct Scripted {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    runs: BTreeMap<RunId, RunView>,
    results: BTreeMap<RunId, String>,
    log: Vec<String>,
    starts: Vec<Start>,
}

impl Scripted {
    /// What was asked of the engine, in order, that is not a question.
    pub(in crate::door::mcp) fn log(&self) -> Vec<String> {
        self.lock().log.clone()
    }

    pub(in crate::door::mcp) fn starts(&self) -> Vec<Start> {
        self.lock().starts.clone()
    }

    /// Waits until something was logged, and returns it.
    pub(in crate::door::mcp) async fn logged(&self, what: &str) -> String {
        let found = async {
            loop {
                let changed = self.changed.notified();
                if let Some(line) = self.log().into_iter().find(|line| line.starts_with(what)) {
                    return line;
                }
                changed.await;
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(20), found).await;
        found.unwrap_or_else(|_| panic!("{what:?} was not logged: {:?}", self.log()))
    }

    pub(in crate::door::mcp) fn run_ids(&self) -> Vec<RunId> {
        self.lock().runs.keys().copied().collect()
    }

    /// Ends a run.
    pub(in crate::door::mcp) fn end(&self, run: RunId, status: &str, result: &str) {
        let mut state = self.lock();
        let view = state.runs.get_mut(&run).expect("the run was started");
        view.status = status.into();
        view.explanation = format!("{status} as scripted");
        view.ended = true;
        view.waiting = None;
        view.partial = None;
        view.ended_at = Some("2026-11-15T10:00:05Z".into());
        view.result_bytes = result.len() as u64;
        state.results.insert(run, result.into());
        drop(state);
        self.changed.notify_waiters();
    }

    fn note(&self, line: String) {
        self.lock().log.push(line);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, ask: Start) -> Result<Started, AppError> {
        let known = ["quick", "slow", "asks", "queued", "fails", "long"];
        assert!(ask.agent != "panics", "the script says so");
        if !known.contains(&ask.agent.as_str()) {
            return Err(
                AppError::not_found(format!("no agent {:?}", ask.agent)).hint("list_agents shows them")
            );
        }
        let mut state = self.lock();
        let number = u8::try_from(state.runs.len()).expect("few runs");
        let at: Timestamp = "2026-11-15T10:00:00Z".parse().expect("a moment");
        let run_id = RunId::from_parts(at, [7, 7, 7, 7, 7, 7, 7, 7, 7, number]);
        let mut view = RunView::sample(run_id, &ask.agent);
        match ask.agent.as_str() {
            "asks" => {
                view.status = "waiting".into();
                let (question, text) = ("q1".to_owned(), "may I?".to_owned());
                view.waiting =
                    Some(WaitingView::Answer { question, text, until: "2026-11-15T11:00:00Z".into() });
            }
            "queued" => {
                view.status = "waiting".into();
                view.waiting = Some(WaitingView::Slot { position: 3 });
            }
            _ => {}
        }
        let (agent, prompt) = (ask.agent.clone(), ask.prompt.clone());
        let attachment = if ask.attachment == Attachment::Detached { "detached" } else { "attached" };
        state.runs.insert(run_id, view);
        state.starts.push(ask);
        drop(state);
        match agent.as_str() {
            "quick" => self.end(run_id, "succeeded", &prompt.to_uppercase()),
            "fails" => self.end(run_id, "failed", ""),
            "long" => self.end(run_id, "succeeded", &"0123456789\n".repeat(20_000)),
            _ => {}
        }
        self.note(format!("start {agent} {attachment}"));
        Ok(Started { run_id, reused: false, warnings: Vec::new() })
    }

    fn find(&self, run: &str) -> Result<RunView, AppError> {
        let state = self.lock();
        let found = state.runs.values().find(|view| view.run_id.to_string() == run || view.short_id == run);
        found.cloned().ok_or_else(|| AppError::not_found(format!("no run {run:?}")))
    }

    fn with_result(&self, mut view: RunView, offset: u64, max: u64) -> RunView {
        if let Some(result) = self.lock().results.get(&view.run_id) {
            let from = (offset as usize).min(result.len());
            let to = (from + max as usize).min(result.len());
            view.result = Some(result[from..to].to_owned());
            view.result_next_offset = (to < result.len()).then_some(to as u64);
        }
        view
    }
}

impl Front for Scripted {
    fn set_caller(&self, name: &str) {
        self.note(format!("caller {name}"));
    }

    fn list_agents(&self, _ask: ListAgents) -> Answering<'_, AgentList> {
        let agent = AgentView {
            name: "quick".into(),
            description: "Shouts.".into(),
            backend: "rehearsal".into(),
            model: None,
            use_when: vec!["something must be loud".into()],
            avoid_when: Vec::new(),
            capabilities: Vec::new(),
            inputs: Vec::new(),
            file: "/project/.volery/agents/quick.md".into(),
            format: "volery".into(),
            layer: "project".into(),
            built_in: false,
            takes_built_in_name: false,
            answers_by: domain::setup::AnswersBy::Output,
            login_unknown: false,
            problem: None,
        };
        let list = AgentList { project: "/project".into(), agents: vec![agent], diagnostics: Vec::new() };
        async move { Ok(list) }.boxed()
    }

    fn read_agents(&self, _folder: Folder) -> Answering<'_, FoundAgents> {
        async { Ok(FoundAgents::default()) }.boxed()
    }

    fn iac_entries(&self) -> Answering<'_, Vec<crate::app::Entry>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn iac_entry(
        &self,
        _id: String,
        _bytes_max: usize,
    ) -> Answering<'_, Option<(crate::app::Entry, crate::app::Excerpt)>> {
        async { Ok(None) }.boxed()
    }

    fn doubts_about_keys(&self, _file: std::path::PathBuf) -> futures::future::BoxFuture<'_, Vec<String>> {
        async { Vec::new() }.boxed()
    }

    fn start(&self, ask: Start) -> Answering<'_, Started> {
        async move { self.begin(ask) }.boxed()
    }

    fn wait<'a>(
        &'a self,
        ask: Wait,
        progress: &'a mut (dyn FnMut(Progress) + Send),
    ) -> Answering<'a, Waited> {
        let deadline = tokio::time::Instant::now() + Duration::from_millis(ask.timeout_ms.unwrap_or(60_000));
        async move {
            loop {
                let changed = self.changed.notified();
                let views: Vec<_> = ask.runs.iter().map(|run| self.find(run)).collect::<Result<_, _>>()?;
                for view in &views {
                    progress(Progress {
                        run_id: view.run_id,
                        agent: view.agent.clone(),
                        status: view.status.clone(),
                        elapsed_ms: view.duration_ms,
                        activity: "wrote 12 B".into(),
                        text_tail: "so far\nso good".into(),
                    });
                }
                let done = match ask.until {
                    WaitUntil::Any => views.iter().any(|view| view.ended),
                    WaitUntil::All => views.iter().all(|view| view.ended),
                };
                let late = tokio::time::timeout_at(deadline, changed);
                if done || late.await.is_err() {
                    let runs = views.into_iter().map(|view| self.with_result(view, 0, 1 << 20)).collect();
                    return Ok(Waited { runs, timed_out: !done });
                }
            }
        }
        .boxed()
    }

    fn get_run(&self, ask: GetRun) -> Answering<'_, RunDetail> {
        async move {
            let run = self.with_result(self.find(&ask.run)?, ask.result_offset, ask.result_max);
            let from = ask.events_from.unwrap_or(u64::MAX);
            let events = (from..100).take(ask.events_max).map(|seq| {
                serde_json::json!({ "seq": seq, "epoch": 1, "type": "said", "text": "x".repeat(1_000) })
            });
            let events: Vec<_> = events.collect();
            let next_event = events.last().and_then(|event| event["seq"].as_u64()).map(|seq| seq + 1);
            Ok(RunDetail { run, events, next_event: next_event.filter(|next| *next < 100) })
        }
        .boxed()
    }

    fn list_runs(&self, ask: ListRuns) -> Answering<'_, RunList> {
        self.note(format!("list {:?} {:?}", ask.scope, ask.states));
        let lines = self.lock().runs.values().map(line_of).take(ask.limit).collect();
        async move { Ok(RunList { runs: lines, before: None }) }.boxed()
    }

    fn cancel(&self, ask: Cancel) -> Answering<'_, Cancelled> {
        async move {
            let CancelTarget::Run(run) = ask.target else { return Err(AppError::not_found("no session")) };
            let run_id = self.find(&run)?.run_id;
            self.note(format!("cancel {} by {}: {}", run_id.short(), ask.order.by, ask.order.reason));
            self.end(run_id, "cancelled", "");
            Ok(Cancelled { runs: vec![CancelledRun { run_id, effect: "asked".into() }] })
        }
        .boxed()
    }

    fn answer(&self, ask: Answer) -> Answering<'_, Answered> {
        async move {
            let view = self.find(&ask.run)?;
            let Some(WaitingView::Answer { question, .. }) = view.waiting else {
                return Err(AppError::not_found("the run asks nothing"));
            };
            let allow = ask.allow.map_or("words".to_owned(), |allow| allow.to_string());
            self.note(format!("answer {allow} {:?} by {}", ask.text, ask.by));
            self.end(view.run_id, "succeeded", &ask.text.unwrap_or_else(|| "approved".into()));
            Ok(Answered { run_id: view.run_id, question })
        }
        .boxed()
    }

    fn health(&self, _ask: Health) -> Answering<'_, HealthReport> {
        async { Ok(HealthReport { running: 1, waiting: 0, slots: 16, agents: Vec::new(), left_out: 0 }) }
            .boxed()
    }

    fn read_output(&self, ask: ReadOutput) -> Answering<'_, OutputPage> {
        let text = format!("{:?} from {}", ask.stream, ask.offset);
        async move { Ok(OutputPage { text, next_offset: ask.offset + 10, complete: true }) }.boxed()
    }

    fn caller(&self) -> Option<domain::run::Caller> {
        None
    }

    fn detach(&self, run: RunId) {
        self.note(format!("detach {}", run.short()));
    }

    fn leave(&self) {
        self.note("leave".into());
    }
}

fn line_of(view: &RunView) -> RunLine {
    RunLine {
        run_id: view.run_id,
        short_id: view.short_id.clone(),
        agent: view.agent.clone(),
        status: view.status.clone(),
        ended: view.ended,
        created_at: view.created_at.clone(),
        ended_at: None,
        error: None,
        duration_ms: view.duration_ms,
        cost_microusd: None,
        session: None,
        parent: None,
        project: view.project.clone(),
        caller: view.caller.clone(),
        prompt: "shout".into(),
    }
}
