//! A run is independent of the call that started it: time-outs, cancels, disconnects and crashes of a client.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::test_env::{
    Client, PATIENCE, TestEnv, command_output, kill, run_processes, state_and_parent, tagged, wait_for,
};

/// A run that says something at once and the rest when the test lets it.
fn slow(env: &TestEnv) {
    let go = env.path("go");
    let wait = format!("wait-file:{}", go.display());
    env.fake("slow", &["say:first", &wait, "say:second"], "");
}

fn let_go(env: &TestEnv) {
    std::fs::write(env.path("go"), "").unwrap();
}

fn call(env: &TestEnv, client: &mut Client, arguments: &serde_json::Value) -> u64 {
    let mut arguments = arguments.clone();
    arguments["agent"] = json!("slow");
    arguments["prompt"] = json!("x");
    arguments["directory"] = json!(env.project());
    client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}))
}

/// Returns the only run there is, once there is one.
fn only_run(env: &TestEnv) -> String {
    wait_for(PATIENCE, "the run to begin", || {
        let listed = env.json(["ps"]);
        let runs = listed["runs"].as_array()?;
        let running = runs.first().filter(|run| run["status"] == json!("running"))?;
        let id = running["run_id"].as_str()?.to_owned();
        env.events(&id).iter().any(|event| event["type"] == json!("agent_started")).then_some(id)
    })
}

/// Asks as a client of this name, is answered within that time with a handle, and fetches the result as another.
fn gets_a_handle_and_later_the_result(env: &TestEnv, name: &str, within: Duration) {
    slow(env);
    let mut client = env.serve().initialize(name);
    let started = Instant::now();
    let id = call(env, &mut client, &json!({}));
    let answer = client.answer(id, within)["result"]["structuredContent"].clone();
    assert!(started.elapsed() < within, "{:?}", started.elapsed());
    assert_eq!((&answer["status"], &answer["ended"]), (&json!("running"), &json!(false)));
    assert_eq!(answer["partial_text"], json!("first\n"), "{answer}");
    client.close();
    assert_eq!(client.exit(PATIENCE), Some(0));
    let_go(env);
    let mut other = env.serve().initialize("other");
    let waited = other.call("wait_runs", json!({"run_ids": [answer["run_id"]], "wait_s": 20}));
    assert_eq!(waited["runs"][0]["result"], json!("first\nsecond\n"));
}

#[test]
fn a_client_that_would_give_up_gets_a_handle_and_another_client_the_result() {
    let env = TestEnv::new();
    // Nothing is configured: the table of clients has the time. The unit tests cover its longer entries with a paused clock.
    gets_a_handle_and_later_the_result(&env, "mcp", Duration::from_secs(20));
}

#[test]
fn a_user_can_set_how_long_calls_of_a_client_wait() {
    let env = TestEnv::new();
    env.configure("[clients.hasty]\nwait = \"1s\"");
    gets_a_handle_and_later_the_result(&env, "hasty", Duration::from_secs(20));
}

#[test]
fn a_time_out_of_the_client_ends_the_wait_and_not_the_run() {
    let env = TestEnv::new();
    slow(&env);
    let mut client = env.serve().initialize("it");
    let id = call(&env, &mut client, &json!({}));
    let run = only_run(&env);
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "Request timed out"}));
    let_go(&env);
    assert_eq!(env.outcome_by_itself(&run, PATIENCE)["outcome"], json!("succeeded"));
}

#[test]
fn a_cancel_by_the_user_cancels_the_run() {
    let env = TestEnv::new();
    slow(&env);
    let mut client = env.serve().initialize("it");
    let id = call(&env, &mut client, &json!({}));
    let run = only_run(&env);
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "the user pressed escape"}));
    let ending = env.outcome_by_itself(&run, PATIENCE);
    assert_eq!(
        (&ending["outcome"], &ending["cause"]["cause"]),
        (&json!("partial"), &json!("cancelled")),
        "{ending}"
    );
}

