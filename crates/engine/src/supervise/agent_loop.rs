//! Connects the loop of a directive with its run: builds the driver, passes it the reports of its tasks, and ends the
//! attempt when the loop has ended.

use std::path::{Path, PathBuf};

use backends::contract::{AgentAnswer, AgentLoopLaunch, Conclusion};
use config::answer::Schema;
use domain::access::{Access, AccessEffect};
use domain::policy::{Directory, Effect, ExecCommand, Policy, Use};
use domain::run::agent_loop::{LoopEnd, LoopModel, LoopSpec, loop_plan, outputs_schema};
use domain::run::{AgentEnd, Event, Failure, RunState, StdStream, SupervisionInput};
use domain::secret::Redactor;
use journal::StoreError;
use journal::call_files::CallFiles;
use process::{IfMissing, StartedAgent};
use tokio::sync::mpsc;

use super::resolved_path;
use super::supervisor::{AgentHandle, RunSupervisor, WorkerEvent};
use crate::agent_loop::tools::FileRoots;
use crate::agent_loop::{
    CommandGrant, CommandRequest, DriverSetup, FileJobs, GrantContext, LoopDriver, LoopHost, LoopSignal,
    ProcessStarter, ToolRules, ToolRunner, command_grant, start_command, visibility,
};
use crate::clock;
use crate::current_exe;
use crate::env;
use crate::error_chain::explain;
use crate::launch::agent_process;

/// How many reports of tasks may wait.
const SIGNALS_MAX: usize = 64;
/// The time at the end of a run that is reserved for its last answer: a fifth of all, at most this.
const LAST_ANSWER_MS_MAX: u64 = 30_000;

impl RunSupervisor {
    /// Starts the loop, or continues it after the loss of an earlier worker.
    pub(super) async fn launch_agent_loop(&mut self, launch: AgentLoopLaunch) -> Result<(), StoreError> {
        let driver = match self.build_driver(launch) {
            Ok(driver) => driver,
            Err(reason) => return self.fail_to_start(reason).await,
        };
        self.handle = AgentHandle::AgentLoop(Box::new(driver));
        self.report_started().await?;
        self.advance_loop().await
    }

    fn build_driver(&mut self, launch: AgentLoopLaunch) -> Result<LoopDriver, String> {
        let spec = self.attempt_spec.clone();
        let Some(loop_spec) = spec.agent_loop.as_deref() else {
            return Err("the run's record has no tools and rules for a loop".to_owned());
        };
        let (signals_tx, signals_rx) = mpsc::channel(SIGNALS_MAX);
        let endpoint = backends::api::service_of_backend(&launch.service)?;
        let starter = ProcessStarter::new(self.dir.clone(), spec.clone(), endpoint.service);
        let current_exe = current_exe::path().map_err(|error| error.to_string())?;
        let plan = starter.model_client_plan(&current_exe);
        self.secrets.extend(agent_process::secrets(&spec, Some(&plan)));
        let redactor = Redactor::new(self.secrets.clone());
        self.log.redact_with(redactor.clone());
        let access = self.access(loop_spec);
        let protected = self.protected_directories();
        let extra: Vec<PathBuf> = spec.setup.extra_directories.iter().map(PathBuf::from).collect();
        let roots = FileRoots::open(Path::new(&spec.directory), &extra, &protected)
            .map_err(|error| format!("the directory {} cannot be opened: {error}", spec.directory))?;
        let files = FileJobs::new(
            roots.with_visibility(visibility(access.clone())),
            spec.id.to_string(),
            signals_tx.clone(),
        );
        let rules = self.tool_rules(loop_spec, access)?;
        let tools = ToolRunner::new(
            self.dir.clone(),
            spec.directory.clone(),
            (rules, files),
            (redactor.clone(), signals_tx.clone()),
        );
        let price = spec.prices.get(&launch.model).copied().or_else(|| {
            let list = crate::admission::attempt_backend::capabilities(&spec.backend).prices;
            backends::prices::look_up(list, &launch.model, clock::now().into())
        });
        if price.is_none() && spec.limits.cost_microusd.is_some() {
            return Err(format!(
                "the cost is limited, and the price of {} is not known: set it as [prices.\"{}\"]",
                launch.model, launch.model
            ));
        }
        let temperature = spec.setup.temperature.map(domain::setup::Temperature::degrees);
        let model = LoopModel { name: launch.model, price, temperature };
        let end_by_ms = clock::monotonic_ms() + self.machine.remaining_ms(clock::monotonic_ms());
        self.forward_signals(signals_rx);
        self.announce_last_answer(end_by_ms, signals_tx.clone());
        Ok(LoopDriver::new(DriverSetup {
            dir: self.dir.clone(),
            plan: loop_plan(loop_spec, &model, &spec.limits, (&spec.system_prompt, &spec.prompt)),
            files: CallFiles::new(&self.dir, redactor),
            starter,
            tools,
            signals_tx,
            end_by_ms,
        }))
    }

