//! Questions of real programs: words answer what wants words, and permit nothing.

use std::process::Stdio;

use model_server::Reply;
use serde_json::{Value, json};

use super::place::{PATIENCE, Place, Vendor};
use crate::stage::{said, wait_for};

/// Starts a run that asks somebody, and returns its id when it waits.
fn waiting(place: &Place) -> (String, Value) {
    place.stage.people_answer();
    let mut command = place.command(&["run", "worker", "Ask first.", "--background"]);
    let id = said(command.stdin(Stdio::null()).output().unwrap()).ok().stdout.trim().to_owned();
    let run = wait_for(PATIENCE, "a question", || {
        Some(place.volery(&["show", &id, "--json"]).json()).filter(|run| run["status"] == json!("waiting"))
    });
    (id, run)
}

fn ended(place: &Place, id: &str) -> Value {
    wait_for(PATIENCE, "the end", || {
        Some(place.volery(&["show", id, "--json"]).json()).filter(|run| run["ended"] == json!(true))
    })
}

#[test]
fn words_do_not_approve_a_command() {
    for name in ["claude", "codex"] {
        let vendor = Vendor::named(name);
        let Some(place) = Place::make(&vendor, "words", Vec::new()) else { return };
        let made = place.stage.project().join("made.txt");
        let touch = format!("touch '{}'", made.display());
        place.offline.server().add([vendor.executes_beyond(&touch), Reply::say("It was not allowed.")]);
        place.agent(&vendor, "permission: {ask: [Bash]}\ntimeout: 100s");
        let (id, _) = waiting(&place);
        let refused = place.volery(&["answer", &id, "no, please do not do this"]).exits(2).stderr;
        assert!(refused.contains("asks whether it may do something"), "{refused}");
        assert!(refused.contains("approve or deny it"), "{refused}");
        place.volery(&["deny", &id]).ok();
        let run = ended(&place, &id);
        assert_eq!((&run["status"], made.exists()), (&json!("succeeded"), false), "{run}");
    }
}

#[test]
fn what_claude_asks_people_is_answered_in_words() {
    let vendor = Vendor::named("claude");
    let question = json!({"questions": [{"question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]}]});
    let script = vec![Reply::call("AskUserQuestion", question), Reply::say("So be it.")];
    let Some(place) = Place::make(&vendor, "words", script) else { return };
    place.agent(&vendor, "timeout: 100s");
    let (id, run) = waiting(&place);
    assert_eq!(run["waiting"]["text"], json!("Which colour? (Red, Blue)"), "{run}");
    place.volery(&["answer", &id, "Blue"]).ok();
    let run = ended(&place, &id);
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    let told = place.offline.server().seen().last().unwrap().body.to_string();
    assert!(told.contains("Which colour?") && told.contains("Blue"), "{told}");
    assert!(!told.contains("did not answer"), "{told}");
}
