//! Kills without a plan: several runs at once, some of which delegate to others; any of door, keeper and worker, at
//! any moment. Nothing that was acknowledged is lost, everything ends exactly once, and nothing is left.
//!
//! `VOLERY_RANDOM_KILLS` sets how many kills there are, `VOLERY_RANDOM_SEED` repeats the choices of an earlier time.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::io::Read;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_env::{
    KillOnDrop, PATIENCE, TestEnv, all_run_processes, control_groups, tagged_with_any, wait_for,
};

const KILLS: u32 = 500;
/// How many runs are started at the same time.
const LANES: u64 = 4;
/// Kills come this soon after a start at the latest.
const MOMENT_US: u64 = 50_000;
/// After so many starts, on average, somebody looks.
const LOOK_EVERY: u64 = 5;
/// How long the whole test may take to come to rest after the last kill.
const REST: Duration = Duration::from_secs(120);

/// Who is asked, one as often as the other. The last two delegate to `leaf`: one in its loop, the other by a door of
/// its own inside the run.
const AGENTS: [&str; 5] = ["busy", "loose", "loop", "chief", "shell"];

/// Descendants that are hard to get rid of. A chain that nobody stops costs a machine thousands of processes a
/// second, so this one ends soon by itself.
const STEPS: [&str; 9] = [
    "say:before",
    "setsid-child:60000",
    "double-fork:60000",
    "clean-env-child:60000",
    "overwrite-env-child:60000",
    "non-dumpable-child:60000",
    "fork-chain:500",
    "term-ignoring-child:60000",
    "say:after",
];

/// A small generator, so that a seed repeats everything.
struct SeededChoice(u64);

impl SeededChoice {
    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

struct Tally {
    kills: AtomicU32,
    acknowledged: Mutex<Vec<String>>,
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

#[test]
fn at_any_moment_lose_nothing_and_leave_nothing() {
    let kill_count = number("VOLERY_RANDOM_KILLS").map_or(KILLS, |count| u32::try_from(count).unwrap());
    let random = || std::collections::hash_map::RandomState::new().build_hasher().finish();
    let seed = number("VOLERY_RANDOM_SEED").unwrap_or_else(random);
    eprintln!("{kill_count} kills; VOLERY_RANDOM_SEED={seed} repeats their choices");
    let env = TestEnv::new();
    define_agents(&env);
    let tally = Tally { kills: AtomicU32::new(0), acknowledged: Mutex::default() };
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let (env, tally) = (&env, &tally);
            scope.spawn(move || {
                let mut chance = SeededChoice(seed.wrapping_add(lane));
                while tally.kills.load(Ordering::Relaxed) < kill_count {
                    strike_once(env, tally, &mut chance);
                    if chance.below(LOOK_EVERY) == 0 {
                        assert_eq!(env.volery(["ps"]).code, 0);
                    }
                }
            });
        }
    });
    check(&env, &tally);
}

fn define_agents(env: &TestEnv) {
    env.fake("busy", &STEPS, "containment: auto").fake("loose", &STEPS, "containment: plain");
    env.rehearsal("loop", "- say: before\n- sleep: 20\n- say: after", "on_interrupt: resume");
    let leaf = ["say:leaf", "setsid-child:60000", "non-dumpable-child:60000", "sleep:20"];
    env.fake("leaf", &leaf, "grace: 100ms");
    let delegate = "- delegate: {agent: leaf, prompt: deeper}\n- say: after";
    env.rehearsal("chief", delegate, "delegates: anyone\non_interrupt: resume");
    let home = format!("VOLERY_HOME={}", env.path("state").display());
    let volery = env!("CARGO_BIN_EXE_volery");
    env.backend("shell", &["/usr/bin/env", "-i", &home, volery, "run", "leaf", "deeper"]);
    env.agent("shell", "backend: shell\ndelegates: anyone\ngrace: 100ms");
}

/// Starts a run, and kills some of those who live a random moment later.
fn strike_once(env: &TestEnv, tally: &Tally, chance: &mut SeededChoice) {
    let agent = AGENTS[usize::try_from(chance.below(AGENTS.len() as u64)).unwrap()];
    let (by_server, delay, victims) = (chance.below(2) == 0, chance.below(MOMENT_US), 1 + chance.below(7));
    let delay = Duration::from_micros(delay);
    let acknowledged = if by_server {
        let mut client = env.serve().initialize("it");
        let arguments = json!({"agent": agent, "prompt": "x", "directory": env.project(), "wait_s": 0});
        let request_id = client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}));
        std::thread::sleep(delay);
        if victims & 1 != 0 {
            client.kill();
            tally.kills.fetch_add(1, Ordering::Relaxed);
        }
        kill_run_processes(env, tally, chance, victims);
        let answer = client.answer_if_any(request_id);
        answer.and_then(|answer| Some(answer["result"]["structuredContent"]["run_id"].as_str()?.to_owned()))
    } else {
        let mut command = env.command(["run", agent, "x", "--background"]);
        let mut door = KillOnDrop(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        std::thread::sleep(delay);
        if victims & 1 != 0 && door.0.try_wait().unwrap().is_none() {
            door.0.kill().unwrap();
            tally.kills.fetch_add(1, Ordering::Relaxed);
        }
        kill_run_processes(env, tally, chance, victims);
        let mut stdout = String::new();
        door.0.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        stdout.ends_with('\n').then(|| stdout.trim().to_owned())
    };
    tally.acknowledged.lock().unwrap().extend(acknowledged);
}

