//! A server whose client goes away, or that is told to stop, while it starts a run: the run hears its word as if it
//! had been there before. What was not begun is refused, and a start that takes too long ends like that of a server
//! that crashed.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_env::{Client, PATIENCE, TestEnv, kill, tagged, wait_for};

/// Where a start can stand when its server leaves: nothing but the record, a keeper that waits, a run that goes.
const BEGUN: [&str; 3] = ["door_wrote_spec", "door_started_keeper", "door_said_go"];
/// Reached when the server has sent its last message to all runs that it knows.
const LEFT: &str = "door_left";
const GRACE_MS: u64 = 300;

#[derive(Debug, Clone, Copy)]
enum Departure {
    Closed,
    Terminated,
}

/// A server that is held at a point of the start of its only run, and the request that it works on.
struct StartingServer {
    env: TestEnv,
    client: Client,
    request_id: u64,
}

impl StartingServer {
    fn at(point: &str, on_disconnect: &str) -> Self {
        Self::on(TestEnv::new(), point, on_disconnect)
    }

    fn on(env: TestEnv, point: &str, on_disconnect: &str) -> Self {
        let go = format!("wait-file:{}", env.path("go").display());
        let more = format!("on_disconnect: {on_disconnect}\ndisconnect_grace: {GRACE_MS}ms");
        env.fake("slow", &["say:before", &go, "say:after"], &more);
        env.hold(point);
        let mut client = env.serve().initialize("it");
        let arguments = json!({"agent": "slow", "prompt": "x", "directory": env.project()});
        let request_id = client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}));
        env.wait_until_held(point);
        Self { env, client, request_id }
    }

    /// Lets the server leave up to the moment at which it has sent its last message, and only then continues the start.
    fn leave(&mut self, how: Departure, point: &str) {
        self.env.hold(LEFT);
        match how {
            Departure::Closed => self.client.close(),
            Departure::Terminated => kill(self.client.pid(), Signal::TERM),
        }
        self.env.wait_until_held(LEFT);
        self.env.release(point);
    }

    /// Lets the server go, and returns what it still answered.
    fn gone(&mut self) -> Option<Value> {
        self.env.release(LEFT);
        assert_eq!(self.client.exit(PATIENCE), Some(0));
        self.client.answer_if_any(self.request_id)
    }
}

#[test]
fn with_cancel_the_run_is_cancelled_after_its_grace() {
    for point in BEGUN {
        for how in [Departure::Closed, Departure::Terminated] {
            let mut starting = StartingServer::at(point, "cancel");
            starting.leave(how, point);
            let id = starting.env.wait_for_run_count(1);
            let ending = starting.env.outcome_by_itself(&id, PATIENCE);
            let cause = json!({"cause": "cancelled", "by": "the disconnect of the client"});
            assert_eq!(ending["cause"], cause, "{point}, {how:?}: {ending}");
            assert!(ending["duration_ms"].as_u64().unwrap() >= GRACE_MS, "{point}, {how:?}: {ending}");
            assert_eq!(tagged(starting.env.tag(&id)), Vec::<u32>::new());
            starting.gone();
            assert_eq!(starting.env.times_ended(&id), 1);
        }
    }
}

#[test]
fn with_continue_it_ends_by_itself() {
    for point in BEGUN {
        let mut starting = StartingServer::at(point, "continue");
        starting.leave(Departure::Closed, point);
        let id = starting.env.wait_for_run_count(1);
        starting.env.wait_for_event(&id, "agent_started");
        starting.gone();
        // Far longer than the grace after which a run that may not continue would be stopped.
        std::thread::sleep(Duration::from_millis(2 * GRACE_MS));
        fs::write(starting.env.path("go"), "").unwrap();
        let ending = starting.env.outcome_by_itself(&id, PATIENCE);
        let whole = json!("before\nafter\n");
        assert_eq!(
            (&ending["outcome"], &ending["result"]["inline"]),
            (&json!("succeeded"), &whole),
            "{point}"
        );
    }
}

