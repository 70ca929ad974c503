//! Runs a vendor's agent once, without a network, and captures its output.

use std::io::{self, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fake_llm::AgentDirs;
use rustix::process::{Pid, Signal};

use crate::offline::OfflineSandbox;

/// How to start an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CliLaunch {
    pub argv: Vec<String>,
    /// In addition to `PATH`, `HOME`, `TMPDIR` and the language.
    pub env: Vec<(String, String)>,
    /// Files below the home: name and content.
    pub files: Vec<(String, String)>,
    /// Written to the agent's standard input, which is then closed.
    pub stdin: String,
    /// Sends SIGTERM to the agent this long after the first request to the model.
    pub terminate_after: Option<Duration>,
}

/// The result of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliOutput {
    pub stdout: String,
    pub stderr: String,
    /// The exit code, or the negative number of the signal.
    pub exit: i32,
    /// Whether it did not end in time and was killed.
    pub timed_out: bool,
}

/// Runs the agent to its end, or kills it after `patience`.
pub fn run_cli(
    offline: &OfflineSandbox,
    folders: &AgentDirs,
    launch: &CliLaunch,
    patience: Duration,
) -> io::Result<CliOutput> {
    folders.write_home_files(&launch.files)?;
    let mut process = offline
        .command(&launch.argv)
        .current_dir(&folders.work)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("LANG", "C.UTF-8")
        .env("HOME", &folders.home)
        .env("TMPDIR", &folders.temp_dir)
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = process.stdout.take().map(read_in_background);
    let stderr = process.stderr.take().map(read_in_background);
    if let Some(mut stdin) = process.stdin.take() {
        // Some agents end without reading their input.
        let _ = stdin.write_all(launch.stdin.as_bytes());
    }
    let started = Instant::now();
    if let Some(delay) = launch.terminate_after
        && offline.server().wait_until(patience, |seen| seen.iter().any(|seen| seen.model_request.is_some()))
    {
        // Nothing shows how much of the answer the agent has forwarded; this is a time-out like those that users set.
        std::thread::sleep(delay);
        // It may have ended already.
        let _ = rustix::process::kill_process(Pid::from_child(&process), Signal::TERM);
    }
    let (status, timed_out) = wait(&mut process, patience.saturating_sub(started.elapsed()))?;
    let exit = status.code().unwrap_or_else(|| -status.signal().unwrap_or_default());
    Ok(CliOutput { stdout: joined_text(stdout), stderr: joined_text(stderr), exit, timed_out })
}

fn read_in_background(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // Output before an error counts.
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

fn joined_text(reader: Option<JoinHandle<Vec<u8>>>) -> String {
    let bytes = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn wait(process: &mut Child, patience: Duration) -> io::Result<(ExitStatus, bool)> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(status) = process.try_wait()? {
            return Ok((status, false));
        }
        if Instant::now() > deadline {
            // The group may have just ended.
            let _ = rustix::process::kill_process_group(Pid::from_child(process), Signal::KILL);
            return Ok((process.wait()?, true));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
