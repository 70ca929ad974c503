//! The steps of a script: their syntax and their execution.

use std::ffi::c_int;
use std::fs::{self, File};
use std::io::{self, BufRead, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::children::{self, ChildKind};
use crate::output::{self, StandardStream};

/// How long a step waits for a file.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// One step.
#[derive(Debug)]
pub(crate) enum ScriptStep {
    /// `say:TEXT`: a line to standard output; `json:TEXT` is the same.
    Say(String),
    /// `err:TEXT`: a line to standard error.
    Err(String),
    /// `part:TEXT`: text to standard output, without a line break.
    Part(String),
    /// `bytes:HEX`: bytes to standard output.
    Bytes(Vec<u8>),
    /// `long-line:BYTES`: one line of that length.
    LongLine(usize),
    /// `flood:BYTES:stdout|stderr|both`: many lines.
    Flood(usize, Vec<StandardStream>),
    /// `sleep:MS`.
    Sleep(Duration),
    /// `hang`: blocks forever, reading nothing.
    Hang,
    /// `spin:MS`: uses that much CPU time.
    Spin(Duration),
    /// `exit:N`.
    Exit(u8),
    /// `signal:N`: raises it. `stop-self` raises SIGSTOP.
    Signal(c_int),
    /// `ignore-term`.
    IgnoreTerm,
    /// `close-stdout`, `close-stderr`.
    Close(StandardStream),
    /// `read-stdin`: echoes it to its end.
    ReadStdin,
    /// `memory:BYTES`: allocates and touches them, and holds them until the end.
    Memory(usize),
    /// `open-files:N`: opens as many as allowed, holds them until the end, and prints `opened K`.
    OpenFiles(usize),
    /// `write-file:PATH:TEXT`, `touch:PATH`.
    WriteFile(PathBuf, String),
    /// `big-file:PATH:BYTES`.
    BigFile(PathBuf, usize),
    /// `wait-file:PATH`: waits until it exists, for at most a minute.
    WaitFile(PathBuf),
    /// `pidfile:PATH`: writes its process id atomically.
    PidFile(PathBuf),
    /// `fds`: prints the numbers of its open descriptors.
    Descriptors,
    /// `env`: prints its environment, one variable per line, sorted.
    Environment,
    /// `limits`: prints its resource limits as the kernel shows them.
    Limits,
    /// `cwd`: prints its working directory.
    Directory,
    /// A step that starts a child: see [`ChildKind`].
    Child(ChildKind, Duration),
    /// `lock-limit:N`: lowers its limit on file locks, like a process that tries to hide the tag of its run.
    LockLimit(u64),
    /// `ask:SOCKET:TEXT`: sends a line to a Unix socket and prints the line that comes back. `{tag}` in the path is
    /// replaced by its own limit on file locks in hexadecimal.
    Ask(String, String),
    /// `short-lived:N`: starts this many grandchildren that exit at once.
    ShortLived(u32),
}

/// How the script continues after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepOutcome {
    Continue,
    Exit(u8),
}

/// Resources that steps hold until the end.
#[derive(Debug, Default)]
pub(crate) struct HeldResources {
    memory: Vec<Vec<u8>>,
    files: Vec<File>,
}

