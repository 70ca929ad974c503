//! Runs a program to its end and returns its output: for small programs of the machine that answer a question, such
//! as git. Bounded in time and output, without a shell, with an explicit environment and the run's mark.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal};

use super::os::ProcessHandle;
use super::tags::{TAG_VARIABLE, hex};
use domain::run::Exit;

/// How much of the error stream is kept.
const STDERR_BYTES_MAX: usize = 4 << 10;

/// A program to run to its end.
#[derive(Debug)]
pub struct CaptureRequest<'a> {
    pub program: &'a Path,
    pub args: &'a [OsString],
    /// The whole environment, except for the mark of the run.
    pub env: &'a [(OsString, OsString)],
    pub directory: &'a Path,
    /// The run that this is done for: a sweep of the run finds this program too.
    pub tag: u64,
    /// What the program reads.
    pub input: &'a [u8],
    pub deadline: Instant,
    pub output_bytes_max: usize,
}

/// What a program wrote, and how it ended.
#[derive(Debug)]
pub struct Captured {
    pub exit: Exit,
    pub stdout: Vec<u8>,
    /// The beginning of it, as text.
    pub stderr: String,
}

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error("it took too long")]
    TooLong,
    #[error("it wrote more than {0} bytes")]
    TooMuch(usize),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Runs the program to its end. One that takes or writes too much is killed, with its process group.
#[expect(clippy::disallowed_methods, reason = "processes start in this room")]
pub fn capture(request: &CaptureRequest<'_>) -> Result<Captured, CaptureError> {
    let mut command = Command::new(request.program);
    command.args(request.args).env_clear().envs(request.env.iter().cloned());
    command.env(TAG_VARIABLE, hex(request.tag)).current_dir(request.directory).process_group(0);
    command.stdin(if request.input.is_empty() { Stdio::null() } else { Stdio::piped() });
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let handle = ProcessHandle::open(pid.ok_or_else(|| io::Error::other("a child without a number"))?)?;
    let pipe = || io::Error::other("a pipe was asked for and not made");
    let streams = Streams {
        stdin: child.stdin.take().map(OwnedFd::from),
        stdout: child.stdout.take().ok_or_else(pipe)?.into(),
        stderr: child.stderr.take().ok_or_else(pipe)?.into(),
    };
    let exchanged = exchange(request, streams);
    if exchanged.is_err() {
        // It may have ended by itself in this moment.
        let _ = handle.signal_group(Signal::KILL);
    }
    let exit = reap(&handle, request.deadline, exchanged.is_err())?;
    let (stdout, stderr) = exchanged?;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    Ok(Captured { exit, stdout, stderr })
}

/// Collects the program, which has closed its streams or was killed.
fn reap(handle: &ProcessHandle, deadline: Instant, killed: bool) -> io::Result<Exit> {
    if !killed && !wait_ready(&mut [PollFd::new(handle, PollFlags::IN)], deadline)? {
        // It may have ended by itself in this moment.
        let _ = handle.signal_group(Signal::KILL);
    }
    handle.reap()
}

struct Streams {
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// Writes the input and reads both streams until they are closed.
fn exchange(request: &CaptureRequest<'_>, streams: Streams) -> Result<(Vec<u8>, Vec<u8>), CaptureError> {
    let Streams { mut stdin, stdout, stderr } = streams;
    for fd in [Some(&stdout), Some(&stderr), stdin.as_ref()].into_iter().flatten() {
        rustix::io::ioctl_fionbio(fd, true).map_err(io::Error::from)?;
    }
    let (mut out, mut err, mut rest) = (Vec::new(), Vec::new(), request.input);
    let (mut stdout, mut stderr) = (Some(stdout), Some(stderr));
    while stdout.is_some() || stderr.is_some() {
        let mut polled = Vec::new();
        polled.extend(stdout.iter().chain(&stderr).map(|fd| PollFd::new(fd, PollFlags::IN)));
        polled.extend(stdin.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)));
        if !wait_ready(&mut polled, request.deadline)? {
            return Err(CaptureError::TooLong);
        }
        read_some(&mut stdout, &mut out)?;
        read_some(&mut stderr, &mut err)?;
        err.truncate(STDERR_BYTES_MAX);
        write_some(&mut stdin, &mut rest);
        if out.len() > request.output_bytes_max {
            return Err(CaptureError::TooMuch(request.output_bytes_max));
        }
    }
    Ok((out, err))
}

/// Waits until a descriptor is ready. Returns whether that was in time.
fn wait_ready(polled: &mut [PollFd<'_>], deadline: Instant) -> io::Result<bool> {
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining == Duration::ZERO {
            return Ok(false);
        }
        let timeout = rustix::time::Timespec::try_from(remaining).map_err(io::Error::other)?;
        match poll(polled, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

fn read_some(stream: &mut Option<OwnedFd>, into: &mut Vec<u8>) -> io::Result<()> {
    let Some(fd) = stream.as_ref() else { return Ok(()) };
    let mut chunk = [0; 32 << 10];
    match rustix::io::read(fd.as_fd(), &mut chunk) {
        Ok(0) => *stream = None,
        Ok(read) => into.extend_from_slice(&chunk[..read]),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn write_some(stdin: &mut Option<OwnedFd>, rest: &mut &[u8]) {
    let Some(fd) = stdin.as_ref() else { return };
    match rustix::io::write(fd.as_fd(), rest) {
        Ok(written) => *rest = &rest[written..],
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
        // A program that does not read the rest does not want it.
        Err(_) => *rest = &[],
    }
    if rest.is_empty() {
        *stdin = None;
    }
}
