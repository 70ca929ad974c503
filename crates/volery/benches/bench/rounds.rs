//! The figures of a running server: its start, a call, many calls, and its memory.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::bench_env::{BenchEnv, FLOOD, NAP, NOTHING, is_success, keepers_and_workers, memory as memory_of};
use crate::figure::{Figure, median, percentile, spread};
use crate::floor::{self, timed};

const START_ROUNDS: usize = 60;
const CALL_ROUNDS: usize = 300;
const LIMIT_ROUNDS: usize = 60;
const AGENT_ROUNDS: usize = 150;
const AGENT_FILES: usize = 300;
const TREE_ROUNDS: usize = 60;
const TREE_FILES: usize = 1_000;
const CROWD: usize = 256;
const CROWD_ROUNDS: usize = 3;

/// Cold start to the answer of `initialize`, and what an idle server holds.
pub(crate) fn start(env: &BenchEnv) -> anyhow::Result<Vec<Figure>> {
    let (mut starts, mut floors, mut resident) = (Vec::new(), Vec::new(), Vec::new());
    // The first start makes the state directory.
    drop(env.serve()?);
    for _ in 0..START_ROUNDS {
        floors.push(floor::spawn(&NOTHING)?);
        let (ms, client) = timed(|| env.serve())?;
        starts.push(ms);
        resident.push(client.memory("VmRSS")?);
    }
    let idle = env.serve()?;
    sleep(Duration::from_millis(300));
    resident.push(idle.memory("VmRSS")?);
    let mut cat = floor::start(&["/bin/sleep", "1"])?;
    sleep(Duration::from_millis(50));
    let bare = memory_of(cat.id(), "VmRSS");
    cat.wait()?;
    Ok(vec![
        Figure {
            name: "cold start to the answer of `initialize`, p50",
            unit: "ms",
            value: median(&starts),
            floor: Some((median(&floors), "spawn of /bin/true")),
            target: Some((5.0, "fixed")),
            note: spread(&starts),
        },
        Figure {
            name: "idle server, resident",
            unit: "MB",
            value: percentile(&resident, 100),
            floor: bare.map(|mb| (mb, "an idle /bin/sleep")),
            target: Some((9.0, "fixed")),
            note: format!("the most of {} servers", resident.len()),
        },
        Figure {
            name: "size of the program",
            unit: "MB",
            value: env.program_mb()?,
            floor: None,
            target: None,
            note: String::new(),
        },
    ])
}

