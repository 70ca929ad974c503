//! A running command of a loop: reads its output, bounded, and waits for its end.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use process::{AgentProcess, StartedAgent};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::bounded_output::BoundedOutput;
use super::signal::LoopSignal;
use crate::wait_readable::wait_readable;
use domain::run::Exit;

/// How much is read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// How long the rest of the output may take after the end of the command.
const DRAIN: Duration = Duration::from_secs(1);

/// A command that runs.
pub(crate) struct RunningCommand {
    agent: AgentProcess,
    stdout: Rc<RefCell<BoundedOutput>>,
    stderr: Rc<RefCell<BoundedOutput>>,
    readers: Vec<JoinHandle<()>>,
    /// Why Volery ended the command, if it did.
    stop_reason: Option<String>,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct CommandEnd {
    pub(crate) exit: Option<Exit>,
    /// Why Volery ended it, if it did.
    pub(crate) stop_reason: Option<String>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl RunningCommand {
    /// Starts to read the output of a command and to wait for its end.
    pub(crate) fn attach(
        call: u32,
        started: StartedAgent,
        timeout: Duration,
        signals_tx: &mpsc::Sender<LoopSignal>,
    ) -> std::io::Result<Self> {
        let StartedAgent { agent, stdin: _, stdout, stderr } = started;
        let output = |fd: OwnedFd| -> std::io::Result<_> {
            let pipe = pipe::Receiver::from_owned_fd(fd)?;
            let buffer = Rc::new(RefCell::new(BoundedOutput::default()));
            let reader = tokio::task::spawn_local(read(pipe, Rc::clone(&buffer)));
            Ok((buffer, reader))
        };
        let (stdout, stdout_reader) = output(stdout)?;
        let (stderr, stderr_reader) = output(stderr)?;
        let exit_fd = agent.exit_fd().try_clone_to_owned()?;
        let signals_tx = signals_tx.clone();
        tokio::task::spawn_local(async move {
            let signal = match tokio::time::timeout(timeout, wait_readable(exit_fd)).await {
                Ok(_) => LoopSignal::CommandExited { call },
                Err(_) => LoopSignal::CommandTimedOut { call, after: timeout },
            };
            // If the driver is gone, the run has ended, and its sweep takes the command.
            let _ = signals_tx.send(signal).await;
        });
        let readers = vec![stdout_reader, stderr_reader];
        Ok(Self { agent, stdout, stderr, readers, stop_reason: None })
    }

    pub(crate) fn agent_mut(&mut self) -> &mut AgentProcess {
        &mut self.agent
    }

    /// Says why the command is ended before it ends by itself. The first reason counts.
    pub(crate) fn set_stop_reason(&mut self, reason: &str) {
        self.stop_reason.get_or_insert_with(|| reason.to_owned());
    }

    /// Ends what is left of the command, and reports its end once its output is read.
    pub(crate) fn finish(mut self, call: u32, signals_tx: mpsc::Sender<LoopSignal>) -> std::io::Result<()> {
        let ended = self.agent.end_alone();
        let exit = self.agent.try_exit().ok().flatten();
        let Self { agent, stdout, stderr, readers, stop_reason } = self;
        tokio::task::spawn_local(async move {
            for mut reader in readers {
                // A process that left the command's session may hold the pipe open; the run's sweep takes it.
                if tokio::time::timeout(DRAIN, &mut reader).await.is_err() {
                    reader.abort();
                }
            }
            drop(agent);
            let (stdout, stderr) = (stdout.borrow().text(), stderr.borrow().text());
            let end = CommandEnd { exit, stop_reason, stdout, stderr };
            let _ = signals_tx.send(LoopSignal::CommandEnded { call, end }).await;
        });
        ended.map(|_| ())
    }
}

impl CommandEnd {
    /// Returns the result for the model, and whether the command failed.
    pub(crate) fn into_text(self) -> (String, bool) {
        let Self { exit, stop_reason, stdout, stderr } = self;
        let (status, is_error) = match (&stop_reason, exit) {
            (Some(reason), _) => (format!("stopped: {reason}"), true),
            (None, Some(Exit::Code(code))) => (format!("exit code: {code}"), code != 0),
            (None, Some(Exit::Signal(signal))) => (format!("ended by signal {signal}"), true),
            (None, None) => ("its end is not known".to_owned(), true),
        };
        let mut text = status;
        for (name, content) in [("stdout", stdout), ("stderr", stderr)] {
            if !content.is_empty() {
                text.push_str(&format!("\n--- {name} ---\n{}", content.trim_end_matches('\n')));
            }
        }
        (text, is_error)
    }
}

async fn read(pipe: pipe::Receiver, buffer: Rc<RefCell<BoundedOutput>>) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while pipe.readable().await.is_ok() {
        match pipe.try_read(&mut chunk) {
            Ok(0) => return,
            Ok(read) => buffer.borrow_mut().push(&chunk[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
