//! Launches an attempt: asks its backend for a launch plan, starts the process or the loop, and starts to read and
//! feed it.

use std::collections::VecDeque;

use backends::contract::{
    Conclusion, LaunchContext, LaunchPlan, OutputReader, ProcessLaunch, ProjectExecutables, StdinFeed,
};
use domain::run::{AgentEnd, Event, Failure, PromptKind, StdStream, SupervisionInput};
use domain::secret::Redactor;
use journal::{SpoolWriter, StoreError};
use process::{SpawnError, StartedAgent};
use tokio::sync::mpsc;

use super::agent_io::WRITES_MAX;
use super::output::{self, AgentOutput};
use super::supervisor::{AgentHandle, RunSupervisor, SAMPLE_EVERY_MS, WorkerEvent};
use crate::clock;
use crate::error_chain::explain;
use crate::failpoint;
use crate::launch::agent_process;
use crate::launch::launch_plan::{find_backend, prepare_launch, scan_workspace};
use crate::wait_readable::wait_readable;

impl RunSupervisor {
    /// Launches the attempt that was built last.
    pub(super) async fn launch(&mut self) -> Result<(), StoreError> {
        self.attempt_number.update(|number| number + 1);
        self.announce_deadline();
        if let Some(reason) = self.stale_session() {
            let end = AgentEnd::Failed(Failure::Session { reason });
            let conclusion = Conclusion::new(end, backends::contract::AgentAnswer::Nothing);
            return Box::pin(self.conclude_attempt(conclusion)).await;
        }
        match prepare_launch(&self.dir, &self.attempt_spec, self.prior_usage()) {
            Err(reason) => self.fail_to_start(reason).await,
            Ok(LaunchPlan::Loop(agent_loop)) => {
                self.handle = AgentHandle::Loop { agent_loop, question: None, task: None };
                self.report_started().await?;
                self.fail_uncertain_calls()?;
                self.next_turn().await
            }
            Ok(LaunchPlan::AgentLoop(launch)) => self.launch_agent_loop(*launch).await,
            Ok(LaunchPlan::Process(plan)) => self.launch_process(plan).await,
        }
    }

    async fn launch_process(&mut self, mut plan: ProcessLaunch) -> Result<(), StoreError> {
        match scan_workspace(&self.attempt_spec, &mut plan) {
            Err(reason) => return self.fail_to_start(reason).await,
            Ok(sentences) => {
                for message in sentences {
                    self.append(Event::Warned { message })?;
                }
            }
        }
        self.secrets.extend(agent_process::secrets(&self.attempt_spec, Some(&plan)));
        self.log.redact_with(Redactor::new(self.secrets.clone()));
        let directory = plan.directory.clone().unwrap_or_else(|| self.spec.directory.clone().into());
        match agent_process::start(&self.dir, &self.attempt_spec, &plan, directory) {
            Err(SpawnError::ContainmentRefused { reason }) => {
                let reason =
                    format!("containment: strict needs a pid namespace, which cannot be had: {reason}");
                self.step(SupervisionInput::Ended(AgentEnd::Refused(reason))).await
            }
            Err(error) => self.fail_to_start(explain(&error)).await,
            Ok(started) => {
                failpoint::reach("worker_spawned_agent");
                for name in agent_process::unset_variables(&self.attempt_spec, &plan) {
                    let message =
                        format!("the environment variable {name} is not set, so the agent has none");
                    self.append(Event::Warned { message })?;
                }
                for name in agent_process::variables_with_dollar(&self.attempt_spec, &plan) {
                    let message = format!(
                        "the value of {name} holds a $, by which {} may hand another value to an MCP server",
                        self.attempt_spec.backend.name
                    );
                    self.append(Event::Warned { message })?;
                }
                self.append(agent_process::started_event(&plan, &started))?;
                let output = self.create_output(plan.reader)?;
                self.attach_process(started, plan.feed, output).await
            }
        }
    }

    pub(super) async fn fail_to_start(&mut self, reason: String) -> Result<(), StoreError> {
        let end = AgentEnd::Failed(Failure::Spawn { reason });
        let conclusion = Conclusion::new(end, backends::contract::AgentAnswer::Nothing);
        Box::pin(self.conclude_attempt(conclusion)).await
    }

