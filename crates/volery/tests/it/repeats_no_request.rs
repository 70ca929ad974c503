//! The same idempotency key means the same run: twice, at once, and after a restart.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::json;

use crate::test_env::{TestEnv, command_output};

fn vendor_env() -> TestEnv {
    let env = TestEnv::new();
    env.rehearsal("greeter", "- say: good day, {prompt}", "");
    env.rehearsal("other", "- say: something else", "");
    env
}

#[test]
fn twice_from_the_shell_is_one_run() {
    let env = vendor_env();
    let ask = ["run", "greeter", "world", "--idempotency-key", "nightly"];
    let first = env.volery(ask).ok();
    let second = env.volery(ask).ok();
    assert_eq!((first.stdout.as_str(), second.stdout.as_str()), ("good day, world\n", "good day, world\n"));
    env.only_run();
    insta::assert_snapshot!(env.masked(&second.stderr), @"
    the idempotency key was known: this is the earlier run [run-id]
    [run-id] succeeded in [span]
    ");
}

#[test]
fn sixteen_at_once_are_one_run() {
    let env = vendor_env();
    let ask = ["run", "greeter", "world", "--background", "--idempotency-key", "race"];
    let start = |_| {
        let mut command = env.command(ask);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let shells: Vec<_> = (0..16).map(start).collect();
    let ids: BTreeSet<String> = shells
        .into_iter()
        .map(|shell| command_output(shell.wait_with_output().unwrap()).ok().stdout)
        .collect();
    let id = env.only_run();
    assert_eq!(ids, BTreeSet::from([format!("{id}\n")]));
    assert_eq!(env.wait_for_end(&id)["status"], json!("succeeded"));
}

#[test]
fn another_server_and_the_shell_find_the_same_run() {
    let env = vendor_env();
    let ask = json!({
        "agent": "greeter", "prompt": "world", "directory": env.project(), "idempotency_key": "k",
    });
    let first = env.serve().initialize("it").call("run_agent", ask.clone());
    let mut restarted = env.serve().initialize("it");
    let second = restarted.call("run_agent", ask.clone());
    assert_eq!((&first["run_id"], &first["result"]), (&second["run_id"], &json!("good day, world\n")));
    assert_eq!(second["result"], first["result"]);
    assert_eq!((&first["reused"], &second["reused"]), (&json!(null), &json!(true)));
    let several = restarted.call("run_agents", json!({"runs": [ask]}));
    assert_eq!(several["runs"][0]["reused"], json!(true), "{several}");
    let shell = env.volery(["run", "greeter", "world", "--idempotency-key", "k"]).ok();
    assert_eq!(shell.stdout, "good day, world\n");
    env.only_run();
}

#[test]
fn another_request_with_the_key_is_refused_and_the_run_is_named() {
    let env = vendor_env();
    let ask = |prompt: &str| env.volery(["run", "greeter", prompt, "--idempotency-key", "k"]);
    ask("world").ok();
    let refused = ask("moon").exits(2);
    let id = env.only_run();
    assert_eq!(refused.stdout, "");
    assert!(refused.stderr.contains(&id[id.len() - 8..]), "{}", refused.stderr);
    insta::assert_snapshot!(env.masked(&refused.stderr), @"
    error: the idempotency key k was used for another request, which made the run [run-id]
    hint: use a new key for a new request
    ");
    let mut client = env.serve().initialize("it");
    let arguments = json!({
        "agent": "greeter", "prompt": "moon", "directory": env.project(), "idempotency_key": "k",
    });
    let refusal = client.refused("run_agent", arguments);
    assert!(refusal.contains(&id[id.len() - 8..]), "{refusal}");
}

#[test]
fn a_key_is_scoped_to_project_and_agent() {
    let env = vendor_env();
    env.volery(["run", "greeter", "world", "--idempotency-key", "k"]).ok();
    env.volery(["run", "other", "world", "--idempotency-key", "k"]).ok();
    let elsewhere = env.path("elsewhere/.volery/agents");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let own = env.project().join(".volery/agents/greeter.md");
    std::fs::copy(own, elsewhere.join("greeter.md")).unwrap();
    let directory = env.path("elsewhere");
    let ask = ["run", "greeter", "moon", "--idempotency-key", "k", "--dir", directory.to_str().unwrap()];
    env.volery(ask).ok();
    assert_eq!(env.runs().len(), 3);
}
