//! Questions of real programs: text answers questions, and approves nothing.

use std::process::Stdio;

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::vendor_env::{PATIENCE, Vendor, VendorEnv};
use crate::test_env::{Terminal, command_output, wait_for};

/// Starts a run that asks somebody, and returns its id when it waits.
fn waiting(vendor_env: &VendorEnv) -> (String, Value) {
    vendor_env.env.people_answer();
    let mut command = vendor_env.command(&["run", "worker", "Ask first.", "--background"]);
    let id = command_output(command.stdin(Stdio::null()).output().unwrap()).ok().stdout.trim().to_owned();
    let run = wait_for(PATIENCE, "a question", || {
        Some(vendor_env.volery(&["show", &id, "--json"]).json())
            .filter(|run| run["status"] == json!("waiting"))
    });
    (id, run)
}

fn ended(vendor_env: &VendorEnv, id: &str) -> Value {
    wait_for(PATIENCE, "the end", || {
        Some(vendor_env.volery(&["show", id, "--json"]).json()).filter(|run| run["ended"] == json!(true))
    })
}

/// The questions of both programs are answered on the terminal. Text, which only another command can send, approves nothing.
#[test]
fn text_does_not_approve_a_command() {
    let mut refusals = String::new();
    for (name, letter, is_made) in [("claude", "n", false), ("codex", "y", true)] {
        let vendor = Vendor::new(name);
        let Some(vendor_env) = VendorEnv::make(&vendor, "words", Vec::new()) else { return };
        let made = vendor_env.env.project().join("made.txt");
        let script = [vendor.executes_beyond("touch made.txt"), ScriptedReply::say("I see.")];
        vendor_env.offline.server().add(script);
        vendor_env.agent(&vendor, "permission: {ask: [Bash]}\ntimeout: 100s");
        let mut terminal = Terminal::start(vendor_env.command(&["run", "worker", "Ask first."]));
        terminal.shows("[y]es  [n]o");
        let words: Vec<String> = terminal.screen().split_whitespace().map(str::to_owned).collect();
        assert!(words.join(" ").contains("touch made.txt"), "{words:?}");
        let id = vendor_env.env.only_run();
        let refused = vendor_env.volery(&["answer", &id, "no, please do not do this"]).exits(2).stderr;
        refusals += &vendor_env.env.masked(&refused);
        assert!(!made.exists(), "it was executed before the answer");
        terminal.types(letter);
        let (code, screen) = terminal.exits();
        assert_eq!((code, made.exists()), (Some(0), is_made), "{screen}");
        assert!(screen.contains("I see."), "{screen}");
    }
    insta::assert_snapshot!(refusals, @"
    error: the run [run-id] asks whether it may do something
    hint: words alone do not decide that: approve or deny it
    error: the run [run-id] asks whether it may do something
    hint: words alone do not decide that: approve or deny it
    ");
}

#[test]
fn a_question_of_claude_is_answered_with_text() {
    let vendor = Vendor::new("claude");
    let question = json!({"questions": [{"question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]},
        {"question": "Which size?", "header": "Size", "multiSelect": false,
        "options": [{"label": "Small", "description": "-"}, {"label": "Large", "description": "+"}]}]});
    let script = vec![ScriptedReply::call("AskUserQuestion", question), ScriptedReply::say("So be it.")];
    let Some(vendor_env) = VendorEnv::make(&vendor, "words", script) else { return };
    vendor_env.agent(&vendor, "timeout: 100s");
    let (id, run) = waiting(&vendor_env);
    let text = "1. Which colour? (Red, Blue)\n2. Which size? (Small, Large)\n(answer all 2, separated by ;)";
    assert_eq!(run["waiting"]["text"], json!(text), "{run}");
    vendor_env.volery(&["answer", &id, "Blue; Large"]).ok();
    let run = ended(&vendor_env, &id);
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    let body = vendor_env.offline.server().requests().last().unwrap().body.to_string();
    assert!(body.contains("Which colour?") && body.contains("Blue"), "{body}");
    assert!(
        body.contains("Which size?") && body.contains("Large") && !body.contains("Blue; Large"),
        "{body}"
    );
    assert!(!body.contains("did not answer"), "{body}");
}
