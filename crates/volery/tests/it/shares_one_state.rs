//! Many doors and hundreds of runs on one state directory: nothing is lost, nothing is done twice, and where slots
//! are few, everyone gets one in turn.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::test_env::{Client, KillOnDrop, TestEnv, command_output, wait_for};

const SERVERS: usize = 2;
const SHELLS: usize = 8;
/// Runs per door: 2 × 48 and 8 × 20 make 256.
const PER_SERVER: usize = 48;
const PER_SHELL: usize = 20;
const RUNS: usize = SERVERS * PER_SERVER + SHELLS * PER_SHELL;
/// Fewer slots than runs by far.
const FEW: usize = 5;
const LONG: Duration = Duration::from_secs(120);

/// A test environment for agents that are real processes, each of which works until the returned file appears.
fn vendor_env(slots: usize) -> (TestEnv, PathBuf) {
    let env = TestEnv::new();
    env.configure(&format!("[slots]\ncount = {slots}\nqueue = {RUNS}"));
    let gate = env.path("gate");
    env.fake("nap", &[&format!("wait-file:{}", gate.display()), "read-stdin"], "");
    (env, gate)
}

/// Starts a shell that starts its runs one after the other, in the background, and prints their ids.
fn shell(env: &TestEnv, number: usize) -> KillOnDrop {
    let program = env.command(["x"]).get_program().to_owned();
    let loop_ = format!(
        "for i in $(seq {PER_SHELL}); do \"$0\" run nap \"shell {number} run $i\" --background || exit 9; done"
    );
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(loop_).arg(program).current_dir(env.project()).env_clear();
    let environment = env.command(["x"]);
    command.envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    KillOnDrop(command.spawn().unwrap())
}

/// Asks for all runs through all doors at once, calls `accepted` when every run exists, and then waits for every
/// answer. Returns the ids that servers and commands reported, and the servers' clients.
fn ask_all(env: &TestEnv, accepted: impl FnOnce(&[String])) -> (BTreeSet<String>, Vec<Client>) {
    let directory = env.project();
    let shells: Vec<KillOnDrop> = (0..SHELLS).map(|number| shell(env, number)).collect();
    let mut clients: Vec<_> = (0..SERVERS).map(|_| env.serve().initialize("it")).collect();
    let mut requests: Vec<(usize, u64)> = Vec::new();
    for run in 0..PER_SERVER {
        for (server, client) in clients.iter_mut().enumerate() {
            let prompt = format!("server {server} run {run}");
            let arguments = json!({"agent": "nap", "prompt": prompt, "directory": directory, "wait_s": 100});
            let call = json!({"name": "run_agent", "arguments": arguments});
            requests.push((server, client.send("tools/call", call)));
        }
    }
    let runs = wait_for(LONG, "all runs", || Some(env.runs()).filter(|runs| runs.len() == RUNS));
    accepted(&runs);
    let mut ids = BTreeSet::new();
    for (server, id) in requests {
        let answer = clients[server].answer(id, LONG);
        let run = &answer["result"]["structuredContent"];
        // On a slow machine a call answers with the handle before its run has ended.
        assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
        ids.insert(run["run_id"].as_str().unwrap().to_owned());
    }
    for mut shell in shells {
        let ended = wait_for(LONG, "a shell to end", || shell.0.try_wait().unwrap());
        assert!(ended.success(), "{ended}");
        let output = command_output(std::process::Output {
            status: ended,
            stdout: read(shell.0.stdout.take().unwrap()),
            stderr: read(shell.0.stderr.take().unwrap()),
        });
        assert!(!output.stderr.contains("error"), "{}", output.stderr);
        ids.extend(output.stdout.lines().map(str::to_owned));
    }
    (ids, clients)
}

/// Checks that every run ended once with its own answer, and that all doors list the same.
fn check_all(env: &TestEnv, ids: &BTreeSet<String>, client: &mut Client) {
    assert_eq!(ids.len(), RUNS, "every run has its own id");
    for id in ids {
        let ending = env.outcome_by_itself(id, LONG);
        let prompt = env.spec(id)["prompt"].clone();
        assert_eq!((&ending["outcome"], &ending["result"]["inline"]), (&json!("succeeded"), &prompt), "{id}");
        assert_eq!(env.times_ended(id), 1, "{id} has one outcome");
    }
    assert_eq!(&env.runs().into_iter().collect::<BTreeSet<_>>(), ids, "no run that nobody was told of");
    let listed = env.json(["ps", "--all", "--limit", "1000"]);
    assert_eq!(&ids_of(&listed["runs"]), ids);
    assert_eq!(&listed_by(client), ids);
    let prompts: BTreeSet<&str> =
        listed["runs"].as_array().unwrap().iter().map(|run| run["prompt"].as_str().unwrap()).collect();
    assert_eq!(prompts.len(), RUNS, "no update was lost");
    let health = env.json(["health", "--all"]);
    let line = &health["agents"][0];
    assert_eq!(
        (&line["runs"], &line["succeeded"], &health["running"]),
        (&json!(RUNS), &json!(RUNS), &json!(0))
    );
}

