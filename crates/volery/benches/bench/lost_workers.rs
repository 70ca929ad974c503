//! How soon a caller hears of the end of a run whose worker is killed or stopped. Tests show that the run ends; how soon
//! depends on the machine, so only the benchmark measures it.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::bench_env::{BenchEnv, Client, keepers_and_workers};
use crate::figure::{Figure, median, spread};
use crate::floor::timed;

const ROUNDS: usize = 20;
/// How long a worker may take to start its agent.
const START_MAX: Duration = Duration::from_secs(30);

pub(crate) fn lost(env: &BenchEnv) -> anyhow::Result<Vec<Figure>> {
    let mut client = env.serve()?;
    let state = env.path("state").canonicalize()?;
    let (mut killed, mut stopped) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        killed.push(end_after(&mut client, &state, Signal::KILL)?);
        stopped.push(end_after(&mut client, &state, Signal::STOP)?);
    }
    let figure = |name, values: &[f64], target| Figure {
        name,
        unit: "ms",
        value: median(values),
        floor: None,
        target: Some((target, "fixed")),
        note: spread(values),
    };
    Ok(vec![
        figure("worker killed, until its caller hears of the end, p50", &killed, 1_000.0),
        // The keeper gives a stopped worker half a second.
        figure("worker stopped, until its caller hears of the end, p50", &stopped, 1_200.0),
    ])
}

/// Starts a run, sends its worker a signal, and returns the milliseconds until the call is answered.
fn end_after(client: &mut Client, state: &Path, signal: Signal) -> anyhow::Result<f64> {
    let id = client.ask_run("endless")?;
    let worker = wait_for_worker(state)?;
    let worker = i32::try_from(worker).ok().and_then(Pid::from_raw).context("a process id")?;
    let (ms, answer) = timed(|| {
        kill_process(worker, signal)?;
        client.answer(id)
    })?;
    let status = &answer["result"]["structuredContent"]["status"];
    ensure!(status == "interrupted", "the run was not interrupted: {answer}");
    Ok(ms)
}

/// Returns the worker of the only run, once its agent runs.
fn wait_for_worker(state: &Path) -> anyhow::Result<u32> {
    let began = Instant::now();
    while began.elapsed() < START_MAX {
        let all = keepers_and_workers(state);
        // The keeper's parent is not of the run. The worker's is the keeper, and a worker whose agent runs has a child.
        let worker = all.iter().find(|pid| {
            parent(**pid).is_some_and(|keeper| {
                all.contains(&keeper) && parent(keeper).is_some_and(|starter| !all.contains(&starter))
            })
        });
        if let Some(worker) = worker
            && has_children(*worker)
        {
            return Ok(*worker);
        }
        sleep(Duration::from_millis(2));
    }
    anyhow::bail!("no worker with an agent was seen")
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

fn has_children(pid: u32) -> bool {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    children.is_ok_and(|children| !children.trim().is_empty())
}
