//! Starts an attempt: asks its backend how, starts the process or the loop, and begins to read and feed it.

use std::collections::VecDeque;

use backend::contract::{Conclusion, Drive, Feed, Place, ProcessDrive, ProjectPrograms, Reader};
use backend::process::{SpawnError, Started};
use backend::user::User;
use domain::launch::Launch;
use domain::run::{AgentEnd, Asked, Event, Failure, Input, RunSpec, Stream, Usage};
use domain::secret::Redactor;
use journal::{RunDir, SpoolWriter, StoreError};
use tokio::sync::mpsc;

use super::agent;
use super::desk::{Desk, Driven, SAMPLE_EVERY_MS, Seen};
use super::output::{self, Output};
use super::talk::WRITES_MAX;
use crate::causes::explain;
use crate::clock;
use crate::point;
use crate::readable::readable;
use crate::registry::programs_of_projects;

impl Desk {
    /// Starts the attempt that was planned last.
    pub(super) async fn begin(&mut self) -> Result<(), StoreError> {
        self.attempts_here.update(|begun| begun + 1);
        self.tell_deadline();
        if let Some(reason) = self.stale_session() {
            let end = AgentEnd::Failed(Failure::Session { reason });
            let conclusion = Conclusion::new(end, backend::contract::Answer::Nothing);
            return Box::pin(self.answer_with(conclusion)).await;
        }
        match prepare(&self.dir, &self.attempt, self.used_before()) {
            Err(reason) => self.give_up(reason).await,
            Ok(Drive::Loop(steps)) => {
                self.driven = Driven::Loop { steps, question: None, under_way: None };
                self.tell_started().await?;
                self.settle_doubts()?;
                self.next_turn().await
            }
            Ok(Drive::Process(drive)) => self.begin_process(drive).await,
        }
    }

    async fn begin_process(&mut self, mut drive: ProcessDrive) -> Result<(), StoreError> {
        match look_through(&self.attempt, &mut drive) {
            Err(reason) => return self.give_up(reason).await,
            Ok(sentences) => {
                for message in sentences {
                    self.append(Event::Warned { message })?;
                }
            }
        }
        self.secrets.extend(agent::secrets(&self.attempt, Some(&drive)));
        self.log.redact_with(Redactor::new(self.secrets.clone()));
        let directory = self.works_in();
        match agent::start(&self.dir, &self.attempt, &drive, directory) {
            Err(SpawnError::ContainmentRefused { reason }) => {
                let reason =
                    format!("containment: strict needs a pid namespace, which cannot be had: {reason}");
                self.step(Input::Ended(AgentEnd::Refused(reason))).await
            }
            Err(error) => self.give_up(explain(&error)).await,
            Ok(started) => {
                point::reach("worker_spawned_agent");
                for name in agent::missing(&self.attempt, &drive) {
                    let message =
                        format!("the environment variable {name} is not set, so the agent has none");
                    self.append(Event::Warned { message })?;
                }
                for name in agent::misread(&self.attempt, &drive) {
                    let message = format!(
                        "the value of {name} holds a $, by which {} may hand another value to an MCP server",
                        self.attempt.backend.name
                    );
                    self.append(Event::Warned { message })?;
                }
                self.append(agent::started(&drive, &started))?;
                let output = self.spools_for(drive.reader)?;
                self.hold(started, drive.feed, output).await
            }
        }
    }

    async fn give_up(&mut self, reason: String) -> Result<(), StoreError> {
        let end = AgentEnd::Failed(Failure::Spawn { reason });
        let conclusion = Conclusion::new(end, backend::contract::Answer::Nothing);
        Box::pin(self.answer_with(conclusion)).await
    }

    /// The run's time begins with its first attempt, and is renewed only by a second try.
    async fn tell_started(&mut self) -> Result<(), StoreError> {
        match self.attempts_here.get() {
            1 => {
                self.started_ms = clock::monotonic_ms();
                self.step(Input::Started).await
            }
            _ if self.log.state().attempts.last().is_some_and(|attempt| attempt.asked == Asked::Again) => {
                self.step(Input::TriedAgain).await
            }
            _ => self.step(Input::StartedAgain).await,
        }
    }

    /// Makes the spools of an attempt, and sets those of the one before aside.
    fn spools_for(&self, reader: Box<dyn Reader>) -> Result<Output, StoreError> {
        let earlier = self.log.state().attempts.len().saturating_sub(1);
        if earlier > 0 {
            for stream in [Stream::Stdout, Stream::Stderr] {
                SpoolWriter::set_aside(&self.dir, stream, earlier)?;
            }
        }
        Output::create(&self.dir, &self.spec, &Redactor::new(self.secrets.clone()), reader)
    }

