//! Where no person can answer, a question is denied at once with the reason, and the time-out bounds the run.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::test_env::{CommandOutput, TestEnv, command_output};

/// Well above what a denied run takes on a loaded machine, and far below the hour that a question stays open.
const SOON: Duration = Duration::from_secs(25);

fn publisher(frontmatter: &str) -> TestEnv {
    let env = TestEnv::new();
    env.rehearsal("publisher", "- ask: May I publish?\n- say: done", frontmatter);
    env
}

/// Runs the publisher to its end with more words and variables, and returns its output.
fn publish(env: &TestEnv, words: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let mut command = env.command([&["run", "publisher", "go"], words].concat());
    let began = Instant::now();
    let output =
        command_output(command.envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap());
    assert!(began.elapsed() < SOON, "{:?}: {output:?}", began.elapsed());
    output
}

fn answer(env: &TestEnv, id: &str) -> Value {
    let answer = env.wait_for_event(id, "answered");
    assert_eq!(answer["allowed"], json!(false), "{answer}");
    answer["text"].clone()
}

#[test]
fn a_command_without_a_terminal() {
    let env = publisher("");
    let output = publish(&env, &["--timeout", "20s"], &[]).ok();
    assert_eq!(output.stdout, "denied: nobody can answer: the command has no terminal\ndone\n");
    let id = env.only_run();
    assert_eq!(answer(&env, &id), json!("denied: nobody can answer: the command has no terminal"));
    let page = env.volery(["show", &id]).ok().stdout;
    insta::assert_snapshot!(env.masked(&page), @r"
    run         [run id]
    short id    [run-id]
    agent       publisher (backend rehearsal)
    status      succeeded
    asked by    you
    prompt      go
    questions   denied at once: the command has no terminal
    created     [time] ([span] ago)
    started     [time] ([span] ago)
    ended       [time] ([span] ago)
    time        [span]
    tokens      not known
    cost        not known
    directory   [stage]/project
    success     unverified (no accept commands)
    session     [run id]

    result (60 B)
      denied: nobody can answer: the command has no terminal
      done
    ");
}

#[test]
fn the_time_out_bounds_a_run_that_asks() {
    let env = TestEnv::new();
    env.rehearsal("publisher", "- ask: May I publish?\n- sleep: 10m", "");
    let output = publish(&env, &["--timeout", "2s"], &[]);
    assert_eq!(output.code, 4, "{output:?}");
}

#[test]
fn the_time_out_bounds_the_wait_for_a_slot() {
    let env = publisher("");
    env.configure("[slots]\ncount = 1");
    let gate = env.path("gate");
    env.fake("holder", &[&format!("wait-file:{}", gate.display())], "");
    let holder = env.start("holder", "hold");
    env.wait_for_event(&holder, "agent_started");
    let output = publish(&env, &["--timeout", "2s"], &[]).exits(4);
    insta::assert_snapshot!(env.masked(&output.stderr), @"
    [run-id] timed out: the total time-out passed: no slot became free, so the run never began, after [span]
    hint: volery show [run-id] tells all that is known about it
    ");
    // Without a time-out of its caller it waits.
    let id = env.start("publisher", "go");
    env.wait_for_event(&id, "queued");
    assert_eq!(env.spec(&id).get("timeout_covers_wait"), None);
    std::fs::write(gate, "").unwrap();
    assert_eq!(env.wait_for_end(&id)["status"], json!("succeeded"));
}

#[test]
fn what_was_waited_is_taken_off_the_time_out() {
    let env = TestEnv::new();
    env.configure("[slots]\ncount = 1");
    let gate = env.path("gate");
    env.fake("holder", &[&format!("wait-file:{}", gate.display())], "");
    env.rehearsal("sleeper", "- say: so far\n- sleep: 10m", "");
    let holder = env.start("holder", "hold");
    env.wait_for_event(&holder, "agent_started");
    let began = Instant::now();
    let id = env.volery(["run", "sleeper", "go", "--timeout", "6s", "--background"]).ok().stdout;
    let id = id.trim();
    env.wait_for_event(id, "queued");
    // Three of its six seconds pass in the queue.
    std::thread::sleep(Duration::from_secs(3).saturating_sub(began.elapsed()));
    std::fs::write(gate, "").unwrap();
    let ended = env.wait_for_end(id);
    assert_eq!(ended["status"], json!("partial"), "{ended}");
    assert!(ended["duration_ms"].as_u64().unwrap() < 4_500, "{ended}");
}

#[test]
fn where_ci_is_set_or_nobody_is_declared_to_be_there() {
    let env = publisher("");
    for (words, variables, reason) in [
        (&["--background"][..], &[("CI", "true")][..], "the environment variable CI is set"),
        (&["--unattended", "--background"], &[("CI", "false")], "--unattended was given"),
        (&["--background"], &[("CI", "false")], "the command has no terminal"),
    ] {
        let id = publish(&env, words, variables).ok().stdout.trim().to_owned();
        assert_eq!(answer(&env, &id), json!(format!("denied: nobody can answer: {reason}")));
    }
    // Users who configure that somebody watches waiting runs get the question, unless a caller declares otherwise.
    env.people_answer();
    let id = publish(&env, &["--unattended", "--background"], &[]).ok().stdout.trim().to_owned();
    answer(&env, &id);
    let id = publish(&env, &["--background"], &[("CI", "true")]).ok().stdout.trim().to_owned();
    env.wait_for_event(&id, "asked");
    assert_eq!(env.json(["show", &id])["status"], json!("waiting"));
    env.volery(["cancel", &id]).ok();
}

#[test]
fn a_client_that_cannot_ask_its_user() {
    let env = publisher("");
    let ask = json!({"agent": "publisher", "prompt": "go", "directory": env.project()});
    let report = env.serve().initialize("quiet").call("run_agent", ask.clone());
    let reason = "denied: nobody can answer: the MCP client quiet cannot put a question to its user";
    assert_eq!(report["result"], json!(format!("{reason}\ndone\n")), "{report}");
    // A client that can ask gets the question: nobody answers it here, so it stays open.
    let mut client = env.serve().initialize_with("it", json!({"elicitation": {}}));
    let started = client.call("run_agent", json!({"agent": "publisher", "prompt": "go", "wait_s": 0}));
    let id = started["run_id"].as_str().unwrap();
    env.wait_for_event(id, "asked");
    assert_eq!(env.json(["show", id])["status"], json!("waiting"));
    env.volery(["cancel", id]).ok();
}

#[test]
fn a_child_of_such_a_run() {
    let env = publisher("");
    env.rehearsal("top", "- delegate: {agent: publisher, prompt: go}", "delegates: anyone");
    let output = env.volery(["run", "top", "go"]).ok();
    insta::assert_snapshot!(env.masked(&output.stdout), @"
    denied: nobody can answer: the command has no terminal
    done
    ");
}
