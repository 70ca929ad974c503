//! The server over HTTP with real runs: who may see what, and what becomes of runs when it leaves.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use serde_json::{Value, json};

use crate::test_env::{PATIENCE, TestEnv, WebServer, request_of, wait_for};

fn vendor_env() -> TestEnv {
    let env = TestEnv::new();
    env.rehearsal("greeter", "- say: good day, {prompt}", "");
    env.rehearsal("slow", "- sleep: 60s", "");
    env.rehearsal("top", "- delegate: {agent: greeter, prompt: below}\n- say: top", "delegates: anyone");
    env
}

fn token(env: &TestEnv, name: &str) -> String {
    env.volery(["token", "new", name]).ok().stdout.trim().to_owned()
}

fn ids(list: &Value) -> Vec<String> {
    list["runs"].as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_first_start_makes_a_token_and_prints_it_once() {
    let env = vendor_env();
    let mut server = WebServer::start(&env);
    let printed = server.printed_token().expect("the first start prints a token");
    assert_eq!(
        server.call(&printed, "run_agent", json!({"agent": "greeter", "prompt": "x"}))["result"],
        "good day, x\n"
    );
    assert_eq!(server.terminate(), Some(0));
    let second = WebServer::start(&env);
    assert_eq!(second.printed_token(), None);
    assert_eq!(second.exchange(&request_of(&printed, "tools/list", json!({}))).status, 200);
    let folder = env.path("state/tokens");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join("default.json"))), (0o700, 0o600));
    let secret = printed.rsplit('_').next().unwrap();
    let token_file = std::fs::read_to_string(folder.join("default.json")).unwrap();
    assert!(!token_file.contains(secret), "the secret is stored: {token_file}");
}