    /// The time of the run begins with its first attempt, and begins again only with a retry.
    pub(super) async fn report_started(&mut self) -> Result<(), StoreError> {
        match self.attempt_number.get() {
            1 => {
                self.started_ms = clock::monotonic_ms();
                self.step(SupervisionInput::Started).await
            }
            _ if self
                .log
                .state()
                .attempts
                .last()
                .is_some_and(|attempt| attempt.prompt_kind == PromptKind::Retry) =>
            {
                self.step(SupervisionInput::Retried).await
            }
            _ => self.step(SupervisionInput::AttemptRestarted).await,
        }
    }

    /// Creates the spools of an attempt, and sets those of the previous attempt aside.
    fn create_output(&self, reader: Box<dyn OutputReader>) -> Result<AgentOutput, StoreError> {
        let earlier = self.log.state().attempts.len().saturating_sub(1);
        if earlier > 0 {
            for stream in [StdStream::Stdout, StdStream::Stderr] {
                SpoolWriter::archive_attempt(&self.dir, stream, earlier)?;
            }
        }
        AgentOutput::create(&self.dir, &self.spec, &Redactor::new(self.secrets.clone()), reader)
    }

    /// Starts to read and feed a process.
    pub(super) async fn attach_process(
        &mut self,
        started: StartedAgent,
        feed: StdinFeed,
        output: AgentOutput,
    ) -> Result<(), StoreError> {
        let StartedAgent { agent, stdin, stdout, stderr } = started;
        let attempt = self.attempt_number.get();
        let path = self.dir.path().to_owned();
        let io = |error| StoreError::Io {
            attempt: "read the agent's output for",
            path: path.clone(),
            source: error,
        };
        let stdout = tokio::net::unix::pipe::Receiver::from_owned_fd(stdout).map_err(io)?;
        let stderr = tokio::net::unix::pipe::Receiver::from_owned_fd(stderr).map_err(io)?;
        tokio::task::spawn_local(output::forward_output(
            (attempt, StdStream::Stdout),
            stdout,
            self.events_tx.clone(),
        ));
        tokio::task::spawn_local(output::forward_output(
            (attempt, StdStream::Stderr),
            stderr,
            self.events_tx.clone(),
        ));
        let (first, stays_open) = match feed {
            StdinFeed::Nothing => (Vec::new(), false),
            StdinFeed::Whole(all) => (all, false),
            StdinFeed::Open(first) => (first, true),
        };
        let (to_agent, more) = mpsc::channel(WRITES_MAX);
        if let Some(stdin) = stdin {
            let stdin = tokio::net::unix::pipe::Sender::from_owned_fd(stdin).map_err(io)?;
            tokio::task::spawn_local(output::write_input(stdin, first, more));
        }
        let exit = agent.exit_fd().try_clone_to_owned().map_err(io)?;
        let events_tx = self.events_tx.clone();
        tokio::task::spawn_local(async move {
            // An error here is found by `try_exit`, which the supervisor calls in any case.
            let _ = wait_readable(exit).await;
            let _ = events_tx.send(WorkerEvent::AgentExited(attempt)).await;
        });
        self.next_sample = agent.is_watched().then(|| clock::monotonic_ms() + SAMPLE_EVERY_MS);
        self.handle = AgentHandle::Process {
            agent: Box::new(agent),
            output: Box::new(output),
            exit: None,
            open_streams: 2,
            drained_by: u64::MAX,
            input: stays_open.then_some(to_agent),
            pending_requests: VecDeque::new(),
            question: None,
        };
        self.report_started().await
    }

    /// Returns why the attempt cannot continue its conversation.
    fn stale_session(&self) -> Option<String> {
        self.attempt_spec.session.as_ref()?;
        let own_program = crate::current_exe::path().ok()?;
        let context = LaunchContext {
            work_dir: &self.dir.work_dir(),
            current_exe: &own_program,
            program: None,
            prior_session_usage: None,
            project_executables: ProjectExecutables::On,
        };
        find_backend(&self.attempt_spec).ok()?.stale_session(&self.attempt_spec, &context)
    }
}
