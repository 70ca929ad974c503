//! Acceptance commands: they run after the agent's success, where it worked and as bounded as it, and only they make a
//! success more than a claim.

use std::fs;

use serde_json::{Value, json};

use crate::test_env::{PATIENCE, TestEnv, fake_agent, git, tagged, wait_for, with_argument};

/// Defines an agent that says so and has these acceptance commands.
fn vendor_env(accept: &Value, frontmatter: &str) -> TestEnv {
    let env = TestEnv::new();
    env.fake("worker", &["say:done"], &format!("accept: {accept}\n{frontmatter}"));
    env.volery(["trust", "--yes"]).ok();
    env
}

fn fake(steps: &[&str]) -> Vec<String> {
    let program = fake_agent().to_str().unwrap().to_owned();
    std::iter::once(program).chain(steps.iter().map(|step| (*step).to_owned())).collect()
}

fn kinds(env: &TestEnv, id: &str) -> Vec<String> {
    let events = env.events(id).into_iter().map(|event| event["type"].as_str().unwrap().to_owned());
    events.filter(|kind| kind.starts_with("acceptance") || kind == "ended").collect()
}

#[test]
fn a_success_is_verified_by_commands_that_succeed() {
    let env = vendor_env(&json!([["test", "-e", "proof"], "true"]), "");
    fs::write(env.project().join("proof"), "").unwrap();
    let run = env.json(["run", "worker", "x"]);
    assert_eq!((&run["status"], &run["verification"]), (&json!("succeeded"), &json!("verified")), "{run}");
    assert_eq!(run["result"], json!("done\n"), "the agent's answer stays the answer: {run}");
    assert_eq!(run["acceptance"][0]["command"], json!(["test", "-e", "proof"]), "{run}");
    assert_eq!(run["acceptance"].as_array().unwrap().len(), 2);
    let id = run["run_id"].as_str().unwrap();
    let pair = ["acceptance_started", "acceptance_ended"];
    assert_eq!(kinds(&env, id), [&pair[..], &pair[..], &["ended"]].concat());
    let shown = env.volery(["show", id]).ok().stdout;
    insta::assert_snapshot!(env.masked(&shown), @"
    run         [run id]
    short id    [run-id]
    agent       worker (backend worker)
    status      succeeded
    asked by    you
    prompt      x
    questions   denied at once: the command has no terminal
    created     [time] ([span] ago)
    started     [time] ([span] ago)
    ended       [time] ([span] ago)
    time        [span]
    tokens      not known
    cost        not known
    exit code   0
    directory   [stage]/project
    success     verified: all acceptance commands succeeded
    acceptance  test -e proof succeeded ([span])
                true succeeded ([span])
    session     [run id]
    contained   [as this machine can]

    result (5 B)
      done
    ");
    let output = env.volery(["run", "worker", "x"]).ok();
    assert_eq!(output.stdout, "done\n");
    insta::assert_snapshot!(env.masked(&output.stderr), @"[run-id] succeeded in [span], verified");
    let mut client = env.serve().initialize("it");
    let ask = json!({"agent": "worker", "prompt": "x", "directory": env.project()});
    assert_eq!(client.call("run_agent", ask)["verification"], json!("verified"));
}

#[test]
fn without_commands_a_success_is_a_claim() {
    let env = TestEnv::new();
    env.fake("worker", &["say:done"], "");
    let run = env.json(["run", "worker", "x"]);
    assert_eq!((&run["status"], &run["verification"]), (&json!("succeeded"), &json!("claimed")), "{run}");
    assert_eq!(run.get("acceptance"), None);
}

#[test]
fn a_command_that_fails_makes_the_run_fail_with_the_answer_and_the_end_of_its_output() {
    let failing = fake(&["say:two tests failed", "err:see above", "exit:3"]);
    let env = vendor_env(&json!([["true"], failing, ["touch", "never"]]), "");
    let output = env.volery(["run", "worker", "x", "--json"]).exits(1);
    let run = output.json();
    assert_eq!((&run["status"], &run["outcome"]["kind"]), (&json!("failed"), &json!("acceptance")), "{run}");
    assert_eq!((&run["result"], run.get("verification")), (&json!("done\n"), None), "{run}");
    assert_eq!(run["exit_code"], json!(0), "that of the agent: {run}");
    let command = &run["acceptance"][1];
    assert_eq!((&command["exit_code"], &command["passed"]), (&json!(3), &json!(false)), "{run}");
    let tail = command["output_tail"].as_str().unwrap();
    assert!(tail.contains("two tests failed") && tail.contains("see above"), "{run}");
    insta::assert_snapshot!(env.masked_texts(&run["explanation"]), @"failed: not accepted: [programs]/fake-agent say:two tests failed err:see above exit:3 exited with code 3");
    assert!(!env.project().join("never").exists(), "nothing follows on a failure");
    let dir = env.run_dir(run["run_id"].as_str().unwrap());
    assert_eq!(fs::read_to_string(dir.join("stdout.acceptance2")).unwrap(), "two tests failed\n");
    assert_eq!(fs::read_to_string(dir.join("stdout")).unwrap(), "done\n");
    let shown = env.volery(["show", run["run_id"].as_str().unwrap()]).ok().stdout;
    assert!(shown.contains("two tests failed"), "{shown}");
}

#[test]
fn nothing_is_run_for_an_agent_that_failed() {
    let env = TestEnv::new();
    env.fake("worker", &["exit:7"], "accept: touch ran");
    env.volery(["trust", "--yes"]).ok();
    let run = env.json(["run", "worker", "x"]);
    assert_eq!((&run["outcome"]["kind"], run.get("acceptance")), (&json!("exit"), None), "{run}");
    assert!(!env.project().join("ran").exists());
}

#[test]
fn a_rehearsal_is_confirmed_too() {
    let env = TestEnv::new();
    env.rehearsal("worker", "- write: {path: made, text: x}\n- say: done", "accept: test -s made");
    env.volery(["trust", "--yes"]).ok();
    let run = env.json(["run", "worker", "x"]);
    assert_eq!((&run["verification"], &run["result"]), (&json!("verified"), &json!("done\n")), "{run}");
}

#[test]
fn a_command_that_hangs_ends_with_the_time_of_the_run() {
    let env = vendor_env(&json!([fake(&["say:checking", "hang"])]), "timeout: 3s\ngrace: 500ms");
    let run = env.volery(["run", "worker", "x", "--json"]).exits(4).json();
    assert_eq!((&run["status"], &run["result"]), (&json!("partial"), &json!("done\n")), "{run}");
    assert_eq!(run["verification"], json!("claimed"), "{run}");
    assert!(run["duration_ms"].as_u64().unwrap() < 20_000, "{run}");
    assert_eq!(tagged(env.tag(run["run_id"].as_str().unwrap())), Vec::<u32>::new());
}

#[test]
fn a_cancel_reaches_a_command() {
    let env = vendor_env(&json!([fake(&["say:checking", "hang"])]), "timeout: 100s\ngrace: 500ms");
    let id = env.start("worker", "x");
    wait_for(PATIENCE, "the command", || {
        env.events(&id).into_iter().find(|event| event["type"] == "acceptance_started")
    });
    env.volery(["cancel", &id]).ok();
    let run = env.wait_for_end(&id);
    assert_eq!((&run["status"], &run["result"]), (&json!("partial"), &json!("done\n")), "{run}");
}

#[test]
fn whatever_a_command_leaves_behind_is_gone() {
    for containment in ["auto", "plain"] {
        let life = if containment == "auto" { "7400100" } else { "7400101" };
        let steps = [format!("setsid-child:{life}"), format!("double-fork:{life}"), "say:checked".to_owned()];
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let env = vendor_env(&json!([fake(&steps)]), &format!("containment: {containment}"));
        let run = env.json(["run", "worker", "x"]);
        assert_eq!(run["verification"], json!("verified"), "{run}");
        assert_eq!(with_argument(&format!(":{life}")), Vec::<u32>::new(), "{containment}");
        assert_eq!(tagged(env.tag(run["run_id"].as_str().unwrap())), Vec::<u32>::new());
    }
}

#[test]
fn a_project_must_be_trusted_before_its_commands_run() {
    let env = TestEnv::new();
    env.rehearsal("worker", "- say: done", "accept: touch ran");
    let refused = env.volery(["run", "worker", "x"]).exits(3).stderr;
    insta::assert_snapshot!(env.masked(&refused), @r#"
    error: the project [stage]/project would execute programs that you have not trusted:
      agent worker, acceptance: ["touch", "ran"]
    hint: look at them, then: volery trust [stage]/project
    "#);
    env.volery(["trust", "--yes"]).ok();
    env.volery(["run", "worker", "x"]).ok();
    assert!(env.project().join("ran").exists());
    env.rehearsal("worker", "- say: done", "accept: touch other");
    env.volery(["run", "worker", "x"]).exits(3);
}

#[test]
fn a_command_that_cannot_be_started_confirms_nothing() {
    let env = vendor_env(&json!("no-such-program-here --check"), "");
    let run = env.volery(["run", "worker", "x", "--json"]).exits(1).json();
    assert_eq!((&run["outcome"]["kind"], &run["result"]), (&json!("acceptance"), &json!("done\n")), "{run}");
    insta::assert_snapshot!(env.masked_texts(&run["explanation"]), @r#"failed: not accepted: no-such-program-here --check could not be started: program "no-such-program-here" was not found in PATH ([folders])"#);
}

#[test]
fn commands_are_within_the_limits_of_the_run() {
    let env = vendor_env(
        &json!([["sh", "-c", "echo \"${VOLERY_TEST_POINTS:-cleared}\"; ulimit -n"]]),
        "limits: {open_files: 77}",
    );
    let run = env.json(["run", "worker", "x"]);
    let dir = env.run_dir(run["run_id"].as_str().unwrap());
    assert_eq!(fs::read_to_string(dir.join("stdout.acceptance1")).unwrap(), "cleared\n77\n");
}

#[test]
fn commands_look_at_the_runs_own_work_tree() {
    let env = TestEnv::new();
    env.rehearsal(
        "worker",
        "- write: {path: made, text: x}\n- say: done",
        "isolation: worktree\naccept: test -s made",
    );
    for words in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
        git(&env.project(), words);
    }
    env.volery(["trust", "--yes"]).ok();
    let run = env.json(["run", "worker", "x"]);
    assert_eq!(run["verification"], json!("verified"), "{run}");
    assert!(!env.project().join("made").exists());
}
