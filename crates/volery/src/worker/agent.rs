//! Starts the agent's process as its backend wants it, within the limits of the run.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use backend::contract::{Feed, ProcessDrive, SECRET_PREFIX, Setting};
use backend::process::{self, AgentRequest, CgroupUse, ResourceLimits, SpawnError, Started, Stdin};
use domain::inherit::Inherited;
use domain::mcp_server::{McpServer, Piece, VariableText};
use domain::run::{Event, RunSpec};
use domain::secret::{Redactor, Secret};
use journal::RunDir;

use crate::{env, key_file};

/// Starts the process of a run.
pub(super) fn start(
    dir: &RunDir,
    spec: &RunSpec,
    drive: &ProcessDrive,
    directory: PathBuf,
) -> Result<Started, SpawnError> {
    write_files(dir, drive)?;
    if directory != Path::new(&spec.directory) {
        private_folder(&directory)?;
    }
    let names = reaching(spec, drive);
    let mut variables = environment(&names, drive);
    if let Some((name, folder)) = super::temporary::make(dir, spec)? {
        variables.retain(|(known, _)| *known != name);
        variables.push((name, folder));
    }
    let limits = ResourceLimits {
        memory_bytes: spec.limits.memory_bytes,
        cpu_ms: spec.limits.cpu_ms,
        processes: spec.limits.processes,
        open_files: spec.limits.open_files,
        file_bytes: spec.limits.file_bytes,
    };
    let request = AgentRequest {
        argv: drive.argv.iter().map(Into::into).collect(),
        env: variables,
        directory,
        stdin: if drive.feed == Feed::Nothing { Stdin::Null } else { Stdin::Pipe },
        unread_bytes: unread_bytes(&drive.feed),
        tag: spec.tag,
        limits,
        demand: spec.containment,
        cgroup: cgroup_use(),
    };
    process::spawn_agent(&request)
}

