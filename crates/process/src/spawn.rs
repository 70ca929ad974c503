//! Starts processes: keepers, which outlive the process that starts them, and agents, which do not outlive their
//! worker.
//!
//! An agent always gets: its directory, a cleared and explicit environment, its standard input, its own process
//! group, the run's two tags, and a parent-death signal, or a pid namespace that dies with the worker.

use std::ffi::{CString, OsStr, OsString};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use domain::run::{Containment, ContainmentDemand};

use super::agent::AgentProcess;
use super::cgroup::{self, Cgroup};
use super::confinement::Confinement;
#[cfg(target_os = "linux")]
use super::confinement::PreparedConfinement;
use super::error::SpawnError;
use super::limits::ResourceLimits;
use super::os::{
    self, CgroupFds, Launch, LaunchError, LaunchStage, Launched, NamespaceMode, PosixSpawnRequest,
    ProcessHandle,
};
use super::tags::{TAG_VARIABLE, hex};
use super::tree_usage::TreeWatch;
use super::{program_path, reap};

/// A keeper to start.
#[derive(Debug)]
pub struct KeeperRequest<'a> {
    /// The path of the program.
    pub program: &'a Path,
    /// Its arguments, without its own name.
    pub args: &'a [OsString],
    /// The only descriptors it gets besides 0, 1 and 2: which one, and under what number (3 or more).
    pub fds: &'a [(BorrowedFd<'a>, i32)],
    /// A file that its standard error is appended to; otherwise it is discarded.
    pub stderr: Option<&'a Path>,
    pub directory: &'a Path,
}

/// Starts a keeper in a session of its own, with this process's environment and default signals.
///
/// The caller collects it: the returned handle becomes readable when the keeper has ended, and
/// [`ProcessHandle::try_reap`] then collects exactly this child, whatever waits for other children. Dropping the
/// handle leaves a zombie behind until this process ends. A process that ignores SIGCHLD has nothing to collect and
/// gets an error here, since its children cannot be tracked.
pub fn spawn_keeper(request: &KeeperRequest<'_>) -> io::Result<ProcessHandle> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let stderr = request
        .stderr
        .map(|path| OpenOptions::new().append(true).create(true).mode(0o600).open(path))
        .transpose()?;
    let stderr = stderr.as_ref().map_or(null.as_fd(), AsFd::as_fd);
    let mut fds = vec![(null.as_fd(), 0), (null.as_fd(), 1), (stderr, 2)];
    fds.extend_from_slice(request.fds);
    let program = c_string(request.program.as_os_str())?;
    let mut argv = vec![program.clone()];
    for argument in request.args {
        argv.push(c_string(argument)?);
    }
    let directory = c_string(request.directory.as_os_str())?;
    let pid = os::posix_spawn(&PosixSpawnRequest {
        program: &program,
        argv: &argv,
        directory: &directory,
        fds: &fds,
    })?;
    ProcessHandle::open(pid)
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

/// An agent to start.
#[derive(Debug, Clone)]
pub struct AgentRequest {
    /// The program and its arguments. The program is found by the PATH in `env`, or relative to `directory`.
    pub argv: Vec<OsString>,
    /// The whole environment, except for the run's tag, which is added.
    pub env: Vec<(OsString, OsString)>,
    pub directory: PathBuf,
    pub stdin: Stdin,
    /// How many bytes of output it can leave unread.
    pub unread_bytes: usize,
    /// The run's number, which all its processes carry.
    pub tag: u64,
    pub limits: ResourceLimits,
    pub demand: ContainmentDemand,
    pub cgroup: CgroupUse,
    /// What it may reach; `None`: everything that this process can.
    pub confinement: Option<Confinement>,
}

/// What an agent reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    Null,
    /// What the caller writes.
    Pipe,
}

/// Whether control groups are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CgroupUse {
    /// For limits that need one, and to kill a tree that is in no pid namespace.
    #[default]
    WhereUseful,
    Never,
}

