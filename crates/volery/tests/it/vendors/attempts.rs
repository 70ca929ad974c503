//! Real programs in runs of more than one attempt: no room at the model, a session that its vendor has forgotten, another
//! backend for the same session, and a worker that was killed.

use std::fs;
use std::process::Stdio;

use model_server::Reply;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::place::{PATIENCE, Place, Vendor, files_below};
use crate::stage::{Client, crew, said, wait_for};

fn no_room() -> Reply {
    Reply::error(429, "no room")
}

fn attempts(place: &Place, run: &Value) -> Vec<Value> {
    let events = place.stage.events(run["run_id"].as_str().unwrap());
    events.into_iter().filter(|event| event["type"] == "attempt_began").collect()
}

fn succeeded(run: &Value, answer: &str) {
    let result = run["result"].as_str().unwrap_or_default().trim();
    assert_eq!((&run["status"], result), (&json!("succeeded"), answer), "{run}");
}

fn last_body(place: &Place) -> String {
    place.offline.server().seen().last().unwrap().body.to_string()
}

#[test]
fn without_room_claude_goes_on_with_another_model() {
    let script = vec![no_room(), Reply::say("From the other one.")];
    let Some(place) = Place::make_for(&["claude"], "fallback", script) else { return };
    place.agent_named("worker", "claude", "model: first-model\nfallback: [second-model]\ntimeout: 100s");
    let run = place.run("Say hello.", &[]);
    succeeded(&run, "From the other one.");
    assert!(run["warnings"].to_string().contains("claude with first-model: the model's service"), "{run}");
    let models: Vec<String> =
        place.offline.server().seen().iter().map(|seen| seen.body["model"].to_string()).collect();
    assert_eq!(models, ["\"first-model\"", "\"second-model\""]);
}

#[test]
fn without_room_claude_goes_on_with_another_vendor() {
    let script = vec![no_room(), Reply::say("From Codex.")];
    let Some(place) = Place::make_for(&["claude", "codex"], "fallback", script) else { return };
    place.agent_named("worker", "claude", "fallback: [{backend: codex}]\ntimeout: 100s");
    let run = place.run("Say hello.", &[]);
    succeeded(&run, "From Codex.");
    assert_eq!(run["backend"], json!("codex"), "{run}");
    let asks = place.offline.server().asks();
    assert_eq!(asks.len(), 2);
    assert_eq!(asks[1].last_user_text().trim(), "Say hello.", "nothing was done, so it begins anew");
    let session = run["session"].as_str().unwrap();
    place.offline.server().add([Reply::say("Codex again.")]);
    // The agent's own backend comes first again, and is told what the other one said.
    let next = place.run("Go on.", &["--session", session]);
    succeeded(&next, "Codex again.");
    assert_eq!((&next["backend"], &next["session"]), (&json!("claude"), &json!(session)), "{next}");
    assert!(last_body(&place).contains("From Codex."));
}

#[test]
fn what_claude_has_done_is_continued_and_not_repeated() {
    for fallback in ["second-model", "{backend: codex}"] {
        let Some(place) = Place::make_for(&["claude", "codex"], "fallback", Vec::new()) else { return };
        let made = place.stage.project().join("made.txt");
        let writes = Vendor::named("claude").writes(&made, "by hand");
        place.offline.server().add([writes, no_room(), Reply::say("It was there already.")]);
        let frontmatter = format!("permission: yolo\nfallback: [{fallback}]\ntimeout: 100s");
        place.agent_named("worker", "claude", &frontmatter);
        let run = place.run("Write a file.", &[]);
        succeeded(&run, "It was there already.");
        let attempts = attempts(&place, &run);
        let conversation = if fallback == "second-model" { "continued" } else { "replayed" };
        assert_eq!(attempts[1]["conversation"], json!(conversation), "{attempts:?}");
        assert_eq!(attempts[1]["asked"], json!("go_on"), "{attempts:?}");
        let body = last_body(&place);
        assert!(body.contains("was cut short") && body.contains("made.txt"), "{body}");
    }
}

