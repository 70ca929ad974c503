//! The one loop that owns the state of a run. Tasks send it events; it asks the machine what to do, records, acts,
//! and notifies subscribers.

use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use backends::contract::{AgentAnswer, Exit, Loop, PermissionRequest};
use backends::user_environment::UserEnvironment;
use backends::vendor::Quirk;
use domain::id::RunId;
use domain::run::attempt::History;
use domain::run::{
    AgentEnd, Effect, Event, OutcomeKind, RunSpec, RunState, StdStream, StopMode, Supervision,
    SupervisionInput, SupervisionLimits,
};
use domain::secret::{Redactor, Secret};
use journal::{LogWriter, RunDir, RunLock, StoreError};
use process::AgentProcess;
use tokio::sync::{mpsc, oneshot};

use super::acceptance::AcceptanceProgress;
use super::attempts::DelayedRetry;
use super::denials::RecentCalls;
use super::output::{AgentOutput, ParsedOutput};
use super::output_validation::InvalidOutput;
use super::questions::OpenQuestion;
use super::socket_connections;
use super::subscribers::Subscribers;
use crate::agent_loop::{LoopDriver, LoopSignal};
use crate::api::{EngineError, Progress, QuestionView};
use crate::clock;
use crate::engine::Engine;
use crate::env;
use crate::error_chain::explain;
use crate::failpoint;
use crate::ipc::wire::{self, DoorMessage, LineBuffer, MessageReceiver, MessageSender, RunMessage};
use crate::launch::agent_process;

/// The arguments of a worker, from its keeper.
pub(crate) struct Assignment<'a> {
    pub dir: RunDir,
    pub spec: RunSpec,
    pub lock: &'a RunLock,
    pub channel: UnixStream,
    pub buffer: LineBuffer,
    pub messages: Vec<DoorMessage>,
    pub listener: UnixListener,
    pub deadline: OwnedFd,
    pub keeper_pid: u32,
    pub resumed: bool,
}

/// An event that a task of the worker reports to the supervisor.
pub(super) enum WorkerEvent {
    /// From the process of this attempt, like the next two.
    Output(usize, StdStream, Vec<u8>),
    OutputClosed(usize, StdStream),
    AgentExited(usize),
    DoorMessage(DoorMessage),
    CheckInbox,
    Subscriber(MessageSender),
    Ask {
        /// The attempt that the request comes from.
        attempt: usize,
        request: serde_json::Value,
        reply: oneshot::Sender<RunMessage>,
        progress_tx: mpsc::Sender<Progress>,
    },
    /// The open question of a child run, or of a run below it, has changed.
    ChildQuestion {
        run: RunId,
        question: Option<Box<QuestionView>>,
    },
    ChildEnded {
        run: RunId,
        outcome: OutcomeKind,
    },
    CallCompleted {
        call: u32,
        ok: bool,
        output: String,
    },
    /// From a task of the loop of this attempt.
    Loop(usize, LoopSignal),
}

/// How long the supervisor waits for the rest of the output after the agent's exit.
const DRAIN_MS: u64 = 1_000;
/// How long the children of an agent's program may take to exit by themselves, and how often that is checked.
const CHILDREN_EXIT_MS: u64 = 3_000;
const CHILDREN_POLL: Duration = Duration::from_millis(10);
/// How often the use of resources is sampled, where nothing else enforces the limits.
pub(super) const SAMPLE_EVERY_MS: u64 = 250;
/// How many events may wait for the supervisor.
const EVENTS_MAX: usize = 8;

/// The exit code of a worker that could not write the journal.
pub(crate) const EXIT_STORAGE: i32 = 74;
/// The exit code of a worker that panicked.
pub(crate) const EXIT_BUG: i32 = 70;

/// Carries out a run and returns the worker's exit code.
pub(crate) fn run_worker(assignment: Assignment<'_>) -> i32 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return EXIT_BUG };
    let local = tokio::task::LocalSet::new();
    let code = match local.block_on(&runtime, RunSupervisor::run(assignment)) {
        Ok(()) => 0,
        Err(error) => {
            log_error(&error);
            EXIT_STORAGE
        }
    };
    // The process ends here, and the kernel closes everything faster.
    std::mem::forget((local, runtime));
    code
}

#[expect(clippy::print_stderr, reason = "the error stream of a worker is the run's worker.log")]
fn log_error(error: &StoreError) {
    eprintln!("{} worker: could not {}", clock::now(), explain(error));
}

