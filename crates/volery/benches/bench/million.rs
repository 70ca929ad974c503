//! The figures of lists: with a million runs in the index, which is built once and kept in the build's folder.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use domain::Timestamp;
use domain::id::RunId;
use domain::run::OutcomeKind;
use journal::index::{EndedRun, Index, State};
use serde_json::json;

use crate::figure::{Figure, median, spread};
use crate::floor::{self, timed};
use crate::stage::{Client, NOTHING, Stage};

const RUNS: u64 = 1_000_000;
/// One of them is the project that is asked about.
const PROJECTS: u64 = 200;
const AGENTS: u64 = 25;
const ROUNDS: usize = 40;
const FIRST_MS: i64 = 1_790_000_000_000;

/// The commands, and what they are told to show.
const COMMANDS: [(&str, &[&str]); 4] = [
    ("`volery ps`, 1,000,000 runs", &["ps"]),
    ("`volery ps --all`, 1,000,000 runs", &["ps", "--all"]),
    ("`volery health`, 1,000,000 runs", &["health"]),
    ("`volery health --all`, 1,000,000 runs", &["health", "--all"]),
];

pub(crate) fn lists(stage: &Stage) -> anyhow::Result<Vec<Figure>> {
    let (home, project) = built()?;
    let mut figures = Vec::new();
    for (name, arguments) in COMMANDS {
        let (mut times, mut floors) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            floors.push(floor::spawn(&NOTHING)?);
            let mut command = stage.command(arguments);
            command.current_dir(&project).env("VOLERY_HOME", &home).stdin(Stdio::null());
            let (ms, said) = timed(|| Ok(command.output()?))?;
            ensure!(said.status.success(), "{name}: {}", String::from_utf8_lossy(&said.stderr));
            times.push(ms);
        }
        figures.push(figure(name, &times, (median(&floors), "spawn of /bin/true")));
    }
    let mut command = stage.command(&["serve"]);
    command.env("VOLERY_HOME", &home);
    let mut client = Client::start(command)?;
    let (mut times, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        floors.push(asked(&mut client, "ping", &json!({}))?);
        let list = json!({"name": "list_runs", "arguments": {"all_projects": true}});
        times.push(asked(&mut client, "tools/call", &list)?);
    }
    figures.push(figure("`list_runs`, 1,000,000 runs", &times, (median(&floors), "an MCP ping")));
    Ok(figures)
}

fn figure(name: &'static str, times: &[f64], floor: (f64, &'static str)) -> Figure {
    let target = Some((20.0, "fixed"));
    Figure { name, unit: "ms", value: median(times), floor: Some(floor), target, note: spread(times) }
}

fn asked(client: &mut Client, method: &str, params: &serde_json::Value) -> anyhow::Result<f64> {
    let (ms, answer) = timed(|| {
        let id = client.send(method, params)?;
        client.answer(id)
    })?;
    ensure!(answer.get("error").is_none() && answer["result"]["isError"] != json!(true), "{answer}");
    Ok(ms)
}

/// Returns the state directory with the index, and the project that is asked about.
fn built() -> anyhow::Result<(PathBuf, PathBuf)> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("million");
    // The program refuses a home that others may enter, so it is made as the program makes it.
    journal::Home::open(&home).context("make the state directory")?;
    let project = home.join("project");
    std::fs::create_dir_all(project.join(".volery"))?;
    let opened = Index::open(&home).context("open the index")?;
    let mut index = opened.index;
    if opened.state != State::Existing || index.count()? != RUNS {
        ensure!(index.clear().is_done(), "could not clear the index");
        index.begin_rebuild()?;
        for begin in (0..RUNS).step_by(2_000) {
            let runs: Vec<EndedRun> =
                (begin..RUNS.min(begin + 2_000)).map(|number| run(number, &project)).collect();
            ensure!(index.insert(&runs).is_done(), "could not write the index");
        }
        ensure!(index.mark_complete().is_done(), "could not complete the index");
    }
    Ok((home, project))
}

fn mixed(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 29)
}

fn id(number: u64) -> RunId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&mixed(number).to_be_bytes());
    // A run every 600 ms: a million in a week.
    let at_ms = FIRST_MS + i64::try_from(number).unwrap_or(0) * 600;
    RunId::from_parts(Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH), random)
}

fn run(number: u64, own: &Path) -> EndedRun {
    let random = mixed(number ^ 0xabcd);
    let outcome = match random % 100 {
        0..=5 => OutcomeKind::Failed,
        6..=8 => OutcomeKind::Cancelled,
        _ => OutcomeKind::Succeeded,
    };
    let project = match random / 100_000 % PROJECTS {
        0 => own.display().to_string(),
        other => format!("/home/somebody/projects/service-{other}"),
    };
    let id = id(number);
    let duration_ms = random % 600_000;
    let failed = outcome == OutcomeKind::Failed;
    let ended_ms = id.created_at().as_millisecond() + i64::try_from(duration_ms).unwrap_or(0);
    EndedRun {
        id,
        agent: format!("agent-{}", random / 1_000 % AGENTS).parse().expect("a valid name"),
        backend: "claude".parse().expect("a valid name"),
        project,
        caller: "main".into(),
        token: None,
        session: None,
        parent: None,
        root: id,
        outcome,
        created_at: id.created_at(),
        ended_at: Timestamp::from_millisecond(ended_ms).expect("a time of this century"),
        duration_ms,
        cost_microusd: number.is_multiple_of(2).then_some(random % 90_000),
        input_tokens: random % 50_000,
        output_tokens: random % 3_000,
        prompt_head: "Review the change to the parser of definitions and say what is wrong with it.".into(),
        error: failed.then(|| "failed: the agent exited with code 1: no such file".into()),
    }
}
