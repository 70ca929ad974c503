//! `--dialect budgie` with the stand-in of Kiro: the scenarios of its document from one end to the other.

use std::fs;

use model_server::Reply;
use serde_json::{Value, json};

use super::place::{PATIENCE, Place};
use crate::stage::Client;

const SYSTEM: &str =
    "Write your response to: {{RESPONSE_FILE}}\n\nWorking directory: {{WORKING_DIRECTORY}}\n";
const SUMMARY: &str = "Write your previous response to the file: {{RESPONSE_FILE}}\n";

fn place(case: &str, script: Vec<Reply>, templates: &[(&str, &str)]) -> Place {
    let place = Place::make_for(&["kiro"], case, script).expect("a stand-in is always there");
    let agent = json!({
        "name": "test-agent", "description": "sub-agent: Validation and testing specialist",
        "prompt": "You are a specialized testing agent.", "tools": ["*"],
        "allowedTools": ["fs_read", "fs_write", "execute_bash"],
    });
    let write = |file: &str, text: &str| {
        let path = place.stage.path("home/.kiro").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("agents/test-agent.json", &agent.to_string());
    for (name, text) in templates {
        write(&format!("sub-agents/prompts/{name}"), text);
    }
    place
}

fn serve(place: &Place) -> Client {
    Client::start(place.command(&["serve", "--dialect", "budgie"])).initialize("kiro-cli")
}

fn ask(place: &Place, client: &mut Client, prompt: &str, session: Option<&str>) -> Value {
    let arguments = json!({"prompt": prompt, "directory": place.stage.project(), "sessionId": session});
    let call = json!({"name": "kiro-subagents.test-agent", "arguments": arguments});
    let id = client.send("tools/call", call);
    let result = client.answer(id, PATIENCE)["result"].clone();
    assert_ne!(result["isError"], json!(true), "{result}");
    result["structuredContent"].clone()
}

/// A wish of the model to write its answer, wherever the run's file is.
fn into_the_file(place: &Place, text: &str) -> Reply {
    let files = place.stage.path("state").join("runs/*/*/work/response.txt");
    let command = format!("for file in {}; do printf '{text}' > \"$file\"; done", files.display());
    Reply::call("execute_bash", json!({"command": command}))
}

#[test]
fn an_agent_answers_into_its_file_and_knows_what_was_said_after_a_restart() {
    let place = place("budgie-session", Vec::new(), &[("_system.md", SYSTEM)]);
    place.offline.server().add(vec![
        into_the_file(&place, "Noted: heron."),
        Reply::say("I wrote it."),
        into_the_file(&place, "It was heron."),
        Reply::say("I wrote it."),
    ]);
    let first = ask(&place, &mut serve(&place), "The word is heron.", None);
    assert_eq!(first["response"], json!("Noted: heron."));
    let session = first["sessionId"].as_str().unwrap();
    let second = ask(&place, &mut serve(&place), "Which word?", Some(session));
    assert_eq!((&second["response"], &second["sessionId"]), (&json!("It was heron."), &first["sessionId"]));
    let seen = place.offline.server().seen();
    assert!(seen[0].body.to_string().contains("You are a specialized testing agent."));
    let last = seen[2].body.to_string();
    assert!(last.contains("The word is heron.") && last.contains("Which word?"), "Kiro itself knows: {last}");
    assert!(!last.contains("Previous conversation history"), "it is not told again");
    assert_eq!(fs::read_dir(place.stage.project()).unwrap().count(), 1, "nothing stands where it works");
}

/// Differs from budgie: a missing response file | costs a second call of the model | only if stdout has no answer
///    either
#[test]
fn an_agent_that_answers_nothing_is_asked_for_a_summary_in_its_session() {
    let templates = [("_system.md", SYSTEM), ("_context-summary.md", SUMMARY)];
    let place = place("budgie-summary", Vec::new(), &templates);
    place.offline.server().add(vec![
        Reply::say(""),
        into_the_file(&place, "Three herons."),
        Reply::say("I wrote it."),
        Reply::say("Still three."),
    ]);
    let mut client = serve(&place);
    let said = ask(&place, &mut client, "Count the herons.", None);
    assert_eq!(said, json!({"response": "Three herons.", "sessionId": said["sessionId"]}));
    let asks = place.offline.server().asks();
    assert!(asks[1].last_user_text().starts_with("Write your previous response to the file: /"), "{asks:?}");
    let again = ask(&place, &mut client, "And now?", Some(said["sessionId"].as_str().unwrap()));
    assert_eq!(again["response"], json!("Still three."));
    let seen = place.offline.server().seen();
    assert!(seen.last().unwrap().body.to_string().contains("Count the herons."));
}

/// The names of the tools that the model was offered in the last request.
fn offered(place: &Place) -> Vec<String> {
    let seen = place.offline.server().seen();
    let tools = seen.last().unwrap().body["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).map(ToOwned::to_owned).collect()
}

#[test]
fn the_users_servers_reach_an_agent_that_includes_them_and_no_other() {
    let place = place("budgie-servers", Vec::new(), &[("_system.md", SYSTEM)]);
    let (server, _) = place.marking_server("count", "seven");
    let kiro = place.stage.path("home/.kiro");
    fs::create_dir_all(kiro.join("settings")).unwrap();
    let servers = json!({"mcpServers": {"aviary": {"command": server}}});
    fs::write(kiro.join("settings/mcp.json"), servers.to_string()).unwrap();
    let file = kiro.join("agents/test-agent.json");
    let agent: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    // One that writes its answer is started by its own name; one that may not is started as a copy that can submit it.
    for (allowed, included) in
        [("fs_write", true), ("fs_write", false), ("fs_read", true), ("fs_read", false)]
    {
        let mut agent = agent.clone();
        agent["allowedTools"] = json!(["fs_read", allowed]);
        agent["includeMcpJson"] = json!(included);
        fs::write(&file, agent.to_string()).unwrap();
        place.offline.server().add(vec![Reply::say("Done.")]);
        let said = ask(&place, &mut serve(&place), "Count.", None);
        assert_eq!(said["response"], json!("Done."), "{allowed} {included}: {said}");
        let offered = offered(&place);
        let has = offered.iter().any(|tool| tool == "aviary___count");
        assert_eq!(has, included, "{allowed}: {offered:?}");
    }
}
