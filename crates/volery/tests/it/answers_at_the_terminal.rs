//! A run in the foreground of a terminal is answered there; where there is none, only the commands that answer the question
//! are named.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use crate::test_env::{PATIENCE, Terminal, TestEnv, kill, wait_for};

fn asker(steps: &str) -> (TestEnv, Terminal) {
    let env = TestEnv::new();
    env.rehearsal("asker", steps, "");
    let terminal = Terminal::start(env.command(["run", "asker", "go"]));
    (env, terminal)
}

#[test]
fn a_person_allows_denies_and_answers_where_the_run_was_started() {
    let (env, mut terminal) = asker("- ask: May I build?\n- ask: May I build?\n- ask: When?\n- say: done");
    terminal.shows("asker asks: May I build?");
    terminal.shows("[y]es, [n]o, or an answer in words: ");
    terminal.types("y");
    let id = env.only_run();
    env.wait_for_event(&id, "answered");
    wait_for(PATIENCE, "the second question", || {
        let prompts = terminal.screen().matches("or an answer in words: ").count();
        (prompts == 2).then_some(())
    });
    terminal.types("n");
    terminal.shows("asker asks: When?");
    terminal.types("");
    terminal.types("on Monday");
    let (code, screen) = terminal.exits();
    assert_eq!(code, Some(0), "{screen}");
    let answers: Vec<_> = env.events(&id).into_iter().filter(|event| event["type"] == "answered").collect();
    let answer_at = |at: usize| (answers[at]["allowed"].clone(), answers[at]["text"].clone());
    assert_eq!(answer_at(0), (json!(true), json!("yes")));
    assert_eq!(answer_at(1), (json!(false), json!("no")));
    assert_eq!(answer_at(2), (json!(true), json!("on Monday")));
    assert!(!screen.contains("from another terminal"), "{screen}");
}

#[test]
fn an_answer_from_elsewhere_ends_the_question_and_ctrl_c_still_cancels() {
    let (env, terminal) = asker("- ask: May I build?\n- ask: May I test?\n- ask: May I deploy?\n- say: done");
    terminal.shows("[y]es, [n]o");
    let id = env.only_run();
    let mut approve = env.command(["approve", &id]);
    crate::test_env::command_output(approve.env("USER", "ada").output().unwrap()).ok();
    terminal.shows("the question was approved by ada with another volery command");
    terminal.shows("asker asks: May I test?");
    env.serve().initialize("it").call("answer_run", json!({"run_id": id, "decision": "deny"}));
    terminal.shows("the question was denied by the MCP client it");
    terminal.shows("asker asks: May I deploy?");
    // What Ctrl-C sends to the processes of a terminal.
    kill(terminal.pid(), Signal::INT);
    let (code, screen) = terminal.exits();
    assert_eq!(code, Some(130), "{screen}");
    assert!(screen.contains("stopping; Ctrl-C again kills it now"), "{screen}");
    let ended = env.wait_for_end(&id);
    // The rehearsal had printed the first answer.
    insta::assert_snapshot!(env.masked_texts(&ended["explanation"]), @"partial: cancelled by the terminal, with usable output so far");
}

#[test]
fn a_question_that_nobody_answers_in_time_says_so() {
    let env = TestEnv::new();
    env.rehearsal("asker", "- ask: May I build?\n- say: done", "answer_timeout: 2s");
    let terminal = Terminal::start(env.command(["run", "asker", "go"]));
    terminal.shows("[y]es, [n]o, or an answer in words: ");
    let (code, screen) = terminal.exits();
    assert_eq!(code, Some(0), "{screen}");
    let expired = "the question has expired: nobody answered in time, so it was denied";
    assert!(screen.contains(expired) && screen.contains("done"), "{screen}");
    let answered = env.wait_for_event(&env.only_run(), "answered");
    assert_eq!((&answered["allowed"], &answered["from"]), (&json!(false), &json!("expired")), "{answered}");
}

#[test]
fn a_line_that_was_typed_before_the_question_does_not_answer_it() {
    let env = TestEnv::new();
    env.rehearsal("asker", "- ask: May I build?\n- ask: May I deploy?\n- say: done", "");
    env.hold("worker_claimed");
    let mut terminal = Terminal::start(env.command(["run", "asker", "go"]));
    env.wait_until_held("worker_claimed");
    terminal.types("y");
    env.release("worker_claimed");
    terminal.shows("asker asks: May I build?");
    // The second line arrives before the second question.
    terminal.types("n\ny");
    terminal.shows("asker asks: May I deploy?");
    terminal.types("n");
    let (code, screen) = terminal.exits();
    assert_eq!(code, Some(0), "{screen}");
    let answers: Vec<_> = env.events(&env.only_run());
    let answers: Vec<_> = answers.iter().filter(|event| event["type"] == "answered").collect();
    let decisions: Vec<_> = answers.iter().map(|answer| (&answer["allowed"], &answer["from"])).collect();
    assert_eq!(decisions, [(&json!(false), &json!("terminal")); 2], "{screen}");
}

#[test]
fn a_wait_for_an_unattended_run_names_no_commands() {
    let env = TestEnv::new();
    // So many that one of them is open whenever somebody looks.
    env.rehearsal("asker", &format!("{}- say: done", "- ask: May I build?\n".repeat(300)), "");
    env.hold("worker_claimed");
    let id = env.start("asker", "go");
    env.wait_until_held("worker_claimed");
    let waiting = env.command(["wait", &id]).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    env.release("worker_claimed");
    let waited = crate::test_env::command_output(waiting.wait_with_output().unwrap()).ok();
    assert!(!waited.stderr.contains("volery approve"), "{}", waited.stderr);
}

#[test]
fn serve_on_a_terminal_says_what_it_waits_for() {
    let env = TestEnv::new();
    let terminal = Terminal::start(env.command(["serve"]));
    terminal.shows("waiting for an MCP client on standard input");
    terminal.shows("volery init");
    kill(terminal.pid(), Signal::TERM);
    terminal.exits();
}
