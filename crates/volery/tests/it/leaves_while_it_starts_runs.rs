//! A server whose client goes away, or that is told to stop, while it starts a run: the run hears its word as if it
//! had been there before. What was not begun is refused, and a start that takes too long ends like that of a server
//! that crashed.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::stage::{Client, PATIENCE, Stage, kill, tagged, wait_for};

/// Where a start can stand when its server leaves: nothing but the record, a keeper that waits, a run that goes.
const BEGUN: [&str; 3] = ["door_wrote_spec", "door_started_keeper", "door_said_go"];
/// Reached when the word was said to all runs that are known.
const LEFT: &str = "door_left";
const GRACE_MS: u64 = 300;

#[derive(Debug, Clone, Copy)]
enum How {
    Closed,
    Terminated,
}

/// A server that stands at a point of the start of its only run, and the request that it works on.
struct Starting {
    stage: Stage,
    client: Client,
    asked: u64,
}

impl Starting {
    fn at(point: &str, on_disconnect: &str) -> Self {
        Self::on(Stage::new(), point, on_disconnect)
    }

    fn on(stage: Stage, point: &str, on_disconnect: &str) -> Self {
        let go = format!("wait-file:{}", stage.path("go").display());
        let more = format!("on_disconnect: {on_disconnect}\ndisconnect_grace: {GRACE_MS}ms");
        stage.fake("slow", &["say:before", &go, "say:after"], &more);
        stage.hold(point);
        let mut client = stage.serve().initialize("it");
        let arguments = json!({"agent": "slow", "prompt": "x", "directory": stage.project()});
        let asked = client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}));
        stage.held(point);
        Self { stage, client, asked }
    }

    /// Lets the server leave up to the moment at which it has said its word, and only then go on with the start.
    fn leave(&mut self, how: How, point: &str) {
        self.stage.hold(LEFT);
        match how {
            How::Closed => self.client.close(),
            How::Terminated => kill(self.client.pid(), Signal::TERM),
        }
        self.stage.held(LEFT);
        self.stage.release(point);
    }

    /// Lets the server go, and returns what it still answered.
    fn gone(&mut self) -> Option<Value> {
        self.stage.release(LEFT);
        assert_eq!(self.client.exit(PATIENCE), Some(0));
        self.client.answer_if_any(self.asked)
    }
}

#[test]
fn with_cancel_the_run_is_cancelled_after_its_grace() {
    for point in BEGUN {
        for how in [How::Closed, How::Terminated] {
            let mut starting = Starting::at(point, "cancel");
            starting.leave(how, point);
            let id = starting.stage.newest_of(1);
            let ending = starting.stage.outcome_by_itself(&id, PATIENCE);
            let cause = json!({"cause": "cancelled", "by": "the disconnect of the client"});
            assert_eq!(ending["cause"], cause, "{point}, {how:?}: {ending}");
            assert!(ending["duration_ms"].as_u64().unwrap() >= GRACE_MS, "{point}, {how:?}: {ending}");
            assert_eq!(tagged(starting.stage.tag(&id)), Vec::<u32>::new());
            starting.gone();
            assert_eq!(starting.stage.times_ended(&id), 1);
        }
    }
}

#[test]
fn with_continue_it_ends_by_itself() {
    for point in BEGUN {
        let mut starting = Starting::at(point, "continue");
        starting.leave(How::Closed, point);
        let id = starting.stage.newest_of(1);
        starting.stage.event(&id, "agent_started");
        starting.gone();
        // Far longer than the grace after which a run that shall not continue would be stopped.
        std::thread::sleep(Duration::from_millis(2 * GRACE_MS));
        fs::write(starting.stage.path("go"), "").unwrap();
        let ending = starting.stage.outcome_by_itself(&id, PATIENCE);
        let whole = json!("before\nafter\n");
        assert_eq!(
            (&ending["outcome"], &ending["result"]["inline"]),
            (&json!("succeeded"), &whole),
            "{point}"
        );
    }
}

