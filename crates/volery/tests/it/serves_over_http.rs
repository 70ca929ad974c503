//! The server over HTTP with real runs: who may see what, and what becomes of runs when it leaves.

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use serde_json::{Value, json};

use crate::stage::{PATIENCE, Stage, WebServer, request_of, wait_for};

fn place() -> Stage {
    let stage = Stage::new();
    stage.rehearsal("greeter", "- say: good day, {prompt}", "");
    stage.rehearsal("slow", "- sleep: 60s", "");
    stage.rehearsal("top", "- delegate: {agent: greeter, prompt: below}\n- say: top", "delegates: anyone");
    stage
}

fn token(stage: &Stage, name: &str) -> String {
    stage.volery(["token", "new", name]).ok().stdout.trim().to_owned()
}

fn ids(list: &Value) -> Vec<String> {
    list["runs"].as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_first_start_makes_a_token_and_prints_it_once() {
    let stage = place();
    let mut server = WebServer::start(&stage);
    let printed = server.printed_token().expect("the first start prints a token");
    assert_eq!(
        server.call(&printed, "run_agent", json!({"agent": "greeter", "prompt": "x"}))["result"],
        "good day, x\n"
    );
    assert_eq!(server.terminate(), Some(0));
    let second = WebServer::start(&stage);
    assert_eq!(second.printed_token(), None);
    assert_eq!(second.exchange(&request_of(&printed, "tools/list", json!({}))).status, 200);
    let folder = stage.path("state/tokens");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join("default.json"))), (0o700, 0o600));
    let secret = printed.rsplit('_').next().unwrap();
    let kept = std::fs::read_to_string(folder.join("default.json")).unwrap();
    assert!(!kept.contains(secret), "the secret is stored: {kept}");
}

