//! A client that goes away in good order: what becomes of its run is what `on_disconnect` says.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::test_env::{PATIENCE, TestEnv, tagged, wait_for};

/// Starts a run through a server, waits until the agent works, closes the server's input, and returns the run.
fn leave(env: &TestEnv, frontmatter: &str, more_arguments: Value) -> String {
    let (up, go) = (env.path("up"), env.path("go"));
    let steps = [format!("touch:{}", up.display()), format!("wait-file:{}", go.display())];
    env.fake("slow", &[&steps[0], "say:before", &steps[1], "say:after"], frontmatter);
    let mut client = env.serve().initialize("it");
    let mut arguments = json!({"agent": "slow", "prompt": "x", "directory": env.project()});
    arguments.as_object_mut().unwrap().extend(more_arguments.as_object().unwrap().clone());
    client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}));
    wait_for(PATIENCE, "the agent to be up", || up.exists().then_some(()));
    let id = env.wait_for_run_count(1);
    let spool = env.run_dir(&id).join("stdout");
    wait_for(PATIENCE, "the first words", || fs::read(&spool).ok().filter(|bytes| !bytes.is_empty()));
    client.close();
    assert_eq!(client.exit(Duration::from_secs(2)), Some(0));
    id
}

#[test]
fn with_cancel_the_run_is_cancelled_after_its_grace() {
    let env = TestEnv::new();
    let id = leave(&env, "on_disconnect: cancel\ndisconnect_grace: 300ms", json!({}));
    let ending = env.outcome_by_itself(&id, PATIENCE);
    let by = "the disconnect of the client";
    assert_eq!(ending["cause"], json!({"cause": "cancelled", "by": by}), "{ending}");
    assert_eq!(env.json(["show", &id])["result"], json!("before\n"));
    assert_eq!(tagged(env.tag(&id)), Vec::<u32>::new());
    assert!(ending["duration_ms"].as_u64().unwrap() >= 300, "{ending}");
}

#[test]
fn the_grace_of_a_call_that_asks_for_cancel_is_configured() {
    let env = TestEnv::new();
    env.configure("[serve]\ndisconnect_grace = \"200ms\"");
    let id = leave(&env, "", json!({"on_disconnect": "cancel"}));
    let ending = env.outcome_by_itself(&id, PATIENCE);
    assert_eq!(ending["cause"]["cause"], json!("cancelled"), "{ending}");
}

#[test]
fn with_continue_it_ends_by_itself() {
    let env = TestEnv::new();
    let id = leave(&env, "", json!({"on_disconnect": "continue"}));
    fs::write(env.path("go"), "").unwrap();
    let ending = env.outcome_by_itself(&id, PATIENCE);
    assert_eq!(
        (&ending["outcome"], &ending["result"]["inline"]),
        (&json!("succeeded"), &json!("before\nafter\n"))
    );
}

#[test]
fn a_run_that_was_handed_over_goes_on() {
    let env = TestEnv::new();
    let id = leave(&env, "on_disconnect: cancel\ndisconnect_grace: 1ms", json!({"wait_s": 0}));
    let listed = env.json(["show", &id]);
    assert_eq!(listed["status"], json!("running"));
    fs::write(env.path("go"), "").unwrap();
    assert_eq!(env.outcome_by_itself(&id, PATIENCE)["outcome"], json!("succeeded"));
}
