//! More runs than slots: they start in the order in which they were accepted, report their position, and one that
//! dies or is cancelled holds nobody up.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::test_env::{PATIENCE, TestEnv, kill, wait_for};

/// Makes a test environment with so many slots, all of them taken by runs that end when the returned file appears.
fn full(slots: usize) -> (TestEnv, std::path::PathBuf, Vec<String>) {
    let env = TestEnv::new();
    env.configure(&format!("[slots]\ncount = {slots}\nqueue = 30"));
    let gate = env.path("gate");
    env.fake("holder", &[&format!("wait-file:{}", gate.display()), "say:held"], "");
    env.rehearsal("quick", "- say: done", "");
    let holders: Vec<String> = (0..slots).map(|_| env.start("holder", "hold")).collect();
    for id in &holders {
        env.wait_for_event(id, "agent_started");
    }
    (env, gate, holders)
}

fn queued(env: &TestEnv, count: usize) -> Vec<String> {
    let start = |_| {
        let id = env.start("quick", "go");
        env.wait_for_event(&id, "queued");
        id
    };
    (0..count).map(start).collect()
}

fn position(env: &TestEnv, id: &str) -> serde_json::Value {
    env.json(["show", id])["waiting"].clone()
}

#[test]
fn runs_start_in_the_order_of_their_acceptance() {
    // With one slot: two that take slots in the same moment may record it the other way round.
    let (env, gate, _) = full(1);
    let waiting = queued(&env, 20);
    for (index, id) in waiting.iter().enumerate() {
        let shown = env.json(["show", id]);
        assert_eq!(shown["waiting"], json!({"for": "slot", "position": index + 1}), "{shown}");
        let explanation = format!("waiting for a slot, at position {} of the queue", index + 1);
        assert_eq!((&shown["status"], &shown["explanation"]), (&json!("waiting"), &json!(explanation)));
    }
    let listed = env.json(["ps", "--state", "waiting"]);
    assert_eq!(listed["runs"].as_array().unwrap().len(), 20);
    let mut client = env.serve().initialize("it");
    let got = client.call("get_run", json!({"run_id": waiting[4]}));
    assert_eq!(got["queue_position"], json!(5), "{got}");
    std::fs::write(gate, "").unwrap();
    let mut starts: Vec<(String, usize)> = Vec::new();
    for (index, id) in waiting.iter().enumerate() {
        assert_eq!(env.wait_for_end(id)["status"], json!("succeeded"));
        starts.push((env.wait_for_event(id, "slot_taken")["at"].as_str().unwrap().to_owned(), index));
    }
    starts.sort();
    let order: Vec<usize> = starts.into_iter().map(|(_, index)| index).collect();
    assert_eq!(order, (0..20).collect::<Vec<_>>());
}

#[test]
fn a_full_queue_refuses_and_says_so() {
    let (env, gate, _) = full(1);
    env.configure("");
    let waiting = queued(&env, 30);
    let run = env.volery(["run", "quick", "one too many", "--json"]).exits(3);
    let refused = run.json();
    assert_eq!(refused["status"], json!("refused"), "{refused}");
    insta::assert_snapshot!(env.masked_texts(&refused["explanation"]), @"refused: wait for a slot: 30 runs wait already, and the queue holds 30");
    std::fs::write(gate, "").unwrap();
    for id in waiting {
        assert_eq!(env.wait_for_end(&id)["status"], json!("succeeded"));
    }
}

#[test]
fn a_queued_run_can_be_cancelled_and_the_others_move_up() {
    let (env, gate, _) = full(1);
    let waiting = queued(&env, 3);
    env.volery(["cancel", &waiting[1]]).ok();
    let cancelled = env.wait_for_end(&waiting[1]);
    assert_eq!(cancelled["status"], json!("cancelled"), "{cancelled}");
    assert!(cancelled.get("started_at").is_none(), "it never started: {cancelled}");
    // The keeper records the end of its run first, and leaves the queue when it exits.
    wait_for(PATIENCE, "the queue to close up", || {
        (position(&env, &waiting[2]) == json!({"for": "slot", "position": 2})).then_some(())
    });
    std::fs::write(gate, "").unwrap();
    for id in [&waiting[0], &waiting[2]] {
        assert_eq!(env.wait_for_end(id)["status"], json!("succeeded"));
    }
}

