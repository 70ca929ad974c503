//! The environment of one test: its own home, state and project, the program under test, and helpers to inspect results.

mod client;
mod conformance_suite;
mod mask;
mod mount;
mod process;
mod run_processes;
mod terminal;
mod web;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) use client::Client;
pub(crate) use conformance_suite::conformance;
pub(crate) use mask::first_paragraph;
pub(crate) use mount::{SmallDisk, skip};
pub(crate) use process::{
    KillOnDrop, control_groups, kill, peak_memory, tagged, tagged_with_any, with_argument,
};
pub(crate) use run_processes::{all_run_processes, pids, run_processes, state_and_parent};
pub(crate) use terminal::Terminal;
pub(crate) use web::{WebServer, post_of, read_to_end, request_of};

/// How long a test waits for something that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The environment of one test. Dropping it deletes everything below it.
pub(crate) struct TestEnv {
    root: tempfile::TempDir,
}

/// Exit code and output of a finished command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        self.exits(0)
    }

    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

impl TestEnv {
    pub(crate) fn new() -> Self {
        let root = tempfile::Builder::new().prefix("volery-it-").tempdir().unwrap();
        for folder in ["home", "state", "config", "project/.volery/agents", "points"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        Self { root }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.path("project")
    }

    /// Defines a backend in the user's configuration, which needs no trust.
    pub(crate) fn backend(&self, name: &str, command: &[&str]) -> &Self {
        self.configure(&format!("[backends.{name}]\ncommand = {}\n", serde_json::json!(command)))
    }

    /// Says that somebody answers the questions of runs, although no command of a test has a terminal.
    pub(crate) fn people_answer(&self) -> &Self {
        self.configure("[run]\nunattended = \"wait\"\n")
    }

    /// Adds to the user's configuration.
    pub(crate) fn configure(&self, toml: &str) -> &Self {
        let path = self.path("config").join("config.toml");
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(path, format!("{before}\n{toml}")).unwrap();
        self
    }

    /// Defines an agent of the project by its frontmatter.
    pub(crate) fn agent(&self, name: &str, frontmatter: &str) -> &Self {
        let text = format!("---\ndescription: for a test\n{frontmatter}\n---\n");
        std::fs::write(self.project().join(".volery/agents").join(format!("{name}.md")), text).unwrap();
        self
    }

    /// Defines an agent of the user, whose grants need no trust.
    pub(crate) fn user_agent(&self, name: &str, frontmatter: &str) -> &Self {
        let folder = self.path("config/agents");
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!("---\ndescription: for a test\n{frontmatter}\n---\n");
        std::fs::write(folder.join(format!("{name}.md")), text).unwrap();
        self
    }

    /// Defines an agent that is the fake agent with these steps.
    pub(crate) fn fake(&self, name: &str, steps: &[&str], frontmatter: &str) -> &Self {
        let program = fake_agent();
        let mut command = vec![program.to_str().unwrap()];
        command.extend(steps);
        self.backend(name, &command);
        self.agent(name, &format!("backend: {name}\n{frontmatter}"))
    }

    /// Defines a rehearsal by its steps, as YAML.
    pub(crate) fn rehearsal(&self, name: &str, steps: &str, frontmatter: &str) -> &Self {
        let indented: String = steps.lines().map(|line| format!("  {line}\n")).collect();
        self.agent(name, &format!("backend: rehearsal\n{frontmatter}\nsteps:\n{indented}"))
    }

    /// Returns the program under test with this test's environment variables and no others.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_volery"));
        command.args(arguments).current_dir(self.project()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.path("home"));
        command.env("VOLERY_HOME", self.path("state"));
        command.env("VOLERY_CONFIG_HOME", self.path("config"));
        command.env("VOLERY_TEST_POINTS", self.path("points"));
        command
    }