/// The running agent: a process, or a loop of calls inside the worker.
pub(super) enum AgentHandle {
    Process {
        agent: Box<AgentProcess>,
        output: Box<AgentOutput>,
        exit: Option<Exit>,
        open_streams: u32,
        drained_by: u64,
        /// `None` once the agent's input is closed.
        input: Option<mpsc::Sender<Vec<u8>>>,
        /// Requests of the agent that no person was asked about yet.
        pending_requests: VecDeque<PermissionRequest>,
        question: Option<OpenQuestion>,
    },
    Loop {
        agent_loop: Box<dyn Loop>,
        question: Option<OpenQuestion>,
        task: Option<tokio::task::AbortHandle>,
    },
    /// A model that calls tools, which this worker carries out.
    AgentLoop(Box<LoopDriver>),
    /// Before the first start, between attempts, or after a failed start.
    NotRunning,
}

pub(super) struct RunSupervisor {
    pub(super) dir: RunDir,
    pub(super) spec: RunSpec,
    /// The spec of the current attempt: the run's spec with another backend, conversation or prompt.
    pub(super) attempt_spec: RunSpec,
    /// The history of the session before the run, as it was when first read.
    pub(super) history: std::cell::OnceCell<History>,
    pub(super) delayed_retry: Option<DelayedRetry>,
    /// The number of attempts that this worker has started. Tasks that read an agent send it along, so that late
    /// events of an earlier attempt are recognised.
    pub(super) attempt_number: Rc<Cell<usize>>,
    /// The secrets of all attempts, which are masked.
    pub(super) secrets: Vec<Secret>,
    pub(super) log: LogWriter,
    pub(super) machine: Supervision,
    pub(super) handle: AgentHandle,
    pub(super) subscribers: Subscribers,
    pub(super) engine: Arc<Engine>,
    pub(super) events_tx: mpsc::Sender<WorkerEvent>,
    pub(super) events_rx: mpsc::Receiver<WorkerEvent>,
    pub(super) deadline: OwnedFd,
    pub(super) announced_deadline: u64,
    pub(super) started_ms: u64,
    pub(super) killed: u32,
    /// The answer as a value, once the agent has ended.
    pub(super) structured: Option<serde_json::Value>,
    /// The JSON of the answer was repaired.
    pub(super) repaired: bool,
    /// The last answer, if it does not match the requested schema.
    pub(super) invalid_output: Option<InvalidOutput>,
    /// Set while acceptance commands check the agent's success.
    pub(super) acceptance: Option<Box<AcceptanceProgress>>,
    pub(super) finished: bool,
    pub(super) loop_stopped: bool,
    pub(super) handled_cancel: Option<bool>,
    pub(super) next_inbox_check: u64,
    pub(super) next_sample: Option<u64>,
    /// When the supervisor kills an agent that has reported that it is finished.
    pub(super) exit_deadline: Option<u64>,
    /// The agent did not exit by itself, so the supervisor killed it.
    pub(super) killed_after_answer: bool,
    /// Why the model has not answered yet, if the program reports it.
    pub(super) delay_reason: Option<String>,
    pub(super) recent_calls: RecentCalls,
    /// The work tree before the agent started.
    pub(super) initial_snapshot: Option<process::work_tree::Snapshot>,
}