/// Makes a place whose only slot is taken by the returned run.
fn full() -> (Stage, String) {
    let stage = Stage::new();
    stage.configure("[slots]\ncount = 1");
    stage.fake("holder", &["sleep:60000"], "grace: 100ms");
    let holder = stage.start("holder", "x");
    stage.event(&holder, "agent_started");
    (stage, holder)
}

fn check_cancelled_in_the_queue(stage: &Stage) {
    let id = stage.newest_of(2);
    let ending = stage.outcome_by_itself(&id, PATIENCE);
    let expected = (&json!("cancelled"), &json!("the disconnect of the client"));
    assert_eq!((&ending["outcome"], &ending["by"]), expected, "{ending}");
    let events = stage.events(&id);
    assert!(events.iter().all(|event| event["type"] != "slot_taken"), "{events:?}");
}

#[test]
fn with_cancel_a_run_that_comes_into_the_queue_is_cancelled_there() {
    for point in BEGUN {
        let (stage, holder) = full();
        let mut starting = Starting::on(stage, point, "cancel");
        starting.leave(How::Closed, point);
        check_cancelled_in_the_queue(&starting.stage);
        starting.gone();
        assert_eq!(starting.stage.volery(["cancel", &holder]).code, 0);
        starting.stage.outcome_by_itself(&holder, PATIENCE);
    }
}

/// Lets a server start a run, and leave, before the run's keeper has read anything: it hears two words at once.
fn say_all_in_one_breath(stage: Stage) -> Starting {
    stage.hold("keeper_started");
    let mut starting = Starting::on(stage, "door_said_go", "cancel");
    starting.stage.held("keeper_started");
    starting.stage.hold("door_holds_leash");
    starting.leave(How::Closed, "door_said_go");
    starting.stage.held("door_holds_leash");
    starting.stage.release("keeper_started");
    starting
}

#[test]
fn a_word_in_one_breath_with_the_go_is_heard() {
    let mut starting = say_all_in_one_breath(Stage::new());
    let ending = starting.stage.outcome_by_itself(&starting.stage.only_run(), PATIENCE);
    assert_eq!(ending["cause"]["cause"], json!("cancelled"), "{ending}");
    starting.stage.release("door_holds_leash");
    starting.gone();
}

#[test]
fn a_word_in_one_breath_with_the_go_is_heard_in_the_queue() {
    let (stage, holder) = full();
    let mut starting = say_all_in_one_breath(stage);
    check_cancelled_in_the_queue(&starting.stage);
    starting.stage.release("door_holds_leash");
    starting.gone();
    assert_eq!(starting.stage.volery(["cancel", &holder]).code, 0);
    starting.stage.outcome_by_itself(&holder, PATIENCE);
}

#[test]
fn what_was_not_begun_is_refused_and_leaves_no_record() {
    let mut starting = Starting::at("door_asked", "continue");
    starting.leave(How::Closed, "door_asked");
    let answer = starting.gone();
    // On a machine that stands still the server is gone before it can answer.
    let told = answer.map(|answer| answer["result"]["content"][0]["text"].to_string());
    assert!(told.as_ref().is_none_or(|text| text.contains("this server is leaving")), "{told:?}");
    assert_eq!(starting.stage.runs(), Vec::<String>::new());
}

#[test]
fn a_start_that_outlasts_the_server_goes_on_as_after_a_crash() {
    let mut starting = Starting::at("door_started_keeper", "cancel");
    starting.stage.hold(LEFT);
    starting.client.close();
    starting.stage.held(LEFT);
    starting.gone();
    starting.stage.release("door_started_keeper");
    let id = starting.stage.newest_of(1);
    starting.stage.event(&id, "agent_started");
    fs::write(starting.stage.path("go"), "").unwrap();
    assert_eq!(starting.stage.outcome_by_itself(&id, PATIENCE)["outcome"], json!("succeeded"));
    let left = || tagged(starting.stage.tag(&id));
    wait_for(PATIENCE, "its processes to be gone", || left().is_empty().then_some(()));
}
