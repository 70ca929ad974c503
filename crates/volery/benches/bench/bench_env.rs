//! An environment to measure in, and a bare client of its server. The state is on the disk of the build. The projects
//! are not below it: they would be part of the git work tree of this program's own source, which a run would look through.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

/// The agent that does nothing: what every call is measured with.
pub(crate) const NOTHING: [&str; 1] = ["/bin/true"];
/// The agent that takes 100 ms.
pub(crate) const NAP: [&str; 2] = ["/bin/sleep", "0.1"];
/// The agent that outlives every wait.
pub(crate) const ENDLESS: [&str; 2] = ["/bin/sleep", "600"];
/// The agent that writes 100 MB.
pub(crate) const FLOOD: [&str; 3] =
    ["/bin/sh", "-c", "yes 'a line of output as an agent writes it' | head -c 100000000"];

/// The environment of one program. Dropping it deletes everything below it.
pub(crate) struct BenchEnv {
    root: tempfile::TempDir,
    projects: tempfile::TempDir,
    program: PathBuf,
}

impl BenchEnv {
    pub(crate) fn new(scratch: &Path, program: &Path) -> anyhow::Result<Self> {
        let root = tempfile::Builder::new().prefix("bench-").tempdir_in(scratch)?;
        for folder in ["home", "state", "config"] {
            std::fs::create_dir_all(root.path().join(folder))?;
        }
        let projects = tempfile::Builder::new().prefix("bench-projects-").tempdir()?;
        let env = Self { root, projects, program: program.to_owned() };
        // More calls than the bound against clients that ask again and again allows.
        let mut config = "[serve]\ncalls_per_minute = 10000000\n".to_owned();
        for (name, argv) in
            [("nothing", NOTHING.as_slice()), ("nap", &NAP), ("endless", &ENDLESS), ("flood", &FLOOD)]
        {
            config.push_str(&format!("[backends.{name}]\ncommand = {}\n", json!(argv)));
            env.agent("project", name, &format!("backend: {name}"))?;
        }
        env.agent("project", "limited", "backend: nothing\nlimits:\n  memory: 1GiB\n  processes: 64")?;
        std::fs::write(env.path("config/config.toml"), config)?;
        Ok(env)
    }

    /// Returns the size of the program in MB.
    pub(crate) fn program_mb(&self) -> anyhow::Result<f64> {
        let bytes = std::fs::metadata(&self.program)?.len();
        #[expect(clippy::cast_precision_loss, reason = "a size that is shown with two digits")]
        let mb = bytes as f64 / 1_000_000.0;
        Ok(mb)
    }

    /// Creates another environment for the same program. It is below this one, and is deleted with it.
    pub(crate) fn new_nested(&self) -> anyhow::Result<Self> {
        let mut nested = Self::new(self.root.path(), &self.program)?;
        nested.root.disable_cleanup(true);
        Ok(nested)
    }

    /// Defines an agent of a project.
    pub(crate) fn agent(&self, project: &str, name: &str, frontmatter: &str) -> anyhow::Result<()> {
        let folder = self.project(project).join(".volery/agents");
        std::fs::create_dir_all(&folder)?;
        let text = format!("---\ndescription: for a figure\n{frontmatter}\n---\n");
        Ok(std::fs::write(folder.join(format!("{name}.md")), text)?)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn project(&self, name: &str) -> PathBuf {
        self.projects.path().join(name)
    }

    /// Returns the program with this environment's variables and nothing else.
    #[expect(clippy::disallowed_methods, reason = "the program itself is what is measured")]
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.project("project")).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("HOME", self.path("home"));
        command.env("VOLERY_HOME", self.path("state"));
        command.env("VOLERY_CONFIG_HOME", self.path("config"));
        command
    }

    pub(crate) fn serve(&self) -> anyhow::Result<Client> {
        Client::start(self.command(&["serve"]))
    }

    /// Starts a server with more slots than any figure needs.
    pub(crate) fn serve_many(&self) -> anyhow::Result<Client> {
        let mut command = self.command(&["serve"]);
        command.env("VOLERY_SLOTS", "300");
        Client::start(command)
    }
}

