//! What grows with the number of runs, and what may not: two states with few and many real runs, asked in turn.

use std::process::Stdio;

use anyhow::ensure;
use serde_json::json;

use crate::bench_env::{BenchEnv, Client, NOTHING, is_success};
use crate::figure::{Figure, median, spread};
use crate::floor::{self, timed};

const FEW: usize = 100;
const MANY: usize = 2_000;
/// How many calls are under way at once while a state grows.
const AT_ONCE: usize = 6;
const ROUNDS: usize = 30;
const CALLS: usize = 100;

/// The commands that read lists and sums.
const COMMANDS: [(&str, &[&str]); 2] = [
    ("`volery ps --all`, 2,000 runs", &["ps", "--all"]),
    ("`volery health --all`, 2,000 runs", &["health", "--all"]),
];

/// A state with a number of runs, and the server that made them.
struct GrownState<'a> {
    env: &'a BenchEnv,
    client: Client,
    /// What the log of the index has, at the end of the growth.
    log_mb: f64,
}

impl<'a> GrownState<'a> {
    fn new(env: &'a BenchEnv, runs: usize) -> anyhow::Result<Self> {
        let mut client = env.serve_many()?;
        for run in 0..runs + AT_ONCE {
            if run >= AT_ONCE {
                let answer = client.next_answer()?;
                ensure!(is_success(&answer), "the run did not succeed: {answer}");
            }
            if run < runs {
                client.ask_run("nothing")?;
            }
        }
        client.tool("list_runs", &json!({}))?;
        // The benchmark also measures an earlier program, which has an earlier version of the index.
        let logs = ["state/index-v2.db-wal", "state/index-v3.db-wal"];
        let log: u64 = logs.iter().filter_map(|log| Some(std::fs::metadata(env.path(log)).ok()?.len())).sum();
        #[expect(clippy::cast_precision_loss, reason = "a size that is shown with two digits")]
        let log_mb = log as f64 / 1_000_000.0;
        Ok(Self { env, client, log_mb })
    }

    fn command(&self, words: &[&str]) -> anyhow::Result<f64> {
        let mut command = self.env.command(words);
        command.stdin(Stdio::null());
        let (ms, output) = timed(|| Ok(command.output()?))?;
        ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(ms)
    }
}

pub(crate) fn growth(env: &BenchEnv) -> anyhow::Result<Vec<Figure>> {
    let other = env.new_nested()?;
    let (mut few, mut many) = (GrownState::new(&other, FEW)?, GrownState::new(env, MANY)?);
    let mut figures = Vec::new();
    for (name, words) in COMMANDS {
        let (mut least, mut most, mut floors) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            floors.push(floor::spawn(&NOTHING)?);
            least.push(few.command(words)?);
            most.push(many.command(words)?);
        }
        let note =
            format!("{:.2} ms with {FEW}; {}; spawn {:.2}", median(&least), spread(&most), median(&floors));
        figures.push(compared(name, "ms", median(&least), median(&most), note));
    }
    let (mut least, mut most) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        least.push(timed(|| few.client.tool("list_runs", &json!({"all_projects": true})))?.0);
        most.push(timed(|| many.client.tool("list_runs", &json!({"all_projects": true})))?.0);
    }
    let note = format!("{:.2} ms with {FEW}; {}", median(&least), spread(&most));
    figures.push(compared("`list_runs`, 2,000 runs", "ms", median(&least), median(&most), note));
    let [least, most] = processor_per_call(&mut few, &mut many)?;
    let note = format!("{least:.2} ms with {FEW}");
    figures.push(compared("processor time of the server per call, 2,000 runs", "ms", least, most, note));
    figures.push(Figure {
        name: "log of the index after 2,000 runs",
        unit: "MB",
        value: many.log_mb,
        floor: None,
        target: Some((4.0, "fixed")),
        note: format!("{:.2} MB after {FEW}", few.log_mb),
    });
    Ok(figures)
}

/// Returns the processor time that each server needs for a call, with calls made in turn.
fn processor_per_call(few: &mut GrownState<'_>, many: &mut GrownState<'_>) -> anyhow::Result<[f64; 2]> {
    let before = [few.client.processor_ms()?, many.client.processor_ms()?];
    for _ in 0..CALLS {
        few.client.run("nothing")?;
        many.client.run("nothing")?;
    }
    let after = [few.client.processor_ms()?, many.client.processor_ms()?];
    #[expect(clippy::cast_precision_loss, reason = "a hundred")]
    let calls = CALLS as f64;
    Ok([(after[0] - before[0]) / calls, (after[1] - before[1]) / calls])
}

fn compared(name: &'static str, unit: &'static str, few: f64, many: f64, note: String) -> Figure {
    let floor = Some((few, "with 100 runs"));
    Figure { name, unit, value: many, floor, target: Some((few * 1.2, "120 % of that")), note }
}
