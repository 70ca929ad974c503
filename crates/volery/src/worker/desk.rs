//! The one loop that owns the truth about a run. Tasks send it what they see; it asks the machine what to do,
//! records, acts, and tells.

use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use backend::contract::{Answer, Ask, Exit, Loop};
use backend::process::Agent;
use backend::user::User;
use domain::id::RunId;
use domain::run::attempt::Past;
use domain::run::{
    AgentEnd, Effect, Event, Input, OutcomeKind, RunSpec, StopHow, Stream, Supervision, SupervisionLimits,
};
use domain::secret::{Redactor, Secret};
use journal::{LogWriter, RunDir, RunLock, StoreError};
use tokio::sync::{mpsc, oneshot};

use super::acceptance::Accepting;
use super::attempts::PutOff;
use super::audience::Audience;
use super::denials::RecentCalls;
use super::output::{Heard, Output};
use super::questions::OpenQuestion;
use super::shape::UnfitAnswer;
use super::{agent, peers};
use crate::app::{AppError, Engine, Progress, Request};
use crate::causes::explain;
use crate::clock;
use crate::env;
use crate::point;
use crate::wire::{self, Inbound, Saying, Tell, Word};

/// What a keeper gives its worker.
pub struct Assignment<'a> {
    pub dir: RunDir,
    pub spec: RunSpec,
    pub lock: &'a RunLock,
    pub leash: UnixStream,
    pub inbound: Inbound,
    pub words: Vec<Word>,
    pub listener: UnixListener,
    pub deadline: OwnedFd,
    pub keeper_pid: u32,
    pub resumed: bool,
}

/// What the tasks of a worker see.
pub(super) enum Seen {
    /// Of the process of this attempt, as the next three are.
    Output(usize, Stream, Vec<u8>),
    OutputClosed(usize, Stream),
    AgentExited(usize),
    Word(Word),
    Look,
    Watcher(Saying),
    Ask {
        /// Which attempt it comes from.
        attempt: usize,
        request: Box<Request>,
        reply: oneshot::Sender<Tell>,
        signs: mpsc::Sender<Progress>,
    },
    ChildEnded {
        run: RunId,
        outcome: OutcomeKind,
    },
    CallDone {
        call: u32,
        ok: bool,
        output: String,
    },
}

/// Between the agent's exit and giving up on the rest of its output.
const DRAIN_MS: u64 = 1_000;
/// How long what an agent's program has started may take to end by itself, and how often that is looked for.
const FOLLOW_MS: u64 = 3_000;
const FOLLOW_LOOK: Duration = Duration::from_millis(10);
/// How often the use of resources is sampled, where nothing else enforces it.
pub(super) const SAMPLE_EVERY_MS: u64 = 250;
/// How many things seen may wait for the desk.
const SEEN_MAX: usize = 8;

/// The exit code of a worker that could not write the journal.
pub const EXIT_STORAGE: i32 = 74;
/// The exit code of a worker that panicked.
pub const EXIT_BUG: i32 = 70;

/// Carries out a run and returns the worker's exit code.
pub fn carry_out(assignment: Assignment<'_>) -> i32 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return EXIT_BUG };
    let local = tokio::task::LocalSet::new();
    let code = match local.block_on(&runtime, Desk::carry_out(assignment)) {
        Ok(()) => 0,
        Err(error) => {
            report(&error);
            EXIT_STORAGE
        }
    };
    // The process ends here, and the system closes everything at once and faster.
    std::mem::forget((local, runtime));
    code
}

#[expect(clippy::print_stderr, reason = "the error stream of a worker is the run's worker.log")]
fn report(error: &StoreError) {
    eprintln!("{} worker: could not {}", clock::now(), explain(error));
}

/// How the agent is driven, and how far it is.
pub(super) enum Driven {
    Process {
        agent: Box<Agent>,
        output: Box<Output>,
        exit: Option<Exit>,
        open_streams: u32,
        drained_by: u64,
        /// Gone when the agent's input is closed.
        input: Option<mpsc::Sender<Vec<u8>>>,
        /// What the agent wants to do and nobody has been asked about yet.
        asks: VecDeque<Ask>,
        question: Option<OpenQuestion>,
    },
    Loop {
        steps: Box<dyn Loop>,
        question: Option<OpenQuestion>,
        under_way: Option<tokio::task::AbortHandle>,
    },
    /// It could not be started.
    Nothing,
}