impl RunSupervisor {
    async fn run(assignment: Assignment<'_>) -> Result<(), StoreError> {
        let Assignment {
            dir,
            spec,
            lock,
            channel,
            buffer,
            messages,
            listener,
            deadline,
            keeper_pid,
            resumed,
        } = assignment;
        let mut log = LogWriter::open(&dir, lock)?;
        let (events_tx, events_rx) = mpsc::channel(EVENTS_MAX);
        let now = clock::monotonic_ms();
        let machine = Supervision::new(remaining_limits(&spec, log.state()), now);
        let path = dir.path().to_owned();
        let io = |error| StoreError::Io { attempt: "listen for", path: path.clone(), source: error };
        channel.set_nonblocking(true).map_err(io)?;
        let channel = tokio::net::UnixStream::from_std(channel).map_err(io)?;
        let listener = tokio::net::UnixListener::from_std(listener).map_err(io)?;
        let (receiver, sender) = wire::split(channel, buffer);
        let claimed = Event::Claimed {
            keeper_pid,
            worker_pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let secrets = agent_process::secrets(&spec, None);
        log.redact_with(Redactor::new(secrets.clone()));
        let mut supervisor = RunSupervisor {
            engine: Engine::for_run(dir.home(), &spec),
            dir,
            log,
            machine,
            handle: AgentHandle::NotRunning,
            subscribers: Subscribers::new(sender),
            events_tx,
            events_rx,
            deadline,
            announced_deadline: 0,
            started_ms: now,
            killed: 0,
            structured: None,
            repaired: false,
            invalid_output: None,
            acceptance: None,
            finished: false,
            loop_stopped: false,
            handled_cancel: None,
            next_inbox_check: 0,
            exit_deadline: None,
            killed_after_answer: false,
            next_sample: None,
            attempt_spec: spec.clone(),
            history: std::cell::OnceCell::new(),
            delayed_retry: None,
            attempt_number: Rc::default(),
            secrets,
            delay_reason: None,
            recent_calls: RecentCalls::default(),
            initial_snapshot: None,
            spec,
        };
        supervisor.append(claimed)?;
        let events_tx = supervisor.events_tx.clone();
        tokio::task::spawn_local(forward_door_messages(messages, receiver, events_tx));
        let attempt = Rc::clone(&supervisor.attempt_number);
        tokio::task::spawn_local(socket_connections::accept(
            listener,
            supervisor.spec.tag,
            attempt,
            supervisor.events_tx.clone(),
        ));
        failpoint::reach("worker_claimed");
        let started = supervisor.start_run(resumed).await;
        supervisor.watch_open_children(resumed);
        supervisor.end_if_disk_full(started).await?;
        supervisor.run_loop().await
    }

    async fn run_loop(&mut self) -> Result<(), StoreError> {
        while !self.finished {
            let done = self.run_once().await;
            self.end_if_disk_full(done).await?;
        }
        Ok(())
    }

    async fn run_once(&mut self) -> Result<(), StoreError> {
        self.subscribers.notify_if_due(&self.spec, self.log.state());
        self.announce_deadline();
        let wait = Duration::from_millis(self.next_wake().saturating_sub(clock::monotonic_ms()));
        match tokio::time::timeout(wait, self.events_rx.recv()).await {
            Ok(Some(event)) => self.handle_event(event).await?,
            Ok(None) => unreachable!("the desk holds a sender itself"),
            Err(_) => {}
        }
        self.run_due_tasks().await
    }

    /// Ends the run if the disk is full. An event that found no room was not recorded, so its effect was not
    /// performed; there is room reserved for the end and its reason.
    async fn end_if_disk_full(&mut self, done: Result<(), StoreError>) -> Result<(), StoreError> {
        match done {
            Err(error) if error.is_full() && !self.machine.is_finished() => {
                self.step(SupervisionInput::StorageFailed(format!("could not {}", explain(&error)))).await
            }
            other => other,
        }
    }

    fn next_wake(&self) -> u64 {
        let drained_by = match &self.handle {
            AgentHandle::Process { exit: Some(_), drained_by, .. } => Some(*drained_by),
            AgentHandle::Process { .. }
            | AgentHandle::Loop { .. }
            | AgentHandle::AgentLoop(_)
            | AgentHandle::NotRunning => None,
        };
        let question = match &self.handle {
            AgentHandle::Loop { question, .. } | AgentHandle::Process { question, .. } => {
                question.as_ref().map(|question| question.until_ms)
            }
            AgentHandle::AgentLoop(_) | AgentHandle::NotRunning => None,
        };
        let times = [
            self.machine.next_deadline(),
            drained_by,
            question,
            self.next_sample,
            self.subscribers.next_update_ms(),
            Some(self.next_inbox_check),
            self.exit_deadline,
            self.delayed_retry.as_ref().map(|delayed_retry| delayed_retry.until_ms),
        ];
        times.into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// Does the work that is due by time rather than by an event.
    async fn run_due_tasks(&mut self) -> Result<(), StoreError> {
        let now = clock::monotonic_ms();
        if self.next_inbox_check <= now && !self.finished {
            self.check_inbox().await?;
        }
        if self.machine.next_deadline().is_some_and(|at| at <= now) && !self.finished {
            self.step(SupervisionInput::Tick).await?;
        }
        if self.next_sample.is_some_and(|at| at <= now) && !self.finished {
            self.next_sample = Some(now + SAMPLE_EVERY_MS);
            self.sample().await?;
        }
        if self.exit_deadline.is_some_and(|at| at <= now) && !self.finished {
            (self.exit_deadline, self.killed_after_answer) = (None, true);
            self.stop(StopMode::Kill)?;
        }
        if !self.finished {
            self.conclude_if_drained().await?;
        }
        if !self.finished {
            self.start_delayed_retry().await?;
        }
        Ok(())
    }

    async fn handle_event(&mut self, event: WorkerEvent) -> Result<(), StoreError> {
        match event {
            // Late events of an attempt that is over are dropped.
            WorkerEvent::Output(attempt, ..)
            | WorkerEvent::OutputClosed(attempt, _)
            | WorkerEvent::AgentExited(attempt)
            | WorkerEvent::Loop(attempt, _)
                if attempt != self.attempt_number.get() =>
            {
                Ok(())
            }
            WorkerEvent::Output(_, stream, bytes) => self.handle_output(stream, &bytes).await,
            WorkerEvent::OutputClosed(_, stream) => self.handle_output_closed(stream).await,
            WorkerEvent::AgentExited(_) => self.handle_agent_exit().await,
            WorkerEvent::Loop(_, signal) => self.handle_loop_signal(signal).await,
            WorkerEvent::DoorMessage(message) => match message {
                DoorMessage::Disconnecting { policy } => {
                    self.step(SupervisionInput::ClientDisconnected(policy)).await
                }
                DoorMessage::CheckInbox => self.check_inbox().await,
                DoorMessage::Go | DoorMessage::Abort | DoorMessage::Watch | DoorMessage::Ask { .. } => Ok(()),
            },
            WorkerEvent::CheckInbox => self.check_inbox().await,
            WorkerEvent::Subscriber(peer) => {
                self.subscribers.add(peer);
                Ok(())
            }
            WorkerEvent::Ask { attempt, reply, .. } if attempt != self.attempt_number.get() => {
                let error = EngineError::usage("the attempt that asks is over");
                // Its process is most likely gone.
                let _ = reply.send(RunMessage::Refused { error });
                Ok(())
            }
            WorkerEvent::Ask { request, reply, progress_tx, .. } => {
                self.handle_request(request, reply, progress_tx)
            }
            WorkerEvent::ChildQuestion { run, question } => {
                self.subscribers.set_child_question(run, question.map(|question| *question));
                Ok(())
            }
            WorkerEvent::ChildEnded { run, outcome } => self.record_child_end(run, outcome),
            WorkerEvent::CallCompleted { call, ok, output } => self.complete_call(call, ok, output).await,
        }
    }

    async fn handle_output(&mut self, stream: StdStream, bytes: &[u8]) -> Result<(), StoreError> {
        let AgentHandle::Process { output, .. } = &mut self.handle else { return Ok(()) };
        // Subscribers see the output masked, like the journal.
        let masked = output.mask(stream, bytes);
        let parsed = output.write(stream, &masked);
        // The number of bytes that a protocol transfers does not describe the agent's work.
        match (output.is_plain(), stream) {
            (true, StdStream::Stdout) => self.subscribers.push_text(&masked),
            (true, StdStream::Stderr) => {
                let size = domain::size::display_bytes(bytes.len() as u64);
                self.subscribers.set_activity(format!("wrote {size} to standard error"));
            }
            (false, _) => {}
        }
        self.apply_reports_or_stop(parsed).await?;
        if self.finished { Ok(()) } else { self.step(SupervisionInput::Output(stream)).await }
    }

    async fn handle_output_closed(&mut self, stream: StdStream) -> Result<(), StoreError> {
        let AgentHandle::Process { output, open_streams, .. } = &mut self.handle else { return Ok(()) };
        *open_streams -= 1;
        let parsed = output.close(stream);
        self.apply_reports_or_stop(parsed).await
    }

    /// Applies the reports, or ends the run if its spool cannot be written: a run must not continue unrecorded.
    async fn apply_reports_or_stop(
        &mut self,
        parsed: Result<ParsedOutput, StoreError>,
    ) -> Result<(), StoreError> {
        match parsed {
            Ok(ParsedOutput { reports, truncated }) => {
                self.apply_reports(reports)?;
                truncated.map_or(Ok(()), |event| self.append(event))
            }
            Err(error) => {
                self.step(SupervisionInput::StorageFailed(format!("could not {}", explain(&error)))).await
            }
        }
    }

    /// Handles the exit of the agent: its remaining processes are killed, and then its streams end.
    async fn handle_agent_exit(&mut self) -> Result<(), StoreError> {
        let AgentHandle::Process { agent, exit, .. } = &mut self.handle else { return Ok(()) };
        let Ok(Some(ended)) = agent.try_exit() else { return Ok(()) };
        failpoint::reach("worker_saw_exit");
        // An error here is ignored: the limits of a process that is gone matter less than its exit.
        let passed = agent.exceeded_limit().ok().flatten();
        *exit = Some(ended);
        if let Some((limit, detail)) = passed {
            self.step(SupervisionInput::LimitExceeded(limit, detail)).await?;
        }
        self.wait_for_children_to_exit().await;
        if let AgentHandle::Process { drained_by, .. } = &mut self.handle {
            *drained_by = clock::monotonic_ms() + DRAIN_MS;
        }
        self.sweep()
    }

    /// Waits briefly for the children of the agent's program to exit, where the program needs that.
    async fn wait_for_children_to_exit(&self) {
        let backend = backends::registry::by_kind(&self.attempt_spec.backend.kind);
        let AgentHandle::Process { agent, .. } = &self.handle else { return };
        if !backend.is_some_and(|backend| backend.quirks().contains(&Quirk::OutlivedByChildren)) {
            return;
        }
        let until = clock::monotonic_ms() + CHILDREN_EXIT_MS;
        // If this cannot be checked, there is no point in waiting: the sweep comes next.
        while agent.has_live_descendants().unwrap_or(false) && clock::monotonic_ms() < until {
            tokio::time::sleep(CHILDREN_POLL).await;
        }
    }

    async fn conclude_if_drained(&mut self) -> Result<(), StoreError> {
        let AgentHandle::Process { output, exit: Some(exit), open_streams, drained_by, .. } =
            &mut self.handle
        else {
            return Ok(());
        };
        if *open_streams > 0 && clock::monotonic_ms() < *drained_by {
            return Ok(());
        }
        let mut conclusion = output.conclude(*exit);
        let home = env::home();
        let user = UserEnvironment { home: home.as_deref(), variable: &env::get };
        conclusion.end =
            backends::login_advice::add_login_advice(&self.attempt_spec.backend.kind, conclusion.end, &user);
        self.conclude_attempt(conclusion).await
    }

    pub(super) async fn step(&mut self, input: SupervisionInput) -> Result<(), StoreError> {
        let effects = self.machine.step(clock::monotonic_ms(), input);
        let answer = match &self.handle {
            _ if self.acceptance.is_some() => {
                self.acceptance.as_ref().map_or(AgentAnswer::Nothing, |acceptance| acceptance.answer.clone())
            }
            AgentHandle::Process { .. } if self.log.state().submitted.is_some() => self.submission(),
            AgentHandle::Loop { .. } | AgentHandle::AgentLoop(_) => {
                AgentAnswer::Text(self.log.state().answer())
            }
            // The text that the agent's reader has parsed, if there is any; else its standard output.
            AgentHandle::Process { .. } if !self.log.state().answer_text.is_empty() => {
                AgentAnswer::Text(self.log.state().answer())
            }
            AgentHandle::Process { .. } => AgentAnswer::Stdout,
            AgentHandle::NotRunning => AgentAnswer::Nothing,
        };
        self.perform(effects, answer).await
    }

    pub(super) async fn perform(
        &mut self,
        effects: Vec<Effect>,
        answer: AgentAnswer,
    ) -> Result<(), StoreError> {
        for effect in effects {
            match effect {
                Effect::Append(event) => self.append(event)?,
                Effect::StopTree(how) => self.stop(how)?,
                Effect::Finish(outcome) => {
                    self.finish(outcome, answer).await?;
                    break;
                }
            }
        }
        // A loop has no process whose exit would end it.
        if std::mem::take(&mut self.loop_stopped) && !self.finished {
            return Box::pin(self.step(SupervisionInput::Ended(AgentEnd::Done))).await;
        }
        Ok(())
    }
}

/// Returns the limits of a run without the time that its earlier workers have used.
fn remaining_limits(spec: &RunSpec, state: &RunState) -> SupervisionLimits {
    let mut limits = SupervisionLimits::from(&spec.limits);
    limits.timeout_ms = limits.timeout_ms.saturating_sub(state.used_ms()).max(1);
    limits
}

/// Forwards the messages that the keeper has already read, and then those that the door still sends.
async fn forward_door_messages(
    messages: Vec<DoorMessage>,
    mut receiver: MessageReceiver,
    events_tx: mpsc::Sender<WorkerEvent>,
) {
    for message in messages {
        if events_tx.send(WorkerEvent::DoorMessage(message)).await.is_err() {
            return;
        }
    }
    while let Some(message) = receiver.recv::<DoorMessage>().await {
        if events_tx.send(WorkerEvent::DoorMessage(message)).await.is_err() {
            return;
        }
    }
}
