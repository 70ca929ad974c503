//! Acceptance commands: what must succeed, after the agent says that it did, before its success counts. They run one
//! after the other where the agent ran, under the same limits and in the same containment, and are swept like it.

use backend::contract::{Answer, Conclusion, Exit, Feed, ProcessDrive, Reader, Report};
use domain::run::{AgentEnd, CommandExit, Event, Failure, Input, Stream};
use domain::secret::Redactor;
use journal::StoreError;

use super::agent;
use super::desk::{Desk, Driven};
use super::output::Output;
use crate::causes::explain;
use crate::clock;

/// How much of the end of a command's output is told.
const OUTPUT_TAIL_BYTES: usize = 4 << 10;
/// How much of a command is told where it failed.
const COMMAND_BYTES_MAX: usize = 500;

/// The commands under way, and what is kept of the agent meanwhile.
pub(super) struct Accepting {
    pub(super) answer: Answer,
    pub(super) exit_code: Option<i32>,
    /// The agent wrote something to its standard output.
    pub(super) stdout_usable: bool,
    /// Which command it is, from 0.
    number: usize,
    began_ms: u64,
}

impl Desk {
    /// Begins with the first command. What the agent answered stays the answer of the run, whatever comes.
    pub(super) async fn begin_acceptance(&mut self, answer: Answer) -> Result<(), StoreError> {
        let (exit_code, stdout_usable) = self.end_of_agent();
        let began_ms = clock::monotonic_ms();
        self.accepting = Some(Box::new(Accepting { answer, exit_code, stdout_usable, number: 0, began_ms }));
        self.leave_attempt().await?;
        self.next_acceptance().await
    }

    /// Returns the exit code of the agent's process, and whether it wrote something.
    pub(super) fn end_of_agent(&self) -> (Option<i32>, bool) {
        match (&self.accepting, &self.driven) {
            (Some(accepting), _) => (accepting.exit_code, accepting.stdout_usable),
            (None, Driven::Process { output, exit, .. }) => {
                (exit.and_then(|exit| exit.code()), output.usable)
            }
            (None, Driven::Loop { .. } | Driven::Nothing) => (None, false),
        }
    }

    /// Starts the next command; without one, or if the run shall stop, the run ends.
    async fn next_acceptance(&mut self) -> Result<(), StoreError> {
        let Some(accepting) = &mut self.accepting else { return Ok(()) };
        if self.finished {
            return Ok(());
        }
        accepting.began_ms = clock::monotonic_ms();
        let number = accepting.number;
        let command = self.spec.setup.accept.get(number).filter(|_| self.machine.is_going()).cloned();
        let Some(argv) = command else {
            return Box::pin(self.step(Input::Ended(AgentEnd::Done))).await;
        };
        self.attempts_here.update(|begun| begun + 1);
        let drive = ProcessDrive {
            argv: argv.clone(),
            env: Vec::new(),
            known_env: Vec::new(),
            set: Vec::new(),
            feed: Feed::Nothing,
            files: Vec::new(),
            reader: Box::new(Tail::default()),
        };
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let started = match agent::start(&self.dir, &self.spec, &drive, self.spec.directory.clone().into()) {
            Ok(started) => started,
            Err(error) => {
                self.append(Event::AcceptanceStarted { number, pid: 0, argv })?;
                return self.judge(CommandExit::NotStarted(explain(&error)), String::new()).await;
            }
        };
        let pid = started.agent.pid().as_raw_nonzero().get().cast_unsigned();
        self.append(Event::AcceptanceStarted { number, pid, argv })?;
        self.audience.note(format!("checks with {}", drive.argv[0]));
        let redactor = Redactor::new(self.secrets.clone());
        let place = usize::try_from(number).unwrap_or(usize::MAX) + 1;
        let output = Output::create_for_acceptance(&self.dir, &self.spec, &redactor, (place, drive.reader))?;
        self.hold(started, drive.feed, output).await
    }

    /// Takes the end of a command.
    pub(super) async fn end_acceptance(&mut self, conclusion: Conclusion) -> Result<(), StoreError> {
        let exit = match &self.driven {
            Driven::Process { exit: Some(Exit::Code(code)), .. } => CommandExit::Code(*code),
            Driven::Process { exit: Some(Exit::Signal(signal)), .. } => CommandExit::Signal(*signal),
            Driven::Process { exit: None, .. } | Driven::Loop { .. } | Driven::Nothing => {
                CommandExit::NotStarted("nothing is known of its end".to_owned())
            }
        };
        let output = match conclusion.answer {
            Answer::Text(text) => text,
            Answer::Stdout | Answer::Nothing => String::new(),
        };
        self.judge(exit, output).await
    }

    async fn judge(&mut self, exit: CommandExit, output: String) -> Result<(), StoreError> {
        let Some(accepting) = &mut self.accepting else { return Ok(()) };
        let number = accepting.number;
        accepting.number += 1;
        let duration_ms = clock::monotonic_ms().saturating_sub(accepting.began_ms);
        let ended = Event::AcceptanceEnded {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            exit: exit.clone(),
            duration_ms,
            output: output.clone(),
        };
        self.append(ended)?;
        self.leave_attempt().await?;
        if exit == CommandExit::Code(0) || !self.machine.is_going() {
            return Box::pin(self.next_acceptance()).await;
        }
        let command = self.spec.setup.accept.get(number).map(|argv| argv.join(" ")).unwrap_or_default();
        let command = domain::size::head(&command, COMMAND_BYTES_MAX).to_owned();
        let failure = Failure::Acceptance { command, reason: exit.to_string(), output };
        Box::pin(self.step(Input::Ended(AgentEnd::Failed(failure)))).await
    }
}

/// Keeps the end of what a command writes, of both streams as they come.
#[derive(Default)]
struct Tail {
    bytes: Vec<u8>,
}

impl Reader for Tail {
    fn feed(&mut self, _stream: Stream, bytes: &[u8]) -> Vec<Report> {
        self.bytes.extend_from_slice(bytes);
        let excess = self.bytes.len().saturating_sub(OUTPUT_TAIL_BYTES);
        self.bytes.drain(..excess);
        Vec::new()
    }

    fn conclude(&mut self, _exit: Exit) -> Conclusion {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        Conclusion::new(AgentEnd::Done, Answer::Text(text))
    }
}
