//! A run that asks waits, without spending its time, until somebody answers once, or nobody does.

use serde_json::{Value, json};

use crate::stage::{PATIENCE, Stage, wait_for};

/// Starts a run that asks, and waits for its question.
fn asking(frontmatter: &str) -> (Stage, String) {
    let stage = Stage::new();
    stage.people_answer();
    stage.rehearsal("asker", "- say: before\n- ask: May I deploy?\n- say: after", frontmatter);
    let id = stage.start("asker", "go");
    stage.event(&id, "asked");
    (stage, id)
}

fn answered(stage: &Stage, id: &str) -> Value {
    stage.event(id, "answered")
}

#[test]
fn the_question_is_shown_and_approved_in_the_shell() {
    let (stage, id) = asking("timeout: 2s");
    let shown = stage.json(["show", &id]);
    assert_eq!(shown["status"], json!("waiting"), "{shown}");
    assert_eq!(
        (&shown["waiting"]["for"], &shown["waiting"]["text"]),
        (&json!("answer"), &json!("May I deploy?"))
    );
    assert_eq!(shown["explanation"], json!("waiting for an answer: May I deploy?"));
    assert_eq!(stage.json(["ps", "--state", "waiting"])["runs"].as_array().unwrap().len(), 1);
    // Longer than the run's time-out, whose clock stands still while a person is awaited.
    let since = std::time::Instant::now();
    wait_for(PATIENCE, "time to pass", || (since.elapsed().as_millis() > 2_500).then_some(()));
    assert_eq!(stage.json(["show", &id])["status"], json!("waiting"));
    stage.volery(["approve", &id]).ok();
    let ended = stage.ended(&id);
    assert_eq!((&ended["status"], &ended["result"]), (&json!("succeeded"), &json!("before\nyes\nafter\n")));
    assert_eq!(answered(&stage, &id)["allowed"], json!(true));
}

#[test]
fn whoever_waits_is_told_the_question_and_how_to_answer_it() {
    let stage = Stage::new();
    stage.people_answer();
    stage.rehearsal("asker", "- ask: May I deploy?\n- say: after", "");
    let notes = stage.path("notes");
    let mut command = stage.command(["run", "asker", "go"]);
    let stderr = std::fs::File::create(&notes).unwrap();
    let mut child = command.stdin(std::process::Stdio::null()).stderr(stderr).spawn().unwrap();
    let told = wait_for(PATIENCE, "the question", || {
        let told = std::fs::read_to_string(&notes).unwrap();
        told.contains("volery deny").then_some(told)
    });
    assert!(told.contains("asker asks: May I deploy?"), "{told}");
    let short = told.split("volery approve ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    stage.volery(["approve", short]).ok();
    assert!(child.wait().unwrap().success());
    let told = std::fs::read_to_string(&notes).unwrap();
    assert_eq!(told.matches("asks:").count(), 1, "said once: {told}");
}

#[test]
fn a_denial_reaches_the_run_with_its_reason() {
    let (stage, id) = asking("");
    stage.volery(["deny", &id, "--reason", "not on a Friday"]).ok();
    let ended = stage.ended(&id);
    assert!(ended["result"].as_str().unwrap().contains("not on a Friday"), "{ended}");
    assert_eq!(answered(&stage, &id)["allowed"], json!(false));
}

#[test]
fn an_answer_is_given_in_words_and_only_once() {
    let (stage, id) = asking("");
    stage.volery(["answer", &id, "only to staging"]).ok();
    let ended = stage.ended(&id);
    assert_eq!(ended["result"], json!("before\nonly to staging\nafter\n"));
    let refused = stage.volery(["answer", &id, "everywhere"]).exits(2).stderr;
    let short = &id[id.len() - 8..];
    assert_eq!(
        refused.lines().next(),
        Some(format!("error: the run {short} waits for no answer: succeeded").as_str())
    );
}

#[test]
fn the_second_of_two_answers_is_refused_while_the_run_has_not_looked() {
    let (stage, id) = asking("");
    let worker = stage.events(&id)[0]["worker_pid"].as_u64().unwrap();
    let worker = u32::try_from(worker).unwrap();
    // Stopped for less time than its keeper allows.
    crate::stage::kill(worker, rustix::process::Signal::STOP);
    let first = stage.volery(["approve", &id]);
    let second = stage.volery(["deny", &id]);
    crate::stage::kill(worker, rustix::process::Signal::CONT);
    first.ok();
    let short = &id[id.len() - 8..];
    let expected = format!(
        "error: the question q1 of the run {short} was answered already\nhint: the first answer counts\n"
    );
    assert_eq!(second.exits(2).stderr, expected);
    stage.ended(&id);
    assert_eq!(answered(&stage, &id)["allowed"], json!(true), "the first one counts");
}

#[test]
fn a_client_answers_through_the_server() {
    let stage = Stage::new();
    stage.people_answer();
    stage.rehearsal("asker", "- ask: Which database?\n- say: thanks", "");
    let mut client = stage.serve().initialize("it");
    let ask = json!({"agent": "asker", "prompt": "go", "directory": stage.project(), "wait_s": 0});
    let id = client.call("run_agent", ask)["run_id"].as_str().unwrap().to_owned();
    stage.event(&id, "asked");
    let got = client.call("get_run", json!({"run_id": id}));
    assert_eq!(
        (&got["status"], &got["question"]["text"]),
        (&json!("waiting"), &json!("Which database?")),
        "{got}"
    );
    let wrong = client.refused("answer_run", json!({"run_id": id, "question_id": "q9", "text": "x"}));
    assert!(wrong.contains("the open question of this run is q"), "{wrong}");
    assert!(client.refused("answer_run", json!({"run_id": id})).contains("give decision"));
    client.call("answer_run", json!({"run_id": id, "text": "the small one"}));
    let waited = client.call("wait_runs", json!({"run_ids": [id]}));
    assert_eq!(waited["runs"][0]["result"], json!("the small one\nthanks\n"), "{waited}");
    let refused = client.refused("answer_run", json!({"run_id": id, "text": "the large one"}));
    assert!(refused.contains("waits for no answer: succeeded"), "{refused}");
}

#[test]
fn nobody_answering_is_a_denial() {
    let (stage, id) = asking("answer_timeout: 200ms");
    let ended = stage.ended(&id);
    assert_eq!(ended["result"], json!("before\ndenied: nobody answered in time\nafter\n"), "{ended}");
    let answer = answered(&stage, &id);
    assert_eq!((&answer["allowed"], &answer["by"]), (&json!(false), &json!("the answer time-out")));
}

#[test]
fn a_cancel_beats_an_open_question() {
    let (stage, id) = asking("");
    stage.volery(["cancel", &id]).ok();
    let ended = stage.ended(&id);
    assert_eq!(ended["outcome"]["cause"]["cause"], json!("cancelled"), "{ended}");
    stage.volery(["approve", &id]).exits(2);
}

#[test]
fn an_empty_answer_approves_nothing() {
    let (stage, id) = asking("");
    for empty in ["", "  \n"] {
        let refused = stage.volery(["answer", &id, empty]).exits(2).stderr;
        assert!(refused.contains("empty"), "{refused}");
    }
    let mut client = stage.serve().initialize("it");
    assert!(client.refused("answer_run", json!({"run_id": id, "text": ""})).contains("the answer is empty"));
    assert_eq!(stage.json(["show", &id])["status"], json!("waiting"));
    stage.volery(["deny", &id]).ok();
    assert_eq!(stage.ended(&id)["status"], json!("succeeded"));
}