/// When a run had its slot: its position in the queue, if it had to wait, and from when to when.
struct Turn {
    ticket: Option<u64>,
    from: String,
    until: String,
}

/// Returns the turns of all runs. A turn is recorded after the slot was taken and before it is given back.
fn turns(env: &TestEnv, ids: &BTreeSet<String>) -> Vec<Turn> {
    let turn = |id: &String| {
        let events = env.events(id);
        let find_event = |kind: &str| events.iter().find(|event| event["type"] == json!(kind));
        let at = |event: &Value| event["at"].as_str().unwrap().to_owned();
        // One that need not wait takes its slot before its first event.
        let from = find_event("slot_taken").unwrap_or(&events[0]);
        let ticket = find_event("queued").map(|queued| queued["ticket"].as_u64().unwrap());
        Turn { ticket, from: at(from), until: at(find_event("ended").unwrap()) }
    };
    ids.iter().map(turn).collect()
}

/// Returns how many runs had a slot in the same moment.
fn most_at_once(turns: &[Turn]) -> usize {
    let in_turn = |moment: &str| {
        turns.iter().filter(|turn| turn.from.as_str() <= moment && moment < turn.until.as_str()).count()
    };
    turns.iter().map(|turn| in_turn(&turn.from)).max().unwrap_or_default()
}

#[test]
fn two_servers_eight_shells_and_256_runs() {
    let (env, gate) = vendor_env(RUNS);
    let (ids, mut clients) = ask_all(&env, |runs| {
        for id in runs {
            env.wait_for_event(id, "agent_started");
        }
        std::fs::write(&gate, "").unwrap();
    });
    check_all(&env, &ids, &mut clients[1]);
    assert_eq!(most_at_once(&turns(&env, &ids)), RUNS, "all agents were at work in the same moment");
}

/// Lets all doors ask while all slots are taken, and returns the turns in the order of the queue.
fn turns_with(slots: usize) -> Vec<Turn> {
    let (env, gate) = vendor_env(slots);
    let (ids, mut clients) = ask_all(&env, |runs| {
        let stands = |id: &String| {
            let events = env.events(id);
            events.iter().any(|event| event["type"] == "queued" || event["type"] == "agent_started")
        };
        wait_for(LONG, "each to work or to wait", || runs.iter().all(stands).then_some(()));
        std::fs::write(&gate, "").unwrap();
    });
    check_all(&env, &ids, &mut clients[1]);
    let mut turns = turns(&env, &ids);
    turns.sort_by_key(|turn| turn.ticket);
    let waited = turns.iter().filter(|turn| turn.ticket.is_some()).count();
    assert!(waited >= RUNS - slots, "{waited} had to wait");
    assert!(most_at_once(&turns) <= slots, "no more than {slots} at once");
    turns
}

#[test]
fn with_one_slot_256_runs_have_it_in_the_order_of_the_queue() {
    let turns = turns_with(1);
    let from: Vec<&str> = turns.iter().map(|turn| turn.from.as_str()).collect();
    assert!(from.is_sorted(), "each takes the slot after the one before: {from:?}");
}

#[test]
fn with_few_slots_256_runs_have_them_all_in_turn() {
    let turns = turns_with(FEW);
    assert!(most_at_once(&turns) > 1, "several had a slot at once");
}

fn read(mut stream: impl std::io::Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

fn ids_of(runs: &Value) -> BTreeSet<String> {
    runs.as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap().to_owned()).collect()
}

/// Lists all runs through a server, page by page.
fn listed_by(client: &mut Client) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    let mut ask = json!({"all_projects": true, "limit": 50});
    loop {
        let page = client.call("list_runs", ask.clone());
        ids.extend(ids_of(&page["runs"]));
        match page["before"].as_str() {
            Some(before) => ask["before"] = json!(before),
            None => return ids,
        }
    }
}
