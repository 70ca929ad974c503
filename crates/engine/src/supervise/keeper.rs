//! The small parent of a worker, in its own session, a subreaper, single-threaded. It waits for a slot, forks the
//! worker before any runtime starts, reaps every process that it adopts, kills a worker that hangs, sweeps the
//! processes that are left, and writes the outcome if the worker cannot.

use std::ffi::OsString;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use backends::contract::Exit;
use domain::id::{RunId, SessionId};
use domain::run::{
    CancelRequest, Ending, Event, Failure, LostProcess, OnDisconnect, OnInterrupt, Outcome, RunSpec,
    TimeLimit,
};
use journal::inbox::{self, InboxMessage};
use journal::sessions;
use journal::slots::{Acquisition, Slot, SlotError, Slots};
use journal::{LogWriter, RunDir, RunLock};
use process::{self, ChildStatus, Forked, ProcessHandle, Signal, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};

use super::run_ending::{end_lost_run, finish_unstarted};
use super::supervisor::{Assignment, EXIT_BUG, EXIT_STORAGE, run_worker};
use crate::clock;
use crate::error_chain::explain;
use crate::failpoint;
use crate::ipc::run_socket;
use crate::ipc::wire::{DoorMessage, LineBuffer};
use crate::launch::{CHANNEL_FD, LOCK_FD};

/// How long a keeper waits for the door to report that the record is durable.
const GO_TIMEOUT_MS: u64 = 30_000;
/// How long a worker may stay stopped before the keeper kills it.
const STOPPED_MS: u64 = 500;
/// How often a queued run checks for a slot and for cancellation when nothing wakes it.
const QUEUE_POLL_MS: u64 = 250;
/// How often a run checks whether its session is free.
const SESSION_POLL_MS: u64 = 100;
/// How often the keeper replaces a worker before it gives the run up.
const RESUMES_MAX: u32 = 5;

/// An error of the keeper. It is written to the run's `worker.log`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeeperError {
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
    channel: UnixStream,
    buffer: LineBuffer,
    messages: Vec<DoorMessage>,
    /// When the disconnect of the door cancels a run that waits.
    cancel_at: Option<u64>,
    /// When the run was accepted.
    accepted_ms: u64,
    signals: SignalFd,
    listener: UnixListener,
    socket: PathBuf,
}

/// How a worker ended.
enum WorkerEnd {
    Exited(Exit),
    Hung,
}

/// Runs the keeper: `__keeper RUN-DIRECTORY SLOTS QUEUE`, with the run's channel and lock inherited.
pub fn main(arguments: &[OsString]) -> ExitCode {
    match run_keeper(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::from(70)
        }
    }
}

/// Writes an error to `worker.log`, which is this process' error stream.
#[expect(clippy::print_stderr, reason = "the error stream of a keeper is the run's worker.log")]
fn report(error: &KeeperError) {
    eprintln!("{} keeper: {}", clock::now(), explain(error));
}

fn run_keeper(arguments: &[OsString]) -> Result<(), KeeperError> {
    let [run, slots, queue] = arguments else { return Err(KeeperError::Arguments) };
    let number = |text: &OsString| text.to_str().and_then(|text| text.parse::<u32>().ok());
    let (Some(slots), Some(queue)) = (number(slots), number(queue)) else {
        return Err(KeeperError::Arguments);
    };
    let lock = process::inherited_fd(LOCK_FD).map_err(|error| KeeperError::Os("adopt the lock", error))?;
    let channel =
        process::inherited_fd(CHANNEL_FD).map_err(|error| KeeperError::Os("adopt the leash", error))?;
    let dir = RunDir::from_path(Path::new(run))?;
    let spec = dir.read_spec()?;
    if spec.parent.is_none() {
        // A keeper that cannot leave its starter works all the same. A child's keeper stays: its root's keeper would
        // adopt it, and then count the child's CPU time as that of its own run.
        let _ = process::leave_starter();
    }
    process::become_subreaper().map_err(|error| KeeperError::Os("become a subreaper", error))?;
    let handled = [Signal::CHILD, Signal::TERM, Signal::INT, Signal::HUP];
    let signals = process::signal_fd(&handled).map_err(|error| KeeperError::Os("receive signals", error))?;
    let channel = UnixStream::from(channel);
    channel.set_nonblocking(true).map_err(|error| KeeperError::Os("prepare the leash", error))?;
    let (listener, socket) =
        run_socket::bind(dir.home(), spec.tag).map_err(|error| KeeperError::Os("bind the socket", error))?;
    let mut keeper = Keeper {
        dir,
        spec,
        lock: RunLock::from_fd(lock),
        channel,
        buffer: LineBuffer::default(),
        messages: Vec::new(),
        cancel_at: None,
        accepted_ms: clock::monotonic_ms(),
        signals,
        listener,
        socket,
    };
    failpoint::reach("keeper_started");
    let result = keeper.run(slots, queue);
    if let Err(error) = &result {
        keeper.give_up(error);
    }
    // The socket is only an address: a stale one harms nothing, since no later run has this tag.
    let _ = std::fs::remove_file(&keeper.socket);
    result
}

