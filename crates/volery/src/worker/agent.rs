//! Starts the agent's process as its backend wants it, within the limits of the run.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use backend::contract::ProcessDrive;
use backend::process::{self, AgentRequest, CgroupUse, ResourceLimits, SpawnError, Started, Stdin};
use domain::run::{Event, RunSpec};
use domain::secret::{Redactor, Secret};
use journal::RunDir;

use crate::env;

/// Starts the process of a run.
pub(super) fn start(dir: &RunDir, spec: &RunSpec, drive: &ProcessDrive) -> Result<Started, SpawnError> {
    write_files(dir, drive)?;
    let names = named(spec, drive);
    let limits = ResourceLimits {
        memory_bytes: spec.limits.memory_bytes,
        cpu_ms: spec.limits.cpu_ms,
        processes: spec.limits.processes,
        open_files: spec.limits.open_files,
        file_bytes: spec.limits.file_bytes,
    };
    let request = AgentRequest {
        argv: drive.argv.iter().map(Into::into).collect(),
        env: env::for_agent(&names),
        directory: spec.directory.clone().into(),
        stdin: if drive.stdin.is_some() { Stdin::Pipe } else { Stdin::Null },
        tag: spec.tag,
        limits,
        demand: spec.containment,
        cgroup: CgroupUse::WhereUseful,
    };
    process::spawn_agent(&request)
}

/// Returns what is recorded about a start.
pub(super) fn started(drive: &ProcessDrive, started: &Started) -> Event {
    Event::AgentStarted {
        pid: started.agent.pid().as_raw_nonzero().get().cast_unsigned(),
        argv: drive.argv.iter().map(|word| shown(word)).collect(),
        containment: started.agent.containment.clone(),
    }
}

/// Returns the masks for this run: the values of named variables whose names say that they are secret.
pub(super) fn redactor(spec: &RunSpec, drive: Option<&ProcessDrive>) -> Redactor {
    let names = drive.map_or_else(|| spec.env.clone(), |drive| named(spec, drive));
    let values = names.iter().filter(|name| Redactor::names_secret(name)).filter_map(|name| env::get(name));
    Redactor::new(values.filter_map(|value| value.into_string().ok()).map(Secret::new).collect())
}

/// Returns the named variables that are not set.
pub(super) fn missing(spec: &RunSpec, drive: &ProcessDrive) -> Vec<String> {
    named(spec, drive).into_iter().filter(|name| env::get(name).is_none()).collect()
}

fn named(spec: &RunSpec, drive: &ProcessDrive) -> Vec<String> {
    spec.env.iter().chain(&drive.env).cloned().collect()
}

/// An argument as the journal keeps it: a prompt of a megabyte is in the spec already.
fn shown(word: &str) -> String {
    match word.len() {
        0..=1_000 => word.to_owned(),
        bytes => format!("{}… ({bytes} bytes)", domain::size::head(word, 200)),
    }
}

fn write_files(dir: &RunDir, drive: &ProcessDrive) -> std::io::Result<()> {
    if drive.files.is_empty() {
        return Ok(());
    }
    let work = dir.work_dir();
    std::fs::create_dir_all(&work)?;
    for (name, content) in &drive.files {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(work.join(name))?.write_all(content)?;
    }
    Ok(())
}