pub(super) struct Desk {
    pub(super) dir: RunDir,
    pub(super) spec: RunSpec,
    /// What the attempt under way is started with: as the run, but for backend, conversation and prompt.
    pub(super) attempt: RunSpec,
    /// What was said before the run, as it was when somebody first asked.
    pub(super) past: std::cell::OnceCell<Past>,
    pub(super) put_off: Option<PutOff>,
    /// How many attempts this worker has begun; whoever hears an agent notes which one it is of.
    pub(super) attempts_here: Rc<Cell<usize>>,
    /// What is masked, of all attempts.
    pub(super) secrets: Vec<Secret>,
    pub(super) log: LogWriter,
    pub(super) machine: Supervision,
    pub(super) driven: Driven,
    pub(super) audience: Audience,
    pub(super) engine: Arc<Engine>,
    pub(super) to_desk: mpsc::Sender<Seen>,
    pub(super) seen: mpsc::Receiver<Seen>,
    pub(super) deadline: OwnedFd,
    pub(super) deadline_told: u64,
    pub(super) started_ms: u64,
    pub(super) killed: u32,
    /// The answer as a value, once the agent has ended.
    pub(super) structured: Option<serde_json::Value>,
    /// Its spelling was mended.
    pub(super) repaired: bool,
    /// The last answer, if it does not have the shape that was asked for.
    pub(super) unfit: Option<UnfitAnswer>,
    /// The agent has ended with success, which is looked into.
    pub(super) accepting: Option<Box<Accepting>>,
    pub(super) finished: bool,
    pub(super) loop_stopped: bool,
    pub(super) cancel_seen: Option<bool>,
    pub(super) next_look: u64,
    pub(super) next_sample: Option<u64>,
    /// When an agent that has said its last word is ended.
    pub(super) leave_by: Option<u64>,
    /// It did not leave by itself.
    pub(super) dismissed: bool,
    /// Why the model has not answered yet, where the program says so.
    pub(super) late: Option<String>,
    pub(super) recent_calls: RecentCalls,
    /// The work tree as it was before the agent.
    pub(super) before: Option<backend::work_tree::Snapshot>,
}