/// One `run_agent` call with an agent that does nothing.
pub(crate) fn call(env: &BenchEnv) -> anyhow::Result<Vec<Figure>> {
    let mut client = env.serve()?;
    let (mut calls, mut spawns, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..20 {
        client.run("nothing")?;
    }
    for _ in 0..CALL_ROUNDS {
        spawns.push(floor::spawn(&NOTHING)?);
        syncs.push(floor::fsync(&env.path("state"))?);
        let (ms, ()) = timed(|| client.run("nothing"))?;
        calls.push(ms);
    }
    let figure = |name, percent| {
        let [call, spawn, sync] = [&calls, &spawns, &syncs].map(|values| percentile(values, percent));
        Figure {
            name,
            unit: "ms",
            value: call,
            floor: Some((spawn + 2.0 * sync, "posix_spawn of the agent + 2 fdatasync")),
            target: Some((spawn + 2.5 + 2.0 * sync, "floor + 2.5 ms")),
            note: format!("spawn {spawn:.2}, fdatasync {sync:.2}; call {}", spread(&calls)),
        }
    };
    Ok(vec![
        figure("`run_agent` with a 0-ms agent, p50", 50),
        figure("`run_agent` with a 0-ms agent, p95", 95),
    ])
}

/// One call with limits that need a control group, in turn with one without.
pub(crate) fn limits(env: &BenchEnv) -> anyhow::Result<Vec<Figure>> {
    let mut client = env.serve()?;
    client.run("limited")?;
    let (mut limited, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..LIMIT_ROUNDS {
        plain.push(timed(|| client.run("nothing"))?.0);
        limited.push(timed(|| client.run("limited"))?.0);
    }
    Ok(vec![Figure {
        name: "`run_agent` with limits of memory and processes, p50",
        unit: "ms",
        value: median(&limited),
        floor: Some((median(&plain), "the same without limits")),
        target: Some((median(&plain) + 1.0, "1 ms more")),
        note: spread(&limited),
    }])
}

/// One call in a project with many agent files, in turn with one in a project with a few, and with one in a project
/// with as many of which one was written just before.
pub(crate) fn agents(env: &BenchEnv) -> anyhow::Result<Vec<Figure>> {
    let write = |project: &str, number| {
        env.agent(project, &format!("agent-{number}"), "backend: nothing\nmodel: large")
    };
    for project in ["large", "edited"] {
        for number in 0..AGENT_FILES {
            write(project, number)?;
        }
        env.agent(project, "nothing", "backend: nothing")?;
    }
    let [large, small, edited] = ["large", "project", "edited"].map(|name| env.project(name));
    let mut client = env.serve()?;
    // A file that was written a moment ago is read with every call.
    sleep(Duration::from_millis(2_500));
    client.run_in("nothing", &large)?;
    client.run_in("nothing", &edited)?;
    let (mut many, mut few, mut after_edit) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..AGENT_ROUNDS {
        few.push(timed(|| client.run_in("nothing", &small))?.0);
        many.push(timed(|| client.run_in("nothing", &large))?.0);
        // Always the same file: another one for each round would leave dozens of young files.
        write("edited", 0)?;
        after_edit.push(timed(|| client.run_in("nothing", &edited))?.0);
    }
    let [many_ms, few_ms, after_edit_ms] = [&many, &few, &after_edit].map(|values| median(values));
    Ok(vec![
        Figure {
            name: "`run_agent` beside 300 agent files, added to the p50",
            unit: "ms",
            value: many_ms - few_ms,
            floor: None,
            target: Some((0.3, "fixed")),
            note: format!("{many_ms:.2} with 300, {few_ms:.2} with 4; {}", spread(&many)),
        },
        Figure {
            name: "`run_agent` right after one of 300 agent files was written, added to the p50",
            unit: "ms",
            value: after_edit_ms - many_ms,
            floor: None,
            target: Some((1.0, "fixed")),
            note: format!("{after_edit_ms:.2} then, {many_ms:.2} without; {}", spread(&after_edit)),
        },
    ])
}

/// One call in a git work tree, whose changes a run reports, in turn with one outside of any.
pub(crate) fn tree(env: &BenchEnv) -> anyhow::Result<Vec<Figure>> {
    env.agent("tree", "nothing", "backend: nothing")?;
    let (tree, plain) = (env.project("tree"), env.project("project"));
    for number in 0..TREE_FILES {
        let folder = tree.join(format!("src/{}", number % 50));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("{number}.txt")), format!("line {number}\n").repeat(50))?;
    }
    let git = |words: &[&str]| {
        let path = tree.to_str().context("a path of text")?;
        let identity = ["git", "-C", path, "-c", "user.name=bench", "-c", "user.email=bench@invalid"];
        floor::spawn(&[&identity[..], words].concat())
    };
    git(&["init", "--quiet"])?;
    git(&["add", "--all"])?;
    git(&["commit", "--quiet", "--message=files"])?;
    let mut client = env.serve()?;
    sleep(Duration::from_millis(2_500));
    client.run_in("nothing", &tree)?;
    let (mut inside, mut outside, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TREE_ROUNDS {
        floors.push(git(&["status", "--porcelain"])?);
        outside.push(timed(|| client.run_in("nothing", &plain))?.0);
        inside.push(timed(|| client.run_in("nothing", &tree))?.0);
    }
    Ok(vec![Figure {
        name: "`run_agent` in a git work tree of 1,000 files, added to the p50",
        unit: "ms",
        value: median(&inside) - median(&outside),
        floor: Some((2.0 * median(&floors), "`git status`, before and after")),
        target: None,
        note: format!("{:.2} inside, {:.2} outside; {}", median(&inside), median(&outside), spread(&inside)),
    }])
}

/// Many runs at once.
pub(crate) fn crowd(env: &BenchEnv) -> anyhow::Result<Vec<Figure>> {
    let mut client = env.serve_many()?;
    client.run("nap")?;
    let (mut walls, mut floors, mut failed) = (Vec::new(), Vec::new(), 0);
    for _ in 0..CROWD_ROUNDS {
        floors.push(floor::spawn_all(&NAP, CROWD)?);
        let (ms, lost) = timed(|| {
            for _ in 0..CROWD {
                client.ask_run("nap")?;
            }
            let mut lost = 0;
            for _ in 0..CROWD {
                lost += usize::from(!is_success(&client.next_answer()?));
            }
            Ok(lost)
        })?;
        walls.push(ms);
        failed += lost;
    }
    let floor = median(&floors);
    Ok(vec![
        Figure {
            name: "256 concurrent 100-ms agents, wall time",
            unit: "ms",
            value: median(&walls),
            floor: Some((floor, "256 bare spawns at once")),
            target: Some((4.0 * floor, "4 × floor")),
            note: spread(&walls),
        },
        Figure {
            name: "256 concurrent 100-ms agents, runs that did not succeed",
            unit: "runs",
            value: f64::from(u32::try_from(failed)?),
            floor: None,
            target: Some((0.0, "all succeed")),
            note: format!("of {}", CROWD * CROWD_ROUNDS),
        },
    ])
}

/// What a server holds after many calls.
pub(crate) fn memory(env: &BenchEnv) -> anyhow::Result<Vec<Figure>> {
    let mut client = env.serve()?;
    let mut after = Vec::new();
    for calls in [100, 900] {
        for _ in 0..calls {
            client.run("nothing")?;
        }
        sleep(Duration::from_millis(300));
        after.push(client.memory("VmRSS")?);
    }
    Ok(vec![Figure {
        name: "server after 1,000 calls, resident",
        unit: "MB",
        value: after[1],
        floor: Some((after[0], "after 100 calls")),
        target: Some((after[0] * 1.1, "110 % of that")),
        note: format!("{:+.1} %", (after[1] / after[0] - 1.0) * 100.0),
    }])
}

/// Watches the worker of the only run until it is gone, and returns the most memory that it had. A worker that was not
/// seen has no figure.
fn worker_peak(state: &Path) -> anyhow::Result<f64> {
    const LONGEST: Duration = Duration::from_secs(60);
    let began = Instant::now();
    let mut peak: Option<f64> = None;
    while began.elapsed() < LONGEST {
        let all = keepers_and_workers(state);
        if all.is_empty() && peak.is_some() {
            break;
        }
        // The keeper and the first process of a namespace are smaller than the worker they belong to.
        let most = all.iter().filter_map(|pid| memory_of(*pid, "VmHWM")).fold(0.0, f64::max);
        if most > 0.0 {
            peak = Some(peak.map_or(most, |peak| peak.max(most)));
        }
        sleep(Duration::from_millis(2));
    }
    peak.context("the worker was never seen, so its peak is not known")
}

/// An agent that writes 100 MB.
pub(crate) fn output(env: &BenchEnv) -> anyhow::Result<Vec<Figure>> {
    let mut client = env.serve()?;
    client.run("nothing")?;
    let before = client.memory("VmRSS")?;
    let bare = floor::spawn(&FLOOD)?;
    let state = env.path("state").canonicalize()?;
    let (ms, watching) = timed(|| {
        let watching = std::thread::spawn(move || worker_peak(&state));
        let id = client.ask_run("flood")?;
        anyhow::ensure!(is_success(&client.answer(id)?), "the flood did not succeed");
        Ok(watching)
    })?;
    let peak = watching.join().map_err(|_| anyhow::anyhow!("the watching thread panicked"))??;
    let after = client.memory("VmRSS")?;
    Ok(vec![
        Figure {
            name: "100 MB of output, peak of the worker",
            unit: "MB",
            value: peak,
            floor: None,
            target: Some((24.0, "fixed")),
            note: String::new(),
        },
        Figure {
            name: "100 MB of output, growth of the server",
            unit: "MB",
            value: after - before,
            floor: None,
            target: Some((before * 0.1, "10 % of it before")),
            note: format!("{before:.2} before, {after:.2} after"),
        },
        Figure {
            name: "100 MB of output, wall time",
            unit: "ms",
            value: ms,
            floor: Some((bare, "the same into /dev/null")),
            target: None,
            note: String::new(),
        },
    ])
}
