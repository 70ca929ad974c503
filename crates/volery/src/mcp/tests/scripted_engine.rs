//! A scripted engine: runs are values in memory that the test ends. The name of the agent determines how a run starts.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::id::RunId;
use futures::FutureExt;
use jiff::Timestamp;
use tokio::sync::Notify;

use engine::{
    AgentList, AgentView, AnswerRequest, AnswerResult, AnyAnswer, AnyRequest, Attachment, CancelResult,
    CancelRunsRequest, CancelTarget, CancelledRun, CheckKeyFile, EngineApi, EngineError, EngineFuture,
    Excerpt, FolderAgentList, GetIacEntry, GetRun, HealthReport, HealthRequest, IacEntry, ListAgents,
    ListIacEntries, ListRuns, OnProgress, OutputPage, Progress, QuestionView, ReadFolderAgents, ReadOutput,
    RunDetail, RunList, RunSummary, RunView, StartRequest, StartedRun, WaitRequest, WaitResult, WaitUntil,
    WaitingView,
};

#[derive(Debug, Default)]
pub(in crate::mcp) struct ScriptedEngine {
    state: Mutex<ScriptState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct ScriptState {
    runs: BTreeMap<RunId, RunView>,
    results: BTreeMap<RunId, String>,
    log: Vec<String>,
    starts: Vec<StartRequest>,
}

impl ScriptedEngine {
    /// The requests that changed something, in order.
    pub(in crate::mcp) fn log(&self) -> Vec<String> {
        self.lock().log.clone()
    }

    pub(in crate::mcp) fn starts(&self) -> Vec<StartRequest> {
        self.lock().starts.clone()
    }

    /// Waits for a log line with this prefix, and returns it.
    pub(in crate::mcp) async fn logged(&self, what: &str) -> String {
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

    pub(in crate::mcp) fn run_ids(&self) -> Vec<RunId> {
        self.lock().runs.keys().copied().collect()
    }

    /// Ends a run.
    pub(in crate::mcp) fn end(&self, run: RunId, status: &str, result: &str) {
        let mut state = self.lock();
        let view = state.runs.get_mut(&run).expect("the run was started");
        view.status = status.into();
        view.explanation = format!("{status} as scripted");
        view.ended = true;
        view.waiting = None;
        view.needs_answer = Vec::new();
        view.partial = None;
        view.ended_at = Some("2026-11-15T10:00:05Z".into());
        view.result_bytes = result.len() as u64;
        state.results.insert(run, result.into());
        drop(state);
        self.changed.notify_waiters();
    }

    fn log_line(&self, line: String) {
        self.lock().log.push(line);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, ScriptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, request: StartRequest) -> Result<StartedRun, EngineError> {
        let known = ["quick", "slow", "asks", "queued", "fails", "long"];
        assert!(request.agent != "panics", "the script says so");
        if !known.contains(&request.agent.as_str()) {
            return Err(EngineError::not_found(format!("no agent {:?}", request.agent))
                .hint("list_agents shows them"));
        }
        let mut state = self.lock();
        let number = u8::try_from(state.runs.len()).expect("few runs");
        let at: Timestamp = "2026-11-15T10:00:00Z".parse().expect("a moment");
        let run_id = RunId::from_parts(at, [7, 7, 7, 7, 7, 7, 7, 7, 7, number]);
        let mut view = crate::sample_run::sample_run(run_id, &request.agent);
        match request.agent.as_str() {
            "asks" => {
                view.status = "waiting".into();
                let (question, text) = ("q1".to_owned(), "may I?".to_owned());
                let until = "2026-11-15T11:00:00Z".to_owned();
                view.needs_answer = vec![QuestionView {
                    run_id,
                    short_id: run_id.short(),
                    agents: vec![view.agent.clone()],
                    question: question.clone(),
                    text: text.clone(),
                    until: until.clone(),
                    allow_rules: Vec::new(),
                }];
                view.waiting = Some(WaitingView::Answer { question, text, until, allow_rules: Vec::new() });
            }
            "queued" => {
                view.status = "waiting".into();
                view.waiting = Some(WaitingView::Slot { position: 3 });
            }
            _ => {}
        }
        let (agent, prompt) = (request.agent.clone(), request.prompt.clone());
        let attachment = if request.attachment == Attachment::Detached { "detached" } else { "attached" };
        state.runs.insert(run_id, view);
        state.starts.push(request);
        drop(state);
        match agent.as_str() {
            "quick" => self.end(run_id, "succeeded", &prompt.to_uppercase()),
            "fails" => self.end(run_id, "failed", ""),
            "long" => self.end(run_id, "succeeded", &"0123456789\n".repeat(20_000)),
            _ => {}
        }
        self.log_line(format!("start {agent} {attachment}"));
        Ok(StartedRun { run_id, reused: false, warnings: Vec::new() })
    }

    fn find(&self, run: &str) -> Result<RunView, EngineError> {
        let state = self.lock();
        let found = state.runs.values().find(|view| view.run_id.to_string() == run || view.short_id == run);
        found.cloned().ok_or_else(|| EngineError::not_found(format!("no run {run:?}")))
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

/// Erases the type of an answer.
fn erased<T: Send + 'static>(answer: EngineFuture<'_, T>) -> EngineFuture<'_, AnyAnswer> {
    answer.map(|answer| answer.map(|answer| Box::new(answer) as AnyAnswer)).boxed()
}

fn immediate<T: Send + 'static>(answer: T) -> EngineFuture<'static, T> {
    async { Ok(answer) }.boxed()
}

/// Answers a request with the expression for its type.
macro_rules! answer_by_type {
    ($request:expr, $($type:ty => |$typed:pat_param| $answer:expr,)*) => {{
        let request = $request;
        $(let request = match request.downcast::<$type>() {
            Ok(typed) => {
                let $typed = *typed;
                return erased($answer);
            }
            Err(other) => other,
        };)*
        drop(request);
        panic!("the script does not answer this request")
    }};
}

impl EngineApi for ScriptedEngine {
    fn set_caller(&self, name: &str) {
        self.log_line(format!("caller {name}"));
    }

