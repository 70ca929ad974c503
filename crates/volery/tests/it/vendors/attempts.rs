//! Real programs in runs of more than one attempt: no room at the model, a session that its vendor has forgotten, another
//! backend for the same session, and a worker that was killed.

use std::fs;
use std::process::Stdio;

use fake_llm::ScriptedReply;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::vendor_env::{PATIENCE, Vendor, VendorEnv, files_below};
use crate::test_env::{Client, command_output, run_processes, wait_for};

fn no_room() -> ScriptedReply {
    ScriptedReply::error(429, "no room")
}

fn attempts(vendor_env: &VendorEnv, run: &Value) -> Vec<Value> {
    let events = vendor_env.env.events(run["run_id"].as_str().unwrap());
    events.into_iter().filter(|event| event["type"] == "attempt_began").collect()
}

fn succeeded(run: &Value, answer: &str) {
    let result = run["result"].as_str().unwrap_or_default().trim();
    assert_eq!((&run["status"], result), (&json!("succeeded"), answer), "{run}");
}

fn last_body(vendor_env: &VendorEnv) -> String {
    vendor_env.offline.server().requests().last().unwrap().body.to_string()
}

#[test]
fn an_overloaded_claude_falls_back_to_another_model() {
    let script = vec![no_room(), ScriptedReply::say("From the other one.")];
    let Some(vendor_env) = VendorEnv::make_for(&["claude"], "fallback", script) else { return };
    vendor_env.agent_named("worker", "claude", "model: first-model\nfallback: [second-model]\ntimeout: 100s");
    let run = vendor_env.run("Say hello.", &[]);
    succeeded(&run, "From the other one.");
    assert!(run["warnings"].to_string().contains("claude with first-model: the model's service"), "{run}");
    let models: Vec<String> =
        vendor_env.offline.server().requests().iter().map(|seen| seen.body["model"].to_string()).collect();
    assert_eq!(models, ["\"first-model\"", "\"second-model\""]);
}

#[test]
fn an_overloaded_claude_falls_back_to_another_vendor() {
    let script = vec![no_room(), ScriptedReply::say("From Codex.")];
    let Some(vendor_env) = VendorEnv::make_for(&["claude", "codex"], "fallback", script) else { return };
    vendor_env.agent_named("worker", "claude", "fallback: [{backend: codex}]\ntimeout: 100s");
    let run = vendor_env.run("Say hello.", &[]);
    succeeded(&run, "From Codex.");
    assert_eq!(run["backend"], json!("codex"), "{run}");
    let asks = vendor_env.offline.server().model_requests();
    assert_eq!(asks.len(), 2);
    assert_eq!(asks[1].last_user_text().trim(), "Say hello.", "nothing was done, so it begins anew");
    let session = run["session"].as_str().unwrap();
    vendor_env.offline.server().add([ScriptedReply::say("Codex again.")]);
    // The agent's own backend comes first again, and gets the answer of the other one in its history.
    let next = vendor_env.run("Go on.", &["--session", session]);
    succeeded(&next, "Codex again.");
    assert_eq!((&next["backend"], &next["session"]), (&json!("claude"), &json!(session)), "{next}");
    assert!(last_body(&vendor_env).contains("From Codex."));
}

#[test]
fn a_fallback_continues_the_work_of_claude_and_does_not_repeat_it() {
    for fallback in ["second-model", "{backend: codex}"] {
        let Some(vendor_env) = VendorEnv::make_for(&["claude", "codex"], "fallback", Vec::new()) else {
            return;
        };
        let made = vendor_env.env.project().join("made.txt");
        let writes = Vendor::new("claude").writes(&made, "by hand");
        vendor_env.offline.server().add([writes, no_room(), ScriptedReply::say("It was there already.")]);
        let frontmatter = format!("permission: yolo\nfallback: [{fallback}]\ntimeout: 100s");
        vendor_env.agent_named("worker", "claude", &frontmatter);
        let run = vendor_env.run("Write a file.", &[]);
        succeeded(&run, "It was there already.");
        let attempts = attempts(&vendor_env, &run);
        let conversation = if fallback == "second-model" { "continued" } else { "replayed" };
        assert_eq!(attempts[1]["conversation"], json!(conversation), "{attempts:?}");
        assert_eq!(attempts[1]["asked"], json!("go_on"), "{attempts:?}");
        let body = last_body(&vendor_env);
        assert!(body.contains("was cut short") && body.contains("made.txt"), "{body}");
    }
}