    /// Runs a command to its end.
    #[must_use = "look at the exit code at least"]
    pub(crate) fn volery<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> CommandOutput {
        command_output(self.command(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs a command with `--json` and returns what it printed.
    pub(crate) fn json<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Value {
        let mut command = self.command(arguments);
        command_output(command.arg("--json").stdin(Stdio::null()).output().unwrap()).json()
    }

    /// Starts a run in the background and returns its id.
    pub(crate) fn start(&self, agent: &str, prompt: &str) -> String {
        self.volery(["run", agent, prompt, "--background"]).ok().stdout.trim().to_owned()
    }

    /// Returns the id of the only run there is.
    #[track_caller]
    pub(crate) fn only_run(&self) -> String {
        let ids = self.runs();
        assert_eq!(ids.len(), 1, "{ids:?}");
        ids[0].clone()
    }

    /// Waits until a run has ended, without calling the program, and then returns what `volery show` prints.
    #[track_caller]
    pub(crate) fn wait_for_end(&self, id: &str) -> Value {
        self.outcome_by_itself(id, PATIENCE);
        self.json(["show", id])
    }

    /// Waits until the journal of a run has an event of this type.
    #[track_caller]
    pub(crate) fn wait_for_event(&self, id: &str, event_type: &str) -> Value {
        wait_for(PATIENCE, event_type, || {
            self.events(id).into_iter().find(|event| event["type"] == event_type)
        })
    }

    /// Starts a server and returns a client of it.
    pub(crate) fn serve(&self) -> Client {
        Client::start(self.command(["serve"]))
    }

    /// Returns the directory of a run.
    pub(crate) fn run_dir(&self, id: &str) -> PathBuf {
        let runs = self.path("state").join("runs");
        let days = std::fs::read_dir(&runs).unwrap().map(|day| day.unwrap().path());
        let found = days.map(|day| day.join(id)).find(|path| path.is_dir());
        found.unwrap_or_else(|| panic!("there is no directory of the run {id}"))
    }

    /// Returns the ids of all runs, the oldest first.
    pub(crate) fn runs(&self) -> Vec<String> {
        let days = std::fs::read_dir(self.path("state").join("runs")).into_iter().flatten();
        let runs =
            days.filter_map(Result::ok).flat_map(|day| std::fs::read_dir(day.path()).into_iter().flatten());
        let names = runs.filter_map(|run| run.ok()?.file_name().into_string().ok());
        let mut ids: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        ids.sort();
        ids
    }

    /// Waits until this many runs exist and returns the newest.
    #[track_caller]
    pub(crate) fn wait_for_run_count(&self, count: usize) -> String {
        wait_for(PATIENCE, "the run's directory", || self.runs().get(count - 1).cloned())
    }

    /// Returns how often a run has ended, which is once.
    pub(crate) fn times_ended(&self, id: &str) -> usize {
        self.events(id).iter().filter(|event| event["type"] == "ended").count()
    }

    /// Returns the tag that the processes of a run carry.
    pub(crate) fn tag(&self, id: &str) -> u64 {
        self.spec(id)["tag"].as_u64().unwrap()
    }

    pub(crate) fn spec(&self, id: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.run_dir(id).join("spec.json")).unwrap()).unwrap()
    }

    /// Returns the events of a run that can be read.
    pub(crate) fn events(&self, id: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.run_dir(id).join("events.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until the log has the end of a run, without calling the program, which would reconcile it.
    #[track_caller]
    pub(crate) fn outcome_by_itself(&self, id: &str, within: Duration) -> Value {
        let ended = || self.events(id).into_iter().find(|event| event["type"] == "ended");
        wait_for(within, "the outcome to be written", ended)["ending"].clone()
    }

    /// Lets a process stop at a named point, once it gets there.
    pub(crate) fn hold(&self, point: &str) {
        std::fs::write(self.path("points").join(format!("{point}.hold")), "").unwrap();
    }

    /// Waits until a process is held at the point and returns its pid.
    #[track_caller]
    pub(crate) fn wait_until_held(&self, point: &str) -> u32 {
        let path = self.path("points").join(format!("{point}.reached"));
        wait_for(PATIENCE, point, || std::fs::read_to_string(&path).ok().and_then(|pid| pid.parse().ok()))
    }

    pub(crate) fn release(&self, point: &str) {
        std::fs::remove_file(self.path("points").join(format!("{point}.hold"))).unwrap();
    }
}

pub(crate) fn command_output(output: Output) -> CommandOutput {
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Looks again and again until there is something, or fails with what was waited for.
#[track_caller]
pub(crate) fn wait_for<T>(within: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {within:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Asks git, as a user with a name would, and returns what it wrote.
#[track_caller]
pub(crate) fn git(directory: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]);
    let output = command_output(command.args(words).current_dir(directory).output().unwrap());
    assert_eq!(output.code, 0, "{words:?}: {output:?}");
    output.stdout.trim_end().to_owned()
}

/// Returns the fake agent, which is built into the folder of the program under test.
pub(crate) fn fake_agent() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_volery")).with_file_name("fake-agent");
    assert!(path.exists(), "build it first: cargo build -p fake-agent");
    path
}
