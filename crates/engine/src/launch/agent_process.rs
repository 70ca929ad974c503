//! Starts the agent's process by the plan of its backend, within the limits of the run.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use backends::contract::{EnvValue, ProcessLaunch, SECRET_PREFIX, StdinFeed};
use domain::inherit::Inherited;
use domain::mcp_server::{McpServer, TextPiece, VariableText};
use domain::policy::Effect;
use domain::run::{Event, RunSpec};
use domain::secret::{Redactor, Secret};
use journal::RunDir;
use process::{self, AgentRequest, CgroupUse, ResourceLimits, SpawnError, StartedAgent, Stdin};

use crate::env;
use crate::key_file;

/// Starts the process of a run.
pub(crate) fn start(
    dir: &RunDir,
    spec: &RunSpec,
    plan: &ProcessLaunch,
    directory: PathBuf,
) -> Result<StartedAgent, SpawnError> {
    start_in(dir, spec, plan, (directory, cgroup_use()))
}

/// Starts one of several processes of a run, without a control group: ending it must not end the others.
pub(crate) fn start_without_group(
    dir: &RunDir,
    spec: &RunSpec,
    plan: &ProcessLaunch,
    directory: PathBuf,
) -> Result<StartedAgent, SpawnError> {
    start_in(dir, spec, plan, (directory, CgroupUse::Never))
}

/// Returns the limits on the resources of each process of a run.
pub(crate) fn resource_limits(spec: &RunSpec) -> ResourceLimits {
    ResourceLimits {
        memory_bytes: spec.limits.memory_bytes,
        cpu_ms: spec.limits.cpu_ms,
        processes: spec.limits.processes,
        open_files: spec.limits.open_files,
        file_bytes: spec.limits.file_bytes,
    }
}

fn start_in(
    dir: &RunDir,
    spec: &RunSpec,
    plan: &ProcessLaunch,
    (directory, cgroup): (PathBuf, CgroupUse),
) -> Result<StartedAgent, SpawnError> {
    write_files(dir, plan)?;
    if directory != Path::new(&spec.directory) {
        create_private_dir(&directory)?;
    }
    let names = passed_variables(spec, plan);
    let mut variables = environment(&names, spec, plan);
    if let Some((name, folder)) = super::temp_dir::create(dir, spec)? {
        variables.retain(|(defined, _)| *defined != name);
        variables.push((name, folder));
    }
    super::git_environment::protect(spec, &mut variables);
    let request = AgentRequest {
        argv: plan.argv.iter().map(Into::into).collect(),
        env: variables,
        directory,
        stdin: if plan.feed == StdinFeed::Nothing { Stdin::Null } else { Stdin::Pipe },
        unread_bytes: unread_bytes(&plan.feed),
        tag: spec.tag,
        limits: resource_limits(spec),
        demand: spec.containment,
        cgroup,
        confinement: None,
    };
    process::spawn_agent(&request)
}

/// Some programs repeat the prompt in JSON before their answer, and exit without waiting until it is read: bytes that
/// the pipe does not hold are lost.
fn unread_bytes(feed: &StdinFeed) -> usize {
    match feed {
        StdinFeed::Nothing => 0,
        StdinFeed::Whole(prompt) | StdinFeed::Open(prompt) => prompt.len().saturating_mul(2),
    }
}

#[cfg(not(debug_assertions))]
fn cgroup_use() -> CgroupUse {
    CgroupUse::WhereUseful
}

#[cfg(debug_assertions)]
fn cgroup_use() -> CgroupUse {
    match env::get(env::VOLERY_TEST_WITHOUT_CGROUP) {
        Some(_) => CgroupUse::Never,
        None => CgroupUse::WhereUseful,
    }
}

pub(crate) fn started_event(plan: &ProcessLaunch, started: &StartedAgent) -> Event {
    Event::AgentStarted {
        pid: started.agent.pid().as_raw_nonzero().get().cast_unsigned(),
        argv: plan.argv.iter().map(|argument| shorten_argument(argument)).collect(),
        containment: started.agent.containment.clone(),
    }
}

