//! The steps of a script: what they are called, and what they do.

use std::ffi::c_int;
use std::fs::{self, File};
use std::io::{self, BufRead, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::children::{self, Kind};
use crate::output::{self, Stream};

/// How long a step waits for a file.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// One step.
#[derive(Debug)]
pub(crate) enum Step {
    /// `say:TEXT`: a line to standard output; `json:TEXT` is the same.
    Say(String),
    /// `err:TEXT`: a line to standard error.
    Err(String),
    /// `part:TEXT`: text to standard output, without the end of a line.
    Part(String),
    /// `bytes:HEX`: bytes to standard output.
    Bytes(Vec<u8>),
    /// `long-line:BYTES`: one line of that length.
    LongLine(usize),
    /// `flood:BYTES:stdout|stderr|both`: many lines.
    Flood(usize, Vec<Stream>),
    /// `sleep:MS`.
    Sleep(Duration),
    /// `hang`: for ever, reading nothing.
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
    Close(Stream),
    /// `read-stdin`: echoes it to its end.
    ReadStdin,
    /// `memory:BYTES`: allocates and touches them, and keeps them.
    Memory(usize),
    /// `open-files:N`: opens as many as it may, keeps them, and says `opened K`.
    OpenFiles(usize),
    /// `write-file:PATH:TEXT`, `touch:PATH`.
    WriteFile(PathBuf, String),
    /// `big-file:PATH:BYTES`.
    BigFile(PathBuf, usize),
    /// `wait-file:PATH`: until it exists, for a minute at most.
    WaitFile(PathBuf),
    /// `pidfile:PATH`: writes its own number, whole or not at all.
    PidFile(PathBuf),
    /// `fds`: says the numbers of its open descriptors.
    Descriptors,
    /// `env`: says its environment, a line each, sorted.
    Environment,
    /// `limits`: says its resource limits as the kernel shows them.
    Limits,
    /// `cwd`: says its directory.
    Directory,
    /// A step that forms a child: see [`Kind`].
    Child(Kind, Duration),
    /// `lock-limit:N`: lowers its limit on file locks, as a process does that wants to hide the mark of its run.
    LockLimit(u64),
    /// `ask:SOCKET:TEXT`: sends a line to a Unix socket and says the line that comes back. `{tag}` in the path is its own
    /// limit on file locks in hexadecimal.
    Ask(String, String),
    /// `short-lived:N`: as many grandchildren that exit at once.
    ShortLived(u32),
}

/// What comes after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    On,
    Exit(u8),
}

/// What steps hold on to until the end.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    memory: Vec<Vec<u8>>,
    files: Vec<File>,
}

impl Step {
    pub(crate) fn parse(argument: &str) -> Result<Self, String> {
        let (name, rest) = argument.split_once(':').unwrap_or((argument, ""));
        if let Some(kind) = Kind::from_name(name) {
            return Ok(Self::Child(kind, milliseconds(rest)?));
        }
        Ok(match name {
            "say" | "json" => Self::Say(rest.to_owned()),
            "err" => Self::Err(rest.to_owned()),
            "part" => Self::Part(rest.to_owned()),
            "bytes" => Self::Bytes(hex(rest)?),
            "long-line" => Self::LongLine(number(rest)?),
            "flood" => {
                let (bytes, streams) = rest.split_once(':').unwrap_or((rest, "stdout"));
                Self::Flood(number(bytes)?, streams_of(streams)?)
            }
            "sleep" => Self::Sleep(milliseconds(rest)?),
            "hang" => Self::Hang,
            "spin" => Self::Spin(milliseconds(rest)?),
            "exit" => Self::Exit(number(rest)?),
            "signal" => Self::Signal(number(rest)?),
            "stop-self" => Self::Signal(libc::SIGSTOP),
            "ignore-term" => Self::IgnoreTerm,
            "close-stdout" => Self::Close(Stream::Stdout),
            "close-stderr" => Self::Close(Stream::Stderr),
            "read-stdin" => Self::ReadStdin,
            "memory" => Self::Memory(number(rest)?),
            "open-files" => Self::OpenFiles(number(rest)?),
            "write-file" => {
                let (path, text) = rest.split_once(':').ok_or("a path and a text are needed")?;
                Self::WriteFile(path.into(), text.to_owned())
            }
            "touch" => Self::WriteFile(rest.into(), String::new()),
            "big-file" => {
                let (path, bytes) = rest.rsplit_once(':').ok_or("a path and a size are needed")?;
                Self::BigFile(path.into(), number(bytes)?)
            }
            "wait-file" => Self::WaitFile(rest.into()),
            "pidfile" => Self::PidFile(rest.into()),
            "fds" => Self::Descriptors,
            "env" => Self::Environment,
            "limits" => Self::Limits,
            "cwd" => Self::Directory,
            "lock-limit" => Self::LockLimit(number(rest)?),
            "ask" => {
                let (socket, text) = rest.split_once(':').ok_or("a socket and a text are needed")?;
                Self::Ask(socket.to_owned(), text.to_owned())
            }
            "short-lived" => Self::ShortLived(number(rest)?),
            _ => return Err("no such step".to_owned()),
        })
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number in range"))
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    number(text).map(Duration::from_millis)
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("{text:?} is not hexadecimal"))
}

