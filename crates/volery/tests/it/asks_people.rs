//! A run that asks waits, without spending its time, until somebody answers once, or nobody does.

use serde_json::{Value, json};

use crate::test_env::{PATIENCE, TestEnv, wait_for};

/// Starts a run that asks, and waits for its question.
fn asking(frontmatter: &str) -> (TestEnv, String) {
    let env = TestEnv::new();
    env.people_answer();
    env.rehearsal("asker", "- say: before\n- ask: May I deploy?\n- say: after", frontmatter);
    let id = env.start("asker", "go");
    env.wait_for_event(&id, "asked");
    (env, id)
}

fn answered(env: &TestEnv, id: &str) -> Value {
    env.wait_for_event(id, "answered")
}

#[test]
fn the_question_is_shown_and_approved_in_the_shell() {
    let (env, id) = asking("timeout: 2s");
    let shown = env.json(["show", &id]);
    assert_eq!(shown["status"], json!("waiting"), "{shown}");
    assert_eq!(
        (&shown["waiting"]["for"], &shown["waiting"]["text"]),
        (&json!("answer"), &json!("May I deploy?"))
    );
    insta::assert_snapshot!(env.masked_texts(&shown["explanation"]), @"waiting for an answer: May I deploy?");
    assert_eq!(env.json(["ps", "--state", "waiting"])["runs"].as_array().unwrap().len(), 1);
    // Longer than the run's time-out, whose clock stops while the run waits for a person.
    let since = std::time::Instant::now();
    wait_for(PATIENCE, "time to pass", || (since.elapsed().as_millis() > 2_500).then_some(()));
    assert_eq!(env.json(["show", &id])["status"], json!("waiting"));
    env.volery(["approve", &id]).ok();
    let ended = env.wait_for_end(&id);
    assert_eq!((&ended["status"], &ended["result"]), (&json!("succeeded"), &json!("before\nyes\nafter\n")));
    assert_eq!(answered(&env, &id)["allowed"], json!(true));
}