impl Keeper {
    fn run(&mut self, slots: u32, queue: u32) -> Result<(), KeeperError> {
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
            // At least 1, so that a run whose turn comes in the last millisecond ends as one that started.
            let left_ms = self.spec.limits.timeout_ms.saturating_sub(self.waited_ms());
            self.spec.limits.timeout_ms = left_ms.max(1);
        }
        self.forward_remaining_grace();
        let result = self.run_workers();
        drop((slot, session));
        result
    }

    /// Passes the rest of the grace period after a disconnect to the worker.
    fn forward_remaining_grace(&mut self) {
        if let Some(at) = self.cancel_at.take() {
            let grace_ms = at.saturating_sub(clock::monotonic_ms());
            self.messages.push(DoorMessage::Disconnecting { policy: OnDisconnect::Cancel { grace_ms } });
        }
    }

    /// Locks the run's session, and waits while another run holds it. Returns `Break` if the run ended while it
    /// waited.
    ///
    /// A fork copies a conversation that has ended, so it waits too, but holds no lock afterwards. The fork of a
    /// child does not wait: its parent may hold the session and wait for the child.
    fn wait_for_session(&mut self) -> Result<ControlFlow<(), Option<RunLock>>, KeeperError> {
        let copies = self.spec.fork && self.spec.parent.is_none();
        let Some(session) = self.spec.session.clone().filter(|_| copies || !self.spec.fork) else {
            return Ok(ControlFlow::Continue(None));
        };
        let home = self.dir.home().clone();
        let (project, agent) = (self.spec.project.clone(), self.spec.agent.clone());
        let scope = match crate::admission::chooses_sessions(&self.spec.backend) {
            true => sessions::SessionScope::Agent { project: &project, agent: &agent },
            false => sessions::SessionScope::Everywhere,
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
                failpoint::reach("keeper_awaits_session");
            }
            if let Some(log) = &mut log
                && self.end_if_cancelled_or_expired(log, "another run of its session had not ended")?
            {
                return Ok(ControlFlow::Break(()));
            }
            wait_readable(
                &[self.channel_or_signals(), self.signals.as_fd(), self.listener.as_fd()],
                SESSION_POLL_MS,
            );
            while self.listener.accept().is_ok() {}
        }
    }

    /// Returns whether another run is about to begin this session. That run was accepted earlier, but on a busy
    /// machine its keeper may reach the lock later, and this run would find an empty conversation. A first run
    /// without a live keeper or worker does not count.
    fn is_ahead_of_first_run(
        &self,
        session: &SessionId,
        scope: sessions::SessionScope<'_>,
    ) -> Result<bool, KeeperError> {
        let home = self.dir.home();
        let first = match scope {
            sessions::SessionScope::Everywhere => session.as_str().parse::<RunId>().ok(),
            // The caller chose the id, so it is not the id of a run.
            sessions::SessionScope::Agent { .. } => None,
        };
        let Some(first) = first.filter(|first| *first != self.spec.id) else { return Ok(false) };
        if sessions::read(home, session)?.is_some() {
            return Ok(false);
        }
        let dir = home.run_dir(first);
        Ok(dir.exists() && dir.ending()?.is_none() && dir.is_locked()?)
    }

    /// Ends a waiting run that was cancelled, or whose time-out covers the wait and has passed. Returns whether it
    /// did.
    fn end_if_cancelled_or_expired(
        &mut self,
        log: &mut LogWriter,
        waited_for: &str,
    ) -> Result<bool, KeeperError> {
        let ending = if let Some(order) = self.cancel_order() {
            let event = Event::CancelRequested { by: order.by.clone(), reason: order.reason.clone() };
            log.append(clock::now(), event)?;
            Ending::from_outcome(Outcome::Cancelled { by: order.by })
        } else if self.spec.timeout_covers_wait && self.waited_ms() >= self.spec.limits.timeout_ms {
            let outcome = Outcome::TimedOut { limit: TimeLimit::Total };
            Ending { waited_for: waited_for.to_owned(), ..Ending::from_outcome(outcome) }
        } else {
            return Ok(false);
        };
        log.finish(clock::now(), ending)?;
        crate::iac::record_end(self.dir.home(), &self.spec);
        Ok(true)
    }

    /// Returns how long the run has waited for its session and a slot.
    fn waited_ms(&self) -> u64 {
        clock::monotonic_ms().saturating_sub(self.accepted_ms)
    }

    /// Records that the keeper itself failed, so that the run has an end and a reason.
    fn give_up(&mut self, error: &KeeperError) {
        let reason = format!("its keeper failed: {}", explain(error));
        let outcome = Outcome::Failed { failure: Failure::Spawn { reason } };
        let killed = self.sweep().unwrap_or(0);
        // If this cannot be recorded now, the next command that reconciles the run ends it.
        let _ = end_lost_run(&self.dir, &self.lock, &self.spec, outcome, killed);
    }

    /// Waits until the door has made the record durable. If the door has died, the keeper makes it durable itself.
    fn wait_for_go(&mut self) -> Result<bool, KeeperError> {
        let deadline = clock::monotonic_ms() + GO_TIMEOUT_MS;
        loop {
            let mut go = None;
            for message in self.read_messages() {
                match message {
                    DoorMessage::Go => go = Some(true),
                    DoorMessage::Abort => go = Some(false),
                    // Messages that arrive together with `Go` are stored too: a door that disconnects sends each
                    // message once.
                    other => self.messages.push(other),
                }
            }
            if let Some(go) = go {
                return Ok(go);
            }
            let remaining = deadline.saturating_sub(clock::monotonic_ms());
            let closed = self.channel_closed();
            if closed || remaining == 0 {
                self.dir.make_durable()?;
                return Ok(true);
            }
            wait_readable(&[self.channel.as_fd()], remaining);
        }
    }

    /// Reads the messages of the door, without waiting.
    fn read_messages(&mut self) -> Vec<DoorMessage> {
        let mut chunk = [0; 4096];
        match self.channel.read(&mut chunk) {
            Ok(read) => self.buffer.feed(&chunk[..read]).unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    fn channel_closed(&self) -> bool {
        let mut byte = [0; 1];
        let peeked = rustix::net::recv(&self.channel, &mut byte, rustix::net::RecvFlags::PEEK);
        matches!(peeked, Ok((0, _)))
    }

    /// Takes a slot, waiting in the queue if none is free. Returns `None` if the run ended while it waited.
    fn wait_for_slot(&mut self, slots: u32, queue: u32) -> Result<Option<Slot>, KeeperError> {
        let slots = Slots::open(self.dir.home().path(), slots, queue)?;
        let mut ticket = match slots.acquire(self.spec.id) {
            Ok(Acquisition::Taken(slot)) => return Ok(Some(slot)),
            Ok(Acquisition::Queued(ticket)) => ticket,
            Err(error) => {
                let reason = error.to_string();
                self.end_unstarted(Outcome::Refused { reason })?;
                return Ok(None);
            }
        };
        let since = clock::monotonic_ms();
        let mut log = self.claim(0)?;
        log.append(clock::now(), Event::Queued { ticket: ticket.number() })?;
        failpoint::reach("keeper_queued");
        loop {
            if let Some(slot) = ticket.try_advance()? {
                let waited_ms = clock::monotonic_ms() - since;
                log.append(clock::now(), Event::SlotTaken { waited_ms })?;
                return Ok(Some(slot));
            }
            if self.end_if_cancelled_or_expired(&mut log, "no slot became free, so the run never began")? {
                return Ok(None);
            }
            let queue = ticket.as_fd().unwrap_or(self.signals.as_fd());
            let recheck_ms = u64::try_from(ticket.recheck_after().as_millis()).unwrap_or(QUEUE_POLL_MS);
            wait_readable(
                &[queue, self.channel_or_signals(), self.signals.as_fd(), self.listener.as_fd()],
                recheck_ms.min(QUEUE_POLL_MS),
            );
            // While the run is queued a connection only wakes the keeper: clients that watch the run read the
            // journal.
            while self.listener.accept().is_ok() {}
        }
    }

    /// Returns the signals in place of a closed channel: polling a closed channel would spin.
    fn channel_or_signals(&self) -> std::os::fd::BorrowedFd<'_> {
        if self.channel_closed() { self.signals.as_fd() } else { self.channel.as_fd() }
    }

    /// Returns the order to cancel the waiting run, if there is one: from the inbox, a signal, or the door.
    fn cancel_order(&mut self) -> Option<CancelRequest> {
        let before = std::mem::take(&mut self.messages);
        for message in before.into_iter().chain(self.read_messages()) {
            match &message {
                // The grace period has begun: the worker gets the rest of it.
                DoorMessage::Disconnecting { policy: OnDisconnect::Cancel { grace_ms } } => {
                    self.cancel_at = Some(clock::monotonic_ms() + grace_ms);
                }
                _ => self.messages.push(message),
            }
        }
        if self.received_stop_signal() {
            let by = "a signal to its keeper".to_owned();
            return Some(CancelRequest { by, reason: String::new(), now: false });
        }
        if self.cancel_at.is_some_and(|at| at <= clock::monotonic_ms()) {
            let by = "the disconnect of the client".to_owned();
            return Some(CancelRequest { by, reason: "on_disconnect = cancel".to_owned(), now: false });
        }
        match inbox::read_cancel(&self.dir) {
            InboxMessage::Valid(order) => Some(order),
            InboxMessage::Nothing | InboxMessage::Ignored { .. } => None,
        }
    }

    /// Reads the pending signals, and returns whether one of them asks for the end of the run.
    fn received_stop_signal(&self) -> bool {
        let mut received = false;
        while let Ok(Some(signal)) = self.signals.next() {
            received = received || signal != Signal::CHILD;
        }
        received
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
        finish_unstarted(&mut log, outcome)?;
        crate::iac::record_end(self.dir.home(), &self.spec);
        Ok(())
    }

    /// Starts workers until the run has ended: one, or more where the run may be resumed.
    fn run_workers(&mut self) -> Result<(), KeeperError> {
        for attempt in 0..=RESUMES_MAX {
            let end = self.run_one_worker(attempt > 0)?;
            let killed = self.sweep()?;
            if self.dir.ending()?.is_some() {
                return Ok(());
            }
            failpoint::reach("keeper_found_worker_dead");
            let cancelled = matches!(inbox::read_cancel(&self.dir), InboxMessage::Valid(_));
            let resumable = self.spec.on_interrupt == OnInterrupt::Resume && attempt < RESUMES_MAX;
            // A worker that hung would hang again, and one that gave up has recorded why.
            if resumable && !cancelled && matches!(end, WorkerEnd::Exited(Exit::Signal(_))) {
                continue;
            }
            let outcome = match end {
                WorkerEnd::Hung => Outcome::Interrupted { lost: LostProcess::HungWorker },
                WorkerEnd::Exited(Exit::Code(EXIT_STORAGE)) => {
                    let reason =
                        "the worker could not record what happened; its worker.log tells more".to_owned();
                    Outcome::Failed { failure: Failure::Storage { reason } }
                }
                WorkerEnd::Exited(Exit::Code(EXIT_BUG)) => {
                    let reason = "the worker panicked; its worker.log tells where".to_owned();
                    Outcome::Failed { failure: Failure::Bug { reason } }
                }
                WorkerEnd::Exited(Exit::Code(_) | Exit::Signal(_)) => {
                    Outcome::Interrupted { lost: LostProcess::Worker }
                }
            };
            end_lost_run(&self.dir, &self.lock, &self.spec, outcome, killed)?;
            return Ok(());
        }
        Ok(())
    }

    fn run_one_worker(&mut self, resumed: bool) -> Result<WorkerEnd, KeeperError> {
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
                let channel =
                    self.channel.try_clone().map_err(|error| KeeperError::Os("keep the leash", error))?;
                let listener = self.listener.try_clone();
                let assignment = Assignment {
                    dir: self.dir.clone(),
                    spec: self.spec.clone(),
                    lock: &self.lock,
                    channel,
                    buffer: std::mem::take(&mut self.buffer),
                    messages: std::mem::take(&mut self.messages),
                    listener: listener.map_err(|error| KeeperError::Os("keep the socket", error))?,
                    deadline: deadline_writer,
                    keeper_pid,
                    resumed,
                };
                // A panic of the worker must not unwind into the keeper's code.
                let exit_code =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_worker(assignment)));
                process::exit_worker(exit_code.unwrap_or(EXIT_BUG))
            }
        }
    }

    /// Reaps processes until the worker itself has ended, and kills it if it hangs.
    fn watch_worker(&mut self, worker: &ProcessHandle, deadline: &OwnedFd) -> WorkerEnd {
        let mut hard_at: Option<u64> = None;
        let mut stopped_at: Option<u64> = None;
        let mut hung = false;
        let mut listening = true;
        loop {
            // Signals are read before the dead are reaped: the signal of a process that dies later then stays pending
            // and wakes this loop.
            if self.received_stop_signal() {
                self.post_cancel_for_signal();
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
                DeadlineUpdate::Nothing => {}
                DeadlineUpdate::Deadline(at) => hard_at = at,
                DeadlineUpdate::Closed => listening = false,
            }
            let now = clock::monotonic_ms();
            if stopped_at.is_some_and(|at| at <= now) && !process::is_stopped(worker.pid()) {
                stopped_at = None;
            }
            let due = [hard_at, stopped_at].into_iter().flatten().min();
            if due.is_some_and(|at| at <= now) && !hung {
                hung = true;
                // The worker may have ended by itself in this moment.
                let _ = worker.signal(Signal::KILL);
            }
            let timeout = due.filter(|_| !hung).map_or(10_000, |at| at.saturating_sub(now).clamp(1, 10_000));
            // A pipe without a writer is readable for ever, and polling it would spin.
            let pipe = if listening { deadline.as_fd() } else { self.signals.as_fd() };
            wait_readable(&[self.signals.as_fd(), pipe], timeout);
        }
    }

    /// Treats a signal to the keeper as an order to cancel, as if somebody had posted one.
    fn post_cancel_for_signal(&self) {
        let by = "a signal to its keeper".to_owned();
        // If the order cannot be written, the run continues; there is nobody to report this to.
        let _ = inbox::post_cancel(&self.dir, &CancelRequest { by, reason: String::new(), now: false });
        run_socket::wake_worker(&self.socket);
    }

    /// Kills the processes that the worker left behind, and returns how many there were.
    fn sweep(&self) -> Result<u32, KeeperError> {
        // A process of this run that loses its parent becomes a child of the keeper before that parent can be reaped.
        // So without children there is nothing left, and no need to walk over all processes.
        if !process::has_children() {
            return Ok(0);
        }
        let swept =
            process::kill_tree(self.spec.tag, &[]).map_err(|error| KeeperError::Os("sweep", error))?;
        // The killed processes are dead by now. Keepers of child runs may be among the adopted processes, and stay.
        process::reap_all();
        Ok(swept.count)
    }
}