fn streams_of(text: &str) -> Result<Vec<Stream>, String> {
    match text {
        "stdout" => Ok(vec![Stream::Stdout]),
        "stderr" => Ok(vec![Stream::Stderr]),
        "both" => Ok(vec![Stream::Stdout, Stream::Stderr]),
        _ => Err(format!("{text:?} is none of stdout, stderr, both")),
    }
}

/// Carries out one step.
pub(crate) fn carry_out(step: &Step, kept: &mut Kept) -> io::Result<Carried> {
    match step {
        Step::Say(text) => output::line(Stream::Stdout, text),
        Step::Err(text) => output::line(Stream::Stderr, text),
        Step::Part(text) => output::bytes(Stream::Stdout, text.as_bytes()),
        Step::Bytes(bytes) => output::bytes(Stream::Stdout, bytes),
        Step::LongLine(length) => output::line(Stream::Stdout, &"x".repeat(*length)),
        Step::Flood(bytes, streams) => flood(*bytes, streams),
        Step::Sleep(duration) => std::thread::sleep(*duration),
        Step::Hang => loop {
            std::thread::park();
        },
        Step::Spin(duration) => spin(*duration),
        Step::Exit(code) => return Ok(Carried::Exit(*code)),
        Step::Signal(signal) => raise(*signal),
        Step::IgnoreTerm => ignore_term(),
        Step::Close(stream) => close(*stream),
        Step::ReadStdin => echo()?,
        Step::Memory(bytes) => kept.memory.push(vec![1; *bytes]),
        Step::OpenFiles(count) => {
            let files = std::iter::repeat_with(|| File::open("/dev/null")).take(*count).map_while(Result::ok);
            let before = kept.files.len();
            kept.files.extend(files);
            output::line(Stream::Stdout, &format!("opened {}", kept.files.len() - before));
        }
        Step::WriteFile(path, text) => fs::write(path, text)?,
        Step::BigFile(path, bytes) => big_file(path, *bytes)?,
        Step::WaitFile(path) => wait_file(path)?,
        Step::PidFile(path) => pid_file(path)?,
        Step::Descriptors => output::line(Stream::Stdout, &descriptors()?),
        Step::Environment => output::bytes(Stream::Stdout, environment().as_bytes()),
        Step::Limits => output::bytes(Stream::Stdout, &fs::read("/proc/self/limits")?),
        Step::Directory => output::line(Stream::Stdout, &std::env::current_dir()?.display().to_string()),
        Step::Child(kind, duration) => children::form(*kind, *duration)?,
        Step::LockLimit(limit) => lower_lock_limit(*limit)?,
        Step::Ask(socket, text) => output::line(Stream::Stdout, ask(socket, text)?.trim_end()),
        Step::ShortLived(count) => (0..*count).try_for_each(|_| children::form_short_lived())?,
    }
    Ok(Carried::On)
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

fn flood(bytes: usize, streams: &[Stream]) {
    let chunk = format!("{}\n", "x".repeat(63)).repeat(256);
    let mut left = bytes;
    while left > 0 {
        let part = chunk.as_bytes().get(..left.min(chunk.len())).unwrap_or_default();
        for stream in streams {
            output::bytes(*stream, part);
        }
        left -= part.len();
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

fn close(stream: Stream) {
    let fd = match stream {
        Stream::Stdout => 1,
        Stream::Stderr => 2,
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
            count => output::bytes(Stream::Stdout, buffer.get(..count).unwrap_or_default()),
        }
    }
}

fn big_file(path: &Path, bytes: usize) -> io::Result<()> {
    let mut file = File::create(path)?;
    let chunk = vec![b'x'; 65536];
    let mut left = bytes;
    while left > 0 {
        let part = chunk.get(..left.min(chunk.len())).unwrap_or_default();
        file.write_all(part)?;
        left -= part.len();
    }
    Ok(())
}

fn wait_file(path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + WAIT_MAX;
    while !path.exists() {
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the file did not appear"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn pid_file(path: &Path) -> io::Result<()> {
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
    numbers.retain(|number| fs::exists(format!("/proc/self/fd/{number}")).unwrap_or(true));
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