    /// Begins to read and feed a process.
    pub(super) async fn hold(
        &mut self,
        started: Started,
        feed: Feed,
        output: Output,
    ) -> Result<(), StoreError> {
        let Started { agent, stdin, stdout, stderr } = started;
        let attempt = self.attempts_here.get();
        let path = self.dir.path().to_owned();
        let io = |error| StoreError::Io {
            attempt: "read the agent's output for",
            path: path.clone(),
            source: error,
        };
        let stdout = tokio::net::unix::pipe::Receiver::from_owned_fd(stdout).map_err(io)?;
        let stderr = tokio::net::unix::pipe::Receiver::from_owned_fd(stderr).map_err(io)?;
        tokio::task::spawn_local(output::pump((attempt, Stream::Stdout), stdout, self.to_desk.clone()));
        tokio::task::spawn_local(output::pump((attempt, Stream::Stderr), stderr, self.to_desk.clone()));
        let (first, stays_open) = match feed {
            Feed::Nothing => (Vec::new(), false),
            Feed::Whole(all) => (all, false),
            Feed::Open(first) => (first, true),
        };
        let (to_agent, more) = mpsc::channel(WRITES_MAX);
        if let Some(stdin) = stdin {
            let stdin = tokio::net::unix::pipe::Sender::from_owned_fd(stdin).map_err(io)?;
            tokio::task::spawn_local(output::feed(stdin, first, more));
        }
        let exit = agent.exit_fd().try_clone_to_owned().map_err(io)?;
        let to_desk = self.to_desk.clone();
        tokio::task::spawn_local(async move {
            // An error here is found by `try_exit`, which the desk calls in any case.
            let _ = readable(exit).await;
            let _ = to_desk.send(Seen::AgentExited(attempt)).await;
        });
        self.next_sample = agent.is_watched().then(|| clock::monotonic_ms() + SAMPLE_EVERY_MS);
        self.driven = Driven::Process {
            agent: Box::new(agent),
            output: Box::new(output),
            exit: None,
            open_streams: 2,
            drained_by: u64::MAX,
            input: stays_open.then_some(to_agent),
            asks: VecDeque::new(),
            question: None,
        };
        self.tell_started().await
    }

    /// Returns why the conversation that the attempt would continue cannot go on.
    fn stale_session(&self) -> Option<String> {
        self.attempt.session.as_ref()?;
        let own_program = crate::own_program::path().ok()?;
        let place = Place {
            work: &self.dir.work_dir(),
            own_program: &own_program,
            found: None,
            session_used: None,
            project_programs: ProjectPrograms::On,
        };
        backend_of(&self.attempt).ok()?.stale_session(&self.attempt, &place)
    }

    /// Returns where the attempt's process works.
    fn works_in(&self) -> std::path::PathBuf {
        let place = Place {
            work: &self.dir.work_dir(),
            own_program: std::path::Path::new(""),
            found: None,
            session_used: None,
            project_programs: ProjectPrograms::On,
        };
        let own = backend_of(&self.attempt).ok().and_then(|backend| backend.works_in(&self.attempt, &place));
        own.unwrap_or_else(|| self.spec.directory.clone().into())
    }
}

/// Asks the backend of an attempt how to carry it out.
pub(super) fn prepare(dir: &RunDir, attempt: &RunSpec, session_used: Option<Usage>) -> Result<Drive, String> {
    let backend = backend_of(attempt)?;
    let own_program = crate::own_program::path().map_err(|error| error.to_string())?;
    let launch = Launch::of(&attempt.backend.options);
    let found = backend.program().and_then(|program| crate::programs::find(program, &launch));
    let place = Place {
        work: &dir.work_dir(),
        own_program: &own_program,
        found: found.as_ref(),
        session_used,
        project_programs: project_programs(backend, attempt)?,
    };
    let mut prepared = backend.prepare(attempt, &place).map_err(|error| error.to_string())?;
    if let Drive::Process(drive) = &mut prepared {
        let home = crate::env::home();
        let user = User { home: home.as_deref(), value: &crate::env::get };
        backend.adapt(attempt, drive, &place, &user).map_err(|error| error.to_string())?;
    }
    Ok(prepared)
}

/// Has the backend of an attempt look through its work tree.
fn look_through(attempt: &RunSpec, drive: &mut ProcessDrive) -> Result<Vec<String>, String> {
    backend_of(attempt)?.look_through(attempt, drive).map_err(|error| error.to_string())
}

/// Returns a text about a run as others may read it: what the run has of keys is masked.
pub fn masked(dir: &RunDir, spec: &RunSpec, text: &str) -> String {
    let drive = match prepare(dir, spec, None) {
        Ok(Drive::Process(drive)) => Some(drive),
        Ok(Drive::Loop(_)) | Err(_) => None,
    };
    Redactor::new(agent::secrets(spec, drive.as_ref())).redact(text)
}

/// Tells whether what the project's files would execute now is what its user trusts.
fn project_programs(
    backend: &dyn backend::contract::Backend,
    attempt: &RunSpec,
) -> Result<ProjectPrograms, String> {
    let folders = backend::user::upward(&attempt.directory, &attempt.project);
    let own = programs_of_projects::of(backend, &folders);
    if own.is_empty() || programs_of_projects::fingerprint(&folders) == attempt.trusted_programs {
        return Ok(ProjectPrograms::On);
    }
    match own.into_iter().find(|program| !program.can_be_off) {
        None => Ok(ProjectPrograms::Off),
        Some(program) => Err(format!("{} is not trusted: {}", program.file.display(), program.says)),
    }
}

fn backend_of(attempt: &RunSpec) -> Result<&'static dyn backend::contract::Backend, String> {
    let kind = &attempt.backend.kind;
    backend::registry::by_kind(kind).ok_or_else(|| format!("there is no backend of the kind {kind}"))
}
