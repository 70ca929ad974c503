//! Two thousand real runs through one server: questions and calls cost what they cost after a hundred, and the index's
//! log stays short.
//!
//! Two states are measured in turn, so that both meet the same load of the machine.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::test_env::{Client, PATIENCE, TestEnv};

const FEW: usize = 100;
const MANY: usize = 2_000;
/// How many calls are under way at once while the state grows.
const AT_ONCE: usize = 12;
const LOG_BYTES_MAX: u64 = 4_000_000;
/// The most that something may cost with many runs, relative to the same with few.
const RATIO_MAX: f64 = 1.2;
/// How often each request is sent in one measurement. The least time counts.
const ROUNDS: usize = 15;
/// How many calls of each server make one measurement of its processor time.
const CALLS: usize = 60;
/// A machine that was busy for a moment is measured again.
const MEASUREMENTS: usize = 4;

/// A state with a number of runs, and the server that made them.
struct GrownState {
    env: TestEnv,
    client: Client,
}

impl GrownState {
    fn new(runs: usize) -> Self {
        let env = TestEnv::new();
        env.configure(&format!("[serve]\ncalls_per_minute = 10000000\n[slots]\ncount = {AT_ONCE}"));
        env.backend("nothing", &["/bin/true"]).agent("nothing", "backend: nothing");
        let client = env.serve().initialize("it");
        let mut grown = Self { env, client };
        let mut under_way = std::collections::VecDeque::new();
        for run in 0..runs {
            if run >= AT_ONCE {
                grown.end(under_way.pop_front().unwrap());
            }
            under_way.push_back(grown.begin());
        }
        under_way.into_iter().for_each(|call| grown.end(call));
        let listed = grown.client.call("list_runs", json!({"limit": 1}));
        assert_eq!(listed["runs"].as_array().unwrap().len(), 1, "{listed}");
        grown
    }

    fn begin(&mut self) -> u64 {
        let arguments = json!({"agent": "nothing", "prompt": "go", "directory": self.env.project()});
        self.client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}))
    }

    #[track_caller]
    fn end(&mut self, call: u64) {
        let answer = self.client.answer(call, PATIENCE);
        assert_eq!(answer["result"]["structuredContent"]["status"], json!("succeeded"), "{answer}");
    }

    /// Returns how long a command takes, from its start to its end, in milliseconds.
    fn command(&mut self, words: &[&str]) -> f64 {
        let mut command: Command = self.env.command(words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        timed(|| assert!(command.status().unwrap().success(), "{words:?}"))
    }

    fn tool(&mut self, name: &str) -> f64 {
        timed(|| drop(self.client.call(name, json!({"all_projects": true}))))
    }

    /// Returns the processor time that the server has used so far, in ticks.
    fn server_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.client.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // The fields after the name begin with the third.
        [fields[11], fields[12]].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    fn log_bytes(&self) -> u64 {
        let log = self.env.path("state").join("index-v2.db-wal");
        std::fs::metadata(log).map_or(0, |log| log.len())
    }
}

fn timed(action: impl FnOnce()) -> f64 {
    let began = Instant::now();
    action();
    began.elapsed().as_secs_f64() * 1_000.0
}

/// Measures something in both states until the ratio is within the bound, a few times at most.
#[track_caller]
#[expect(clippy::print_stderr, reason = "the figures of a test that passes are worth a look")]
fn within_bound(what: &str, mut measure: impl FnMut() -> (f64, f64)) {
    let mut seen = Vec::new();
    for _ in 0..MEASUREMENTS {
        let (few, many) = measure();
        seen.push(format!("{few:.2} with {FEW} runs, {many:.2} with {MANY}"));
        if many <= few * RATIO_MAX {
            eprintln!("{what}: {}", seen.join("; "));
            return;
        }
    }
    panic!("{what} slows down: {}", seen.join("; "));
}

/// Asks both states in turn and returns the least time of each.
fn least(few: &mut GrownState, many: &mut GrownState, ask: impl Fn(&mut GrownState) -> f64) -> (f64, f64) {
    let (mut least_few, mut least_many) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        least_few = least_few.min(ask(few));
        least_many = least_many.min(ask(many));
    }
    (least_few, least_many)
}

/// Returns the ticks of each server for the same number of calls, made in turn.
#[expect(clippy::cast_precision_loss, reason = "a few thousand ticks")]
fn ticks_of_calls(few: &mut GrownState, many: &mut GrownState) -> (f64, f64) {
    let before = [few.server_ticks(), many.server_ticks()];
    for _ in 0..CALLS {
        for grown in [&mut *few, &mut *many] {
            let call = grown.begin();
            grown.end(call);
        }
    }
    ((few.server_ticks() - before[0]) as f64, (many.server_ticks() - before[1]) as f64)
}

#[test]
fn between_a_hundred_runs_and_two_thousand() {
    let (mut few, mut many) = (GrownState::new(FEW), GrownState::new(MANY));
    assert!(many.log_bytes() <= LOG_BYTES_MAX, "{}", many.log_bytes());
    within_bound("server ticks of calls", || ticks_of_calls(&mut few, &mut many));
    for tool in ["list_runs", "health"] {
        within_bound(tool, || least(&mut few, &mut many, |grown| grown.tool(tool)));
    }
    for command in [&["ps", "--all"][..], &["health", "--all"]] {
        within_bound(&command.join(" "), || least(&mut few, &mut many, |grown| grown.command(command)));
    }
    for grown in [&mut few, &mut many] {
        grown.client.close();
        grown.client.exit(Duration::from_secs(20));
    }
    // Each of these is the first to open the index, so it reads the whole log.
    within_bound("ps without a server", || least(&mut few, &mut many, |grown| grown.command(&["ps"])));
    assert!(many.log_bytes() <= LOG_BYTES_MAX, "{}", many.log_bytes());
    let health = many.env.json(["health", "--all"]);
    assert_eq!(health["agents"][0]["runs"], json!(many.env.runs().len()), "no run is missing in the index");
}