impl Desk {
    async fn carry_out(assignment: Assignment<'_>) -> Result<(), StoreError> {
        let Assignment { dir, spec, lock, leash, inbound, words, listener, deadline, keeper_pid, resumed } =
            assignment;
        let mut log = LogWriter::open(&dir, lock)?;
        let (to_desk, seen) = mpsc::channel(SEEN_MAX);
        let now = clock::monotonic_ms();
        let mut limits = SupervisionLimits::from(&spec.limits);
        // What earlier workers of the run have used is gone.
        limits.timeout_ms = limits.timeout_ms.saturating_sub(log.state().used_ms()).max(1);
        let machine = Supervision::new(limits, now);
        let path = dir.path().to_owned();
        let io = |error| StoreError::Io { attempt: "listen for", path: path.clone(), source: error };
        leash.set_nonblocking(true).map_err(io)?;
        let leash = tokio::net::UnixStream::from_std(leash).map_err(io)?;
        let listener = tokio::net::UnixListener::from_std(listener).map_err(io)?;
        let (mut hearing, saying) = wire::split(leash, inbound);
        let claimed = Event::Claimed {
            keeper_pid,
            worker_pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let secrets = agent::secrets(&spec, None);
        log.redact_with(Redactor::new(secrets.clone()));
        let mut desk = Desk {
            engine: Engine::for_run(dir.home(), &spec),
            dir,
            log,
            machine,
            driven: Driven::Nothing,
            audience: Audience::new(saying),
            to_desk,
            seen,
            deadline,
            deadline_told: 0,
            started_ms: now,
            killed: 0,
            structured: None,
            repaired: false,
            unfit: None,
            accepting: None,
            finished: false,
            loop_stopped: false,
            cancel_seen: None,
            next_look: 0,
            leave_by: None,
            dismissed: false,
            next_sample: None,
            attempt: spec.clone(),
            past: std::cell::OnceCell::new(),
            put_off: None,
            attempts_here: Rc::default(),
            secrets,
            late: None,
            recent_calls: RecentCalls::default(),
            before: None,
            spec,
        };
        desk.append(claimed)?;
        let to_desk = desk.to_desk.clone();
        tokio::task::spawn_local(async move {
            for word in words {
                if to_desk.send(Seen::Word(word)).await.is_err() {
                    return;
                }
            }
            while let Some(word) = hearing.hear::<Word>().await {
                if to_desk.send(Seen::Word(word)).await.is_err() {
                    return;
                }
            }
        });
        let attempt = Rc::clone(&desk.attempts_here);
        tokio::task::spawn_local(peers::accept(listener, desk.spec.tag, attempt, desk.to_desk.clone()));
        point::reach("worker_claimed");
        let begun = desk.begin_run(resumed).await;
        desk.or_end(begun).await?;
        desk.attend().await
    }

    /// The loop.
    async fn attend(&mut self) -> Result<(), StoreError> {
        while !self.finished {
            let attended = self.attend_once().await;
            self.or_end(attended).await?;
        }
        Ok(())
    }

    async fn attend_once(&mut self) -> Result<(), StoreError> {
        self.audience.tell_if_due(&self.spec, self.log.state());
        self.tell_deadline();
        let wait = Duration::from_millis(self.next_wake().saturating_sub(clock::monotonic_ms()));
        match tokio::time::timeout(wait, self.seen.recv()).await {
            Ok(Some(seen)) => self.take(seen).await?,
            Ok(None) => unreachable!("the desk holds a sender itself"),
            Err(_) => {}
        }
        self.housekeep().await
    }

    /// What found no room was not recorded and so was not done; there is room for the end, and the reason.
    async fn or_end(&mut self, done: Result<(), StoreError>) -> Result<(), StoreError> {
        match done {
            Err(error) if error.is_full() && !self.machine.is_finished() => {
                self.step(Input::StorageFailed(format!("could not {}", explain(&error)))).await
            }
            other => other,
        }
    }

    fn next_wake(&self) -> u64 {
        let drained_by = match &self.driven {
            Driven::Process { exit: Some(_), drained_by, .. } => Some(*drained_by),
            Driven::Process { .. } | Driven::Loop { .. } | Driven::Nothing => None,
        };
        let question = match &self.driven {
            Driven::Loop { question, .. } | Driven::Process { question, .. } => {
                question.as_ref().map(|question| question.until_ms)
            }
            Driven::Nothing => None,
        };
        let times = [
            self.machine.next_deadline(),
            drained_by,
            question,
            self.next_sample,
            self.audience.next_tell(),
            Some(self.next_look),
            self.leave_by,
            self.put_off.as_ref().map(|put_off| put_off.until_ms),
        ];
        times.into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// What is due by time rather than by an event.
    async fn housekeep(&mut self) -> Result<(), StoreError> {
        let now = clock::monotonic_ms();
        if self.next_look <= now && !self.finished {
            self.look().await?;
        }
        if self.machine.next_deadline().is_some_and(|at| at <= now) && !self.finished {
            self.step(Input::Tick).await?;
        }
        if self.next_sample.is_some_and(|at| at <= now) && !self.finished {
            self.next_sample = Some(now + SAMPLE_EVERY_MS);
            self.sample().await?;
        }
        if self.leave_by.is_some_and(|at| at <= now) && !self.finished {
            (self.leave_by, self.dismissed) = (None, true);
            self.stop(StopHow::Kill)?;
        }
        if !self.finished {
            self.conclude_if_drained().await?;
        }
        if !self.finished {
            self.begin_put_off().await?;
        }
        Ok(())
    }

    async fn take(&mut self, seen: Seen) -> Result<(), StoreError> {
        match seen {
            // What comes late from an attempt that is over belongs to nobody.
            Seen::Output(attempt, ..) | Seen::OutputClosed(attempt, _) | Seen::AgentExited(attempt)
                if attempt != self.attempts_here.get() =>
            {
                Ok(())
            }
            Seen::Output(_, stream, bytes) => self.take_output(stream, &bytes).await,
            Seen::OutputClosed(_, stream) => self.take_close(stream).await,
            Seen::AgentExited(_) => self.take_exit().await,
            Seen::Word(word) => match word {
                Word::Left { policy } => self.step(Input::DoorLeft(policy)).await,
                Word::Look => self.look().await,
                Word::Go | Word::Abort | Word::Watch | Word::Ask { .. } => Ok(()),
            },
            Seen::Look => self.look().await,
            Seen::Watcher(peer) => {
                self.audience.join(peer);
                Ok(())
            }
            Seen::Ask { attempt, reply, .. } if attempt != self.attempts_here.get() => {
                let error = AppError::usage("the attempt that asks is over");
                // Its process is gone, most likely.
                let _ = reply.send(Tell::Refused { error });
                Ok(())
            }
            Seen::Ask { request, reply, signs, .. } => self.take_ask(*request, reply, signs),
            Seen::ChildEnded { run, outcome } => self.append(Event::ChildEnded { run, outcome }),
            Seen::CallDone { call, ok, output } => self.complete(call, ok, output).await,
        }
    }

    async fn take_output(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), StoreError> {
        let Driven::Process { output, .. } = &mut self.driven else { return Ok(()) };
        // What people see while the run goes on is masked like what is kept.
        let masked = output.mask(stream, bytes);
        let taken = output.write(stream, &masked);
        if stream == Stream::Stdout && output.is_plain() {
            self.audience.heard(&masked);
        }
        self.audience.note(format!("wrote {}", domain::size::display_bytes(bytes.len() as u64)));
        self.hear_or_stop(taken).await?;
        if self.finished { Ok(()) } else { self.step(Input::Output(stream)).await }
    }

    async fn take_close(&mut self, stream: Stream) -> Result<(), StoreError> {
        let Driven::Process { output, open_streams, .. } = &mut self.driven else { return Ok(()) };
        *open_streams -= 1;
        let closed = output.close(stream);
        self.hear_or_stop(closed).await
    }

    /// A spool that cannot be written ends the run: what is not recorded must not go on.
    async fn hear_or_stop(&mut self, heard: Result<Heard, StoreError>) -> Result<(), StoreError> {
        match heard {
            Ok(Heard { reports, truncated }) => {
                self.hear(reports)?;
                truncated.map_or(Ok(()), |event| self.append(event))
            }
            Err(error) => self.step(Input::StorageFailed(format!("could not {}", explain(&error)))).await,
        }
    }

    /// The agent is gone: whatever it left behind goes too, and then its streams end.
    async fn take_exit(&mut self) -> Result<(), StoreError> {
        let Driven::Process { agent, exit, .. } = &mut self.driven else { return Ok(()) };
        let Ok(Some(ended)) = agent.try_exit() else { return Ok(()) };
        point::reach("worker_saw_exit");
        // What cannot be read about the limits of a process that is gone is not worth more than its exit.
        let passed = agent.passed_limit().ok().flatten();
        *exit = Some(ended);
        if let Some((limit, detail)) = passed {
            self.step(Input::LimitPassed(limit, detail)).await?;
        }
        self.see_off_followers().await;
        if let Driven::Process { drained_by, .. } = &mut self.driven {
            *drained_by = clock::monotonic_ms() + DRAIN_MS;
        }
        self.sweep()
    }

    /// Lets what the agent's program has started end by itself, where it does so, for a moment.
    async fn see_off_followers(&self) {
        let backend = backend::registry::by_kind(&self.attempt.backend.kind);
        let Driven::Process { agent, .. } = &self.driven else { return };
        if !backend.is_some_and(|backend| backend.is_followed()) {
            return;
        }
        let until = clock::monotonic_ms() + FOLLOW_MS;
        // Where nobody can look, nobody need wait: the sweep is next.
        while agent.is_followed().unwrap_or(false) && clock::monotonic_ms() < until {
            tokio::time::sleep(FOLLOW_LOOK).await;
        }
    }

    async fn conclude_if_drained(&mut self) -> Result<(), StoreError> {
        let Driven::Process { output, exit: Some(exit), open_streams, drained_by, .. } = &mut self.driven
        else {
            return Ok(());
        };
        if *open_streams > 0 && clock::monotonic_ms() < *drained_by {
            return Ok(());
        }
        let mut conclusion = output.conclude(*exit);
        let home = env::home();
        let user = User { home: home.as_deref(), value: &env::get };
        conclusion.end = backend::logins::advised(&self.attempt.backend.kind, conclusion.end, &user);
        self.answer_with(conclusion).await
    }

    pub(super) async fn step(&mut self, input: Input) -> Result<(), StoreError> {
        let effects = self.machine.step(clock::monotonic_ms(), input);
        let answer = match &self.driven {
            _ if self.accepting.is_some() => {
                self.accepting.as_ref().map_or(Answer::Nothing, |accepting| accepting.answer.clone())
            }
            Driven::Process { .. } if self.log.state().submitted.is_some() => self.submission(),
            Driven::Loop { .. } => Answer::Text(self.log.state().answer()),
            // What it said, where its reader understands that; else what it wrote.
            Driven::Process { .. } if !self.log.state().said.is_empty() => {
                Answer::Text(self.log.state().answer())
            }
            Driven::Process { .. } => Answer::Stdout,
            Driven::Nothing => Answer::Nothing,
        };
        self.perform(effects, answer).await
    }

    pub(super) async fn perform(&mut self, effects: Vec<Effect>, answer: Answer) -> Result<(), StoreError> {
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
            return Box::pin(self.step(Input::Ended(AgentEnd::Done))).await;
        }
        Ok(())
    }
}
