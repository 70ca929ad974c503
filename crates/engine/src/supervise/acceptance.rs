//! Acceptance commands: they must succeed after the agent has reported success, before the run counts as successful.
//! They run one after the other in the agent's directory, with the same limits and the same containment, and are
//! swept like the agent.

use backends::contract::{
    AgentAnswer, AgentReport, Conclusion, Exit, OutputReader, ProcessLaunch, StdinFeed,
};
use domain::run::{AgentEnd, CommandExit, Event, Failure, StdStream, SupervisionInput};
use domain::secret::Redactor;
use journal::StoreError;
use process::StartedAgent;

use super::output::AgentOutput;
use super::supervisor::{AgentHandle, RunSupervisor};
use crate::clock;
use crate::error_chain::explain;
use crate::launch::agent_process;

/// How much of the end of a command's output is recorded.
const OUTPUT_TAIL_BYTES: usize = 4 << 10;
/// How much of a failed command is shown.
const COMMAND_BYTES_MAX: usize = 500;

/// The state of the acceptance commands, and the result of the agent meanwhile.
pub(super) struct AcceptanceProgress {
    pub(super) answer: AgentAnswer,
    pub(super) exit_code: Option<i32>,
    /// The agent wrote something to its standard output.
    pub(super) stdout_has_output: bool,
    /// The number of the current command, from 0.
    number: usize,
    started_ms: u64,
}

impl RunSupervisor {
    /// Starts the first command. The answer of the agent stays the answer of the run in any case.
    pub(super) async fn start_acceptance(&mut self, answer: AgentAnswer) -> Result<(), StoreError> {
        let (exit_code, stdout_has_output) = self.agent_exit();
        let started_ms = clock::monotonic_ms();
        self.acceptance = Some(Box::new(AcceptanceProgress {
            answer,
            exit_code,
            stdout_has_output,
            number: 0,
            started_ms,
        }));
        self.close_attempt().await?;
        self.start_next_command().await
    }

    /// Returns the exit code of the agent's process, and whether it wrote something.
    pub(super) fn agent_exit(&self) -> (Option<i32>, bool) {
        match (&self.acceptance, &self.handle) {
            (Some(acceptance), _) => (acceptance.exit_code, acceptance.stdout_has_output),
            (None, AgentHandle::Process { output, exit, .. }) => {
                (exit.and_then(|exit| exit.code()), output.has_output)
            }
            (None, AgentHandle::Loop { .. } | AgentHandle::AgentLoop(_) | AgentHandle::NotRunning) => {
                (None, false)
            }
        }
    }

    /// Starts the next command. Ends the run if there is none, or if the run is stopping.
    async fn start_next_command(&mut self) -> Result<(), StoreError> {
        let Some(acceptance) = &mut self.acceptance else { return Ok(()) };
        if self.finished {
            return Ok(());
        }
        acceptance.started_ms = clock::monotonic_ms();
        let number = acceptance.number;
        let command = self.spec.setup.accept.get(number).filter(|_| self.machine.is_running()).cloned();
        let Some(argv) = command else {
            return Box::pin(self.step(SupervisionInput::Ended(AgentEnd::Done))).await;
        };
        self.attempt_number.update(|number| number + 1);
        let plan = ProcessLaunch {
            argv: argv.clone(),
            env: Vec::new(),
            optional_env: Vec::new(),
            env_overrides: Vec::new(),
            feed: StdinFeed::Nothing,
            directory: None,
            files: Vec::new(),
            reader: Box::new(TailReader::default()),
        };
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let started = match self.start_acceptance_process(&plan) {
            Ok(started) => started,
            Err(reason) => {
                self.append(Event::AcceptanceStarted { number, pid: 0, argv })?;
                return self.record_command_result(CommandExit::NotStarted(reason), String::new()).await;
            }
        };
        let pid = started.agent.pid().as_raw_nonzero().get().cast_unsigned();
        self.append(Event::AcceptanceStarted { number, pid, argv })?;
        self.subscribers.set_activity(format!("checks with {}", plan.argv[0]));
        let redactor = Redactor::new(self.secrets.clone());
        let position = usize::try_from(number).unwrap_or(usize::MAX) + 1;
        let output =
            AgentOutput::create_for_acceptance(&self.dir, &self.spec, &redactor, (position, plan.reader))?;
        self.attach_process(started, plan.feed, output).await
    }

    /// Starts a command. Those of a directive may do no more than its own commands.
    fn start_acceptance_process(&self, plan: &ProcessLaunch) -> Result<StartedAgent, String> {
        if let Some(loop_spec) = &self.spec.agent_loop {
            return self.start_criterion(&plan.argv, loop_spec);
        }
        let directory = self.spec.directory.clone().into();
        agent_process::start(&self.dir, &self.spec, plan, directory).map_err(|error| explain(&error))
    }

    /// Handles the end of a command.
    pub(super) async fn finish_command(&mut self, conclusion: Conclusion) -> Result<(), StoreError> {
        let exit = match &self.handle {
            AgentHandle::Process { exit: Some(Exit::Code(code)), .. } => CommandExit::Code(*code),
            AgentHandle::Process { exit: Some(Exit::Signal(signal)), .. } => CommandExit::Signal(*signal),
            AgentHandle::Process { exit: None, .. }
            | AgentHandle::Loop { .. }
            | AgentHandle::AgentLoop(_)
            | AgentHandle::NotRunning => CommandExit::NotStarted("nothing is known of its end".to_owned()),
        };
        let output = match conclusion.answer {
            AgentAnswer::Text(text) => text,
            AgentAnswer::Stdout | AgentAnswer::Nothing => String::new(),
        };
        self.record_command_result(exit, output).await
    }

    async fn record_command_result(&mut self, exit: CommandExit, output: String) -> Result<(), StoreError> {
        let Some(acceptance) = &mut self.acceptance else { return Ok(()) };
        let number = acceptance.number;
        acceptance.number += 1;
        let duration_ms = clock::monotonic_ms().saturating_sub(acceptance.started_ms);
        let ended = Event::AcceptanceEnded {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            exit: exit.clone(),
            duration_ms,
            output: output.clone(),
        };
        self.append(ended)?;
        self.close_attempt().await?;
        if exit == CommandExit::Code(0) || !self.machine.is_running() {
            return Box::pin(self.start_next_command()).await;
        }
        let command = self.spec.setup.accept.get(number).map(|argv| argv.join(" ")).unwrap_or_default();
        let command = domain::size::head(&command, COMMAND_BYTES_MAX).to_owned();
        let failure = Failure::Acceptance { command, reason: exit.to_string(), output };
        Box::pin(self.step(SupervisionInput::Ended(AgentEnd::Failed(failure)))).await
    }
}

/// Collects the end of a command's output, both streams interleaved.
#[derive(Default)]
struct TailReader {
    bytes: Vec<u8>,
}

impl OutputReader for TailReader {
    fn feed(&mut self, _stream: StdStream, bytes: &[u8]) -> Vec<AgentReport> {
        self.bytes.extend_from_slice(bytes);
        let excess = self.bytes.len().saturating_sub(OUTPUT_TAIL_BYTES);
        self.bytes.drain(..excess);
        Vec::new()
    }

    fn conclude(&mut self, _exit: Exit) -> Conclusion {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        Conclusion::new(AgentEnd::Done, AgentAnswer::Text(text))
    }
}