#[test]
fn tokens_are_made_listed_and_taken_back_while_a_server_runs() {
    let env = vendor_env();
    let ann = token(&env, "ann");
    let server = WebServer::start(&env);
    assert_eq!(server.printed_token(), None, "there was a token already");
    let ben = token(&env, "ben");
    let status = |token: &str| server.exchange(&request_of(token, "tools/list", json!({}))).status;
    assert_eq!((status(&ann), status(&ben)), (200, 200));
    let names: Vec<Value> = env.json(["token", "list"])["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert_eq!(names, ["ann", "ben"]);
    assert_eq!(env.volery(["token", "new", "ann"]).code, 2);
    for wrong in ["", "main", "Ann", "a/b", "../x", "_a", &"x".repeat(33)] {
        assert_eq!(env.volery(["token", "new", wrong]).code, 2, "{wrong:?}");
    }
    env.volery(["token", "revoke", "ann"]).ok();
    assert_eq!((status(&ann), status(&ben)), (401, 200));
    assert_eq!(env.volery(["token", "revoke", "ann"]).code, 5);
    // One secret does not fit another's name.
    let mixed = format!("volery_ben_{}", ann.rsplit('_').next().unwrap());
    assert_eq!(status(&mixed), 401);
    let again = token(&env, "ann");
    assert_eq!((status(&ann), status(&again)), (401, 200));
}

#[test]
fn an_address_that_others_can_reach_needs_a_token_that_somebody_made() {
    let env = vendor_env();
    let everywhere = ["serve", "--http", "0.0.0.0:0"];
    let refused = env.volery(everywhere).exits(3);
    insta::assert_snapshot!(env.masked(&refused.stderr), @"
    error: other machines could connect to this address, and nobody has made a token for one
    hint: volery token new NAME, or serve at 127.0.0.1
    ");
    // Nor does the one that a start on loopback has made count.
    drop(WebServer::start(&env));
    let _ = env.volery(everywhere).exits(3);
    token(&env, "ann");
    let server = WebServer::start_command(env.command(everywhere));
    assert!(server.address.ip().is_unspecified());
}

#[test]
fn a_token_sees_its_own_runs_and_no_others() {
    let env = vendor_env();
    let (ann, ben) = (token(&env, "ann"), token(&env, "ben"));
    let server = WebServer::start(&env);
    let ask = json!({"agent": "top", "prompt": "x"});
    let run = server.call(&ann, "run_agent", ask);
    assert_eq!(run["result"], json!("good day, below\ntop\n"), "{run}");
    let slow = server.call(&ann, "run_agent", json!({"agent": "slow", "prompt": "x", "wait_s": 0}));
    let shell = env.start("greeter", "from the shell");
    env.wait_for_end(&shell);
    let id = run["run_id"].as_str().unwrap();
    let child = env.runs().into_iter().find(|run| env.spec(run)["parent"] == json!(id)).unwrap();
    assert_eq!(env.spec(&child)["caller"], json!({"door": "run", "name": "top", "token": "ann"}));
    assert_eq!(env.spec(id)["caller"], json!({"door": "mcp", "name": "ann", "token": "ann"}));
    // Both from the index and from the directories of runs that go on.
    let slow_id = slow["run_id"].as_str().unwrap();
    for all in [json!({}), json!({"all_projects": true})] {
        let mut seen = ids(&server.call(&ann, "list_runs", all.clone()));
        seen.sort();
        let mut expected = vec![id.to_owned(), child.clone(), slow_id.to_owned()];
        expected.sort();
        assert_eq!(seen, expected);
        assert_eq!(ids(&server.call(&ben, "list_runs", all)), Vec::<String>::new());
    }
    assert_eq!(server.call(&ann, "get_run", json!({"run_id": child}))["status"], "succeeded");
    let mut refusals = BTreeSet::new();
    for other in [id, &child, slow_id, &shell] {
        let asks = [
            ("get_run", json!({"run_id": other})),
            ("wait_runs", json!({"run_ids": [other]})),
            ("cancel_run", json!({"run_id": other})),
        ];
        refusals.extend(asks.map(|(tool, ask)| env.masked(&server.refused(&ben, tool, ask))));
        let read = server.exchange(&request_of(
            &ben,
            "resources/read",
            json!({"uri": format!("volery://runs/{other}")}),
        ));
        assert!(!read.text.contains("good day"), "{read:?}");
    }
    insta::assert_snapshot!(Vec::from_iter(refusals).join("\n"), @"
    there is no run [run id]
    hint: `volery ps --all` (over MCP: list_runs) lists the runs of the last 7 days; a short id is the end of an id, at least its last four digits
    ");
    assert_eq!(server.call(&ben, "health", json!({"all_projects": true}))["agents"], json!([]));
    let health = server.call(&ann, "health", json!({"all_projects": true}));
    let agents: Vec<&Value> =
        health["agents"].as_array().unwrap().iter().map(|agent| &agent["agent"]).collect();
    assert_eq!(agents, ["greeter", "top"], "{health}");
    assert_eq!(env.json(["ps", "--all"])["runs"].as_array().map(Vec::len), Some(4));
    server.call(&ann, "cancel_run", json!({"run_id": slow_id}));
    assert_eq!(env.wait_for_end(slow_id)["status"], "cancelled");
}

#[test]
fn sessions_and_keys_of_one_token_are_not_those_of_another() {
    let env = vendor_env();
    let (ann, ben) = (token(&env, "ann"), token(&env, "ben"));
    let server = WebServer::start(&env);
    let keyed = json!({"agent": "greeter", "prompt": "x", "idempotency_key": "k"});
    let first = server.call(&ann, "run_agent", keyed.clone());
    assert_eq!(server.call(&ann, "run_agent", keyed.clone())["run_id"], first["run_id"]);
    assert_ne!(server.call(&ben, "run_agent", keyed)["run_id"], first["run_id"]);
    let go_on = json!({"agent": "greeter", "prompt": "y", "session_id": first["session_id"]});
    let refusal = server.refused(&ben, "run_agent", go_on.clone());
    insta::assert_snapshot!(env.masked(&refusal), @r"
    there is no session [run id]
    hint: `volery show RUN` (over MCP: get_run) prints the session of an earlier run; without a session a new conversation begins
    ");
    server.call(&ann, "run_agent", go_on);
}

#[test]
fn the_name_of_a_token_is_the_caller_whatever_the_client_says() {
    let env = vendor_env();
    env.rehearsal("private", "- say: for you", "allowed_callers: [ann]");
    env.rehearsal("theirs", "- say: for them", "allowed_callers: [tester]");
    let (ann, ben) = (token(&env, "ann"), token(&env, "ben"));
    let server = WebServer::start(&env);
    assert_eq!(
        server.call(&ann, "run_agent", json!({"agent": "private", "prompt": "x"}))["result"],
        "for you\n"
    );
    let refusal = server.refused(&ben, "run_agent", json!({"agent": "private", "prompt": "x"}));
    insta::assert_snapshot!(env.masked(&refusal), @"agent private may not be called by ben; it allows ann");
    let refusal = server.refused(&ann, "run_agent", json!({"agent": "theirs", "prompt": "x"}));
    insta::assert_snapshot!(env.masked(&refusal), @"agent theirs may not be called by ann; it allows tester");
}

#[test]
fn a_server_that_is_terminated_leaves_its_runs_at_work() {
    let env = vendor_env();
    env.rehearsal("steady", "- sleep: 3s\n- say: still here", "");
    let ann = token(&env, "ann");
    let mut server = WebServer::start(&env);
    let mut waiting = server.connect();
    let ask = json!({"name": "run_agent", "arguments": {"agent": "steady", "prompt": "x"}});
    std::io::Write::write_all(&mut waiting, &request_of(&ann, "tools/call", ask)).unwrap();
    let run = env.wait_for_run_count(1);
    env.wait_for_event(&run, "claimed");
    let started = Instant::now();
    assert_eq!(server.terminate(), Some(0));
    assert!(started.elapsed() < PATIENCE / 3, "it took {:?}", started.elapsed());
    let answer = crate::test_env::read_to_end(&mut waiting).message();
    assert_eq!(answer["result"]["structuredContent"]["run_id"], json!(run), "{answer}");
    let ended = env.wait_for_end(&run);
    assert_eq!((&ended["status"], &ended["result"]), (&json!("succeeded"), &json!("still here\n")));
}

#[test]
fn tokens_and_servers_are_not_for_agents() {
    let env = vendor_env();
    let command = |words: &[&str]| {
        let program = env!("CARGO_BIN_EXE_volery");
        let home = format!("VOLERY_HOME={}", env.path("state").display());
        [&["/usr/bin/env", "-i", &home, program], words]
            .concat()
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    let mut errors = String::new();
    for (name, words) in
        [("maker", &["token", "new", "x"][..]), ("server", &["serve", "--http", "127.0.0.1:0"])]
    {
        let command = command(words);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        env.backend(name, &command).agent(name, &format!("backend: {name}\ntimeout: 20s"));
        let shown = env.json(["run", name, "x"]);
        errors += &env.masked_texts(&shown["stderr_tail"]);
    }
    insta::assert_snapshot!(errors, @"
    error: this is for the owner of the machine, not from inside a run
    error: this is for the owner of the machine, not from inside a run
    ");
    assert!(!env.path("state/tokens").exists());
}

#[test]
fn metrics_sum_up_what_a_token_may_see() {
    let env = vendor_env();
    let ann = token(&env, "ann");
    let all = env.volery(["token", "new", "prometheus", "--all-metrics"]).ok().stdout.trim().to_owned();
    let server = WebServer::start(&env);
    server.call(&ann, "run_agent", json!({"agent": "greeter", "prompt": "x"}));
    let shell = env.start("slow", "x");
    env.wait_for_event(&shell, "claimed");
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
    let other = metrics(&token(&env, "ben"));
    assert!(!other.contains("greeter"), "{other}");
    env.volery(["cancel", &shell]).ok();
}