/// Returns the secrets to mask: the values of requested variables whose names look secret, and the values for the
/// agent's MCP servers that have such a name or look like a secret.
pub(crate) fn secrets(spec: &RunSpec, plan: Option<&ProcessLaunch>) -> Vec<Secret> {
    let value_of = env::text;
    let names = plan.map_or_else(|| spec.env.clone(), |plan| secret_variable_names(spec, plan));
    let variable_secrets =
        names.iter().filter(|name| Redactor::names_secret(name)).filter_map(|name| value_of(name));
    let server_secrets = spec.setup.mcp_servers.iter().flat_map(McpServer::secrets);
    let server_secrets = server_secrets.filter_map(|piece| match piece {
        TextPiece::Literal(text) => Some(text.trim_start_matches("Bearer ").to_owned()),
        TextPiece::Variable { name, default: _ } => value_of(name),
    });
    let file_secrets =
        plan.into_iter().flat_map(|plan| &plan.env_overrides).filter_map(|(_, setting)| match setting {
            EnvValue::FromFile { file, keys } => key_file::value(file, keys),
            EnvValue::Plain(_) | EnvValue::FromVariable(_) | EnvValue::Unset => None,
        });
    variable_secrets.chain(server_secrets).chain(file_secrets).map(Secret::new).collect()
}

/// Returns the requested variables that are not set.
pub(crate) fn unset_variables(spec: &RunSpec, plan: &ProcessLaunch) -> Vec<String> {
    requested_variables(spec, plan).into_iter().filter(|name| env::get(name).is_none()).collect()
}

/// Returns the variables of MCP servers whose values the program would change, because it expands `$`.
pub(crate) fn variables_with_dollar(spec: &RunSpec, plan: &ProcessLaunch) -> Vec<String> {
    let backend = backends::registry::by_kind(&spec.backend.kind);
    let expands =
        backend.is_some_and(|backend| backend.capabilities(&spec.backend.options).expands_env_in_mcp);
    let mut names: Vec<String> = plan.files.iter().flat_map(|file| file.variables.iter().cloned()).collect();
    names.retain(|name| expands && env::text(name).is_some_and(|value| value.contains('$')));
    names.sort();
    names.dedup();
    names
}

fn requested_variables(spec: &RunSpec, plan: &ProcessLaunch) -> Vec<String> {
    spec.env.iter().chain(&plan.env).cloned().collect()
}

/// Returns the names of the variables that are passed on.
fn passed_variables(spec: &RunSpec, plan: &ProcessLaunch) -> Vec<String> {
    let inherited = match spec.setup.inherits(Inherited::Environment) {
        true => env::inherited(),
        false => Vec::new(),
    };
    let permission = &spec.setup.permission;
    let allowed =
        env::inherited().into_iter().filter(|name| permission.variable_rule(name) == Some(Effect::Allow));
    requested_variables(spec, plan)
        .into_iter()
        .chain(plan.optional_env.iter().cloned())
        .chain(inherited)
        .chain(allowed)
        .filter(|name| !is_withheld(spec, name))
        .collect()
}

/// Returns whether a rule withholds a variable. Nobody can be asked about one, so `ask` withholds it too.
fn is_withheld(spec: &RunSpec, name: &str) -> bool {
    spec.setup.permission.variable_rule(name).is_some_and(|effect| effect > Effect::Allow)
}

/// Returns the names of all variables whose values reach the agent in any way.
fn secret_variable_names(spec: &RunSpec, plan: &ProcessLaunch) -> Vec<String> {
    let from = plan.env_overrides.iter().filter_map(|(_, setting)| match setting {
        EnvValue::FromVariable(name) => Some(name.clone()),
        EnvValue::Plain(_) | EnvValue::FromFile { .. } | EnvValue::Unset => None,
    });
    let in_files = plan.files.iter().flat_map(|file| file.variables.iter().cloned());
    passed_variables(spec, plan).into_iter().chain(from).chain(in_files).collect()
}