    fn ask_any<'a>(
        &'a self,
        request: Box<dyn AnyRequest>,
        progress: OnProgress<'a>,
    ) -> EngineFuture<'a, AnyAnswer> {
        answer_by_type! { request.into_any(),
            ListAgents => |request| self.list_agents(request),
            ReadFolderAgents => |_| immediate(FolderAgentList::default()),
            ListIacEntries => |_| immediate(Vec::<IacEntry>::new()),
            GetIacEntry => |_| immediate(None::<(IacEntry, Excerpt)>),
            CheckKeyFile => |_| immediate(Vec::<String>::new()),
            StartRequest => |request| self.start(request),
            WaitRequest => |request| self.wait(request, progress),
            GetRun => |request| self.get_run(request),
            ListRuns => |request| self.list_runs(request),
            CancelRunsRequest => |request| self.cancel(request),
            AnswerRequest => |request| self.answer(request),
            HealthRequest => |request| self.health(request),
            ReadOutput => |request| self.read_output(request),
        }
    }

    fn caller(&self) -> Option<domain::run::Caller> {
        None
    }

    fn detach(&self, run: RunId) {
        self.log_line(format!("detach {}", run.short()));
    }

    fn disconnect(&self) {
        self.log_line("disconnect".into());
    }
}

impl ScriptedEngine {
    fn list_agents(&self, _request: ListAgents) -> EngineFuture<'_, AgentList> {
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
            answers_by: domain::setup::AnswerChannel::Output,
            login_unknown: false,
            logged_out: false,
            problem: None,
        };
        let list = AgentList { project: "/project".into(), agents: vec![agent], diagnostics: Vec::new() };
        async move { Ok(list) }.boxed()
    }

    fn start(&self, request: StartRequest) -> EngineFuture<'_, StartedRun> {
        async move { self.begin(request) }.boxed()
    }

    fn wait<'a>(&'a self, request: WaitRequest, progress: OnProgress<'a>) -> EngineFuture<'a, WaitResult> {
        if request.until == WaitUntil::Any {
            self.log_line(format!("wait for any of {}", request.runs.len()));
        }
        let deadline =
            tokio::time::Instant::now() + Duration::from_millis(request.timeout_ms.unwrap_or(60_000));
        async move {
            loop {
                let changed = self.changed.notified();
                let views: Vec<_> =
                    request.runs.iter().map(|run| self.find(run)).collect::<Result<_, _>>()?;
                for view in &views {
                    progress(Progress {
                        run_id: view.run_id,
                        agent: view.agent.clone(),
                        status: view.status.clone(),
                        elapsed_ms: view.duration_ms,
                        activity: "$ cargo test".into(),
                        activity_is_text: false,
                        text_tail: "so far\nso good".into(),
                        needs_answer: view.needs_answer.first().cloned().map(Box::new),
                    });
                }
                let done = match request.until {
                    WaitUntil::Any => views.iter().any(|view| view.ended),
                    WaitUntil::All => views.iter().all(|view| view.ended),
                };
                let late = tokio::time::timeout_at(deadline, changed);
                if done || late.await.is_err() {
                    let runs = views.into_iter().map(|view| self.with_result(view, 0, 1 << 20)).collect();
                    return Ok(WaitResult { runs, timed_out: !done });
                }
            }
        }
        .boxed()
    }

    fn get_run(&self, request: GetRun) -> EngineFuture<'_, RunDetail> {
        async move {
            let run = self.with_result(self.find(&request.run)?, request.result_offset, request.result_max);
            let from = request.events_from.unwrap_or(u64::MAX);
            let events = (from..100).take(request.events_max).map(|seq| {
                serde_json::json!({ "seq": seq, "epoch": 1, "type": "said", "text": "x".repeat(1_000) })
            });
            let events: Vec<_> = events.collect();
            let next_event = events.last().and_then(|event| event["seq"].as_u64()).map(|seq| seq + 1);
            Ok(RunDetail { run, events, next_event: next_event.filter(|next| *next < 100) })
        }
        .boxed()
    }

    fn list_runs(&self, request: ListRuns) -> EngineFuture<'_, RunList> {
        self.log_line(format!("list {:?} {:?}", request.scope, request.states));
        let lines = self.lock().runs.values().map(run_line).take(request.limit).collect();
        async move { Ok(RunList { runs: lines, before: None }) }.boxed()
    }

    fn cancel(&self, request: CancelRunsRequest) -> EngineFuture<'_, CancelResult> {
        async move {
            let CancelTarget::Run(run) = request.target else {
                return Err(EngineError::not_found("no session"));
            };
            let run_id = self.find(&run)?.run_id;
            self.log_line(format!(
                "cancel {} by {}: {}",
                run_id.short(),
                request.order.by,
                request.order.reason
            ));
            self.end(run_id, "cancelled", "");
            Ok(CancelResult { runs: vec![CancelledRun { run_id, effect: "asked".into() }] })
        }
        .boxed()
    }

    fn answer(&self, request: AnswerRequest) -> EngineFuture<'_, AnswerResult> {
        async move {
            let view = self.find(&request.run)?;
            let Some(WaitingView::Answer { question, .. }) = view.waiting else {
                return Err(EngineError::not_found("the run asks nothing"));
            };
            let allow = request.allow.map_or("words".to_owned(), |allow| allow.to_string());
            self.log_line(format!("answer {allow} {:?} by {}", request.text, request.by));
            self.end(view.run_id, "succeeded", &request.text.unwrap_or_else(|| "approved".into()));
            Ok(AnswerResult { run_id: view.run_id, question })
        }
        .boxed()
    }

    fn health(&self, _request: HealthRequest) -> EngineFuture<'_, HealthReport> {
        async { Ok(HealthReport { running: 1, waiting: 0, slots: 16, agents: Vec::new(), left_out: 0 }) }
            .boxed()
    }

    fn read_output(&self, request: ReadOutput) -> EngineFuture<'_, OutputPage> {
        let text = format!("{:?} from {}", request.stream, request.offset);
        async move { Ok(OutputPage { text, next_offset: request.offset + 10, complete: true }) }.boxed()
    }
}

fn run_line(view: &RunView) -> RunSummary {
    RunSummary {
        run_id: view.run_id,
        short_id: view.short_id.clone(),
        agent: view.agent.clone(),
        status: view.status.clone(),
        ended: view.ended,
        created_at: view.created_at.clone(),
        ended_at: None,
        error: None,
        denials: Vec::new(),
        denials_count: 0,
        duration_ms: view.duration_ms,
        cost_microusd: None,
        session: None,
        parent: None,
        project: view.project.clone(),
        caller: view.caller.clone(),
        prompt: "shout".into(),
        needs_answer: view.needs_answer.clone(),
    }
}
