//! Where no person can answer, a question is denied at once with the reason, and the time-out bounds the run.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::stage::{Said, Stage, said};

/// Well above what a denied run takes on a loaded machine, and far below the hour that a question stays open.
const SOON: Duration = Duration::from_secs(25);

fn publisher(frontmatter: &str) -> Stage {
    let stage = Stage::new();
    stage.rehearsal("publisher", "- ask: May I publish?\n- say: done", frontmatter);
    stage
}

/// Runs the publisher to its end with more words and variables, and returns what it said.
fn publish(stage: &Stage, words: &[&str], variables: &[(&str, &str)]) -> Said {
    let mut command = stage.command([&["run", "publisher", "go"], words].concat());
    let began = Instant::now();
    let said = said(command.envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap());
    assert!(began.elapsed() < SOON, "{:?}: {said:?}", began.elapsed());
    said
}

fn answer(stage: &Stage, id: &str) -> Value {
    let answer = stage.event(id, "answered");
    assert_eq!(answer["allowed"], json!(false), "{answer}");
    answer["text"].clone()
}

#[test]
fn a_command_without_a_terminal() {
    let stage = publisher("");
    let said = publish(&stage, &["--timeout", "20s"], &[]).ok();
    assert_eq!(said.stdout, "denied: nobody can answer: the command has no terminal\ndone\n");
    let id = stage.only_run();
    assert_eq!(answer(&stage, &id), json!("denied: nobody can answer: the command has no terminal"));
    let page = stage.volery(["show", &id]).ok().stdout;
    assert!(page.contains("denied at once: the command has no terminal"), "{page}");
}

#[test]
fn the_time_out_bounds_a_run_that_asks() {
    let stage = Stage::new();
    stage.rehearsal("publisher", "- ask: May I publish?\n- sleep: 10m", "");
    let said = publish(&stage, &["--timeout", "2s"], &[]);
    assert_eq!(said.code, 4, "{said:?}");
}

#[test]
fn the_time_out_bounds_the_wait_for_a_slot() {
    let stage = publisher("");
    stage.configure("[slots]\ncount = 1");
    let gate = stage.path("gate");
    stage.fake("holder", &[&format!("wait-file:{}", gate.display())], "");
    let holder = stage.start("holder", "hold");
    stage.event(&holder, "agent_started");
    let said = publish(&stage, &["--timeout", "2s"], &[]).exits(4);
    assert!(
        said.stderr
            .contains("timed out: the total time-out passed: no slot became free, so the run never began"),
        "{said:?}"
    );
    // Without a time-out of its caller it waits.
    let id = stage.start("publisher", "go");
    stage.event(&id, "queued");
    assert_eq!(stage.spec(&id).get("timeout_covers_wait"), None);
    std::fs::write(gate, "").unwrap();
    assert_eq!(stage.ended(&id)["status"], json!("succeeded"));
}

#[test]
fn what_was_waited_is_taken_off_the_time_out() {
    let stage = Stage::new();
    stage.configure("[slots]\ncount = 1");
    let gate = stage.path("gate");
    stage.fake("holder", &[&format!("wait-file:{}", gate.display())], "");
    stage.rehearsal("sleeper", "- say: so far\n- sleep: 10m", "");
    let holder = stage.start("holder", "hold");
    stage.event(&holder, "agent_started");
    let began = Instant::now();
    let id = stage.volery(["run", "sleeper", "go", "--timeout", "6s", "--background"]).ok().stdout;
    let id = id.trim();
    stage.event(id, "queued");
    // Three of its six seconds pass in the queue.
    std::thread::sleep(Duration::from_secs(3).saturating_sub(began.elapsed()));
    std::fs::write(gate, "").unwrap();
    let ended = stage.ended(id);
    assert_eq!(ended["status"], json!("partial"), "{ended}");
    assert!(ended["duration_ms"].as_u64().unwrap() < 4_500, "{ended}");
}

#[test]
fn where_ci_is_set_or_nobody_is_declared_to_be_there() {
    let stage = publisher("");
    for (words, variables, reason) in [
        (&["--background"][..], &[("CI", "true")][..], "the environment variable CI is set"),
        (&["--unattended", "--background"], &[("CI", "false")], "--unattended was given"),
        (&["--background"], &[("CI", "false")], "the command has no terminal"),
    ] {
        let id = publish(&stage, words, variables).ok().stdout.trim().to_owned();
        assert_eq!(answer(&stage, &id), json!(format!("denied: nobody can answer: {reason}")));
    }
    // Whoever configures that somebody looks at waiting runs is asked, unless a caller declares otherwise.
    stage.people_answer();
    let id = publish(&stage, &["--unattended", "--background"], &[]).ok().stdout.trim().to_owned();
    answer(&stage, &id);
    let id = publish(&stage, &["--background"], &[("CI", "true")]).ok().stdout.trim().to_owned();
    stage.event(&id, "asked");
    assert_eq!(stage.json(["show", &id])["status"], json!("waiting"));
    stage.volery(["cancel", &id]).ok();
}

#[test]
fn a_client_that_cannot_ask_its_user() {
    let stage = publisher("");
    let ask = json!({"agent": "publisher", "prompt": "go", "directory": stage.project()});
    let report = stage.serve().initialize("quiet").call("run_agent", ask.clone());
    let reason = "denied: nobody can answer: the MCP client quiet cannot put a question to its user";
    assert_eq!(report["result"], json!(format!("{reason}\ndone\n")), "{report}");
    // One that can is asked: nobody answers this one, so the question is open.
    let mut client = stage.serve().initialize_with("it", json!({"elicitation": {}}));
    let started = client.call("run_agent", json!({"agent": "publisher", "prompt": "go", "wait_s": 0}));
    let id = started["run_id"].as_str().unwrap();
    stage.event(id, "asked");
    assert_eq!(stage.json(["show", id])["status"], json!("waiting"));
    stage.volery(["cancel", id]).ok();
}

#[test]
fn a_child_of_such_a_run() {
    let stage = publisher("");
    stage.rehearsal("top", "- delegate: {agent: publisher, prompt: go}", "delegates: anyone");
    let said = stage.volery(["run", "top", "go"]).ok();
    assert!(said.stdout.contains("nobody can answer: the command has no terminal"), "{said:?}");
}
