//! Containers that agents run in: which command makes them here, and how one goes. They are the children of somebody
//! else's daemon, so that no sweep of processes finds them.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use domain::launch::Launch;
use domain::run::RunSpec;

use crate::contract::Exit;
use crate::process::{self, CaptureRequest, capture};

/// The commands that are looked for, in this order.
const ENGINES: [&str; 2] = ["docker", "podman"];
/// What a client of docker or podman needs to know.
pub const VARIABLES: &[&str] = &[
    "CONTAINER_HOST",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
];
/// How long a command may take to say that it works: it may have to wake its daemon.
const PROBE_MAX: Duration = Duration::from_secs(10);
/// How long a container may take to go.
pub const REMOVE_MAX: Duration = Duration::from_secs(10);
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// Returns the name of a run's container.
pub fn name(spec: &RunSpec) -> String {
    format!("volery-{}", spec.id)
}

/// Returns the path of the first command that works, or of each why it does not.
pub fn find_engine(env: &[(OsString, OsString)], tag: u64) -> Result<PathBuf, Vec<String>> {
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone()).unwrap_or_default();
    let mut reasons = Vec::new();
    for engine in ENGINES {
        let Some(program) = process::find_program(OsStr::new(engine), &path) else {
            reasons.push(format!("{engine} is not on the PATH"));
            continue;
        };
        // An answer of the daemon, and not only of the command.
        let args = ["info", "--format", "{{json .}}"].map(OsString::from);
        match ask(&program, &args, env, (tag, PROBE_MAX)) {
            Ok(()) => return Ok(program),
            Err(reason) => reasons.push(format!("{engine} does not work: {reason}")),
        }
    }
    Err(reasons)
}

/// Removes the container of a run, if it has one: whatever still runs in it ends.
pub fn remove(spec: &RunSpec, env: &[(OsString, OsString)]) {
    let Some(container) = Launch::of(&spec.backend.options).container else { return };
    let args = ["rm".into(), "-f".into(), OsString::from(name(spec))];
    // One that has gone by itself is as good.
    let _ = ask(&PathBuf::from(container.engine), &args, env, (spec.tag, REMOVE_MAX));
}

fn ask(
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