/// A deadline that the worker announced over its pipe.
enum DeadlineUpdate {
    Nothing,
    Deadline(Option<u64>),
    /// The worker closed the pipe: it is about to exit.
    Closed,
}

/// Reads the worker's latest deadline: eight bytes, 0 for "none".
fn read_deadline(pipe: &OwnedFd) -> DeadlineUpdate {
    let mut bytes = [0; 8 * 64];
    match rustix::io::read(pipe, &mut bytes) {
        Ok(0) => DeadlineUpdate::Closed,
        Ok(read) if read >= 8 => {
            let last = read / 8 * 8 - 8;
            let value = u64::from_le_bytes(bytes[last..last + 8].try_into().expect("eight bytes"));
            DeadlineUpdate::Deadline((value != 0).then_some(value))
        }
        Ok(_) | Err(_) => DeadlineUpdate::Nothing,
    }
}

fn wait_readable(fds: &[std::os::fd::BorrowedFd<'_>], timeout_ms: u64) {
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout = rustix::time::Timespec {
        tv_sec: i64::try_from(timeout_ms / 1_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(timeout_ms % 1_000 * 1_000_000).unwrap_or(0),
    };
    // An interrupted or failed wait only means that the loop runs again earlier.
    let _ = poll(&mut polled, Some(&timeout));
}