/// Lets a vendor forget its conversations.
fn forgets(vendor: &str, folder: &str) {
    let script = vec![
        ScriptedReply::say("I am one."),
        ScriptedReply::say("I am two."),
        ScriptedReply::say("I am three."),
    ];
    let Some(vendor_env) = VendorEnv::make_for(&[vendor], "forgotten", script) else { return };
    vendor_env.agent_named("worker", vendor, "timeout: 100s");
    let first = vendor_env.run("Remember the heron.", &[]);
    succeeded(&first, "I am one.");
    let session = first["session"].as_str().unwrap();
    fs::remove_dir_all(vendor_env.env.path("home").join(folder)).unwrap();
    let second = vendor_env.run("What was it?", &["--session", session]);
    succeeded(&second, "I am two.");
    assert_eq!(second["session"], json!(session), "the caller's id stays");
    let last = attempts(&vendor_env, &second).pop().unwrap();
    assert_eq!(last["conversation"], json!("replayed"), "{second}");
    let body = last_body(&vendor_env);
    assert!(body.contains("# Session History: worker") && body.contains("Remember the heron."), "{body}");
    let third = vendor_env.run("And now?", &["--session", session]);
    succeeded(&third, "I am three.");
    assert_eq!(attempts(&vendor_env, &third).len(), 1, "by its vendor again: {third}");
    assert!(last_body(&vendor_env).contains("I am two."));
}

#[test]
fn a_session_that_claude_has_forgotten_is_replayed() {
    forgets("claude", ".claude/projects");
}

#[test]
fn a_session_that_codex_has_forgotten_is_replayed() {
    forgets("codex", ".codex/sessions");
}

#[test]
fn a_session_continues_with_another_backend() {
    let script = vec![
        ScriptedReply::say("I am one."),
        ScriptedReply::say("I am two."),
        ScriptedReply::say("I am three."),
    ];
    let Some(vendor_env) = VendorEnv::make_for(&["claude", "codex"], "moved", script) else { return };
    vendor_env.agent_named("worker", "claude", "timeout: 100s");
    let first = vendor_env.run("Remember the heron.", &[]);
    let session = first["session"].as_str().unwrap();
    vendor_env.agent_named("worker", "codex", "timeout: 100s");
    let second = vendor_env.run("What was it?", &["--session", session]);
    succeeded(&second, "I am two.");
    assert_eq!((&second["backend"], &second["session"]), (&json!("codex"), &json!(session)), "{second}");
    assert_eq!(attempts(&vendor_env, &second)[0]["conversation"], json!("replayed"), "{second}");
    let third = vendor_env.run("And now?", &["--session", session]);
    succeeded(&third, "I am three.");
    assert_eq!(
        attempts(&vendor_env, &third)[0]["conversation"],
        json!("continued"),
        "codex has it now: {third}"
    );
    let body = last_body(&vendor_env);
    assert!(body.contains("Remember the heron.") && body.contains("I am two."), "{body}");
}

/// Waits for the request to the model after a tool call, and until the vendor's program, which writes its conversation a
/// moment later, has the tool's result on disk.
fn hangs_after_its_tool(vendor_env: &VendorEnv, vendor: &str) {
    let (folder, result) = match vendor {
        "claude" => (".claude/projects", "tool_result"),
        "codex" => (".codex/sessions", "function_call_output"),
        other => panic!("nobody knows where {other} keeps its conversations"),
    };
    assert!(vendor_env.offline.server().wait_until(PATIENCE, |seen| {
        let work =
            |seen: &&fake_llm::RecordedRequest| matches!(seen.purpose, fake_llm::RequestPurpose::Work(_));
        seen.iter().filter(work).count() == 2
    }));
    wait_for(PATIENCE, "the conversation on disk", || {
        let conversations = files_below(&vendor_env.env.path("home").join(folder)).into_values();
        let mut texts = conversations.map(|text| String::from_utf8_lossy(&text).into_owned());
        texts.any(|text| text.contains("by hand") && text.contains(result)).then_some(())
    });
}

