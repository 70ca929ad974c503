//! Two thousand real runs through one server: requests and calls read as much as they do after a hundred, and the index's
//! log stays short. The benchmark (`growth`) measures the times.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::json;

use crate::test_env::{Client, PATIENCE, TestEnv};

const FEW: usize = 100;
const MANY: usize = 2_000;
/// How many calls are under way at once while the state grows.
const AT_ONCE: usize = 12;
const LOG_BYTES_MAX: u64 = 4_000_000;
/// The most that a request may read with many runs, relative to few runs. One more level in a tree of the index adds a fifth
/// to a short command. A cost that grows with the number of runs would multiply the reads by twenty.
const RATIO_MAX: f64 = 1.5;
/// How often each request is sent in one measurement.
const ROUNDS: usize = 5;
/// How many calls of each server make one measurement.
const CALLS: usize = 20;

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

    /// Returns the amount that a command reads from its start to its end.
    fn reads_of_command(&mut self, words: &[&str]) -> Reads {
        let mut command = self.env.command(words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // The kernel keeps the counters of a process until its parent has collected it.
        let pid = Pid::from_child(&child);
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        let reads = Reads::so_far(child.id());
        assert!(child.wait().unwrap().success(), "{words:?}");
        reads
    }

    fn reads_of_tool(&mut self, name: &str) -> Reads {
        let before = Reads::so_far(self.client.pid());
        self.client.call(name, json!({"all_projects": true}));
        Reads::so_far(self.client.pid()).since(before)
    }

    fn log_bytes(&self) -> u64 {
        let log = self.env.path("state").join("index-v3.db-wal");
        std::fs::metadata(log).map_or(0, |log| log.len())
    }
}

/// The amount that a process has read: bytes of files, pipes and sockets, and calls of `read`.
#[derive(Debug, Clone, Copy)]
struct Reads {
    bytes: u64,
    calls: u64,
}

impl Reads {
    const MOST: Self = Self { bytes: u64::MAX, calls: u64::MAX };

    fn so_far(pid: u32) -> Self {
        let counters = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
        let counter = |name: &str| {
            let line = counters.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().parse().unwrap()
        };
        Self { bytes: counter("rchar:"), calls: counter("syscr:") }
    }

    fn since(self, before: Self) -> Self {
        Self { bytes: self.bytes - before.bytes, calls: self.calls - before.calls }
    }

    fn least(self, other: Self) -> Self {
        Self { bytes: self.bytes.min(other.bytes), calls: self.calls.min(other.calls) }
    }
}

/// Measures a request in both states in turn, and compares the smallest values. A server that has just emptied the index's log
/// reads its pages again.
#[track_caller]
#[expect(clippy::cast_precision_loss, reason = "the counters are far below 2^52")]
fn check_growth(
    what: &str,
    (few, many): (&mut GrownState, &mut GrownState),
    rounds: usize,
    measure: impl Fn(&mut GrownState) -> Reads,
) {
    let (mut with_few, mut with_many) = (Reads::MOST, Reads::MOST);
    for _ in 0..rounds {
        with_few = with_few.least(measure(few));
        with_many = with_many.least(measure(many));
    }
    let is_within = |few: u64, many: u64| many as f64 <= few as f64 * RATIO_MAX;
    let grows_slowly =
        is_within(with_few.bytes, with_many.bytes) && is_within(with_few.calls, with_many.calls);
    assert!(grows_slowly, "{what}: {with_few:?} with {FEW} runs, {with_many:?} with {MANY}");
}

#[test]
fn between_a_hundred_runs_and_two_thousand() {
    let (mut few, mut many) = (GrownState::new(FEW), GrownState::new(MANY));
    assert!(many.log_bytes() <= LOG_BYTES_MAX, "{}", many.log_bytes());
    check_growth("a call", (&mut few, &mut many), CALLS, |grown| {
        let before = Reads::so_far(grown.client.pid());
        let call = grown.begin();
        grown.end(call);
        Reads::so_far(grown.client.pid()).since(before)
    });
    for tool in ["list_runs", "health"] {
        check_growth(tool, (&mut few, &mut many), ROUNDS, |grown| grown.reads_of_tool(tool));
    }
    for command in [&["ps", "--all"][..], &["health", "--all"]] {
        let measure = |grown: &mut GrownState| grown.reads_of_command(command);
        check_growth(&command.join(" "), (&mut few, &mut many), ROUNDS, measure);
    }
    for grown in [&mut few, &mut many] {
        grown.client.close();
        grown.client.exit(Duration::from_secs(20));
    }
    // Each of these is the first to open the index, so it reads the whole log.
    check_growth("ps without a server", (&mut few, &mut many), ROUNDS, |grown| {
        grown.reads_of_command(&["ps"])
    });
    assert!(many.log_bytes() <= LOG_BYTES_MAX, "{}", many.log_bytes());
    let health = many.env.json(["health", "--all"]);
    assert_eq!(health["agents"][0]["runs"], json!(many.env.runs().len()), "no run is missing in the index");
}
