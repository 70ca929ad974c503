//! Starts one command under confinement for the tests of `process`, and prints how it ended as JSON. A program of its
//! own, so that a test that runs as root can start it as an ordinary user.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use domain::run::{ContainmentDemand, Exit};
use process::{
    AgentRequest, CgroupUse, Confinement, IfMissing, NetworkAccess, ResourceLimits, StartedAgent, Stdin,
    become_subreaper, kill_tree, spawn_agent, system_read_paths,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Deserialize;
use serde_json::json;

const DEADLINE: Duration = Duration::from_secs(60);
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

#[derive(Deserialize)]
struct Scenario {
    argv: Vec<String>,
    env: Vec<(String, String)>,
    directory: PathBuf,
    tag: u64,
    demand: ContainmentDemand,
    read_only: Vec<PathBuf>,
    read_write: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    network: bool,
}

fn main() -> anyhow::Result<()> {
    let argument = std::env::args().nth(1).context("a scenario is needed")?;
    let scenario: Scenario = serde_json::from_str(&argument).context("the scenario is not readable")?;
    become_subreaper()?;
    let tag = scenario.tag;
    let report = match spawn_agent(&request(scenario)) {
        Ok(started) => run(started, tag)?,
        Err(error) => json!({ "refused": error.to_string() }),
    };
    #[expect(clippy::print_stdout, reason = "the test reads it")]
    {
        println!("{report}");
    }
    Ok(())
}

fn request(scenario: Scenario) -> AgentRequest {
    AgentRequest {
        argv: scenario.argv.into_iter().map(Into::into).collect(),
        env: scenario.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        directory: scenario.directory,
        stdin: Stdin::Null,
        unread_bytes: 0,
        tag: scenario.tag,
        limits: ResourceLimits::default(),
        demand: scenario.demand,
        cgroup: CgroupUse::Never,
        confinement: Some(Confinement {
            read_only: scenario.read_only.into_iter().chain(system_read_paths()).collect(),
            read_write: scenario.read_write,
            network: if scenario.network { NetworkAccess::Unrestricted } else { NetworkAccess::Denied },
            hidden: scenario.hidden,
            if_missing: IfMissing::Refuse,
        }),
    }
}

/// Waits until every process of the command has closed its output, and ends what is left.
fn run(started: StartedAgent, tag: u64) -> anyhow::Result<serde_json::Value> {
    let StartedAgent { mut agent, stdout, stderr, .. } = started;
    let stderr = std::thread::spawn(move || read_all(stderr));
    let stdout = read_all(stdout)?;
    let stderr = stderr.join().expect("the reader does not panic")?;
    let mut polled = [PollFd::from_borrowed_fd(agent.exit_fd(), PollFlags::IN)];
    ensure!(poll(&mut polled, Some(&Timespec::try_from(DEADLINE)?))? > 0, "the command does not end");
    let exit = match agent.try_exit()? {
        Some(Exit::Code(code)) => code,
        Some(Exit::Signal(signal)) => 128 + signal,
        None => -1,
    };
    let containment = agent.containment.clone();
    agent.sweep()?;
    kill_tree(tag, &[])?;
    Ok(json!({ "exit": exit, "stdout": stdout, "stderr": stderr, "containment": containment }))
}

fn read_all(stream: OwnedFd) -> anyhow::Result<String> {
    let deadline = Instant::now() + DEADLINE;
    let mut file = File::from(stream);
    let mut bytes = Vec::new();
    loop {
        let remaining = Timespec::try_from(deadline.saturating_duration_since(Instant::now()))?;
        let mut polled = [PollFd::new(&file, PollFlags::IN)];
        ensure!(poll(&mut polled, Some(&remaining))? > 0, "the output does not end");
        match file.by_ref().take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes) {
            Ok(_) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}