#[test]
fn tokens_are_made_listed_and_taken_back_while_a_server_runs() {
    let stage = place();
    let ann = token(&stage, "ann");
    let server = WebServer::start(&stage);
    assert_eq!(server.printed_token(), None, "there was a token already");
    let ben = token(&stage, "ben");
    let status = |token: &str| server.exchange(&request_of(token, "tools/list", json!({}))).status;
    assert_eq!((status(&ann), status(&ben)), (200, 200));
    let names: Vec<Value> = stage.json(["token", "list"])["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert_eq!(names, ["ann", "ben"]);
    assert_eq!(stage.volery(["token", "new", "ann"]).code, 2);
    for wrong in ["", "main", "Ann", "a/b", "../x", "_a", &"x".repeat(33)] {
        assert_eq!(stage.volery(["token", "new", wrong]).code, 2, "{wrong:?}");
    }
    stage.volery(["token", "revoke", "ann"]).ok();
    assert_eq!((status(&ann), status(&ben)), (401, 200));
    assert_eq!(stage.volery(["token", "revoke", "ann"]).code, 5);
    // One secret does not fit another's name.
    let mixed = format!("volery_ben_{}", ann.rsplit('_').next().unwrap());
    assert_eq!(status(&mixed), 401);
    let again = token(&stage, "ann");
    assert_eq!((status(&ann), status(&again)), (401, 200));
}

#[test]
fn an_address_that_others_can_reach_needs_a_token_that_somebody_made() {
    let stage = place();
    let everywhere = ["serve", "--http", "0.0.0.0:0"];
    let refused = stage.volery(everywhere).exits(3);
    assert!(refused.stderr.contains("nobody has made a token"), "{refused:?}");
    // Nor does the one that a start on loopback has made count.
    drop(WebServer::start(&stage));
    let _ = stage.volery(everywhere).exits(3);
    token(&stage, "ann");
    let server = WebServer::of(stage.command(everywhere));
    assert!(server.address.ip().is_unspecified());
}

#[test]
fn a_token_sees_its_own_runs_and_no_others() {
    let stage = place();
    let (ann, ben) = (token(&stage, "ann"), token(&stage, "ben"));
    let server = WebServer::start(&stage);
    let ask = json!({"agent": "top", "prompt": "x"});
    let run = server.call(&ann, "run_agent", ask);
    assert_eq!(run["result"], json!("good day, below\ntop\n"), "{run}");
    let slow = server.call(&ann, "run_agent", json!({"agent": "slow", "prompt": "x", "wait_s": 0}));
    let shell = stage.start("greeter", "from the shell");
    stage.ended(&shell);
    let id = run["run_id"].as_str().unwrap();
    let child = stage.runs().into_iter().find(|run| stage.spec(run)["parent"] == json!(id)).unwrap();
    assert_eq!(stage.spec(&child)["caller"], json!({"door": "run", "name": "top", "token": "ann"}));
    assert_eq!(stage.spec(id)["caller"], json!({"door": "mcp", "name": "ann", "token": "ann"}));
    // Both from the index and from the directories of runs that go on.
    let slow_id = slow["run_id"].as_str().unwrap();
    for all in [json!({}), json!({"all_projects": true})] {
        let mut seen = ids(&server.call(&ann, "list_runs", all.clone()));
        seen.sort();
        let mut wanted = vec![id.to_owned(), child.clone(), slow_id.to_owned()];
        wanted.sort();
        assert_eq!(seen, wanted);
        assert_eq!(ids(&server.call(&ben, "list_runs", all)), Vec::<String>::new());
    }
    assert_eq!(server.call(&ann, "get_run", json!({"run_id": child}))["status"], "succeeded");
    for other in [id, &child, slow_id, &shell] {
        let unknown = format!("there is no run {other}");
        let told = server.refused(&ben, "get_run", json!({"run_id": other}));
        assert!(told.contains(&unknown), "{told}");
        assert!(server.refused(&ben, "wait_runs", json!({"run_ids": [other]})).contains(&unknown));
        assert!(server.refused(&ben, "cancel_run", json!({"run_id": other})).contains(&unknown));
        let read = server.exchange(&request_of(
            &ben,
            "resources/read",
            json!({"uri": format!("volery://runs/{other}")}),
        ));
        assert!(!read.text.contains("good day"), "{read:?}");
    }
    assert_eq!(server.call(&ben, "health", json!({"all_projects": true}))["agents"], json!([]));
    let health = server.call(&ann, "health", json!({"all_projects": true}));
    let agents: Vec<&Value> =
        health["agents"].as_array().unwrap().iter().map(|agent| &agent["agent"]).collect();
    assert_eq!(agents, ["greeter", "top"], "{health}");
    assert_eq!(stage.json(["ps", "--all"])["runs"].as_array().map(Vec::len), Some(4));
    server.call(&ann, "cancel_run", json!({"run_id": slow_id}));
    assert_eq!(stage.ended(slow_id)["status"], "cancelled");
}

#[test]
fn sessions_and_keys_of_one_token_are_not_those_of_another() {
    let stage = place();
    let (ann, ben) = (token(&stage, "ann"), token(&stage, "ben"));
    let server = WebServer::start(&stage);
    let keyed = json!({"agent": "greeter", "prompt": "x", "idempotency_key": "k"});
    let first = server.call(&ann, "run_agent", keyed.clone());
    assert_eq!(server.call(&ann, "run_agent", keyed.clone())["run_id"], first["run_id"]);
    assert_ne!(server.call(&ben, "run_agent", keyed)["run_id"], first["run_id"]);
    let go_on = json!({"agent": "greeter", "prompt": "y", "session_id": first["session_id"]});
    let told = server.refused(&ben, "run_agent", go_on.clone());
    assert!(told.contains("there is no session"), "{told}");
    server.call(&ann, "run_agent", go_on);
}

#[test]
fn the_name_of_a_token_is_the_caller_whatever_the_client_says() {
    let stage = place();
    stage.rehearsal("private", "- say: for you", "allowed_callers: [ann]");
    stage.rehearsal("theirs", "- say: for them", "allowed_callers: [tester]");
    let (ann, ben) = (token(&stage, "ann"), token(&stage, "ben"));
    let server = WebServer::start(&stage);
    assert_eq!(
        server.call(&ann, "run_agent", json!({"agent": "private", "prompt": "x"}))["result"],
        "for you\n"
    );
    let told = server.refused(&ben, "run_agent", json!({"agent": "private", "prompt": "x"}));
    assert!(told.contains("may not be called by ben"), "{told}");
    let told = server.refused(&ann, "run_agent", json!({"agent": "theirs", "prompt": "x"}));
    assert!(told.contains("may not be called by ann"), "{told}");
}

#[test]
fn a_server_that_is_terminated_leaves_its_runs_at_work() {
    let stage = place();
    stage.rehearsal("steady", "- sleep: 3s\n- say: still here", "");
    let ann = token(&stage, "ann");
    let mut server = WebServer::start(&stage);
    let mut waiting = server.connect();
    let ask = json!({"name": "run_agent", "arguments": {"agent": "steady", "prompt": "x"}});
    std::io::Write::write_all(&mut waiting, &request_of(&ann, "tools/call", ask)).unwrap();
    let run = stage.newest_of(1);
    stage.event(&run, "claimed");
    let asked = Instant::now();
    assert_eq!(server.terminate(), Some(0));
    assert!(asked.elapsed() < PATIENCE / 3, "it took {:?}", asked.elapsed());
    let answer = crate::stage::read_to_end(&mut waiting).message();
    assert_eq!(answer["result"]["structuredContent"]["run_id"], json!(run), "{answer}");
    let ended = stage.ended(&run);
    assert_eq!((&ended["status"], &ended["result"]), (&json!("succeeded"), &json!("still here\n")));
}

#[test]
fn tokens_and_servers_are_not_for_agents() {
    let stage = place();
    let command = |words: &[&str]| {
        let program = env!("CARGO_BIN_EXE_volery");
        let home = format!("VOLERY_HOME={}", stage.path("state").display());
        [&["/usr/bin/env", "-i", &home, program], words]
            .concat()
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    for (name, words) in
        [("maker", &["token", "new", "x"][..]), ("server", &["serve", "--http", "127.0.0.1:0"])]
    {
        let command = command(words);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        stage.backend(name, &command).agent(name, &format!("backend: {name}\ntimeout: 20s"));
        let shown = stage.json(["run", name, "x"]);
        assert!(shown["stderr_tail"].as_str().unwrap().contains("not from inside a run"), "{name}: {shown}");
    }
    assert!(!stage.path("state/tokens").exists());
}

#[test]
fn metrics_sum_up_what_a_token_may_see() {
    let stage = place();
    let ann = token(&stage, "ann");
    let all = stage.volery(["token", "new", "prometheus", "--all-metrics"]).ok().stdout.trim().to_owned();
    let server = WebServer::start(&stage);
    server.call(&ann, "run_agent", json!({"agent": "greeter", "prompt": "x"}));
    let shell = stage.start("slow", "x");
    stage.event(&shell, "claimed");
    let metrics = |token: &str| {
        let request = format!(
            "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        server.exchange(request.as_bytes()).text
    };
    let ended = "volery_runs_ended{agent=\"greeter\",backend=\"rehearsal\",outcome=\"succeeded\"} 1\n";
    wait_for(PATIENCE, "both runs in the metrics", || {
        let text = metrics(&all);
        (text.contains(ended) && text.contains("\nvolery_runs_running 1\n")).then_some(())
    });
    let own = metrics(&ann);
    assert!(own.contains(ended) && own.contains("\nvolery_runs_running 0\n"), "{own}");
    let other = metrics(&token(&stage, "ben"));
    assert!(!other.contains("greeter"), "{other}");
    stage.volery(["cancel", &shell]).ok();
}