impl ScriptStep {
    pub(crate) fn parse(argument: &str) -> Result<Self, String> {
        let (name, rest) = argument.split_once(':').unwrap_or((argument, ""));
        if let Some(kind) = ChildKind::from_name(name) {
            return Ok(Self::Child(kind, parse_milliseconds(rest)?));
        }
        Ok(match name {
            "say" | "json" => Self::Say(rest.to_owned()),
            "err" => Self::Err(rest.to_owned()),
            "part" => Self::Part(rest.to_owned()),
            "bytes" => Self::Bytes(parse_hex(rest)?),
            "long-line" => Self::LongLine(parse_number(rest)?),
            "flood" => {
                let (bytes, streams) = rest.split_once(':').unwrap_or((rest, "stdout"));
                Self::Flood(parse_number(bytes)?, parse_streams(streams)?)
            }
            "sleep" => Self::Sleep(parse_milliseconds(rest)?),
            "hang" => Self::Hang,
            "spin" => Self::Spin(parse_milliseconds(rest)?),
            "exit" => Self::Exit(parse_number(rest)?),
            "signal" => Self::Signal(parse_number(rest)?),
            "stop-self" => Self::Signal(libc::SIGSTOP),
            "ignore-term" => Self::IgnoreTerm,
            "close-stdout" => Self::Close(StandardStream::Stdout),
            "close-stderr" => Self::Close(StandardStream::Stderr),
            "read-stdin" => Self::ReadStdin,
            "memory" => Self::Memory(parse_number(rest)?),
            "open-files" => Self::OpenFiles(parse_number(rest)?),
            "write-file" => {
                let (path, text) = rest.split_once(':').ok_or("a path and a text are needed")?;
                Self::WriteFile(path.into(), text.to_owned())
            }
            "touch" => Self::WriteFile(rest.into(), String::new()),
            "big-file" => {
                let (path, bytes) = rest.rsplit_once(':').ok_or("a path and a size are needed")?;
                Self::BigFile(path.into(), parse_number(bytes)?)
            }
            "wait-file" => Self::WaitFile(rest.into()),
            "pidfile" => Self::PidFile(rest.into()),
            "fds" => Self::Descriptors,
            "env" => Self::Environment,
            "limits" => Self::Limits,
            "cwd" => Self::Directory,
            "lock-limit" => Self::LockLimit(parse_number(rest)?),
            "ask" => {
                let (socket, text) = rest.split_once(':').ok_or("a socket and a text are needed")?;
                Self::Ask(socket.to_owned(), text.to_owned())
            }
            "short-lived" => Self::ShortLived(parse_number(rest)?),
            _ => return Err("no such step".to_owned()),
        })
    }
}

fn parse_number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number in range"))
}

fn parse_milliseconds(text: &str) -> Result<Duration, String> {
    parse_number(text).map(Duration::from_millis)
}

fn parse_hex(text: &str) -> Result<Vec<u8>, String> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("{text:?} is not hexadecimal"))
}

fn parse_streams(text: &str) -> Result<Vec<StandardStream>, String> {
    match text {
        "stdout" => Ok(vec![StandardStream::Stdout]),
        "stderr" => Ok(vec![StandardStream::Stderr]),
        "both" => Ok(vec![StandardStream::Stdout, StandardStream::Stderr]),
        _ => Err(format!("{text:?} is none of stdout, stderr, both")),
    }
}

pub(crate) fn execute(step: &ScriptStep, held: &mut HeldResources) -> io::Result<StepOutcome> {
    match step {
        ScriptStep::Say(text) => output::write_line(StandardStream::Stdout, text),
        ScriptStep::Err(text) => output::write_line(StandardStream::Stderr, text),
        ScriptStep::Part(text) => output::write_bytes(StandardStream::Stdout, text.as_bytes()),
        ScriptStep::Bytes(bytes) => output::write_bytes(StandardStream::Stdout, bytes),
        ScriptStep::LongLine(length) => output::write_line(StandardStream::Stdout, &"x".repeat(*length)),
        ScriptStep::Flood(bytes, streams) => flood(*bytes, streams),
        ScriptStep::Sleep(duration) => std::thread::sleep(*duration),
        ScriptStep::Hang => loop {
            std::thread::park();
        },
        ScriptStep::Spin(duration) => spin(*duration),
        ScriptStep::Exit(code) => return Ok(StepOutcome::Exit(*code)),
        ScriptStep::Signal(signal) => raise(*signal),
        ScriptStep::IgnoreTerm => ignore_term(),
        ScriptStep::Close(stream) => close(*stream),
        ScriptStep::ReadStdin => echo()?,
        ScriptStep::Memory(bytes) => held.memory.push(vec![1; *bytes]),
        ScriptStep::OpenFiles(count) => {
            let files = std::iter::repeat_with(|| File::open("/dev/null")).take(*count).map_while(Result::ok);
            let before = held.files.len();
            held.files.extend(files);
            output::write_line(StandardStream::Stdout, &format!("opened {}", held.files.len() - before));
        }
        ScriptStep::WriteFile(path, text) => fs::write(path, text)?,
        ScriptStep::BigFile(path, bytes) => write_big_file(path, *bytes)?,
        ScriptStep::WaitFile(path) => wait_for_file(path)?,
        ScriptStep::PidFile(path) => write_pid_file(path)?,
        ScriptStep::Descriptors => output::write_line(StandardStream::Stdout, &descriptors()?),
        ScriptStep::Environment => output::write_bytes(StandardStream::Stdout, environment().as_bytes()),
        ScriptStep::Limits => output::write_bytes(StandardStream::Stdout, &fs::read("/proc/self/limits")?),
        ScriptStep::Directory => {
            output::write_line(StandardStream::Stdout, &std::env::current_dir()?.display().to_string())
        }
        ScriptStep::Child(kind, duration) => children::spawn_child(*kind, *duration)?,
        ScriptStep::LockLimit(limit) => lower_lock_limit(*limit)?,
        ScriptStep::Ask(socket, text) => {
            output::write_line(StandardStream::Stdout, ask(socket, text)?.trim_end())
        }
        ScriptStep::ShortLived(count) => (0..*count).try_for_each(|_| children::spawn_short_lived())?,
    }
    Ok(StepOutcome::Continue)
}