/// An agent that was started, and its streams. All descriptors are non-blocking.
#[derive(Debug)]
pub struct StartedAgent {
    pub agent: AgentProcess,
    pub stdin: Option<OwnedFd>,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// Starts an agent, and returns when it executes its program.
///
/// The calling thread must live as long as the agent: the kernel sends the parent-death signal when that thread ends.
pub fn spawn_agent(request: &AgentRequest) -> Result<StartedAgent, SpawnError> {
    let prepared = Prepared::new(request)?;
    let streams = Streams::new(request)?;
    let mut refusals = Vec::new();
    for namespace_mode in namespace_modes(request.demand, &mut refusals) {
        match start(request, &prepared, &streams, namespace_mode) {
            Ok((launched, cgroup, mut missing)) => {
                // In a namespace, it does not matter which other kind of namespace was refused.
                if namespace_mode == NamespaceMode::Plain {
                    missing.splice(0..0, refusals);
                }
                let agent = describe(request, &prepared, Started { launched, cgroup, missing });
                let Streams { stdin, stdout, stderr, .. } = streams;
                return Ok(StartedAgent { agent, stdin, stdout, stderr });
            }
            Err(error) if namespace_mode != NamespaceMode::Plain && refuses_namespace(&error) => {
                refusals.push(format!("pid namespace: {}", reason(&error)));
            }
            Err(error) => return Err(explain(request, &prepared, error)),
        }
    }
    Err(SpawnError::ContainmentRefused { reason: refusals.join("; ") })
}

/// Returns the shapes to try, the strongest first.
fn namespace_modes(demand: ContainmentDemand, refusals: &mut Vec<String>) -> Vec<NamespaceMode> {
    let mut namespace_modes = Vec::new();
    if demand != ContainmentDemand::Plain {
        match may_administer() {
            true => namespace_modes.push(NamespaceMode::Namespace),
            false => refusals.push("pid namespace: this process lacks CAP_SYS_ADMIN".to_owned()),
        }
    }
    match demand {
        // In a user namespace an agent loses rights that it may need, so only those who ask for it get one.
        ContainmentDemand::Strict if cfg!(target_os = "linux") => {
            namespace_modes.push(NamespaceMode::UserNamespace)
        }
        ContainmentDemand::Strict => {}
        ContainmentDemand::Auto | ContainmentDemand::Plain => namespace_modes.push(NamespaceMode::Plain),
    }
    namespace_modes
}

#[cfg(target_os = "linux")]
fn may_administer() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN))
}

#[cfg(not(target_os = "linux"))]
fn may_administer() -> bool {
    false
}

fn refuses_namespace(error: &LaunchError) -> bool {
    match error {
        LaunchError::Clone(_) => true,
        LaunchError::Child { stage, .. } => {
            matches!(stage, LaunchStage::UserMap | LaunchStage::Mounts | LaunchStage::Proc)
        }
        LaunchError::Before(_) | LaunchError::Lost => false,
    }
}

fn reason(error: &LaunchError) -> String {
    match error {
        LaunchError::Before(source) | LaunchError::Clone(source) => source.to_string(),
        LaunchError::Child { stage, source } => format!("{}: {source}", stage.as_str()),
        LaunchError::Lost => SpawnError::Lost.to_string(),
    }
}

/// Everything about a request that can be computed before there is a process.
struct Prepared {
    path: PathBuf,
    program: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
    directory: CString,
    #[cfg(target_os = "linux")]
    confinement: Option<PreparedConfinement>,
}

impl Prepared {
    fn new(request: &AgentRequest) -> Result<Self, SpawnError> {
        let name = request.argv.first().ok_or(SpawnError::Empty)?;
        #[cfg(target_os = "linux")]
        let confinement = request.confinement.as_ref().map(PreparedConfinement::new).transpose()?;
        #[cfg(target_os = "linux")]
        let can_execute = |program: &Path| can_execute(confinement.as_ref(), program);
        #[cfg(not(target_os = "linux"))]
        let can_execute = unconfined(request)?;
        let path = program_path::resolve(name, &request.env, &request.directory, &can_execute)?;
        // First, so that a look at the start of a long environment finds it.
        let mut env = vec![variable(OsStr::new(TAG_VARIABLE), OsStr::new(&hex(request.tag)))?];
        for (key, value) in request.env.iter().filter(|(key, _)| key != TAG_VARIABLE) {
            env.push(variable(key, value)?);
        }
        let argument = |text: &OsString| without_nul(text.as_bytes().to_vec(), "an argument");
        Ok(Self {
            program: without_nul(path.as_os_str().as_bytes().to_vec(), "the program's name")?,
            path,
            argv: request.argv.iter().map(argument).collect::<Result<_, _>>()?,
            env,
            directory: without_nul(request.directory.as_os_str().as_bytes().to_vec(), "the directory")?,
            #[cfg(target_os = "linux")]
            confinement,
        })
    }
}