#[test]
fn the_worker_after_a_killed_one_continues_the_conversation() {
    for vendor in ["claude", "codex"] {
        let Some(vendor_env) = VendorEnv::make_for(&[vendor], "interrupted", Vec::new()) else { return };
        let made = vendor_env.env.project().join("made.txt");
        let writes = Vendor::new(vendor).writes(&made, "by hand");
        vendor_env.offline.server().add([writes, ScriptedReply::hang(), ScriptedReply::say("All is done.")]);
        vendor_env.agent_named("worker", vendor, "permission: yolo\non_interrupt: resume\ntimeout: 100s");
        let mut command = vendor_env.command(&["run", "worker", "Write a file.", "--background"]);
        let id = command_output(command.stdin(Stdio::null()).output().unwrap()).ok().stdout.trim().to_owned();
        hangs_after_its_tool(&vendor_env, vendor);
        run_processes(&vendor_env.env.run_dir(&id)).worker.unwrap().signal(Signal::KILL);
        let run = wait_for(PATIENCE, "the end", || {
            Some(vendor_env.volery(&["show", &id, "--json"]).json()).filter(|run| run["ended"] == json!(true))
        });
        succeeded(&run, "All is done.");
        vendor_env.check_nothing_left(&run);
        let attempts = attempts(&vendor_env, &run);
        assert_eq!(attempts.len(), 2);
        assert_eq!(
            (&attempts[1]["asked"], &attempts[1]["conversation"]),
            (&json!("resume"), &json!("continued"))
        );
        let body = last_body(&vendor_env);
        assert!(body.contains("was interrupted") && body.contains("by hand"), "{vendor}: {body}");
        assert!(run["warnings"].to_string().contains("its worker was lost"), "{run}");
    }
}

#[test]
fn a_run_that_lost_its_keeper_resumes_once_when_a_server_starts() {
    let Some(vendor_env) = VendorEnv::make_for(&["claude"], "lost", Vec::new()) else { return };
    let made = vendor_env.env.project().join("made.txt");
    let writes = Vendor::new("claude").writes(&made, "by hand");
    vendor_env.offline.server().add([
        writes,
        ScriptedReply::hang(),
        ScriptedReply::say("All is done.").always(),
    ]);
    let inputs = "inputs: {bird: {required: true}}";
    vendor_env.agent_named(
        "worker",
        "claude",
        &format!("permission: yolo\non_interrupt: resume\ntimeout: 100s\n{inputs}"),
    );
    let ask = ["run", "worker", "Write a file.", "--background", "--input", "bird=heron"];
    let id = command_output(vendor_env.command(&ask).stdin(Stdio::null()).output().unwrap())
        .ok()
        .stdout
        .trim()
        .to_owned();
    hangs_after_its_tool(&vendor_env, "claude");
    let run_processes = run_processes(&vendor_env.env.run_dir(&id));
    for one in [run_processes.keeper.unwrap(), run_processes.worker.unwrap()] {
        one.signal(Signal::KILL);
    }
    // Somebody who only looks ends the run, and starts nothing.
    wait_for(PATIENCE, "a look to end the run", || {
        Some(vendor_env.volery(&["show", &id, "--json"]).json()).filter(|run| run["ended"] == json!(true))
    });
    assert_eq!(vendor_env.env.runs().len(), 1);
    let servers: Vec<Client> =
        (0..2).map(|_| Client::start(vendor_env.command(&["serve"])).initialize("it")).collect();
    // Both servers write a record, and the one that finds the key taken throws its own away: so the run is looked for anew
    // each time.
    let run = wait_for(PATIENCE, "the end of the run that goes on", || {
        let next = vendor_env.env.runs().into_iter().find(|run| *run != id)?;
        Some(vendor_env.volery(&["show", &next, "--json"]).json()).filter(|run| run["ended"] == json!(true))
    });
    succeeded(&run, "All is done.");
    assert!(run["warnings"].to_string().contains("which was interrupted"), "{run}");
    let body = last_body(&vendor_env);
    assert!(body.contains("was interrupted") && body.contains("by hand"), "{body}");
    wait_for(PATIENCE, "two servers to have one run", || (vendor_env.env.runs().len() == 2).then_some(()));
    drop(servers);
}

#[test]
fn a_session_of_goose_continues_with_changed_instructions() {
    let script = vec![ScriptedReply::say("Three."), ScriptedReply::say("Still three.")];
    let Some(vendor_env) = VendorEnv::make_for(&["goose"], "edited", script) else { return };
    vendor_env.agent_named("worker", "goose", "timeout: 100s");
    let first = vendor_env.run("Count the herons.", &[]);
    vendor_env.agent_named("worker", "goose", "timeout: 100s\ntools: [shell]");
    let second = vendor_env.run("And now?", &["--session", first["session"].as_str().unwrap()]);
    succeeded(&second, "Still three.");
    assert!(last_body(&vendor_env).contains("Count the herons."), "{second}");
}

