//! The same idempotency key means the same run: twice, at once, and after a restart.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::json;

use crate::stage::{Stage, said};

fn place() -> Stage {
    let stage = Stage::new();
    stage.rehearsal("greeter", "- say: good day, {prompt}", "");
    stage.rehearsal("other", "- say: something else", "");
    stage
}

#[test]
fn twice_from_the_shell_is_one_run() {
    let stage = place();
    let ask = ["run", "greeter", "world", "--idempotency-key", "nightly"];
    let first = stage.volery(ask).ok();
    let second = stage.volery(ask).ok();
    assert_eq!((first.stdout.as_str(), second.stdout.as_str()), ("good day, world\n", "good day, world\n"));
    let id = stage.only_run();
    assert!(
        second.stderr.contains(&format!("this is the earlier run {}", &id[id.len() - 8..])),
        "{second:?}"
    );
}

#[test]
fn sixteen_at_once_are_one_run() {
    let stage = place();
    let ask = ["run", "greeter", "world", "--background", "--idempotency-key", "race"];
    let start = |_| {
        let mut command = stage.command(ask);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let shells: Vec<_> = (0..16).map(start).collect();
    let ids: BTreeSet<String> =
        shells.into_iter().map(|shell| said(shell.wait_with_output().unwrap()).ok().stdout).collect();
    let id = stage.only_run();
    assert_eq!(ids, BTreeSet::from([format!("{id}\n")]));
    assert_eq!(stage.ended(&id)["status"], json!("succeeded"));
}

#[test]
fn another_server_and_the_shell_find_the_same_run() {
    let stage = place();
    let ask = json!({
        "agent": "greeter", "prompt": "world", "directory": stage.project(), "idempotency_key": "k",
    });
    let first = stage.serve().initialize("it").call("run_agent", ask.clone());
    let mut restarted = stage.serve().initialize("it");
    let second = restarted.call("run_agent", ask.clone());
    assert_eq!((&first["run_id"], &first["result"]), (&second["run_id"], &json!("good day, world\n")));
    assert_eq!(second["result"], first["result"]);
    assert_eq!((&first["reused"], &second["reused"]), (&json!(null), &json!(true)));
    let several = restarted.call("run_agents", json!({"runs": [ask]}));
    assert_eq!(several["runs"][0]["reused"], json!(true), "{several}");
    let shell = stage.volery(["run", "greeter", "world", "--idempotency-key", "k"]).ok();
    assert_eq!(shell.stdout, "good day, world\n");
    stage.only_run();
}

#[test]
fn another_request_with_the_key_is_refused_and_the_run_is_named() {
    let stage = place();
    let ask = |prompt: &str| stage.volery(["run", "greeter", prompt, "--idempotency-key", "k"]);
    ask("world").ok();
    let refused = ask("moon").exits(2);
    let id = stage.only_run();
    let expected = format!(
        "error: the idempotency key k was used for another request, which made the run {}\nhint: use a new key for a new request\n",
        &id[id.len() - 8..]
    );
    assert_eq!((refused.stdout.as_str(), refused.stderr), ("", expected));
    let mut client = stage.serve().initialize("it");
    let arguments = json!({
        "agent": "greeter", "prompt": "moon", "directory": stage.project(), "idempotency_key": "k",
    });
    let said = client.refused("run_agent", arguments);
    assert!(said.contains(&id[id.len() - 8..]), "{said}");
}

#[test]
fn a_key_is_scoped_to_project_and_agent() {
    let stage = place();
    stage.volery(["run", "greeter", "world", "--idempotency-key", "k"]).ok();
    stage.volery(["run", "other", "world", "--idempotency-key", "k"]).ok();
    let elsewhere = stage.path("elsewhere/.volery/agents");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let own = stage.project().join(".volery/agents/greeter.md");
    std::fs::copy(own, elsewhere.join("greeter.md")).unwrap();
    let directory = stage.path("elsewhere");
    let ask = ["run", "greeter", "moon", "--idempotency-key", "k", "--dir", directory.to_str().unwrap()];
    stage.volery(ask).ok();
    assert_eq!(stage.runs().len(), 3);
}
