//! A small keeper for the tests of `process`: carries out one scenario, given as JSON, and reports lines of JSON to
//! descriptor 3. A program of its own, since adopting orphans and forking a worker affect a whole process.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use domain::run::{ContainmentDemand, Exit};
use process::{
    AgentProcess, AgentRequest, CgroupUse, ChildStatus, Forked, Killed, ResourceLimits, Signal, StartedAgent,
    Stdin, become_subreaper, fork_worker, kill_tree, reap_all, signal_fd, spawn_agent, tagged_processes,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Deserialize;
use serde_json::json;

const DEADLINE: Duration = Duration::from_secs(20);

#[derive(Deserialize)]
struct Scenario {
    mode: ScenarioMode,
    argv: Vec<String>,
    tag: u64,
    demand: ContainmentDemand,
    #[serde(default)]
    without_cgroup: bool,
    #[serde(default)]
    memory_bytes: Option<u64>,
    #[serde(default)]
    cpu_ms: Option<u64>,
    #[serde(default)]
    processes: Option<u64>,
    #[serde(default)]
    times: u32,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum ScenarioMode {
    /// Sweeps the agent once it is ready.
    Sweep,
    /// The same, knowing only the tag.
    Kill,
    /// Does nothing once the agent is ready, until it is killed.
    Abandon,
    /// A worker does that, and this process is its keeper.
    Worker,
    /// Lets the agent end by itself, or at a limit.
    Run,
    /// Starts and collects many, one after the other.
    Many,
}

fn main() -> anyhow::Result<()> {
    let argument = std::env::args().nth(1).context("a scenario is needed")?;
    let scenario: Scenario = serde_json::from_str(&argument).context("the scenario is not readable")?;
    let mut report = OpenOptions::new().write(true).open("/dev/fd/3").context("descriptor 3 is not open")?;
    become_subreaper()?;
    match scenario.mode {
        ScenarioMode::Sweep | ScenarioMode::Kill => sweep(&scenario, &mut report),
        ScenarioMode::Abandon => abandon(&scenario, &mut report),
        ScenarioMode::Worker => run_keeper(&scenario, &mut report),
        ScenarioMode::Run => run(&scenario, &mut report),
        ScenarioMode::Many => many(&scenario, &mut report),
    }
}

fn request(scenario: &Scenario) -> AgentRequest {
    AgentRequest {
        argv: scenario.argv.iter().map(Into::into).collect(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        directory: "/".into(),
        stdin: Stdin::Null,
        unread_bytes: 0,
        tag: scenario.tag,
        limits: ResourceLimits {
            memory_bytes: scenario.memory_bytes,
            cpu_ms: scenario.cpu_ms,
            processes: scenario.processes,
            ..ResourceLimits::default()
        },
        demand: scenario.demand,
        cgroup: if scenario.without_cgroup { CgroupUse::Never } else { CgroupUse::WhereUseful },
        confinement: None,
    }
}

fn send_report(report: &mut File, value: &serde_json::Value) -> anyhow::Result<()> {
    Ok(report.write_all(format!("{value}\n").as_bytes())?)
}

/// Starts the agent, waits for its first output, and reports the processes.
fn start(scenario: &Scenario, report: &mut File) -> anyhow::Result<Option<(AgentProcess, OwnedFd)>> {
    let started = match spawn_agent(&request(scenario)) {
        Ok(started) => started,
        Err(error) => {
            send_report(report, &json!({ "refused": error.to_string() }))?;
            return Ok(None);
        }
    };
    let StartedAgent { agent, stdout, .. } = started;
    ensure!(readable(&stdout, DEADLINE)?, "the agent said nothing");
    rustix::io::read(&stdout, &mut [0_u8; 64])?;
    let there = alive(scenario.tag)?;
    send_report(
        report,
        &json!({ "ready": true, "pids": there, "agent": raw(agent.pid()), "worker": std::process::id(),
        "init": agent.init_pid().map(raw), "containment": agent.containment }),
    )?;
    Ok(Some((agent, stdout)))
}

fn sweep(scenario: &Scenario, report: &mut File) -> anyhow::Result<()> {
    let Some((mut agent, stdout)) = start(scenario, report)? else { return Ok(()) };
    let killed = match scenario.mode {
        ScenarioMode::Kill => kill_tree(scenario.tag, &[])?,
        _ => agent.sweep()?,
    };
    let silent = ends(&stdout)?;
    let exit = agent.try_exit()?;
    // The first process of a tree that was killed by its tag is still ours to collect.
    let collected = collect_all();
    send_report(report, &ending(scenario, &killed, silent, collected, exit)?)
}

fn abandon(scenario: &Scenario, report: &mut File) -> anyhow::Result<()> {
    let Some(_agent) = start(scenario, report)? else { return Ok(()) };
    std::thread::sleep(DEADLINE);
    bail!("nobody killed this process")
}

fn run_keeper(scenario: &Scenario, report: &mut File) -> anyhow::Result<()> {
    let signals = signal_fd(&[Signal::CHILD])?;
    let worker = match fork_worker()? {
        Forked::Worker => return abandon(scenario, report),
        Forked::Keeper(worker) => worker,
    };
    let deadline = Instant::now() + DEADLINE;
    loop {
        ensure!(
            readable(&signals, deadline.saturating_duration_since(Instant::now()))?,
            "the worker lived on"
        );
        ensure!(signals.next()? == Some(Signal::CHILD), "another signal arrived");
        let ended = |(pid, status): &(_, _)| *pid == worker.pid() && matches!(status, ChildStatus::Ended(_));
        if reap_all().iter().any(ended) {
            break;
        }
    }
    let killed = kill_tree(scenario.tag, &[])?;
    let collected = collect_all();
    send_report(report, &ending(scenario, &killed, true, collected, None)?)
}

fn run(scenario: &Scenario, report: &mut File) -> anyhow::Result<()> {
    let StartedAgent { mut agent, stdout, .. } = spawn_agent(&request(scenario))?;
    let deadline = Instant::now() + DEADLINE;
    let mut most = 0;
    let passed = loop {
        if let Some(passed) = agent.exceeded_limit()? {
            break Some(passed);
        }
        most = most.max(agent.sample()?.memory_bytes);
        if agent.try_exit()?.is_some() {
            break agent.exceeded_limit()?;
        }
        ensure!(Instant::now() < deadline, "the agent neither ended nor passed a limit");
        readable(&agent.exit_fd(), Duration::from_millis(20))?;
    };
    let used = agent.sample()?;
    let containment = agent.containment.clone();
    let killed = agent.sweep()?;
    let silent = ends(&stdout)?;
    let exit = agent.try_exit()?;
    let mut value = ending(scenario, &killed, silent, collect_all(), exit)?;
    let details = json!({ "passed": passed, "cpu_ms": used.cpu_ms, "most_memory_bytes": most,
        "containment": containment });
    value.as_object_mut().zip(details.as_object()).into_iter().for_each(|(value, details)| {
        value.extend(details.clone());
    });
    send_report(report, &value)
}

fn many(scenario: &Scenario, report: &mut File) -> anyhow::Result<()> {
    for _ in 0..scenario.times {
        let mut started = spawn_agent(&request(scenario))?;
        ensure!(readable(&started.agent.exit_fd(), DEADLINE)?, "an agent did not end");
        let exit = started.agent.try_exit()?;
        ensure!(exit == Some(Exit::Code(0)), "an agent ended with {exit:?}");
        let killed = started.agent.sweep()?;
        ensure!(killed == Killed::default(), "something was left: {killed:?}");
    }
    let children = std::fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id()))?;
    let descriptors = std::fs::read_dir("/proc/self/fd")?.count();
    send_report(
        report,
        &json!({ "children": children.split_whitespace().count(), "descriptors": descriptors }),
    )
}

fn ending(
    scenario: &Scenario,
    killed: &Killed,
    silent: bool,
    childless: bool,
    exit: Option<Exit>,
) -> anyhow::Result<serde_json::Value> {
    let (code, signal) = match exit {
        Some(Exit::Code(code)) => (Some(code), None),
        Some(Exit::Signal(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    Ok(json!({ "killed": killed.count, "left": killed.survivors.len(), "alive": alive(scenario.tag)?,
        "silent": silent, "childless": childless, "code": code, "signal": signal }))
}

fn alive(tag: u64) -> anyhow::Result<Vec<i32>> {
    let found = tagged_processes(tag)?;
    Ok(found.iter().filter(|process| !process.dead).map(|process| raw(process.pid)).collect())
}

fn raw(pid: process::Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

/// Collects children until there are none. Returns whether that was in time.
fn collect_all() -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        reap_all();
        let none = rustix::process::waitid(
            rustix::process::WaitId::All,
            rustix::process::WaitIdOptions::EXITED
                | rustix::process::WaitIdOptions::NOHANG
                | rustix::process::WaitIdOptions::NOWAIT,
        );
        match none {
            Err(rustix::io::Errno::CHILD) => return true,
            _ if Instant::now() > deadline => return false,
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Returns whether a stream ends in time: only then has every process that could write to it ended.
fn ends(stream: &OwnedFd) -> anyhow::Result<bool> {
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut buffer = [0_u8; 4096];
    while readable(stream, deadline.saturating_duration_since(Instant::now()))? {
        if rustix::io::read(stream, &mut buffer)? == 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

fn readable(fd: &impl AsFd, longest: Duration) -> anyhow::Result<bool> {
    let timeout = Timespec::try_from(longest)?;
    let mut polled = [PollFd::new(fd, PollFlags::IN)];
    Ok(rustix::io::retry_on_intr(|| poll(&mut polled, Some(&timeout)))? > 0)
}
