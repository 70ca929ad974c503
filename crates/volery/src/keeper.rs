//! The tiny parent of a worker: own session, subreaper, single-threaded. Waits for a slot, forks the worker
//! before any runtime starts, reaps everything that is handed to it, ends a worker that hangs, sweeps what is
//! left, and writes the outcome if the worker cannot.

use std::ffi::OsString;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use backend::contract::Exit;
use backend::process::{self, ChildStatus, Forked, ProcessHandle, Signal, SignalFd};
use domain::id::{RunId, SessionId};
use domain::run::{
    CancelOrder, Ending, Event, Failure, Lost, OnDisconnect, OnInterrupt, Outcome, RunSpec, TimeLimit,
};
use journal::inbox::{self, Letter};
use journal::sessions;
use journal::slots::{Acquire, Slot, SlotError, Slots};
use journal::{LogWriter, RunDir, RunLock};
use rustix::event::{PollFd, PollFlags, poll};

use crate::causes::explain;
use crate::clock;
use crate::point;
use crate::sockets;
use crate::wire::{Inbound, Word};
use crate::worker::{self, Assignment};

/// The inherited leash and lock.
pub const LEASH_FD: i32 = 3;
pub const LOCK_FD: i32 = 4;
/// How long a keeper waits for the door to say that the record is durable.
const GO_TIMEOUT_MS: u64 = 30_000;
/// How long a stopped worker may stay stopped.
const STOPPED_MS: u64 = 500;
/// How often a queued run looks around without being told to.
const QUEUE_LOOK_MS: u64 = 250;
/// How often a run looks whether its session is free.
const SESSION_LOOK_MS: u64 = 100;
/// How often a worker is replaced before the run is given up.
const RESUMES_MAX: u32 = 5;