#[test]
fn a_waiting_command_prints_the_question_and_how_to_answer_it() {
    let env = TestEnv::new();
    env.people_answer();
    env.rehearsal("asker", "- ask: May I deploy?\n- say: after", "");
    let notes = env.path("notes");
    let mut command = env.command(["run", "asker", "go"]);
    let stderr = std::fs::File::create(&notes).unwrap();
    let mut child = command.stdin(std::process::Stdio::null()).stderr(stderr).spawn().unwrap();
    let printed = wait_for(PATIENCE, "the question", || {
        let printed = std::fs::read_to_string(&notes).unwrap();
        printed.contains("volery deny").then_some(printed)
    });
    assert!(printed.contains("asker asks: May I deploy?"), "{printed}");
    let short = printed.split("volery approve ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    env.volery(["approve", short]).ok();
    assert!(child.wait().unwrap().success());
    let printed = std::fs::read_to_string(&notes).unwrap();
    assert_eq!(printed.matches("asks:").count(), 1, "said once: {printed}");
}

#[test]
fn a_denial_reaches_the_run_with_its_reason() {
    let (env, id) = asking("");
    env.volery(["deny", &id, "--reason", "not on a Friday"]).ok();
    let ended = env.wait_for_end(&id);
    assert!(ended["result"].as_str().unwrap().contains("not on a Friday"), "{ended}");
    assert_eq!(answered(&env, &id)["allowed"], json!(false));
}

#[test]
fn a_question_is_answered_with_text_and_only_once() {
    let (env, id) = asking("");
    env.volery(["answer", &id, "only to staging"]).ok();
    let ended = env.wait_for_end(&id);
    assert_eq!(ended["result"], json!("before\nonly to staging\nafter\n"));
    let refused = env.volery(["answer", &id, "everywhere"]).exits(2).stderr;
    let short = &id[id.len() - 8..];
    assert_eq!(
        refused.lines().next(),
        Some(format!("error: the run {short} waits for no answer: succeeded").as_str())
    );
}

#[test]
fn the_second_of_two_answers_is_refused_while_the_run_has_not_looked() {
    let (env, id) = asking("");
    env.hold("worker_checks_inbox");
    env.wait_until_held("worker_checks_inbox");
    let first = env.volery(["approve", &id]);
    let second = env.volery(["deny", &id]);
    env.release("worker_checks_inbox");
    first.ok();
    insta::assert_snapshot!(env.masked(&second.exits(2).stderr), @"
    error: the question q1 of the run [run-id] was answered already
    hint: the first answer counts
    ");
    env.wait_for_end(&id);
    assert_eq!(answered(&env, &id)["allowed"], json!(true), "the first one counts");
}

#[test]
fn a_client_answers_through_the_server() {
    let env = TestEnv::new();
    env.people_answer();
    env.rehearsal("asker", "- ask: Which database?\n- say: thanks", "");
    let mut client = env.serve().initialize("it");
    let ask = json!({"agent": "asker", "prompt": "go", "directory": env.project(), "wait_s": 0});
    let id = client.call("run_agent", ask)["run_id"].as_str().unwrap().to_owned();
    env.wait_for_event(&id, "asked");
    let got = client.call("get_run", json!({"run_id": id}));
    assert_eq!(
        (&got["status"], &got["question"]["text"]),
        (&json!("waiting"), &json!("Which database?")),
        "{got}"
    );
    let wrong = client.refused("answer_run", json!({"run_id": id, "question_id": "q9", "text": "x"}));
    insta::assert_snapshot!(env.masked(&wrong), @"the open question of this run is q0");
    let wrong = client.refused("answer_run", json!({"run_id": id}));
    insta::assert_snapshot!(env.masked(&wrong), @r#"give decision ("approve" or "deny"), text, or both"#);
    client.call("answer_run", json!({"run_id": id, "text": "the small one"}));
    let waited = client.call("wait_runs", json!({"run_ids": [id]}));
    assert_eq!(waited["runs"][0]["result"], json!("the small one\nthanks\n"), "{waited}");
    let refused = client.refused("answer_run", json!({"run_id": id, "text": "the large one"}));
    insta::assert_snapshot!(env.masked(&refused), @"the run [run-id] waits for no answer: succeeded");
}

#[test]
fn nobody_answering_is_a_denial() {
    let (env, id) = asking("answer_timeout: 200ms");
    let ended = env.wait_for_end(&id);
    assert_eq!(ended["result"], json!("before\ndenied: nobody answered in time\nafter\n"), "{ended}");
    let answer = answered(&env, &id);
    assert_eq!(
        (&answer["allowed"], &answer["by"]),
        (&json!(false), &json!("Volery, because nobody answered in time"))
    );
}

#[test]
fn a_cancel_beats_an_open_question() {
    let (env, id) = asking("");
    env.volery(["cancel", &id]).ok();
    let ended = env.wait_for_end(&id);
    assert_eq!(ended["outcome"]["cause"]["cause"], json!("cancelled"), "{ended}");
    env.volery(["approve", &id]).exits(2);
}

#[test]
fn an_empty_answer_approves_nothing() {
    let (env, id) = asking("");
    for empty in ["", "  \n"] {
        let refused = env.volery(["answer", &id, empty]).exits(2).stderr;
        insta::allow_duplicates! {
            insta::assert_snapshot!(env.masked(&refused), @"
            error: the answer is empty
            hint: give the answer in words, or approve or deny without any
            ");
        }
    }
    let mut client = env.serve().initialize("it");
    let refused = client.refused("answer_run", json!({"run_id": id, "text": ""}));
    insta::assert_snapshot!(env.masked(&refused), @"
    the answer is empty
    hint: give the answer in words, or approve or deny without any
    ");
    assert_eq!(env.json(["show", &id])["status"], json!("waiting"));
    env.volery(["deny", &id]).ok();
    assert_eq!(env.wait_for_end(&id)["status"], json!("succeeded"));
}

#[test]
fn the_only_waiting_run_of_the_project_needs_no_id() {
    let env = TestEnv::new();
    env.people_answer();
    env.rehearsal("asker", "- ask: May I deploy?\n- say: after", "");
    let none = env.volery(["approve"]).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&none), @r"
    error: no run of this project waits for an answer
    hint: `volery ps --all --state waiting` lists the waiting runs of every project
    ");
    let start = || {
        let id = env.start("asker", "go");
        env.wait_for_event(&id, "asked");
        id
    };
    let first = start();
    let approved = env.volery(["approve"]).ok();
    insta::assert_snapshot!(env.masked(&(approved.stdout + &approved.stderr)), @r"
    [run-id] approved q0
    [run-id] asker asks: May I deploy?
    ");
    assert_eq!(env.wait_for_end(&first)["result"], json!("yes\nafter\n"));

    let answered_by_text = start();
    env.volery(["answer", "only on Monday"]).ok();
    assert_eq!(env.wait_for_end(&answered_by_text)["result"], json!("only on Monday\nafter\n"));
    let denied = start();
    // The command does not treat a text in the form of an id as the answer.
    let unknown = env.volery(["answer", "2024"]).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&unknown), @r"
    error: there is no run 2024
    hint: if 2024 is the answer, give the run too: volery answer RUN 2024
    ");
    let other = start();
    let several = env.volery(["deny"]).exits(2).stderr;
    insta::assert_snapshot!(env.masked(&several), @r"
    error: 2 runs of this project wait for an answer:
      [run-id] asker asks: May I deploy?
      [run-id] asker asks: May I deploy?
    hint: name one: volery deny [run-id]
    ");
    env.volery(["deny", &other]).ok();
    env.wait_for_end(&other);
    env.volery(["deny", "--reason", "not today"]).ok();
    env.wait_for_end(&denied);
    assert_eq!(answered(&env, &denied)["allowed"], json!(false));
}

#[test]
fn a_question_that_needs_words_is_not_answered_by_an_approval() {
    let env = crate::shows_a_first_day::env();
    let path = format!("{}:{}", env.path("bin").display(), std::env::var("PATH").unwrap());
    let volery = |words: &[&str]| {
        let mut command = env.command(words);
        crate::test_env::command_output(command.env("PATH", &path).output().unwrap())
    };
    let id =
        volery(&["run", "claude", "Which database is it?", "--background"]).ok().stdout.trim().to_owned();
    env.wait_for_event(&id, "asked");
    let refused = volery(&["approve", &id]).exits(2);
    insta::assert_snapshot!(env.masked(&refused.stderr), @r#"
    error: the run [run-id] needs a text answer
    hint: to answer: volery answer [run-id] "…"
    "#);
    volery(&["answer", &id, "sqlite"]).ok();
    assert_eq!(env.wait_for_end(&id)["result"], json!("It is sqlite."));
}