/// Kills keeper, worker or both of a run that lives, be it this lane's or another's.
fn kill_run_processes(env: &TestEnv, tally: &Tally, chance: &mut SeededChoice, victims: u64) {
    if victims & 6 == 0 {
        return;
    }
    let mut all_run_processes: Vec<_> = all_run_processes(&env.path("state")).into_iter().collect();
    all_run_processes.sort_by(|one, other| one.0.cmp(&other.0));
    let Some(count) = u64::try_from(all_run_processes.len()).ok().filter(|count| *count > 0) else { return };
    let (_, run_processes) = all_run_processes.swap_remove(usize::try_from(chance.below(count)).unwrap());
    let keeper = run_processes.keeper.filter(|_| victims & 2 != 0);
    let worker = run_processes.worker.filter(|_| victims & 4 != 0);
    for member in [keeper, worker].into_iter().flatten() {
        if member.signal(Signal::KILL) {
            tally.kills.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[expect(clippy::print_stdout, reason = "a run by hand tells what it did")]
fn check(env: &TestEnv, tally: &Tally) {
    let acknowledged = tally.acknowledged.lock().unwrap().clone();
    let runs = all_ended(env);
    let lost: Vec<_> = acknowledged.iter().filter(|id| !runs.contains(*id)).collect();
    assert!(lost.is_empty(), "acknowledged, but not there: {lost:?}");
    let specs: HashMap<&String, Value> = runs.iter().map(|id| (id, env.spec(id))).collect();
    let mut outcomes: HashMap<String, u32> = HashMap::new();
    for (id, spec) in &specs {
        *outcomes.entry(check_ending(env, id, &spec["agent"])).or_default() += 1;
    }
    let children = check_families(env, &specs);
    let kills = tally.kills.load(Ordering::Relaxed);
    let (count, acknowledged_count) = (runs.len(), acknowledged.len());
    println!(
        "{kills} kills, {count} runs, {children} of them children, {acknowledged_count} acknowledged: {outcomes:?}"
    );
    assert!(acknowledged_count * 4 > count - children, "hardly anything was acknowledged");
    assert!(children * 20 > count, "hardly anybody delegated");
    let tags: HashSet<u64> = specs.values().map(|spec| spec["tag"].as_u64().unwrap()).collect();
    wait_for(PATIENCE, "the last processes to be gone", || tagged_with_any(&tags).is_empty().then_some(()));
    assert_eq!(control_groups(&tags), Vec::<PathBuf>::new(), "control groups are left");
    let known = env.json(["health", "--all"])["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["runs"].as_u64().unwrap())
        .sum::<u64>();
    assert_eq!(known, count as u64, "the index has lost or doubled something");
}

/// Waits until every run has ended, those included that others start meanwhile, and returns them.
fn all_ended(env: &TestEnv) -> BTreeSet<String> {
    wait_for(REST, "every run to end", || {
        // A look for those whom nobody is left to end.
        assert_eq!(env.volery(["ps"]).code, 0);
        let runs = env.runs();
        let ended = runs.iter().all(|id| env.times_ended(id) > 0);
        // Only a run that goes on starts another, so this is all there will ever be.
        (ended && env.runs() == runs).then(|| runs.into_iter().collect())
    })
}

/// Checks that a run ended once, and as one may that was disturbed, and returns how.
fn check_ending(env: &TestEnv, id: &str, agent: &Value) -> String {
    let events = env.events(id);
    assert_eq!(env.times_ended(id), 1, "{id}: {events:?}");
    let last = events.last().unwrap();
    assert_eq!(last["type"], json!("ended"), "something follows the end of {id}: {last}");
    let ending = &last["ending"];
    let outcome = ending["outcome"].as_str().unwrap();
    let kind = ending["kind"].as_str().map(|kind| format!(" {kind}")).unwrap_or_default();
    // Once its keeper is dead, a worker is taken for the keeper and the first process of its namespace for the
    // worker; the death of that one is a failure of the agent, or of its start. A door inside a run fails with the run
    // it waits for.
    let expected = matches!(kind.as_str(), " signal" | " spawn") || (kind == " exit" && agent == "shell");
    assert!(outcome != "failed" || expected, "{id}: {events:?}");
    format!("{outcome}{kind}")
}

/// Checks that parents and children know each other, that nobody delegated twice, and returns how many children
/// there are.
fn check_families(env: &TestEnv, specs: &HashMap<&String, Value>) -> usize {
    let mut begun: HashMap<&str, u32> = HashMap::new();
    let mut children = 0;
    for (id, spec) in specs {
        let events = env.events(id);
        for child in events.iter().filter(|event| event["type"] == "child_started") {
            let known = specs.get(&child["run"].as_str().unwrap().to_owned());
            assert_eq!(known.map(|known| &known["parent"]), Some(&json!(id)), "{id} lost {child}");
        }
        let Some(parent) = spec["parent"].as_str() else { continue };
        assert!(specs.contains_key(&parent.to_owned()), "{id} is the child of {parent}, which is not there");
        children += 1;
        // A parent that was killed before it claimed the key of its call leaves a child that never begins.
        if events.iter().any(|event| event["type"] == "agent_started") {
            *begun.entry(parent).or_default() += 1;
        }
    }
    let twice: Vec<_> = begun.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "delegated twice: {twice:?}");
    children
}