/// Lets a vendor forget its conversations.
fn forgets(vendor: &str, folder: &str) {
    let script = vec![Reply::say("I am one."), Reply::say("I am two."), Reply::say("I am three.")];
    let Some(place) = Place::make_for(&[vendor], "forgotten", script) else { return };
    place.agent_named("worker", vendor, "timeout: 100s");
    let first = place.run("Remember the heron.", &[]);
    succeeded(&first, "I am one.");
    let session = first["session"].as_str().unwrap();
    fs::remove_dir_all(place.stage.path("home").join(folder)).unwrap();
    let second = place.run("What was it?", &["--session", session]);
    succeeded(&second, "I am two.");
    assert_eq!(second["session"], json!(session), "the caller's id stays");
    let told = format!("continued by replay: {vendor} was told what was said before (1 exchange)");
    assert!(second["warnings"].to_string().contains(&told), "{second}");
    let body = last_body(&place);
    assert!(body.contains("# Session History: worker") && body.contains("Remember the heron."), "{body}");
    let third = place.run("And now?", &["--session", session]);
    succeeded(&third, "I am three.");
    assert_eq!(attempts(&place, &third).len(), 1, "by its vendor again: {third}");
    assert!(last_body(&place).contains("I am two."));
}

#[test]
fn a_session_that_claude_has_forgotten_is_told_again() {
    forgets("claude", ".claude/projects");
}

#[test]
fn a_session_that_codex_has_forgotten_is_told_again() {
    forgets("codex", ".codex/sessions");
}

#[test]
fn a_session_goes_on_with_another_backend() {
    let script = vec![Reply::say("I am one."), Reply::say("I am two."), Reply::say("I am three.")];
    let Some(place) = Place::make_for(&["claude", "codex"], "moved", script) else { return };
    place.agent_named("worker", "claude", "timeout: 100s");
    let first = place.run("Remember the heron.", &[]);
    let session = first["session"].as_str().unwrap();
    place.agent_named("worker", "codex", "timeout: 100s");
    let second = place.run("What was it?", &["--session", session]);
    succeeded(&second, "I am two.");
    assert_eq!((&second["backend"], &second["session"]), (&json!("codex"), &json!(session)), "{second}");
    assert!(second["warnings"].to_string().contains("continued by replay"), "{second}");
    let third = place.run("And now?", &["--session", session]);
    succeeded(&third, "I am three.");
    assert!(!third["warnings"].to_string().contains("replay"), "codex has it now: {third}");
    let body = last_body(&place);
    assert!(body.contains("Remember the heron.") && body.contains("I am two."), "{body}");
}

/// Waits until the model was asked what comes after the use of a tool, and the vendor's program, which writes its
/// conversation a moment after that, has the tool's result on disk.
fn hangs_after_its_tool(place: &Place, vendor: &str) {
    let (folder, result) = match vendor {
        "claude" => (".claude/projects", "tool_result"),
        "codex" => (".codex/sessions", "function_call_output"),
        other => panic!("nobody knows where {other} keeps its conversations"),
    };
    assert!(place.offline.server().wait_until(PATIENCE, |seen| {
        let work = |seen: &&model_server::Seen| matches!(seen.purpose, model_server::Purpose::Work(_));
        seen.iter().filter(work).count() == 2
    }));
    wait_for(PATIENCE, "the conversation on disk", || {
        let conversations = files_below(&place.stage.path("home").join(folder)).into_values();
        let mut texts = conversations.map(|text| String::from_utf8_lossy(&text).into_owned());
        texts.any(|text| text.contains("by hand") && text.contains(result)).then_some(())
    });
}

