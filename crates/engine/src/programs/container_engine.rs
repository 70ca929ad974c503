//! Runs the command that manages containers on this machine: finds it, and removes a run's container. The container
//! daemon is the parent of its containers, so a sweep of the run's processes does not find them.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use backends::container::container_name;
use domain::launch::LaunchOverrides;
use domain::run::{Exit, RunSpec};
use process::{CaptureRequest, capture};

/// The commands to look for, in this order.
const ENGINES: [&str; 2] = ["docker", "podman"];
/// How long a command may take to answer; it may have to start its daemon.
const PROBE_MAX: Duration = Duration::from_secs(10);
/// How long the removal of a container may take.
pub(crate) const REMOVE_MAX: Duration = Duration::from_secs(10);
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// Returns the path of the first command that works, or for each command why it does not work.
pub(crate) fn find_engine(env: &[(OsString, OsString)], tag: u64) -> Result<PathBuf, Vec<String>> {
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone()).unwrap_or_default();
    let mut reasons = Vec::new();
    for engine in ENGINES {
        let Some(program) = system_files::find_program(OsStr::new(engine), &path) else {
            reasons.push(format!("{engine} is not on the PATH"));
            continue;
        };
        // `info` needs an answer of the daemon; that the command exists is not enough.
        let args = ["info", "--format", "{{json .}}"].map(OsString::from);
        match run_engine(&program, &args, env, (tag, PROBE_MAX)) {
            Ok(()) => return Ok(program),
            Err(reason) => reasons.push(format!("{engine} does not work: {reason}")),
        }
    }
    Err(reasons)
}

/// Removes the container of a run, if it has one. Every process in it ends.
pub(crate) fn remove(spec: &RunSpec, env: &[(OsString, OsString)]) {
    let Some(container) = LaunchOverrides::from_options(&spec.backend.options).container else { return };
    let args = ["rm".into(), "-f".into(), OsString::from(container_name(spec))];
    // A container that is already gone is not an error.
    let _ = run_engine(&PathBuf::from(container.engine), &args, env, (spec.tag, REMOVE_MAX));
}

fn run_engine(
    program: &std::path::Path,
    args: &[OsString],
    env: &[(OsString, OsString)],
    (tag, max): (u64, Duration),
) -> Result<(), String> {
    let request = CaptureRequest {
        program,
        args,
        env,
        directory: std::path::Path::new("/"),
        tag,
        input: &[],
        deadline: Instant::now() + max,
        output_bytes_max: OUTPUT_BYTES_MAX,
    };
    let captured = capture(&request).map_err(|error| error.to_string())?;
    match captured.exit {
        Exit::Code(0) => Ok(()),
        Exit::Code(_) | Exit::Signal(_) => {
            let line = captured.stderr.lines().map(str::trim).find(|line| !line.is_empty());
            Err(line.unwrap_or("it ends with an error").to_owned())
        }
    }
}