/// Returns the environment of the process: the base list, these names, and the values that its backend sets.
fn environment(names: &[String], spec: &RunSpec, plan: &ProcessLaunch) -> Vec<(OsString, OsString)> {
    let mut all = env::for_agent(names);
    all.retain(|(name, _)| name.to_str().is_none_or(|name| !is_withheld(spec, name)));
    for (name, setting) in &plan.env_overrides {
        let value = match setting {
            EnvValue::Plain(value) => Some(OsString::from(value)),
            EnvValue::FromVariable(other) => env::get(other).filter(|_| !is_withheld(spec, other)),
            EnvValue::Unset => None,
            EnvValue::FromFile { file, keys } => {
                key_file::value(file, keys).map(OsString::from).or_else(|| env::get(name))
            }
        };
        all.retain(|(defined, _)| defined != OsStr::new(name));
        all.extend(value.map(|value| (OsString::from(name), value)));
    }
    all
}

/// Shortens an argument for the journal: the spec already has a prompt of a megabyte.
fn shorten_argument(argument: &str) -> String {
    match argument.len() {
        0..=1_000 => argument.to_owned(),
        bytes => format!("{}… ({bytes} bytes)", domain::size::head(argument, 200)),
    }
}

fn create_private_dir(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(path)
}

fn write_files(dir: &RunDir, plan: &ProcessLaunch) -> std::io::Result<()> {
    plan.files.iter().try_for_each(|file| match &file.link {
        Some(target) => link_file(dir, &file.name, target),
        None => write_file(dir, &file.name, &fill_variables(&file.content, &file.variables)?),
    })
}

/// Creates a symbolic link below the run's work folder, unless an earlier worker did.
fn link_file(dir: &RunDir, name: &str, target: &Path) -> std::io::Result<()> {
    let path = dir.work_dir().join(name);
    if let Some(folder) = path.parent() {
        create_private_dir(folder)?;
    }
    // The folder of a program's sessions may not exist yet; the program would create it itself.
    if !target.exists() {
        create_private_dir(target)?;
    }
    match std::os::unix::fs::symlink(target, &path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Writes a file below the run's work folder, for its user only.
pub(crate) fn write_file(dir: &RunDir, name: &str, content: &[u8]) -> std::io::Result<()> {
    let path = dir.work_dir().join(name);
    if let Some(folder) = path.parent() {
        create_private_dir(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(content)
}

/// Fills references to these variables in a text for the agent with their values.
pub(crate) fn fill_variables<'a>(content: &'a [u8], variables: &[String]) -> std::io::Result<Cow<'a, [u8]>> {
    if variables.is_empty() {
        return Ok(Cow::Borrowed(content));
    }
    let invalid_input = |reason: String| std::io::Error::new(std::io::ErrorKind::InvalidInput, reason);
    let text = std::str::from_utf8(content).map_err(|error| invalid_input(error.to_string()))?;
    let filled = VariableText::from(text).resolve(|name| {
        let defined = variables.iter().any(|variable| variable == name);
        // Text that only looks like a reference stays unchanged.
        if !defined {
            return Some(format!("${{{name}}}"));
        }
        let value = env::get(name)?.into_string().ok()?;
        let quoted = serde_json::Value::String(value).to_string();
        Some(quoted[1..quoted.len() - 1].to_owned())
    });
    match filled {
        Ok(text) => Ok(Cow::Owned(text.into_bytes())),
        Err(missing) => {
            Err(invalid_input(format!("these variables are needed and not set: {}", missing.join(", "))))
        }
    }
}

/// Removes the files with secrets, of this and of earlier workers.
pub(crate) fn remove_secrets(dir: &RunDir) {
    let Ok(entries) = std::fs::read_dir(dir.work_dir()) else { return };
    let secret = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with(SECRET_PREFIX));
    for entry in entries.filter_map(Result::ok).filter(|entry| secret(&entry.file_name())) {
        // A file that stays is removed with the run's output.
        let _ = match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => std::fs::remove_dir_all(entry.path()),
            false => std::fs::remove_file(entry.path()),
        };
    }
}