#[test]
fn a_killed_worker_is_followed_by_one_that_goes_on_with_the_conversation() {
    for vendor in ["claude", "codex"] {
        let Some(place) = Place::make_for(&[vendor], "interrupted", Vec::new()) else { return };
        let made = place.stage.project().join("made.txt");
        let writes = Vendor::named(vendor).writes(&made, "by hand");
        place.offline.server().add([writes, Reply::hang(), Reply::say("All is done.")]);
        place.agent_named("worker", vendor, "permission: yolo\non_interrupt: resume\ntimeout: 100s");
        let mut command = place.command(&["run", "worker", "Write a file.", "--background"]);
        let id = said(command.stdin(Stdio::null()).output().unwrap()).ok().stdout.trim().to_owned();
        hangs_after_its_tool(&place, vendor);
        crew(&place.stage.run_dir(&id)).worker.unwrap().signal(Signal::KILL);
        let run = wait_for(PATIENCE, "the end", || {
            Some(place.volery(&["show", &id, "--json"]).json()).filter(|run| run["ended"] == json!(true))
        });
        succeeded(&run, "All is done.");
        place.check_nothing_left(&run);
        let attempts = attempts(&place, &run);
        assert_eq!(attempts.len(), 2);
        assert_eq!(
            (&attempts[1]["asked"], &attempts[1]["conversation"]),
            (&json!("resume"), &json!("continued"))
        );
        let body = last_body(&place);
        assert!(body.contains("was interrupted") && body.contains("by hand"), "{vendor}: {body}");
        assert!(run["warnings"].to_string().contains("its worker was lost"), "{run}");
    }
}

#[test]
fn what_was_lost_with_its_keeper_goes_on_once_when_a_server_starts() {
    let Some(place) = Place::make_for(&["claude"], "lost", Vec::new()) else { return };
    let made = place.stage.project().join("made.txt");
    let writes = Vendor::named("claude").writes(&made, "by hand");
    place.offline.server().add([writes, Reply::hang(), Reply::say("All is done.").always()]);
    let inputs = "inputs: {bird: {required: true}}";
    place.agent_named(
        "worker",
        "claude",
        &format!("permission: yolo\non_interrupt: resume\ntimeout: 100s\n{inputs}"),
    );
    let ask = ["run", "worker", "Write a file.", "--background", "--input", "bird=heron"];
    let id = said(place.command(&ask).stdin(Stdio::null()).output().unwrap()).ok().stdout.trim().to_owned();
    hangs_after_its_tool(&place, "claude");
    let crew = crew(&place.stage.run_dir(&id));
    for one in [crew.keeper.unwrap(), crew.worker.unwrap()] {
        one.signal(Signal::KILL);
    }
    // Somebody who only looks ends the run, and starts nothing.
    wait_for(PATIENCE, "a look to end the run", || {
        Some(place.volery(&["show", &id, "--json"]).json()).filter(|run| run["ended"] == json!(true))
    });
    assert_eq!(place.stage.runs().len(), 1);
    let servers: Vec<Client> =
        (0..2).map(|_| Client::start(place.command(&["serve"])).initialize("it")).collect();
    // Both servers write a record, and the one that finds the key taken throws its own away: so the run is looked for anew
    // each time.
    let run = wait_for(PATIENCE, "the end of the run that goes on", || {
        let next = place.stage.runs().into_iter().find(|run| *run != id)?;
        Some(place.volery(&["show", &next, "--json"]).json()).filter(|run| run["ended"] == json!(true))
    });
    succeeded(&run, "All is done.");
    assert!(run["warnings"].to_string().contains("which was interrupted"), "{run}");
    let body = last_body(&place);
    assert!(body.contains("was interrupted") && body.contains("by hand"), "{body}");
    wait_for(PATIENCE, "two servers to have one run", || (place.stage.runs().len() == 2).then_some(()));
    drop(servers);
}

#[test]
fn a_session_of_goose_goes_on_when_the_agent_has_other_instructions_now() {
    let script = vec![Reply::say("Three."), Reply::say("Still three.")];
    let Some(place) = Place::make_for(&["goose"], "edited", script) else { return };
    place.agent_named("worker", "goose", "timeout: 100s");
    let first = place.run("Count the herons.", &[]);
    place.agent_named("worker", "goose", "timeout: 100s\ntools: [shell]");
    let second = place.run("And now?", &["--session", first["session"].as_str().unwrap()]);
    succeeded(&second, "Still three.");
    assert!(last_body(&place).contains("Count the herons."), "{second}");
}