/// What the keeper could not do. Ends up in the run's `worker.log`.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error("a keeper is started with a run's directory, a number of slots and a length of the queue")]
    Arguments,
    #[error(transparent)]
    Store(#[from] journal::StoreError),
    #[error(transparent)]
    Slots(#[from] SlotError),
    #[error("could not {0}")]
    Os(&'static str, #[source] std::io::Error),
}

struct Keeper {
    dir: RunDir,
    spec: RunSpec,
    lock: RunLock,
    leash: UnixStream,
    inbound: Inbound,
    words: Vec<Word>,
    /// When the disconnect of the door cancels a run that waits.
    cancel_at: Option<u64>,
    /// Since when the run may begin.
    accepted_ms: u64,
    signals: SignalFd,
    listener: UnixListener,
    socket: PathBuf,
}

/// How a worker came to its end.
enum WorkerEnd {
    Exited(Exit),
    Hung,
}

/// Runs the keeper: `__keeper RUN-DIRECTORY SLOTS QUEUE`, with the leash and the run's lock inherited.
pub fn main(arguments: &[OsString]) -> ExitCode {
    match keep(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::from(70)
        }
    }
}

/// Writes an error to the run's own log, which is this process' error stream.
#[expect(clippy::print_stderr, reason = "the error stream of a keeper is the run's worker.log")]
fn report(error: &KeeperError) {
    eprintln!("{} keeper: {}", clock::now(), explain(error));
}

fn keep(arguments: &[OsString]) -> Result<(), KeeperError> {
    let [run, slots, queue] = arguments else { return Err(KeeperError::Arguments) };
    let number = |text: &OsString| text.to_str().and_then(|text| text.parse::<u32>().ok());
    let (Some(slots), Some(queue)) = (number(slots), number(queue)) else {
        return Err(KeeperError::Arguments);
    };
    let lock = process::inherited_fd(LOCK_FD).map_err(|error| KeeperError::Os("adopt the lock", error))?;
    let leash = process::inherited_fd(LEASH_FD).map_err(|error| KeeperError::Os("adopt the leash", error))?;
    let dir = RunDir::from_path(Path::new(run))?;
    let spec = dir.read_spec()?;
    if spec.parent.is_none() {
        // Who cannot leave keeps the run all the same. A child's keeper stays: its root's would adopt it, and then count
        // the time that the child has used as its own run's.
        let _ = process::leave_starter();
    }
    process::become_subreaper().map_err(|error| KeeperError::Os("become a subreaper", error))?;
    let wanted = [Signal::CHILD, Signal::TERM, Signal::INT, Signal::HUP];
    let signals = process::signal_fd(&wanted).map_err(|error| KeeperError::Os("receive signals", error))?;
    let leash = UnixStream::from(leash);
    leash.set_nonblocking(true).map_err(|error| KeeperError::Os("prepare the leash", error))?;
    let (listener, socket) =
        sockets::bind(dir.home(), spec.tag).map_err(|error| KeeperError::Os("bind the socket", error))?;
    let mut keeper = Keeper {
        dir,
        spec,
        lock: RunLock::from_fd(lock),
        leash,
        inbound: Inbound::default(),
        words: Vec::new(),
        cancel_at: None,
        accepted_ms: clock::monotonic_ms(),
        signals,
        listener,
        socket,
    };
    point::reach("keeper_started");
    let result = keeper.keep_run(slots, queue);
    if let Err(error) = &result {
        keeper.give_up(error);
    }
    // The socket is only an address: a stale one is replaced by the next run with this tag, which never comes.
    let _ = std::fs::remove_file(&keeper.socket);
    result
}

impl Keeper {
    fn keep_run(&mut self, slots: u32, queue: u32) -> Result<(), KeeperError> {
        if !self.wait_for_go()? {
            return Ok(());
        }
        self.accepted_ms = clock::monotonic_ms();
        let ControlFlow::Continue(session) = self.wait_for_session()? else { return Ok(()) };
        let slot = match self.spec.parent {
            // A child uses its root's slot, so that parents cannot starve their children.
            Some(_) => None,
            None => match self.wait_for_slot(slots, queue)? {
                Some(slot) => Some(slot),
                None => return Ok(()),
            },
        };
        if self.spec.timeout_covers_wait {
            // At least 1, so that a run whose turn came with the last millisecond ends as one that began.
            let left_ms = self.spec.limits.timeout_ms.saturating_sub(self.waited_ms());
            self.spec.limits.timeout_ms = left_ms.max(1);
        }
        self.leave_later();
        let result = self.keep_workers();
        drop((slot, session));
        result
    }

    /// Hands what is left of the grace after a disconnect to the worker.
    fn leave_later(&mut self) {
        if let Some(at) = self.cancel_at.take() {
            let grace_ms = at.saturating_sub(clock::monotonic_ms());
            self.words.push(Word::Left { policy: OnDisconnect::Cancel { grace_ms } });
        }
    }

    /// Takes the run's session, waiting while another run has it. Breaks off when the run ended while it waited. A copy is
    /// made of what has ended, so it waits too, and takes nothing away from whoever goes on with the session; but not a
    /// child's, which would wait for a parent that waits for it.
    fn wait_for_session(&mut self) -> Result<ControlFlow<(), Option<RunLock>>, KeeperError> {
        let copies = self.spec.fork && self.spec.parent.is_none();
        let Some(session) = self.spec.session.clone().filter(|_| copies || !self.spec.fork) else {
            return Ok(ControlFlow::Continue(None));
        };
        let home = self.dir.home().clone();
        let (project, agent) = (self.spec.project.clone(), self.spec.agent.clone());
        let scope = match crate::app::chooses_sessions(&self.spec.backend) {
            true => sessions::Scope::Agent { project: &project, agent: &agent },
            false => sessions::Scope::Everywhere,
        };
        let mut log = None;
        loop {
            if !self.is_ahead_of_first_run(&session, scope)?
                && let Some(lock) = sessions::try_lock(&home, &session, scope)?
            {
                return Ok(ControlFlow::Continue(Some(lock).filter(|_| !self.spec.fork)));
            }
            if log.is_none() {
                let mut claimed = self.claim(0)?;
                claimed.append(clock::now(), Event::SessionAwaited { session: session.clone() })?;
                log = Some(claimed);
                point::reach("keeper_awaits_session");
            }
            if let Some(log) = &mut log
                && self.ended_while_waiting(log, "another run of its session had not ended")?
            {
                return Ok(ControlFlow::Break(()));
            }
            wait_readable(
                &[self.leash_or_signals(), self.signals.as_fd(), self.listener.as_fd()],
                SESSION_LOOK_MS,
            );
            while self.listener.accept().is_ok() {}
        }
    }

    /// Tells whether another run begins this session and has not done so yet. It was accepted before this one, but on a busy
    /// machine its keeper may come later to the lock; this run would then find an empty conversation. A first run that
    /// nobody carries out any more is not waited for.
    fn is_ahead_of_first_run(
        &self,
        session: &SessionId,
        scope: sessions::Scope<'_>,
    ) -> Result<bool, KeeperError> {
        let home = self.dir.home();
        let first = match scope {
            sessions::Scope::Everywhere => session.as_str().parse::<RunId>().ok(),
            // The caller chose the id.
            sessions::Scope::Agent { .. } => None,
        };
        let Some(first) = first.filter(|first| *first != self.spec.id) else { return Ok(false) };
        if sessions::read(home, session)?.is_some() {
            return Ok(false);
        }
        let dir = home.run_dir(first);
        Ok(dir.exists() && dir.ending()?.is_none() && dir.is_locked()?)
    }

    /// Ends a waiting run that was cancelled, or whose time-out covers the wait and has passed. Returns whether it did.
    fn ended_while_waiting(&mut self, log: &mut LogWriter, waited_for: &str) -> Result<bool, KeeperError> {
        let ending = if let Some(order) = self.order_to_cancel() {
            let event = Event::CancelAsked { by: order.by.clone(), reason: order.reason.clone() };
            log.append(clock::now(), event)?;
            Ending::bare(Outcome::Cancelled { by: order.by })
        } else if self.spec.timeout_covers_wait && self.waited_ms() >= self.spec.limits.timeout_ms {
            let outcome = Outcome::TimedOut { limit: TimeLimit::Total };
            Ending { waited_for: waited_for.to_owned(), ..Ending::bare(outcome) }
        } else {
            return Ok(false);
        };
        log.finish(clock::now(), ending)?;
        crate::iac::ended(self.dir.home(), &self.spec);
        Ok(true)
    }

    /// Returns how long the run has waited for its session and a slot.
    fn waited_ms(&self) -> u64 {
        clock::monotonic_ms().saturating_sub(self.accepted_ms)
    }

    /// Records that the keeper itself could not go on, so that the run has an end and a reason.
    fn give_up(&mut self, error: &KeeperError) {
        let reason = format!("its keeper failed: {}", explain(error));
        let outcome = Outcome::Failed { failure: Failure::Spawn { reason } };
        let killed = self.sweep().unwrap_or(0);
        // What cannot be recorded now is ended by whoever looks next.
        let _ = worker::end_lost(&self.dir, &self.lock, &self.spec, outcome, killed);
    }

    /// Waits until the door has made the record durable. A door that died leaves that to the keeper.
    fn wait_for_go(&mut self) -> Result<bool, KeeperError> {
        let deadline = clock::monotonic_ms() + GO_TIMEOUT_MS;
        loop {
            let mut go = None;
            for word in self.hear() {
                match word {
                    Word::Go => go = Some(true),
                    Word::Abort => go = Some(false),
                    // Also what comes in one breath with the go: a door that leaves says no word twice.
                    other => self.words.push(other),
                }
            }
            if let Some(go) = go {
                return Ok(go);
            }
            let remaining = deadline.saturating_sub(clock::monotonic_ms());
            let closed = self.leash_closed();
            if closed || remaining == 0 {
                self.dir.make_durable()?;
                return Ok(true);
            }
            wait_readable(&[self.leash.as_fd()], remaining);
        }
    }

    /// Reads what the door said, without waiting.
    fn hear(&mut self) -> Vec<Word> {
        let mut chunk = [0; 4096];
        match self.leash.read(&mut chunk) {
            Ok(read) => self.inbound.feed(&chunk[..read]).unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    fn leash_closed(&self) -> bool {
        let mut byte = [0; 1];
        let peeked = rustix::net::recv(&self.leash, &mut byte, rustix::net::RecvFlags::PEEK);
        matches!(peeked, Ok((0, _)))
    }

    /// Takes a slot, waiting in the queue if none is free. `None`: the run ended while it waited.
    fn wait_for_slot(&mut self, slots: u32, queue: u32) -> Result<Option<Slot>, KeeperError> {
        let slots = Slots::open(self.dir.home().path(), slots, queue)?;
        let mut ticket = match slots.acquire(self.spec.id) {
            Ok(Acquire::Taken(slot)) => return Ok(Some(slot)),
            Ok(Acquire::Queued(ticket)) => ticket,
            Err(error) => {
                let reason = error.to_string();
                self.end_unstarted(Outcome::Refused { reason })?;
                return Ok(None);
            }
        };
        let since = clock::monotonic_ms();
        let mut log = self.claim(0)?;
        log.append(clock::now(), Event::Queued { ticket: ticket.number() })?;
        point::reach("keeper_queued");
        loop {
            if let Some(slot) = ticket.try_advance()? {
                let waited_ms = clock::monotonic_ms() - since;
                log.append(clock::now(), Event::SlotTaken { waited_ms })?;
                return Ok(Some(slot));
            }
            if self.ended_while_waiting(&mut log, "no slot became free, so the run never began")? {
                return Ok(None);
            }
            let queue = ticket.as_fd().unwrap_or(self.signals.as_fd());
            let recheck_ms = u64::try_from(ticket.recheck_after().as_millis()).unwrap_or(QUEUE_LOOK_MS);
            wait_readable(
                &[queue, self.leash_or_signals(), self.signals.as_fd(), self.listener.as_fd()],
                recheck_ms.min(QUEUE_LOOK_MS),
            );
            // A connection is only a nudge while the run is queued: whoever watches looks at the journal.
            while self.listener.accept().is_ok() {}
        }
    }

    /// Polling a closed leash would spin, so the signals stand in for it.
    fn leash_or_signals(&self) -> std::os::fd::BorrowedFd<'_> {
        if self.leash_closed() { self.signals.as_fd() } else { self.leash.as_fd() }
    }

    /// Tells whether the queued run shall end: by the inbox, a signal, or its door's word.
    fn order_to_cancel(&mut self) -> Option<CancelOrder> {
        let before = std::mem::take(&mut self.words);
        for word in before.into_iter().chain(self.hear()) {
            match &word {
                // Its grace has begun: the worker gets what is left of it.
                Word::Left { policy: OnDisconnect::Cancel { grace_ms } } => {
                    self.cancel_at = Some(clock::monotonic_ms() + grace_ms);
                }
                _ => self.words.push(word),
            }
        }
        if self.asked_to_end() {
            let by = "a signal to its keeper".to_owned();
            return Some(CancelOrder { by, reason: String::new(), now: false });
        }
        if self.cancel_at.is_some_and(|at| at <= clock::monotonic_ms()) {
            let by = "the disconnect of the client".to_owned();
            return Some(CancelOrder { by, reason: "on_disconnect = cancel".to_owned(), now: false });
        }
        match inbox::read_cancel(&self.dir) {
            Letter::Valid(order) => Some(order),
            Letter::Nothing | Letter::Ignored { .. } => None,
        }
    }

    /// Takes the signals that have arrived, and tells whether one of them wants the run to end.
    fn asked_to_end(&self) -> bool {
        let mut asked = false;
        while let Ok(Some(signal)) = self.signals.next() {
            asked = asked || signal != Signal::CHILD;
        }
        asked
    }

    fn claim(&self, worker_pid: u32) -> Result<LogWriter, KeeperError> {
        let mut log = LogWriter::open(&self.dir, &self.lock)?;
        let claimed = Event::Claimed {
            keeper_pid: std::process::id(),
            worker_pid,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        log.append(clock::now(), claimed)?;
        Ok(log)
    }

    fn end_unstarted(&self, outcome: Outcome) -> Result<(), KeeperError> {
        let mut log = self.claim(0)?;
        worker::finish_unstarted(&mut log, outcome)?;
        crate::iac::ended(self.dir.home(), &self.spec);
        Ok(())
    }

    /// Starts workers until the run has ended: one, or more where the run may be resumed.
    fn keep_workers(&mut self) -> Result<(), KeeperError> {
        for attempt in 0..=RESUMES_MAX {
            let end = self.keep_worker(attempt > 0)?;
            let killed = self.sweep()?;
            if self.dir.ending()?.is_some() {
                return Ok(());
            }
            point::reach("keeper_found_worker_dead");
            let wanted = matches!(inbox::read_cancel(&self.dir), Letter::Valid(_));
            let resumable = self.spec.on_interrupt == OnInterrupt::Resume && attempt < RESUMES_MAX;
            // A worker that hung would hang again, and one that gave up has said why.
            if resumable && !wanted && matches!(end, WorkerEnd::Exited(Exit::Signal(_))) {
                continue;
            }
            let outcome = match end {
                WorkerEnd::Hung => Outcome::Interrupted { lost: Lost::HungWorker },
                WorkerEnd::Exited(Exit::Code(worker::EXIT_STORAGE)) => {
                    let reason =
                        "the worker could not record what happened; its worker.log tells more".to_owned();
                    Outcome::Failed { failure: Failure::Storage { reason } }
                }
                WorkerEnd::Exited(Exit::Code(worker::EXIT_BUG)) => {
                    let reason = "the worker panicked; its worker.log tells where".to_owned();
                    Outcome::Failed { failure: Failure::Bug { reason } }
                }
                WorkerEnd::Exited(Exit::Code(_) | Exit::Signal(_)) => {
                    Outcome::Interrupted { lost: Lost::Worker }
                }
            };
            worker::end_lost(&self.dir, &self.lock, &self.spec, outcome, killed)?;
            return Ok(());
        }
        Ok(())
    }

    fn keep_worker(&mut self, resumed: bool) -> Result<WorkerEnd, KeeperError> {
        let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
        let pipe = rustix::pipe::pipe_with(flags);
        let (deadline, deadline_writer) =
            pipe.map_err(|error| KeeperError::Os("make a pipe", error.into()))?;
        let keeper_pid = std::process::id();
        match process::fork_worker().map_err(|error| KeeperError::Os("fork the worker", error))? {
            Forked::Keeper(worker) => {
                drop(deadline_writer);
                Ok(self.watch_worker(&worker, &deadline))
            }
            Forked::Worker => {
                drop(deadline);
                let leash =
                    self.leash.try_clone().map_err(|error| KeeperError::Os("keep the leash", error))?;
                let listener = self.listener.try_clone();
                let assignment = Assignment {
                    dir: self.dir.clone(),
                    spec: self.spec.clone(),
                    lock: &self.lock,
                    leash,
                    inbound: std::mem::take(&mut self.inbound),
                    words: std::mem::take(&mut self.words),
                    listener: listener.map_err(|error| KeeperError::Os("keep the socket", error))?,
                    deadline: deadline_writer,
                    keeper_pid,
                    resumed,
                };
                // Nothing of the worker may unwind into what is the keeper's.
                let carried =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| worker::carry_out(assignment)));
                process::exit_worker(carried.unwrap_or(worker::EXIT_BUG))
            }
        }
    }

    /// Reaps whatever ends until the worker itself has, and kills it if it hangs.
    fn watch_worker(&mut self, worker: &ProcessHandle, deadline: &OwnedFd) -> WorkerEnd {
        let mut hard_at: Option<u64> = None;
        let mut stopped_at: Option<u64> = None;
        let mut hung = false;
        let mut listening = true;
        loop {
            // Before the dead are collected: of one who dies after that, the word must still be there to wake us.
            if self.asked_to_end() {
                self.pass_on_signal();
            }
            for (pid, status) in process::reap_all() {
                match status {
                    ChildStatus::Ended(_) if pid == worker.pid() && hung => return WorkerEnd::Hung,
                    ChildStatus::Ended(exit) if pid == worker.pid() => return WorkerEnd::Exited(exit),
                    ChildStatus::Stopped(_) if pid == worker.pid() => {
                        stopped_at.get_or_insert(clock::monotonic_ms() + STOPPED_MS);
                    }
                    ChildStatus::Ended(_) | ChildStatus::Stopped(_) => {}
                }
            }
            match read_deadline(deadline) {
                Told::Nothing => {}
                Told::Deadline(at) => hard_at = at,
                Told::Over => listening = false,
            }
            let now = clock::monotonic_ms();
            if stopped_at.is_some_and(|at| at <= now) && !process::is_stopped(worker.pid()) {
                stopped_at = None;
            }
            let due = [hard_at, stopped_at].into_iter().flatten().min();
            if due.is_some_and(|at| at <= now) && !hung {
                hung = true;
                // It may have ended by itself in this moment.
                let _ = worker.signal(Signal::KILL);
            }
            let timeout = due.filter(|_| !hung).map_or(10_000, |at| at.saturating_sub(now).clamp(1, 10_000));
            // A pipe without a writer is readable for ever, and waiting for it would spin.
            let pipe = if listening { deadline.as_fd() } else { self.signals.as_fd() };
            wait_readable(&[self.signals.as_fd(), pipe], timeout);
        }
    }

    /// A signal to the keeper is an order to cancel, as if somebody had posted it.
    fn pass_on_signal(&self) {
        let by = "a signal to its keeper".to_owned();
        // If the order cannot be written the run goes on; there is nobody to tell.
        let _ = inbox::post_cancel(&self.dir, &CancelOrder { by, reason: String::new(), now: false });
        sockets::nudge(&self.socket);
    }

    /// Kills what the worker left behind, and returns how many processes that were.
    fn sweep(&self) -> Result<u32, KeeperError> {
        // Whatever loses its parent in this run becomes a child of this process before that parent can be
        // collected. So without children there is nothing to look for, and no need to walk over all processes.
        if !process::has_children() {
            return Ok(0);
        }
        let swept =
            process::kill_tree(self.spec.tag, &[]).map_err(|error| KeeperError::Os("sweep", error))?;
        // Those that were killed are dead by now. Keepers of child runs may be among the adopted, and stay.
        process::reap_all();
        Ok(swept.count)
    }
}

/// What a worker said about when it must be done.
enum Told {
    Nothing,
    Deadline(Option<u64>),
    /// It closed the pipe: it is about to exit.
    Over,
}

/// Reads the worker's newest word: eight bytes, 0 for "not yet".
fn read_deadline(pipe: &OwnedFd) -> Told {
    let mut bytes = [0; 8 * 64];
    match rustix::io::read(pipe, &mut bytes) {
        Ok(0) => Told::Over,
        Ok(read) if read >= 8 => {
            let last = read / 8 * 8 - 8;
            let value = u64::from_le_bytes(bytes[last..last + 8].try_into().expect("eight bytes"));
            Told::Deadline((value != 0).then_some(value))
        }
        Ok(_) | Err(_) => Told::Nothing,
    }
}

fn wait_readable(fds: &[std::os::fd::BorrowedFd<'_>], timeout_ms: u64) {
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout = rustix::time::Timespec {
        tv_sec: i64::try_from(timeout_ms / 1_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(timeout_ms % 1_000 * 1_000_000).unwrap_or(0),
    };
    // An interrupted or failed wait only means looking again earlier.
    let _ = poll(&mut polled, Some(&timeout));
}