#[test]
fn a_disconnect_cancels_after_its_grace_or_continues_as_requested() {
    for (on_disconnect, outcome) in [("cancel", "partial"), ("continue", "succeeded")] {
        let env = TestEnv::new();
        slow(&env);
        env.configure("[serve]\ndisconnect_grace = \"100ms\"");
        let mut client = env.serve().initialize("it");
        call(&env, &mut client, &json!({"on_disconnect": on_disconnect}));
        let run = only_run(&env);
        client.close();
        assert_eq!(client.exit(PATIENCE), Some(0));
        if on_disconnect == "continue" {
            let_go(&env);
        }
        assert_eq!(env.outcome_by_itself(&run, PATIENCE)["outcome"], json!(outcome), "{on_disconnect}");
    }
}

#[test]
fn a_crash_of_the_server_lets_the_run_go_on() {
    let env = TestEnv::new();
    slow(&env);
    let mut client = env.serve().initialize("it");
    call(&env, &mut client, &json!({"on_disconnect": "cancel"}));
    let run = only_run(&env);
    kill(client.pid(), rustix::process::Signal::KILL);
    let_go(&env);
    assert_eq!(env.outcome_by_itself(&run, PATIENCE)["outcome"], json!("succeeded"));
}

#[test]
fn a_client_that_ends_all_that_descends_from_its_server_does_not_end_a_run() {
    let env = TestEnv::new();
    slow(&env);
    let mut client = env.serve().initialize("somebody");
    call(&env, &mut client, &json!({}));
    let run = only_run(&env);
    let keeper = run_processes(&env.run_dir(&run)).keeper.expect("it runs").pid;
    for process in tagged(env.tag(&run)).into_iter().chain([keeper]) {
        let above = std::iter::successors(Some(process), |pid| Some(state_and_parent(*pid)?.1));
        let above: Vec<u32> = above.collect();
        assert!(!above.contains(&client.pid()), "{above:?} leads to the server {}", client.pid());
    }
    let_go(&env);
    assert_eq!(env.wait_for_end(&run)["status"], json!("succeeded"));
}

#[test]
fn ctrl_c_ends_a_wait_of_the_shell_and_says_that_the_run_continues() {
    let env = TestEnv::new();
    slow(&env);
    let run = env.start("slow", "x");
    let mut command = env.command(["wait", &run]);
    let waiting = command.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    wait_for(PATIENCE, "the command to catch SIGINT", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", waiting.id())).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim().to_owned();
        (u64::from_str_radix(&mask, 16).unwrap() & 2 != 0).then_some(())
    });
    kill(waiting.id(), rustix::process::Signal::INT);
    let ended = command_output(waiting.wait_with_output().unwrap()).exits(130);
    insta::assert_snapshot!(env.masked(&ended.stderr), @"
    stopped waiting; the run continues
    hint: volery wait [run-id] waits again, volery cancel [run-id] ends it
    ");
    let_go(&env);
    assert_eq!(env.wait_for_end(&run)["status"], json!("succeeded"));
}

#[test]
fn who_cancelled_a_run_and_why_is_shown() {
    let env = TestEnv::new();
    slow(&env);
    let run = env.start("slow", "x");
    let mut cancel = env.command(["cancel", &run, "--reason", "the task was wrong"]);
    command_output(cancel.env("USER", "ada").output().unwrap()).ok();
    let ended = env.wait_for_end(&run);
    assert_eq!(ended["cancellation"], json!({"by": "ada", "reason": "the task was wrong"}));
    let page = env.volery(["show", &run]).ok().stdout;
    let line = page.lines().find(|line| line.starts_with("cancelled ")).unwrap();
    assert_eq!(line, "cancelled   by ada: the task was wrong");
    let mut client = env.serve().initialize("other");
    let report = client.call("get_run", json!({"run_id": run}));
    assert_eq!(report["cancellation"], ended["cancellation"]);
}
