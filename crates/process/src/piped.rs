//! Starts one of Volery's programs with pipes to its input and output, such as a server for a demonstration.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Pid;

use super::os::ProcessHandle;

/// A started program, and the caller's ends of its pipes.
#[derive(Debug)]
pub struct Piped {
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub handle: ProcessHandle,
}

/// A program to start with pipes.
#[derive(Debug)]
pub struct PipedRequest<'a> {
    pub program: &'a Path,
    pub args: &'a [OsString],
    /// The whole environment.
    pub env: &'a [(OsString, OsString)],
    pub directory: &'a Path,
}

/// Starts the program in a process group of its own; its error stream is this process's.
#[expect(clippy::disallowed_methods, reason = "processes start in this room")]
pub fn spawn_piped(request: &PipedRequest<'_>) -> io::Result<Piped> {
    let mut command = Command::new(request.program);
    command.args(request.args).env_clear().envs(request.env.iter().cloned()).current_dir(request.directory);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("a pipe was asked for and not made"));
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a child without a number"))?;
    Ok(Piped { stdin: stdin.into(), stdout: stdout.into(), handle: ProcessHandle::open(pid)? })
}