/// Makes a test environment whose only slot is taken by the returned run.
fn full() -> (TestEnv, String) {
    let env = TestEnv::new();
    env.configure("[slots]\ncount = 1");
    env.fake("holder", &["sleep:60000"], "grace: 100ms");
    let holder = env.start("holder", "x");
    env.wait_for_event(&holder, "agent_started");
    (env, holder)
}

fn check_cancelled_in_the_queue(env: &TestEnv) {
    let id = env.wait_for_run_count(2);
    let ending = env.outcome_by_itself(&id, PATIENCE);
    let expected = (&json!("cancelled"), &json!("the disconnect of the client"));
    assert_eq!((&ending["outcome"], &ending["by"]), expected, "{ending}");
    let events = env.events(&id);
    assert!(events.iter().all(|event| event["type"] != "slot_taken"), "{events:?}");
}

#[test]
fn with_cancel_a_run_that_comes_into_the_queue_is_cancelled_there() {
    for point in BEGUN {
        let (env, holder) = full();
        let mut starting = StartingServer::on(env, point, "cancel");
        starting.leave(Departure::Closed, point);
        check_cancelled_in_the_queue(&starting.env);
        starting.gone();
        assert_eq!(starting.env.volery(["cancel", &holder]).code, 0);
        starting.env.outcome_by_itself(&holder, PATIENCE);
    }
}

/// Lets a server start a run, and leave, before the run's keeper has read anything, so that it reads both at once.
fn send_all_at_once(env: TestEnv) -> StartingServer {
    env.hold("keeper_started");
    let mut starting = StartingServer::on(env, "door_said_go", "cancel");
    starting.env.wait_until_held("keeper_started");
    starting.env.hold("door_holds_leash");
    starting.leave(Departure::Closed, "door_said_go");
    starting.env.wait_until_held("door_holds_leash");
    starting.env.release("keeper_started");
    starting
}

#[test]
fn a_message_sent_together_with_the_go_is_handled() {
    let mut starting = send_all_at_once(TestEnv::new());
    let ending = starting.env.outcome_by_itself(&starting.env.only_run(), PATIENCE);
    assert_eq!(ending["cause"]["cause"], json!("cancelled"), "{ending}");
    starting.env.release("door_holds_leash");
    starting.gone();
}

#[test]
fn a_message_sent_together_with_the_go_is_handled_in_the_queue() {
    let (env, holder) = full();
    let mut starting = send_all_at_once(env);
    check_cancelled_in_the_queue(&starting.env);
    starting.env.release("door_holds_leash");
    starting.gone();
    assert_eq!(starting.env.volery(["cancel", &holder]).code, 0);
    starting.env.outcome_by_itself(&holder, PATIENCE);
}

#[test]
fn what_was_not_begun_is_refused_and_leaves_no_record() {
    let mut starting = StartingServer::at("door_asked", "continue");
    starting.leave(Departure::Closed, "door_asked");
    let answer = starting.gone();
    // On a stalled machine the server is gone before it can answer.
    let refusal = answer.map(|answer| answer["result"]["content"][0]["text"].to_string());
    assert!(refusal.as_ref().is_none_or(|text| text.contains("this server is leaving")), "{refusal:?}");
    assert_eq!(starting.env.runs(), Vec::<String>::new());
}

#[test]
fn a_start_that_outlasts_the_server_goes_on_as_after_a_crash() {
    let mut starting = StartingServer::at("door_started_keeper", "cancel");
    starting.env.hold(LEFT);
    starting.client.close();
    starting.env.wait_until_held(LEFT);
    starting.gone();
    starting.env.release("door_started_keeper");
    let id = starting.env.wait_for_run_count(1);
    starting.env.wait_for_event(&id, "agent_started");
    fs::write(starting.env.path("go"), "").unwrap();
    assert_eq!(starting.env.outcome_by_itself(&id, PATIENCE)["outcome"], json!("succeeded"));
    let left = || tagged(starting.env.tag(&id));
    wait_for(PATIENCE, "its processes to be gone", || left().is_empty().then_some(()));
}