/// Some programs repeat the prompt, in JSON, before their answer, and leave without waiting until all of it is read: what
/// the pipe does not hold then is lost.
fn unread_bytes(feed: &Feed) -> usize {
    match feed {
        Feed::Nothing => 0,
        Feed::Whole(prompt) | Feed::Open(prompt) => prompt.len().saturating_mul(2),
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

/// Returns what is recorded about a start.
pub(super) fn started(drive: &ProcessDrive, started: &Started) -> Event {
    Event::AgentStarted {
        pid: started.agent.pid().as_raw_nonzero().get().cast_unsigned(),
        argv: drive.argv.iter().map(|word| shown(word)).collect(),
        containment: started.agent.containment.clone(),
    }
}

/// Returns what is masked: the values of named variables whose names say that they are secret, and what the
/// agent's MCP servers are handed under such a name or looks like a secret.
pub(super) fn secrets(spec: &RunSpec, drive: Option<&ProcessDrive>) -> Vec<Secret> {
    let value_of = env::text;
    let names = drive.map_or_else(|| spec.env.clone(), |drive| secret_names(spec, drive));
    let named = names.iter().filter(|name| Redactor::names_secret(name)).filter_map(|name| value_of(name));
    let handed = spec.setup.mcp_servers.iter().flat_map(McpServer::secrets);
    let handed = handed.filter_map(|piece| match piece {
        Piece::Literal(text) => Some(text.trim_start_matches("Bearer ").to_owned()),
        Piece::Variable { name, default: _ } => value_of(name),
    });
    let filed = drive.into_iter().flat_map(|drive| &drive.set).filter_map(|(_, setting)| match setting {
        Setting::InFile { file, keys } => key_file::value(file, keys),
        Setting::Plain(_) | Setting::From(_) | Setting::Unset => None,
    });
    named.chain(handed).chain(filed).map(Secret::new).collect()
}

/// Returns the named variables that are not set.
pub(super) fn missing(spec: &RunSpec, drive: &ProcessDrive) -> Vec<String> {
    named(spec, drive).into_iter().filter(|name| env::get(name).is_none()).collect()
}

/// Returns the variables of servers whose values the program would change.
pub(super) fn misread(spec: &RunSpec, drive: &ProcessDrive) -> Vec<String> {
    let backend = backend::registry::by_kind(&spec.backend.kind);
    let expands = backend.is_some_and(|backend| backend.capabilities(&spec.backend.options).expands_dollars);
    let mut names: Vec<String> = drive.files.iter().flat_map(|file| file.variables.iter().cloned()).collect();
    names.retain(|name| expands && env::text(name).is_some_and(|value| value.contains('$')));
    names.sort();
    names.dedup();
    names
}

fn named(spec: &RunSpec, drive: &ProcessDrive) -> Vec<String> {
    spec.env.iter().chain(&drive.env).cloned().collect()
}

/// Returns the names of the variables that are passed on.
fn reaching(spec: &RunSpec, drive: &ProcessDrive) -> Vec<String> {
    let inherited = match spec.setup.inherits(Inherited::Environment) {
        true => env::inherited(),
        false => Vec::new(),
    };
    named(spec, drive).into_iter().chain(drive.known_env.iter().cloned()).chain(inherited).collect()
}

/// Returns the names of all variables whose values reach the agent, in whichever way.
fn secret_names(spec: &RunSpec, drive: &ProcessDrive) -> Vec<String> {
    let from = drive.set.iter().filter_map(|(_, setting)| match setting {
        Setting::From(name) => Some(name.clone()),
        Setting::Plain(_) | Setting::InFile { .. } | Setting::Unset => None,
    });
    let in_files = drive.files.iter().flat_map(|file| file.variables.iter().cloned());
    reaching(spec, drive).into_iter().chain(from).chain(in_files).collect()
}

/// Returns the environment of the process: the base list, what is named, and what its backend sets.
fn environment(names: &[String], drive: &ProcessDrive) -> Vec<(OsString, OsString)> {
    let mut all = env::for_agent(names);
    for (name, setting) in &drive.set {
        let value = match setting {
            Setting::Plain(value) => Some(OsString::from(value)),
            Setting::From(other) => env::get(other),
            Setting::Unset => None,
            Setting::InFile { file, keys } => {
                key_file::value(file, keys).map(OsString::from).or_else(|| env::get(name))
            }
        };
        all.retain(|(known, _)| known != OsStr::new(name));
        all.extend(value.map(|value| (OsString::from(name), value)));
    }
    all
}

/// An argument as the journal keeps it: a prompt of a megabyte is in the spec already.
fn shown(word: &str) -> String {
    match word.len() {
        0..=1_000 => word.to_owned(),
        bytes => format!("{}… ({bytes} bytes)", domain::size::head(word, 200)),
    }
}

fn private_folder(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(path)
}

fn write_files(dir: &RunDir, drive: &ProcessDrive) -> std::io::Result<()> {
    drive.files.iter().try_for_each(|file| match &file.link {
        Some(target) => link_file(dir, &file.name, target),
        None => write_file(dir, &file.name, &filled(&file.content, &file.variables)?),
    })
}

/// Makes a link below the run's work folder, unless an earlier worker did.
fn link_file(dir: &RunDir, name: &str, target: &Path) -> std::io::Result<()> {
    let path = dir.work_dir().join(name);
    if let Some(folder) = path.parent() {
        private_folder(folder)?;
    }
    // What a program keeps its sessions in may have to be made, as it would by itself.
    if !target.exists() {
        private_folder(target)?;
    }
    match std::os::unix::fs::symlink(target, &path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Writes a file below the run's work folder, for its user only.
pub(super) fn write_file(dir: &RunDir, name: &str, content: &[u8]) -> std::io::Result<()> {
    let path = dir.work_dir().join(name);
    if let Some(folder) = path.parent() {
        private_folder(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(content)
}

/// Returns what an agent is given with the values of its variables.
pub(super) fn filled<'a>(content: &'a [u8], variables: &[String]) -> std::io::Result<Cow<'a, [u8]>> {
    if variables.is_empty() {
        return Ok(Cow::Borrowed(content));
    }
    let wrong = |reason: String| std::io::Error::new(std::io::ErrorKind::InvalidInput, reason);
    let text = std::str::from_utf8(content).map_err(|error| wrong(error.to_string()))?;
    let filled = VariableText::from(text).resolve(|name| {
        let known = variables.iter().any(|variable| variable == name);
        // What only looks like a reference stays as it is.
        if !known {
            return Some(format!("${{{name}}}"));
        }
        let value = env::get(name)?.into_string().ok()?;
        let quoted = serde_json::Value::String(value).to_string();
        Some(quoted[1..quoted.len() - 1].to_owned())
    });
    match filled {
        Ok(text) => Ok(Cow::Owned(text.into_bytes())),
        Err(missing) => Err(wrong(format!("these variables are needed and not set: {}", missing.join(", ")))),
    }
}

/// Removes the files that hold secrets, whichever worker wrote them.
pub(super) fn remove_secrets(dir: &RunDir) {
    let Ok(entries) = std::fs::read_dir(dir.work_dir()) else { return };
    let secret = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with(SECRET_PREFIX));
    for entry in entries.filter_map(Result::ok).filter(|entry| secret(&entry.file_name())) {
        // The whole folder goes with the run's output.
        let _ = match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => std::fs::remove_dir_all(entry.path()),
            false => std::fs::remove_file(entry.path()),
        };
    }
}