/// It counts its sessions from one in each store.
#[test]
fn a_session_of_goose_is_not_taken_for_another_of_the_same_name() {
    let script =
        ["I am of the first.", "I am of the second.", "I am still of the first.", "And I of the second."];
    let Some(place) = Place::make_for(&["acp-goose"], "renamed", script.map(Reply::say).to_vec()) else {
        return;
    };
    for agent in ["first", "second"] {
        place.agent_named(agent, "acp-goose", "timeout: 100s");
    }
    let ask = |agent: &str, prompt: &str, session: Option<&Value>| {
        let session = session.map(|session| ["--session", session.as_str().unwrap()]);
        let words = ["run", agent, prompt, "--json"].into_iter().chain(session.into_iter().flatten());
        place.volery(&words.collect::<Vec<_>>()).json()
    };
    let first = ask("first", "Remember the heron.", None);
    fs::remove_dir_all(place.stage.path("home/.local/share/goose")).unwrap();
    let second = ask("second", "Remember the wren.", None);
    assert!(first["session"].is_string() && first["session"] != second["session"], "{first} {second}");
    let again = ask("first", "What was it?", Some(&first["session"]));
    succeeded(&again, "I am still of the first.");
    let body = last_body(&place);
    assert!(body.contains("the heron") && !body.contains("the wren"), "{body}");
    succeeded(&ask("second", "What was it?", Some(&second["session"])), "And I of the second.");
    let body = last_body(&place);
    assert!(body.contains("the wren") && !body.contains("the heron"), "{body}");
}

#[test]
fn a_session_of_kimi_does_not_keep_what_the_agent_may_no_longer_do() {
    let Some(place) = Place::make_for(&["kimi"], "narrowed", Vec::new()) else { return };
    let made = place.stage.project().join("made.txt");
    let writes = Vendor::named("kimi").writes(&made, "by hand");
    place.offline.server().add([Reply::say("Ready."), writes, Reply::say("I could not.").always()]);
    place.agent_named("worker", "kimi", "timeout: 100s\npermission: yolo");
    let first = place.run("Be ready.", &[]);
    place.agent_named("worker", "kimi", "timeout: 100s\npermission: read-only");
    let second = place.run("Write it.", &["--session", first["session"].as_str().unwrap()]);
    assert!(!made.exists(), "{second}");
    assert!(last_body(&place).contains("Be ready."), "{second}");
}

/// A value that its vendor took for valid, or did not look at, is asked for again in the same conversation.
fn corrects(vendor: &str, wrong: Vec<Reply>, right: Reply) {
    let mut script = wrong;
    script.push(right.always());
    let Some(place) = Place::make_for(&[vendor], "corrects", script) else { return };
    let schema = "output_schema: {type: object, properties: {birds: {type: integer}}, required: [birds], \
                  additionalProperties: false}";
    place.agent_named("worker", vendor, &format!("{schema}\ntimeout: 100s"));
    let run = place.run("Count the herons.", &[]);
    assert_eq!((&run["status"], &run["structured"]), (&json!("succeeded"), &json!({"birds": 3})), "{run}");
    assert_eq!(run["attempts"], json!(2), "{run}");
    let attempts = attempts(&place, &run);
    let second = &attempts[1];
    assert_eq!(
        (&second["asked"], &second["conversation"]),
        (&json!("correct"), &json!("continued")),
        "{second}"
    );
    let body = last_body(&place);
    assert!(body.contains("Your last answer cannot be used") && body.contains("Count the herons."), "{body}");
}

#[test]
fn a_wrong_value_is_corrected_by_claude_in_the_same_conversation() {
    let words = || Reply::say("There are three.");
    corrects("claude", vec![words(), words()], Reply::call("StructuredOutput", json!({"birds": 3})));
}

#[test]
fn a_wrong_value_is_corrected_by_codex_in_the_same_conversation() {
    corrects(
        "codex",
        vec![Reply::say_json(&json!({"birds": "three"}))],
        Reply::say_json(&json!({"birds": 3})),
    );
}

#[test]
fn a_wrong_value_is_corrected_by_copilot_in_the_same_conversation() {
    corrects(
        "copilot",
        vec![Reply::say_json(&json!({"birds": "three"}))],
        Reply::say_json(&json!({"birds": 3})),
    );
}

#[test]
fn a_wrong_value_is_corrected_by_opencode_in_the_same_conversation() {
    corrects(
        "opencode",
        vec![Reply::say_json(&json!({"birds": "three"}))],
        Reply::say_json(&json!({"birds": 3})),
    );
}