#[cfg(target_os = "linux")]
fn can_execute(confinement: Option<&PreparedConfinement>, program: &Path) -> bool {
    confinement.is_none_or(|confinement| confinement.grants(program))
}

/// Nothing can be confined on this system.
#[cfg(not(target_os = "linux"))]
fn unconfined(request: &AgentRequest) -> Result<impl Fn(&Path) -> bool, SpawnError> {
    use super::confinement::IfMissing;
    match &request.confinement {
        Some(Confinement { if_missing: IfMissing::Refuse, .. }) => {
            let reason = "this system has no Landlock".to_owned();
            Err(SpawnError::ConfinementUnavailable { reason })
        }
        Some(Confinement { if_missing: IfMissing::Allow, .. }) | None => Ok(|_: &Path| true),
    }
}

fn variable(key: &OsStr, value: &OsStr) -> Result<CString, SpawnError> {
    without_nul([key.as_bytes(), b"=", value.as_bytes()].concat(), "an environment variable")
}

fn without_nul(bytes: Vec<u8>, what: &'static str) -> Result<CString, SpawnError> {
    CString::new(bytes).map_err(|_| SpawnError::Nul { what })
}

/// The capacity of a pipe by default.
const PIPE_BYTES: usize = 64 * 1024;

/// Both ends of the agent's streams.
struct Streams {
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    agent_ends: [OwnedFd; 3],
}

