//! Starts the processes of a loop: the one that calls the model, and commands in their confinement. None of them has a
//! control group of its own, so that ending one cannot end another.

use std::path::{Path, PathBuf};

use backends::api::ServiceConfig;
use backends::api::model_client::{self, AtEndOfInput};
use backends::contract::{
    AgentAnswer, AgentReport, Conclusion, Exit, OutputReader, ProcessLaunch, StdinFeed,
};
use domain::run::{AgentEnd, Event, RunSpec, StdStream};
use journal::RunDir;
use process::{
    AgentRequest, CgroupUse, Confinement, IfMissing, NetworkAccess, SpawnError, StartedAgent, Stdin,
    system_read_paths,
};

use crate::current_exe;
use crate::env;
use crate::error_chain::explain;
use crate::launch::{agent_process, temp_dir};

/// Variables of a command in addition to the base list: what it needs to show text, and nothing that names a secret.
const HOME_VARIABLES: [&str; 4] = ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"];

/// The starter of one run.
#[derive(Debug)]
pub(crate) struct ProcessStarter {
    dir: RunDir,
    spec: RunSpec,
    service: ServiceConfig,
}

/// A command to start.
pub(crate) struct CommandRequest<'a> {
    pub(crate) words: &'a [String],
    /// Directories that the command may change.
    pub(crate) writable: &'a [PathBuf],
    /// Directories and files that it may read, in addition to the run's directory and the system's.
    pub(crate) readable: &'a [PathBuf],
    pub(crate) network: NetworkAccess,
    pub(crate) if_missing: IfMissing,
}

impl ProcessStarter {
    pub(crate) fn new(dir: RunDir, spec: RunSpec, service: ServiceConfig) -> Self {
        Self { dir, spec, service }
    }

    /// Starts the process that calls the model. Returns it with the event to record and the first line of its input.
    pub(crate) fn start_model_client(&self) -> Result<(StartedAgent, Event, Vec<u8>), String> {
        let current_exe = current_exe::path().map_err(|error| error.to_string())?;
        let plan = self.model_client_plan(&current_exe);
        let StdinFeed::Open(first_line) = plan.feed.clone() else {
            return Err("the process that calls the model has no input".to_owned());
        };
        let directory = PathBuf::from(&self.spec.directory);
        let started = agent_process::start_without_group(&self.dir, &self.spec, &plan, directory);
        let started = started.map_err(|error| explain(&error))?;
        let event = agent_process::started_event(&plan, &started);
        Ok((started, event, first_line))
    }

    /// Returns how the process that calls the model is started.
    pub(crate) fn model_client_plan(&self, current_exe: &Path) -> ProcessLaunch {
        let key_file = self.spec.setup.key_file.as_deref();
        let launch = model_client::launch(&self.service, key_file, current_exe, AtEndOfInput::Abandon);
        ProcessLaunch {
            argv: launch.argv,
            env: Vec::new(),
            optional_env: launch.optional_env,
            env_overrides: launch.env_overrides,
            feed: StdinFeed::Open(launch.input),
            directory: None,
            files: Vec::new(),
            reader: Box::new(NoReader),
        }
    }

    /// Starts a command, confined to what it may use.
    pub(crate) fn start_command(&self, command: &CommandRequest<'_>) -> Result<StartedAgent, SpawnError> {
        start_command(&self.dir, &self.spec, command)
    }
}

/// Starts a command of a run, confined to what it may use.
pub(crate) fn start_command(
    dir: &RunDir,
    spec: &RunSpec,
    command: &CommandRequest<'_>,
) -> Result<StartedAgent, SpawnError> {
    let temporary = temp_dir::create_private(dir, spec)?;
    let mut variables = env::for_agent(&[]);
    // Programs that find their home unreadable fail; this one is empty, and goes with the run.
    // The address of a proxy may contain a password, and without a network it has no use.
    let is_proxy = |name: &str| name.to_ascii_lowercase().ends_with("_proxy");
    variables.retain(|(name, _)| {
        name.to_str()
            .is_none_or(|name| !HOME_VARIABLES.contains(&name) && name != "TMPDIR" && !is_proxy(name))
    });
    variables.push(("HOME".into(), temporary.clone().into_os_string()));
    variables.push(("TMPDIR".into(), temporary.clone().into_os_string()));
    crate::launch::git_environment::protect(spec, &mut variables);
    let mut read_only = system_read_paths();
    read_only.push(PathBuf::from(&spec.directory));
    read_only.extend_from_slice(command.readable);
    let mut read_write = command.writable.to_vec();
    read_write.push(temporary);
    let mut hidden = vec![dir.home().path().to_owned()];
    hidden.extend(env::home());
    hidden.extend(env::config_home());
    let confinement = Confinement {
        read_only,
        read_write,
        network: command.network,
        hidden,
        if_missing: command.if_missing,
    };
    let request = AgentRequest {
        argv: command.words.iter().map(Into::into).collect(),
        env: variables,
        directory: PathBuf::from(&spec.directory),
        stdin: Stdin::Null,
        unread_bytes: 0,
        tag: spec.tag,
        limits: agent_process::resource_limits(spec),
        demand: spec.containment,
        cgroup: CgroupUse::Never,
        confinement: Some(confinement),
    };
    process::spawn_agent(&request)
}

/// The driver reads the output of its processes itself.
struct NoReader;

impl OutputReader for NoReader {
    fn feed(&mut self, _stream: StdStream, _bytes: &[u8]) -> Vec<AgentReport> {
        Vec::new()
    }

    fn conclude(&mut self, _exit: Exit) -> Conclusion {
        Conclusion::new(AgentEnd::Done, AgentAnswer::Nothing)
    }
}