    /// Starts the command of a success criterion, within the rules of the directive.
    pub(super) fn start_criterion(
        &self,
        words: &[String],
        loop_spec: &LoopSpec,
    ) -> Result<StartedAgent, String> {
        let of = Use::Exec(ExecCommand::Argv(words.to_vec()));
        let verdict = self.access(loop_spec).decide(&of);
        if verdict.effect != AccessEffect::Allow {
            return Err(verdict.explanation());
        }
        let policy = self.loop_policy();
        let denied = policy.as_ref().map(|policy| policy.decide(&of));
        if let Some(denied) = denied.filter(|verdict| verdict.effect > Effect::Allow) {
            return Err(denied.explanation());
        }
        let grant = self.command_grant(loop_spec, policy.as_ref());
        let readable: Vec<PathBuf> = self.spec.setup.extra_directories.iter().map(PathBuf::from).collect();
        let request = CommandRequest {
            words,
            writable: &grant.writable,
            readable: &readable,
            network: grant.network,
            if_missing: if verdict.fixes_arguments { IfMissing::Allow } else { IfMissing::Refuse },
        };
        start_command(&self.dir, &self.spec, &request).map_err(|error| explain(&error))
    }

    /// Returns the permission of the run, if somebody set one. It can only restrict a directive further.
    fn loop_policy(&self) -> Option<Policy> {
        let is_set = self.attempt_spec.parent.is_some() || !self.attempt_spec.setup.permission.is_empty();
        is_set.then(|| self.policy())
    }

    fn command_grant(&self, loop_spec: &LoopSpec, policy: Option<&Policy>) -> CommandGrant {
        command_grant(&GrantContext {
            layers: &loop_spec.layers,
            policy,
            directory: Path::new(&self.spec.directory),
            protected: &self.protected_directories(),
        })
    }

    fn access(&self, loop_spec: &LoopSpec) -> Access {
        let directory: Directory = resolved_path::resolved_directory(&self.spec.directory);
        let protected = self.protected_directories().iter().map(|path| path.display().to_string()).collect();
        Access::new(&loop_spec.layers, directory, protected)
    }

    /// Returns Volery's own folders.
    fn protected_directories(&self) -> Vec<PathBuf> {
        let own = [Some(self.dir.home().path().to_owned()), env::config_home()];
        let own = own.into_iter().flatten();
        own.map(|path| path.canonicalize().unwrap_or(path)).collect()
    }

    fn tool_rules(&self, loop_spec: &LoopSpec, access: Access) -> Result<ToolRules, String> {
        let policy = self.loop_policy();
        let grant = self.command_grant(loop_spec, policy.as_ref());
        let result_schema = match loop_spec.outputs.is_empty() {
            true => None,
            false => Some(
                Schema::compile(&outputs_schema(&loop_spec.outputs))
                    .map_err(|error| format!("the outputs of the directive: {error}"))?,
            ),
        };
        Ok(ToolRules {
            tools: loop_spec.tools.clone(),
            writable: grant.writable,
            readable: self.spec.setup.extra_directories.iter().map(PathBuf::from).collect(),
            network: grant.network,
            access,
            policy,
            result_schema,
        })
    }