impl Streams {
    fn new(request: &AgentRequest) -> io::Result<Self> {
        let (stdout, agent_stdout) = os::pipe()?;
        if request.unread_bytes > PIPE_BYTES {
            os::widen(&stdout, request.unread_bytes);
        }
        let (stderr, agent_stderr) = os::pipe()?;
        let (agent_stdin, stdin) = match request.stdin {
            Stdin::Null => (OpenOptions::new().read(true).open("/dev/null")?.into(), None),
            Stdin::Pipe => {
                let (reader, writer) = os::pipe()?;
                (reader, Some(writer))
            }
        };
        // Only our ends: the mode belongs to an end, and an agent expects its own to block.
        for fd in [Some(&stdout), Some(&stderr), stdin.as_ref()].into_iter().flatten() {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        Ok(Self { stdin, stdout, stderr, agent_ends: [agent_stdin, agent_stdout, agent_stderr] })
    }
}

type Attempt = (Launched, Option<Cgroup>, Vec<String>);

/// Starts the agent with one kind of namespace. If a control group cannot be joined, the agent runs without it.
fn start(
    request: &AgentRequest,
    prepared: &Prepared,
    streams: &Streams,
    namespace_mode: NamespaceMode,
) -> Result<Attempt, LaunchError> {
    let (cgroup, mut missing) = match request.cgroup {
        CgroupUse::WhereUseful => {
            cgroup::create(request.tag, request.limits.cgroup_needs(namespace_mode == NamespaceMode::Plain))
        }
        CgroupUse::Never => (None, Vec::new()),
    };
    let Some(cgroup) = cgroup else {
        return Ok((
            launch_with(request, prepared, streams, namespace_mode, CgroupFds::default())?,
            None,
            missing,
        ));
    };
    let join_fds = cgroup.join_fds().ok();
    let tasks = join_fds.iter().flat_map(|join_fds| &join_fds.tasks).map(AsFd::as_fd).collect::<Vec<_>>();
    let unified = join_fds.as_ref().and_then(|join_fds| join_fds.unified.as_ref());
    let groups = CgroupFds {
        folder: unified.map(|fds| fds.folder.as_fd()),
        procs: unified.map(|fds| fds.procs.as_fd()),
        tasks: &tasks,
    };
    let error = match launch_with(request, prepared, streams, namespace_mode, groups) {
        Ok(launched) if join_fds.is_some() => return Ok((launched, Some(cgroup), missing)),
        Ok(launched) => {
            missing.push("control group: it cannot be joined".to_owned());
            remove_unused(&cgroup, &mut missing);
            return Ok((launched, None, missing));
        }
        Err(error) => error,
    };
    remove_unused(&cgroup, &mut missing);
    match error {
        LaunchError::Child { stage: LaunchStage::Cgroup, source } => {
            missing.push(format!("control group: {source}"));
            Ok((
                launch_with(request, prepared, streams, namespace_mode, CgroupFds::default())?,
                None,
                missing,
            ))
        }
        error => Err(error),
    }
}

fn remove_unused(cgroup: &Cgroup, missing: &mut Vec<String>) {
    if let Err(error) = cgroup.remove() {
        missing.push(format!("removal of an unused control group: {error}"));
    }
}

fn launch_with(
    request: &AgentRequest,
    prepared: &Prepared,
    streams: &Streams,
    namespace_mode: NamespaceMode,
    groups: CgroupFds<'_>,
) -> Result<Launched, LaunchError> {
    let [stdin, stdout, stderr] = &streams.agent_ends;
    os::launch(&Launch {
        program: &prepared.program,
        argv: &prepared.argv,
        env: &prepared.env,
        directory: &prepared.directory,
        stdio: [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()],
        tag: request.tag,
        limits: &request.limits.per_process(),
        groups,
        namespace_mode,
        #[cfg(target_os = "linux")]
        confinement: prepared.confinement.as_ref().map(PreparedConfinement::for_child),
    })
}

/// A start that succeeded.
struct Started {
    launched: Launched,
    cgroup: Option<Cgroup>,
    missing: Vec<String>,
}

fn describe(request: &AgentRequest, prepared: &Prepared, started: Started) -> AgentProcess {
    let Started { launched, cgroup, missing } = started;
    let Launched { agent, init } = launched;
    let enforcers = request.limits.enforcers(cgroup.as_ref());
    let tags: &[&str] =
        if cfg!(target_os = "linux") { &["rlimit_locks", "environment"] } else { &["environment"] };
    let mut containment = Containment {
        subreaper: reap::adopter().is_some(),
        pid_namespace: init.is_some(),
        cgroup: cgroup.as_ref().map(|group| group.version().to_owned()),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        limits: enforcers.into_iter().map(|(name, enforcer)| (name.to_owned(), enforcer)).collect(),
        missing,
        ..Containment::default()
    };
    describe_confinement(request, prepared, &mut containment);
    AgentProcess {
        handle: agent,
        namespace_ended: false,
        tag: request.tag,
        exit: None,
        limits: request.limits,
        watch: TreeWatch::new(request.tag, request.limits, init.as_ref().map(|init| init.handle.pid())),
        init,
        cgroup,
        containment,
    }
}

#[cfg(target_os = "linux")]
fn describe_confinement(_request: &AgentRequest, prepared: &Prepared, containment: &mut Containment) {
    let Some(confinement) = &prepared.confinement else { return };
    containment.landlock = confinement.landlock();
    containment.network = Some(confinement.network());
    containment.missing.extend_from_slice(confinement.missing());
}

#[cfg(not(target_os = "linux"))]
fn describe_confinement(request: &AgentRequest, _prepared: &Prepared, containment: &mut Containment) {
    if request.confinement.is_some() {
        containment.network = Some(domain::run::NetworkRestriction::Open);
        containment.missing.push("landlock: this system has none".to_owned());
    }
}

fn explain(request: &AgentRequest, prepared: &Prepared, error: LaunchError) -> SpawnError {
    match error {
        LaunchError::Before(source) | LaunchError::Clone(source) => SpawnError::System { source },
        LaunchError::Lost => SpawnError::Lost,
        LaunchError::Child { stage: LaunchStage::Directory, source } => {
            SpawnError::Directory { directory: request.directory.clone(), source }
        }
        LaunchError::Child { stage: LaunchStage::Exec, source } => explain_exec(prepared, source),
        LaunchError::Child { stage, source } => SpawnError::from_stage(stage, source),
    }
}

#[cfg(target_os = "linux")]
fn explain_exec(prepared: &Prepared, source: io::Error) -> SpawnError {
    let can_execute = |program: &Path| can_execute(prepared.confinement.as_ref(), program);
    match program_path::refused_interpreter(&prepared.path, &can_execute) {
        Some(program) => SpawnError::OutsideConfinement { program },
        None => program_path::explain(&prepared.path, source),
    }
}

#[cfg(not(target_os = "linux"))]
fn explain_exec(prepared: &Prepared, source: io::Error) -> SpawnError {
    program_path::explain(&prepared.path, source)
}
