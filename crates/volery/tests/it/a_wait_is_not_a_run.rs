//! A run is independent of the call that asked for it: time-outs, cancels, disconnects and crashes of a client.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::stage::{Client, PATIENCE, Stage, crew, kill, state_and_parent, tagged, wait_for};

/// A run that says something at once and the rest when the test lets it.
fn slow(stage: &Stage) {
    let go = stage.path("go");
    let wait = format!("wait-file:{}", go.display());
    stage.fake("slow", &["say:first", &wait, "say:second"], "");
}

fn let_go(stage: &Stage) {
    std::fs::write(stage.path("go"), "").unwrap();
}

fn call(stage: &Stage, client: &mut Client, arguments: &serde_json::Value) -> u64 {
    let mut arguments = arguments.clone();
    arguments["agent"] = json!("slow");
    arguments["prompt"] = json!("x");
    arguments["directory"] = json!(stage.project());
    client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}))
}

/// Returns the only run there is, once there is one.
fn only_run(stage: &Stage) -> String {
    wait_for(PATIENCE, "the run to begin", || {
        let listed = stage.json(["ps"]);
        let runs = listed["runs"].as_array()?;
        let running = runs.first().filter(|run| run["status"] == json!("running"))?;
        let id = running["run_id"].as_str()?.to_owned();
        stage.events(&id).iter().any(|event| event["type"] == json!("agent_started")).then_some(id)
    })
}

/// Asks as a client of this name, is answered within that time with a handle, and fetches the result as another.
fn gets_a_handle_and_later_the_result(stage: &Stage, name: &str, within: Duration) {
    slow(stage);
    let mut client = stage.serve().initialize(name);
    let asked = Instant::now();
    let id = call(stage, &mut client, &json!({}));
    let answer = client.answer(id, within)["result"]["structuredContent"].clone();
    assert!(asked.elapsed() < within, "{:?}", asked.elapsed());
    assert_eq!((&answer["status"], &answer["ended"]), (&json!("running"), &json!(false)));
    assert_eq!(answer["partial_text"], json!("first\n"), "{answer}");
    client.close();
    assert_eq!(client.exit(PATIENCE), Some(0));
    let_go(stage);
    let mut other = stage.serve().initialize("other");
    let waited = other.call("wait_runs", json!({"run_ids": [answer["run_id"]], "wait_s": 20}));
    assert_eq!(waited["runs"][0]["result"], json!("first\nsecond\n"));
}

#[test]
fn a_client_that_would_give_up_gets_a_handle_and_another_client_the_result() {
    let stage = Stage::new();
    // Nothing is configured: the table of clients has the time. The unit tests cover its longer entries with a paused clock.
    gets_a_handle_and_later_the_result(&stage, "mcp", Duration::from_secs(20));
}

#[test]
fn a_user_can_set_how_long_calls_of_a_client_wait() {
    let stage = Stage::new();
    stage.configure("[clients.hasty]\nwait = \"1s\"");
    gets_a_handle_and_later_the_result(&stage, "hasty", Duration::from_secs(20));
}

#[test]
fn a_time_out_of_the_client_ends_the_wait_and_not_the_run() {
    let stage = Stage::new();
    slow(&stage);
    let mut client = stage.serve().initialize("it");
    let id = call(&stage, &mut client, &json!({}));
    let run = only_run(&stage);
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "Request timed out"}));
    let_go(&stage);
    assert_eq!(stage.outcome_by_itself(&run, PATIENCE)["outcome"], json!("succeeded"));
}

#[test]
fn a_cancel_by_the_user_cancels_the_run() {
    let stage = Stage::new();
    slow(&stage);
    let mut client = stage.serve().initialize("it");
    let id = call(&stage, &mut client, &json!({}));
    let run = only_run(&stage);
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "the user pressed escape"}));
    let ending = stage.outcome_by_itself(&run, PATIENCE);
    assert_eq!(
        (&ending["outcome"], &ending["cause"]["cause"]),
        (&json!("partial"), &json!("cancelled")),
        "{ending}"
    );
}

#[test]
fn a_disconnect_cancels_after_its_grace_or_lets_go_on_as_was_said() {
    for (said, outcome) in [("cancel", "partial"), ("continue", "succeeded")] {
        let stage = Stage::new();
        slow(&stage);
        stage.configure("[serve]\ndisconnect_grace = \"100ms\"");
        let mut client = stage.serve().initialize("it");
        call(&stage, &mut client, &json!({"on_disconnect": said}));
        let run = only_run(&stage);
        client.close();
        assert_eq!(client.exit(PATIENCE), Some(0));
        if said == "continue" {
            let_go(&stage);
        }
        assert_eq!(stage.outcome_by_itself(&run, PATIENCE)["outcome"], json!(outcome), "{said}");
    }
}

#[test]
fn a_crash_of_the_server_lets_the_run_go_on() {
    let stage = Stage::new();
    slow(&stage);
    let mut client = stage.serve().initialize("it");
    call(&stage, &mut client, &json!({"on_disconnect": "cancel"}));
    let run = only_run(&stage);
    kill(client.pid(), rustix::process::Signal::KILL);
    let_go(&stage);
    assert_eq!(stage.outcome_by_itself(&run, PATIENCE)["outcome"], json!("succeeded"));
}

#[test]
fn a_client_that_ends_all_that_descends_from_its_server_does_not_end_a_run() {
    let stage = Stage::new();
    slow(&stage);
    let mut client = stage.serve().initialize("somebody");
    call(&stage, &mut client, &json!({}));
    let run = only_run(&stage);
    let keeper = crew(&stage.run_dir(&run)).keeper.expect("it runs").pid;
    for process in tagged(stage.tag(&run)).into_iter().chain([keeper]) {
        let above = std::iter::successors(Some(process), |pid| Some(state_and_parent(*pid)?.1));
        let above: Vec<u32> = above.collect();
        assert!(!above.contains(&client.pid()), "{above:?} leads to the server {}", client.pid());
    }
    let_go(&stage);
    assert_eq!(stage.ended(&run)["status"], json!("succeeded"));
}