    /// Passes the reports of the loop's tasks on as events of this attempt.
    fn forward_signals(&self, mut signals_rx: mpsc::Receiver<LoopSignal>) {
        let (attempt, events_tx) = (self.attempt_number.get(), self.events_tx.clone());
        tokio::task::spawn_local(async move {
            while let Some(signal) = signals_rx.recv().await {
                if events_tx.send(WorkerEvent::Loop(attempt, signal)).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Reports when the time for ordinary calls is over, so that the model can still hand back what it has.
    fn announce_last_answer(&self, end_by_ms: u64, signals_tx: mpsc::Sender<LoopSignal>) {
        let reserved = (self.spec.limits.timeout_ms / 5).min(LAST_ANSWER_MS_MAX);
        let left = end_by_ms.saturating_sub(reserved).saturating_sub(clock::monotonic_ms());
        tokio::task::spawn_local(async move {
            tokio::time::sleep(std::time::Duration::from_millis(left)).await;
            // If the driver is gone, the loop has ended.
            let _ = signals_tx.send(LoopSignal::OutOfTime).await;
        });
    }

    /// Handles a report of one of the loop's tasks.
    pub(super) async fn handle_loop_signal(&mut self, signal: LoopSignal) -> Result<(), StoreError> {
        let Some(handled) = self.with_driver(|driver, host| driver.handle(signal, host)) else {
            return Ok(());
        };
        handled?;
        self.step(SupervisionInput::Output(StdStream::Stdout)).await?;
        if self.finished { Ok(()) } else { self.advance_loop().await }
    }

    /// Starts what can be started, and ends the attempt if the loop has ended.
    async fn advance_loop(&mut self) -> Result<(), StoreError> {
        let Some(ended) = self.with_driver(|driver, host| {
            let end = driver.advance(host)?;
            Ok((end, driver.structured(), driver.is_stopped()))
        }) else {
            return Ok(());
        };
        let (end, structured, is_stopped) = ended?;
        if is_stopped {
            // The reason for the stop is the outcome.
            return Box::pin(self.step(SupervisionInput::Ended(AgentEnd::Done))).await;
        }
        let Some(end) = end else { return Ok(()) };
        let (end, text) = agent_end(end);
        let answer = if text.trim().is_empty() { AgentAnswer::Nothing } else { AgentAnswer::Text(text) };
        let conclusion = Conclusion { structured, ..Conclusion::new(end, answer) };
        Box::pin(self.conclude_attempt(conclusion)).await
    }

    /// Lends the driver and the rest of the run to a function; `None` if there is no loop.
    fn with_driver<T>(&mut self, call: impl FnOnce(&mut LoopDriver, &mut dyn LoopHost) -> T) -> Option<T> {
        let handle = std::mem::replace(&mut self.handle, AgentHandle::NotRunning);
        let AgentHandle::AgentLoop(mut driver) = handle else {
            self.handle = handle;
            return None;
        };
        let result = call(&mut driver, self);
        self.handle = AgentHandle::AgentLoop(driver);
        Some(result)
    }
}

impl LoopHost for RunSupervisor {
    fn append(&mut self, event: Event) -> Result<(), StoreError> {
        Self::append(self, event)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.log.sync()
    }

    fn state(&self) -> &RunState {
        self.log.state()
    }

    fn set_activity(&mut self, activity: String) {
        self.subscribers.set_activity(activity);
    }

    fn push_text(&mut self, text: &str) {
        let masked = Redactor::new(self.secrets.clone()).redact(text);
        self.subscribers.push_text(masked.as_bytes());
    }
}

/// Returns how the agent ended, and its answer.
fn agent_end(end: LoopEnd) -> (AgentEnd, String) {
    match end {
        LoopEnd::Finished { success: true, text } => (AgentEnd::Done, text),
        LoopEnd::Finished { success: false, text } => {
            (AgentEnd::Failed(Failure::Agent { message: text.clone() }), text)
        }
        LoopEnd::Unanswered { text } => {
            let reason = "unanswered: the model stopped without finishing, also after a reminder".to_owned();
            (AgentEnd::Failed(Failure::Output { reason }), text)
        }
        LoopEnd::OverLimit { limit, text } => (AgentEnd::OverBudget(limit), text),
        LoopEnd::ModelFailed { error, message } => {
            (AgentEnd::Failed(Failure::Model { error, message }), String::new())
        }
    }
}