/// A server and the two ends of its streams. No threads: what is measured includes nothing of the client's own.
pub(crate) struct Client {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
}

impl Client {
    /// Starts a server; returns when it has answered `initialize`.
    pub(crate) fn start(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take().context("the server's input")?;
        let stdout = BufReader::new(child.stdout.take().context("the server's output")?);
        let mut client = Self { child, stdin, stdout, next_id: 0 };
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        });
        let id = client.send("initialize", &params)?;
        client.answer(id)?;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        writeln!(client.stdin, "{initialized}")?;
        Ok(client)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&mut self, method: &str, params: &Value) -> anyhow::Result<u64> {
        self.next_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params});
        self.stdin.write_all(format!("{message}\n").as_bytes())?;
        Ok(self.next_id)
    }

    /// Returns the next answer, whatever it answers.
    pub(crate) fn next_answer(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        loop {
            line.clear();
            ensure!(self.stdout.read_line(&mut line)? > 0, "the server is gone");
            let message: Value = serde_json::from_str(&line)?;
            if message.get("id").is_some() && message.get("method").is_none() {
                return Ok(message);
            }
        }
    }

    pub(crate) fn answer(&mut self, id: u64) -> anyhow::Result<Value> {
        let answer = self.next_answer()?;
        ensure!(answer["id"] == json!(id), "another answer was expected: {answer}");
        Ok(answer)
    }

    /// Asks for a run of an agent.
    pub(crate) fn ask_run(&mut self, agent: &str) -> anyhow::Result<u64> {
        let arguments = json!({"agent": agent, "prompt": "go"});
        self.send("tools/call", &json!({"name": "run_agent", "arguments": arguments}))
    }

    /// Runs an agent to its end.
    pub(crate) fn run(&mut self, agent: &str) -> anyhow::Result<()> {
        let id = self.ask_run(agent)?;
        let answer = self.answer(id)?;
        ensure!(is_success(&answer), "the run did not succeed: {answer}");
        Ok(())
    }

    /// Runs an agent in a directory to its end.
    pub(crate) fn run_in(&mut self, agent: &str, directory: &Path) -> anyhow::Result<()> {
        let arguments = json!({"agent": agent, "prompt": "go", "directory": directory});
        self.tool("run_agent", &arguments)
    }

    /// Calls a tool and waits for its answer.
    pub(crate) fn tool(&mut self, name: &str, arguments: &Value) -> anyhow::Result<()> {
        let id = self.send("tools/call", &json!({"name": name, "arguments": arguments}))?;
        let answer = self.answer(id)?;
        ensure!(answer.get("error").is_none() && answer["result"]["isError"] != json!(true), "{answer}");
        Ok(())
    }

    /// Returns the processor time that the server has used so far, in milliseconds.
    pub(crate) fn processor_ms(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // User and system time; the fields after the name begin with the third.
        let (user, system): (f64, f64) = match fields.get(11..13) {
            Some([user, system]) => (user.parse()?, system.parse()?),
            Some(_) | None => anyhow::bail!("the server's processor time could not be read: {stat}"),
        };
        // A tick has 10 ms on every Linux that this runs on.
        Ok((user + system) * 10.0)
    }

    /// Returns a line of the server's `/proc/PID/status`, in MB.
    pub(crate) fn memory(&self, line: &str) -> anyhow::Result<f64> {
        memory(self.pid(), line).context("read the server's memory")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have left already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn is_success(answer: &Value) -> bool {
    answer["result"]["structuredContent"]["status"] == json!("succeeded")
}

/// Returns a line of a process's status in MB (of 1,000,000 bytes); `None` when the process is gone.
pub(crate) fn memory(pid: u32, line: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let found = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'))?;
    let kib: f64 = found.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1_024.0 / 1_000_000.0)
}

/// Returns the keepers of runs below a state directory and their forks, the workers, started by any process.
pub(crate) fn keepers_and_workers(state: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_one = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).skip(1);
        let state = state.as_os_str().as_encoded_bytes();
        words.next() == Some(b"__keeper") && words.next().is_some_and(|run| run.starts_with(state))
    };
    pids.filter(is_one).collect()
}