#[test]
fn killed_keepers_do_not_block_the_queue() {
    let (env, gate, _) = full(1);
    let waiting = queued(&env, 4);
    for id in &waiting[..2] {
        let keeper = env.events(id)[0]["keeper_pid"].as_u64().unwrap();
        kill(u32::try_from(keeper).unwrap(), Signal::KILL);
    }
    wait_for(PATIENCE, "the queue to close up", || {
        (position(&env, &waiting[2]) == json!({"for": "slot", "position": 1})).then_some(())
    });
    std::fs::write(gate, "").unwrap();
    for id in &waiting[2..] {
        assert_eq!(env.wait_for_end(id)["status"], json!("succeeded"));
    }
    for id in &waiting[..2] {
        let shown = env.json(["show", id]);
        assert_eq!((&shown["status"], &shown["ended"]), (&json!("interrupted"), &json!(true)), "{shown}");
    }
}

#[test]
fn a_client_gets_its_position_in_the_queue() {
    let (env, gate, _) = full(1);
    let waiting = queued(&env, 1);
    let mut client = env.serve().initialize("it");
    let directory = env.project();
    let answer = client
        .call("run_agent", json!({"agent": "quick", "prompt": "go", "directory": directory, "wait_s": 0}));
    let id = answer["run_id"].as_str().unwrap().to_owned();
    env.wait_for_event(&id, "queued");
    let got = client.call("get_run", json!({"run_id": id}));
    assert_eq!((&got["status"], &got["queue_position"]), (&json!("waiting"), &json!(2)), "{got}");
    std::fs::write(gate, "").unwrap();
    for id in [&waiting[0], &id] {
        assert_eq!(env.wait_for_end(id)["status"], json!("succeeded"));
    }
}

#[test]
fn of_two_servers_and_eight_shells_that_ask_at_once() {
    let env = TestEnv::new();
    let go = env.path("go");
    env.configure("[slots]\ncount = 1\nqueue = 200");
    env.fake("first", &[&format!("wait-file:{}", go.display())], "");
    env.rehearsal("quick", "- say: done", "");
    let first = env.start("first", "x");
    env.wait_for_event(&first, "agent_started");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..7).for_each(|_| drop(env.start("quick", "x"))));
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let run = json!({"agent": "quick", "prompt": "x", "directory": env.project()});
                let arguments = json!({"runs": vec![run; 8], "wait_s": 0});
                env.serve().initialize("it").call("run_agents", arguments);
            });
        }
    });
    std::fs::write(&go, "").unwrap();
    let ids = env.runs();
    assert_eq!(ids.len(), 1 + 8 * 7 + 2 * 8);
    let mut turns: Vec<(u64, String)> = Vec::new();
    for id in &ids {
        assert_eq!(env.outcome_by_itself(id, Duration::from_secs(60))["outcome"], json!("succeeded"));
        let events = env.events(id);
        let find_event = |kind: &str| events.iter().find(|event| event["type"] == json!(kind));
        if let (Some(queued), Some(taken)) = (find_event("queued"), find_event("slot_taken")) {
            let at = taken["at"].as_str().unwrap().to_owned();
            turns.push((queued["ticket"].as_u64().unwrap(), at));
        }
    }
    assert_eq!(turns.len(), ids.len() - 1, "all but the first had to wait");
    turns.sort();
    let times: Vec<&String> = turns.iter().map(|(_, at)| at).collect();
    assert!(times.is_sorted(), "with one slot, each takes it after the one before: {turns:?}");
}