/// It counts its sessions from one in each store.
#[test]
fn a_session_of_goose_is_not_taken_for_another_of_the_same_name() {
    let script =
        ["I am of the first.", "I am of the second.", "I am still of the first.", "And I of the second."];
    let Some(vendor_env) =
        VendorEnv::make_for(&["acp-goose"], "renamed", script.map(ScriptedReply::say).to_vec())
    else {
        return;
    };
    for agent in ["first", "second"] {
        vendor_env.agent_named(agent, "acp-goose", "timeout: 100s");
    }
    let ask = |agent: &str, prompt: &str, session: Option<&Value>| {
        let session = session.map(|session| ["--session", session.as_str().unwrap()]);
        let arguments = ["run", agent, prompt, "--json"].into_iter().chain(session.into_iter().flatten());
        vendor_env.volery(&arguments.collect::<Vec<_>>()).json()
    };
    let first = ask("first", "Remember the heron.", None);
    fs::remove_dir_all(vendor_env.env.path("home/.local/share/goose")).unwrap();
    let second = ask("second", "Remember the wren.", None);
    assert!(first["session"].is_string() && first["session"] != second["session"], "{first} {second}");
    let again = ask("first", "What was it?", Some(&first["session"]));
    succeeded(&again, "I am still of the first.");
    let body = last_body(&vendor_env);
    assert!(body.contains("the heron") && !body.contains("the wren"), "{body}");
    succeeded(&ask("second", "What was it?", Some(&second["session"])), "And I of the second.");
    let body = last_body(&vendor_env);
    assert!(body.contains("the wren") && !body.contains("the heron"), "{body}");
}

#[test]
fn a_session_of_kimi_loses_permissions_that_the_agent_has_lost() {
    let Some(vendor_env) = VendorEnv::make_for(&["kimi"], "narrowed", Vec::new()) else { return };
    let made = vendor_env.env.project().join("made.txt");
    let writes = Vendor::new("kimi").writes(&made, "by hand");
    vendor_env.offline.server().add([
        ScriptedReply::say("Ready."),
        writes,
        ScriptedReply::say("I could not.").always(),
    ]);
    vendor_env.agent_named("worker", "kimi", "timeout: 100s\npermission: yolo");
    let first = vendor_env.run("Be ready.", &[]);
    vendor_env.agent_named("worker", "kimi", "timeout: 100s\npermission: read-only");
    let second = vendor_env.run("Write it.", &["--session", first["session"].as_str().unwrap()]);
    assert!(!made.exists(), "{second}");
    assert!(last_body(&vendor_env).contains("Be ready."), "{second}");
}

/// A wrong value that the vendor accepted or did not check is requested again in the same conversation.
fn corrects(vendor: &str, wrong: Vec<ScriptedReply>, right: ScriptedReply) {
    let mut script = wrong;
    script.push(right.always());
    let Some(vendor_env) = VendorEnv::make_for(&[vendor], "corrects", script) else { return };
    let schema = "output_schema: {type: object, properties: {birds: {type: integer}}, required: [birds], \
                  additionalProperties: false}";
    vendor_env.agent_named("worker", vendor, &format!("{schema}\ntimeout: 100s"));
    let run = vendor_env.run("Count the herons.", &[]);
    assert_eq!((&run["status"], &run["structured"]), (&json!("succeeded"), &json!({"birds": 3})), "{run}");
    assert_eq!(run["attempts"], json!(2), "{run}");
    let attempts = attempts(&vendor_env, &run);
    let second = &attempts[1];
    assert_eq!(
        (&second["asked"], &second["conversation"]),
        (&json!("correct"), &json!("continued")),
        "{second}"
    );
    let body = last_body(&vendor_env);
    assert!(body.contains("Your last answer cannot be used") && body.contains("Count the herons."), "{body}");
}

#[test]
fn a_wrong_value_is_corrected_by_claude_in_the_same_conversation() {
    let prose = || ScriptedReply::say("There are three.");
    corrects("claude", vec![prose(), prose()], ScriptedReply::call("StructuredOutput", json!({"birds": 3})));
}

#[test]
fn a_wrong_value_is_corrected_by_codex_in_the_same_conversation() {
    corrects(
        "codex",
        vec![ScriptedReply::say_json(&json!({"birds": "three"}))],
        ScriptedReply::say_json(&json!({"birds": 3})),
    );
}

#[test]
fn a_wrong_value_is_corrected_by_copilot_in_the_same_conversation() {
    corrects(
        "copilot",
        vec![ScriptedReply::say_json(&json!({"birds": "three"}))],
        ScriptedReply::say_json(&json!({"birds": 3})),
    );
}

#[test]
fn a_wrong_value_is_corrected_by_opencode_in_the_same_conversation() {
    corrects(
        "opencode",
        vec![ScriptedReply::say_json(&json!({"birds": "three"}))],
        ScriptedReply::say_json(&json!({"birds": 3})),
    );
}