#[cfg(target_os = "linux")]
fn lock_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Locks).maximum
}

#[cfg(target_os = "linux")]
fn lower_lock_limit(limit: u64) -> io::Result<()> {
    let limit = rustix::process::Rlimit { current: Some(limit), maximum: Some(limit) };
    Ok(rustix::process::setrlimit(rustix::process::Resource::Locks, limit)?)
}

#[cfg(not(target_os = "linux"))]
fn lock_limit() -> Option<u64> {
    None
}

#[cfg(not(target_os = "linux"))]
fn lower_lock_limit(_limit: u64) -> io::Result<()> {
    Ok(())
}

fn ask(socket: &str, text: &str) -> io::Result<String> {
    let tag = lock_limit().map(|tag| format!("{tag:x}")).unwrap_or_default();
    let mut stream = UnixStream::connect(socket.replace("{tag}", &tag))?;
    stream.set_read_timeout(Some(WAIT_MAX))?;
    stream.write_all(format!("{text}\n").as_bytes())?;
    let mut answer = String::new();
    io::BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer)
}

fn flood(bytes: usize, streams: &[StandardStream]) {
    let chunk = format!("{}\n", "x".repeat(63)).repeat(256);
    let mut remaining = bytes;
    while remaining > 0 {
        let part = chunk.as_bytes().get(..remaining.min(chunk.len())).unwrap_or_default();
        for stream in streams {
            output::write_bytes(*stream, part);
        }
        remaining -= part.len();
    }
}

fn spin(duration: Duration) {
    let used = || {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        Duration::try_from(now).unwrap_or_default()
    };
    let end = used() + duration;
    while used() < end {
        std::hint::spin_loop();
    }
}

fn raise(signal: c_int) {
    // SAFETY: raising a signal has no preconditions.
    unsafe { libc::raise(signal) };
}

fn ignore_term() {
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
}

fn close(stream: StandardStream) {
    let fd = match stream {
        StandardStream::Stdout => 1,
        StandardStream::Stderr => 2,
    };
    // SAFETY: nothing in this program owns the descriptor; later writes to it fail and are dropped.
    unsafe { libc::close(fd) };
}

fn echo() -> io::Result<()> {
    let mut buffer = vec![0; 65536];
    let mut stdin = io::stdin().lock();
    loop {
        match stdin.read(&mut buffer)? {
            0 => return Ok(()),
            count => output::write_bytes(StandardStream::Stdout, buffer.get(..count).unwrap_or_default()),
        }
    }
}

fn write_big_file(path: &Path, bytes: usize) -> io::Result<()> {
    let mut file = File::create(path)?;
    let chunk = vec![b'x'; 65536];
    let mut remaining = bytes;
    while remaining > 0 {
        let part = chunk.get(..remaining.min(chunk.len())).unwrap_or_default();
        file.write_all(part)?;
        remaining -= part.len();
    }
    Ok(())
}

fn wait_for_file(path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + WAIT_MAX;
    while !path.exists() {
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the file did not appear"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn write_pid_file(path: &Path) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".draft");
    fs::write(&draft, std::process::id().to_string())?;
    fs::rename(draft, path)
}

fn descriptors() -> io::Result<String> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<c_int>().ok()));
    }
    // The listing itself had a descriptor, which is closed by now.
    numbers.retain(|descriptor| fs::exists(format!("/proc/self/fd/{descriptor}")).unwrap_or(true));
    numbers.sort_unstable();
    Ok(numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
}

fn environment() -> String {
    let mut lines: Vec<String> = std::env::vars_os()
        .map(|(key, value)| format!("{}={}\n", key.to_string_lossy(), value.to_string_lossy()))
        .collect();
    lines.sort();
    lines.concat()
}
