//! Runs an agent of another vendor once, in a place without a network, and keeps what it wrote.

use std::io::{self, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::offline::Offline;

/// The folders of one play, all empty at first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    /// The agent's home: settings, sessions, caches.
    pub home: PathBuf,
    /// Where it works.
    pub work: PathBuf,
    /// Its temporary files: not above the home, since some sandboxes hide what is below the temporary folder.
    pub temporary: PathBuf,
}

impl Folders {
    /// Makes the folders below `root`.
    pub fn make(root: &Path) -> io::Result<Self> {
        let root = root.canonicalize()?;
        let folders =
            Self { home: root.join("home"), work: root.join("work"), temporary: root.join("temporary") };
        for folder in [&folders.home, &folders.work, &folders.temporary] {
            std::fs::create_dir_all(folder)?;
        }
        Ok(folders)
    }

    /// Writes files into the home: name and content.
    pub fn furnish(&self, files: &[(String, String)]) -> io::Result<()> {
        for (name, content) in files {
            let path = self.home.join(name);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(path, content)?;
        }
        Ok(())
    }
}

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recipe {
    pub argv: Vec<String>,
    /// Beside `PATH`, `HOME`, `TMPDIR` and the language.
    pub env: Vec<(String, String)>,
    /// Files below the home: name and content.
    pub files: Vec<(String, String)>,
    /// Fed to the agent; its input is closed after it in any case.
    pub stdin: String,
    /// Asks the agent to end, by SIGTERM, this long after the model was asked first.
    pub terminate_after: Option<Duration>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    pub stdout: String,
    pub stderr: String,
    /// The exit code, or the negative number of the signal.
    pub exit: i32,
    /// It did not end in time, and was killed.
    pub late: bool,
}

/// Runs the recipe to its end, or kills it when `patience` is over.
pub fn play(offline: &Offline, folders: &Folders, recipe: &Recipe, patience: Duration) -> io::Result<Played> {
    folders.furnish(&recipe.files)?;
    let mut process = offline
        .command(&recipe.argv)
        .current_dir(&folders.work)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("LANG", "C.UTF-8")
        .env("HOME", &folders.home)
        .env("TMPDIR", &folders.temporary)
        .envs(recipe.env.iter().map(|(name, value)| (name, value)))
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = process.stdout.take().map(read);
    let stderr = process.stderr.take().map(read);
    if let Some(mut stdin) = process.stdin.take() {
        // Some agents end without reading their input.
        let _ = stdin.write_all(recipe.stdin.as_bytes());
    }
    let begun = Instant::now();
    if let Some(time) = recipe.terminate_after
        && offline.server().wait_until(patience, |seen| seen.iter().any(|seen| seen.ask.is_some()))
    {
        // Nothing tells us how much of the answer the agent has passed on; this is a time-out as users set it.
        std::thread::sleep(time);
        // It may have ended by itself.
        let _ = rustix::process::kill_process(Pid::from_child(&process), Signal::TERM);
    }
    let (status, late) = wait(&mut process, patience.saturating_sub(begun.elapsed()))?;
    let exit = status.code().unwrap_or_else(|| -status.signal().unwrap_or_default());
    Ok(Played { stdout: text(stdout), stderr: text(stderr), exit, late })
}

fn read(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error counts.
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

fn text(reading: Option<JoinHandle<Vec<u8>>>) -> String {
    let bytes = reading.and_then(|reading| reading.join().ok()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn wait(process: &mut Child, patience: Duration) -> io::Result<(ExitStatus, bool)> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(status) = process.try_wait()? {
            return Ok((status, false));
        }
        if Instant::now() > deadline {
            // The group may have ended just now.
            let _ = rustix::process::kill_process_group(Pid::from_child(process), Signal::KILL);
            return Ok((process.wait()?, true));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
