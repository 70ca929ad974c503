//! Measures what starting an agent costs, against a bare `posix_spawn` of the same program, and what a search for the
//! processes of a run costs. Prints medians in microseconds.

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use domain::run::ContainmentDemand;
use process::{
    AgentRequest, CgroupUse, KeeperRequest, ResourceLimits, Stdin, become_subreaper, spawn_agent,
    spawn_keeper, tagged_processes,
};
use rustix::event::{PollFd, PollFlags, poll};

const TIMES: usize = 500;

/// Starts one process and returns the time until it had started, ended, and was swept.
type Measure = dyn Fn() -> anyhow::Result<[Duration; 3]>;

fn main() -> anyhow::Result<()> {
    become_subreaper()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:28} {:>8} {:>8} {:>8}", "median of 500, µs", "started", "ended", "swept")?;
    let kinds: Vec<(&str, Box<Measure>)> = vec![
        ("posix_spawn", Box::new(bare)),
        ("plain", Box::new(|| agent(ContainmentDemand::Plain, CgroupUse::Never))),
        ("plain, control group", Box::new(|| agent(ContainmentDemand::Plain, CgroupUse::WhereUseful))),
        ("auto", Box::new(|| agent(ContainmentDemand::Auto, CgroupUse::WhereUseful))),
    ];
    // Interleaved, so that the load of the machine affects all alike.
    let mut taken: Vec<[Vec<Duration>; 3]> = kinds.iter().map(|_| Default::default()).collect();
    for _ in 0..TIMES {
        for ((_, measure), taken) in kinds.iter().zip(&mut taken) {
            for (list, duration) in taken.iter_mut().zip(measure()?) {
                list.push(duration);
            }
        }
    }
    for ((name, _), lists) in kinds.iter().zip(taken) {
        let [started, ended, swept] = lists.map(median);
        writeln!(out, "{name:28} {started:>8} {ended:>8} {swept:>8}")?;
    }
    let count = std::fs::read_dir("/proc")?
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok()))
        .count();
    let looks = (0..TIMES).map(|_| {
        let start = Instant::now();
        tagged_processes(1).map(|_| start.elapsed())
    });
    let looks = median(looks.collect::<Result<_, _>>()?);
    writeln!(out, "{:28} {looks:>8}", format!("a look at {count} processes"))?;
    Ok(())
}

fn bare() -> anyhow::Result<[Duration; 3]> {
    let start = Instant::now();
    let process = spawn_keeper(&KeeperRequest {
        program: Path::new("/bin/true"),
        args: &[],
        fds: &[],
        stderr: None,
        directory: Path::new("/"),
    })?;
    let started = start.elapsed();
    wait(&process)?;
    process.try_reap()?;
    let ended = start.elapsed();
    Ok([started, ended, ended])
}

fn agent(demand: ContainmentDemand, cgroup: CgroupUse) -> anyhow::Result<[Duration; 3]> {
    let request = AgentRequest {
        argv: vec![OsString::from("/bin/true")],
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        directory: "/".into(),
        stdin: Stdin::Null,
        unread_bytes: 0,
        tag: 0x5EED_0000_0000_0000 | u64::from(std::process::id()),
        limits: ResourceLimits::default(),
        demand,
        cgroup,
        confinement: None,
    };
    let start = Instant::now();
    let mut started = spawn_agent(&request)?;
    let begun = start.elapsed();
    wait(&started.agent.exit_fd())?;
    ensure!(started.agent.try_exit()?.is_some(), "the agent has ended and does not say how");
    let ended = start.elapsed();
    started.agent.sweep()?;
    Ok([begun, ended, start.elapsed()])
}

fn wait(fd: &impl AsFd) -> anyhow::Result<()> {
    rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(fd, PollFlags::IN)], None))?;
    Ok(())
}

fn median(mut durations: Vec<Duration>) -> u128 {
    durations.sort_unstable();
    durations.get(durations.len() / 2).map_or(0, Duration::as_micros)
}
