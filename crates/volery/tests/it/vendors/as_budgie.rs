//! `--dialect budgie` with the fake CLI of Kiro: the scenarios of the documentation of budgie.

use std::fs;

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::vendor_env::{PATIENCE, VendorEnv};
use crate::test_env::Client;

const SYSTEM: &str =
    "Write your response to: {{RESPONSE_FILE}}\n\nWorking directory: {{WORKING_DIRECTORY}}\n";
const SUMMARY: &str = "Write your previous response to the file: {{RESPONSE_FILE}}\n";

fn vendor_env(case: &str, script: Vec<ScriptedReply>, templates: &[(&str, &str)]) -> VendorEnv {
    let vendor_env = VendorEnv::make_for(&["kiro"], case, script).expect("a fake CLI is always there");
    let agent = json!({
        "name": "test-agent", "description": "sub-agent: Validation and testing specialist",
        "prompt": "You are a specialized testing agent.", "tools": ["*"],
        "allowedTools": ["fs_read", "fs_write", "execute_bash"],
    });
    let write = |file: &str, text: &str| {
        let path = vendor_env.env.path("home/.kiro").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("agents/test-agent.json", &agent.to_string());
    for (name, text) in templates {
        write(&format!("sub-agents/prompts/{name}"), text);
    }
    vendor_env
}

fn serve(vendor_env: &VendorEnv) -> Client {
    Client::start(vendor_env.command(&["serve", "--dialect", "budgie"])).initialize("kiro-cli")
}

fn ask(vendor_env: &VendorEnv, client: &mut Client, prompt: &str, session: Option<&str>) -> Value {
    let arguments = json!({"prompt": prompt, "directory": vendor_env.env.project(), "sessionId": session});
    let call = json!({"name": "kiro-subagents.test-agent", "arguments": arguments});
    let id = client.send("tools/call", call);
    let result = client.answer(id, PATIENCE)["result"].clone();
    assert_ne!(result["isError"], json!(true), "{result}");
    result["structuredContent"].clone()
}

/// Returns a model reply that writes its answer into the response file of every run.
fn into_the_file(vendor_env: &VendorEnv, text: &str) -> ScriptedReply {
    let files = vendor_env.env.path("state").join("runs/*/*/work/response.txt");
    let command = format!("for file in {}; do printf '{text}' > \"$file\"; done", files.display());
    ScriptedReply::call("execute_bash", json!({"command": command}))
}

#[test]
fn an_agent_answers_into_its_file_and_remembers_its_session_after_a_restart() {
    let vendor_env = vendor_env("budgie-session", Vec::new(), &[("_system.md", SYSTEM)]);
    vendor_env.offline.server().add(vec![
        into_the_file(&vendor_env, "Noted: heron."),
        ScriptedReply::say("I wrote it."),
        into_the_file(&vendor_env, "It was heron."),
        ScriptedReply::say("I wrote it."),
    ]);
    let first = ask(&vendor_env, &mut serve(&vendor_env), "The word is heron.", None);
    assert_eq!(first["response"], json!("Noted: heron."));
    let session = first["sessionId"].as_str().unwrap();
    let second = ask(&vendor_env, &mut serve(&vendor_env), "Which word?", Some(session));
    assert_eq!((&second["response"], &second["sessionId"]), (&json!("It was heron."), &first["sessionId"]));
    let seen = vendor_env.offline.server().requests();
    assert!(seen[0].body.to_string().contains("You are a specialized testing agent."));
    let last = seen[2].body.to_string();
    assert!(last.contains("The word is heron.") && last.contains("Which word?"), "Kiro itself knows: {last}");
    assert!(!last.contains("Previous conversation history"), "it is not told again");
    assert_eq!(fs::read_dir(vendor_env.env.project()).unwrap().count(), 1, "nothing stands where it works");
}

/// Differs from budgie: a missing response file | costs a second call of the model | only if stdout has no answer
///    either
#[test]
fn an_agent_without_an_answer_is_prompted_for_a_summary_in_its_session() {
    let templates = [("_system.md", SYSTEM), ("_context-summary.md", SUMMARY)];
    let vendor_env = vendor_env("budgie-summary", Vec::new(), &templates);
    vendor_env.offline.server().add(vec![
        ScriptedReply::say(""),
        into_the_file(&vendor_env, "Three herons."),
        ScriptedReply::say("I wrote it."),
        ScriptedReply::say("Still three."),
    ]);
    let mut client = serve(&vendor_env);
    let answer = ask(&vendor_env, &mut client, "Count the herons.", None);
    assert_eq!(answer, json!({"response": "Three herons.", "sessionId": answer["sessionId"]}));
    let asks = vendor_env.offline.server().model_requests();
    assert!(asks[1].last_user_text().starts_with("Write your previous response to the file: /"), "{asks:?}");
    let again = ask(&vendor_env, &mut client, "And now?", Some(answer["sessionId"].as_str().unwrap()));
    assert_eq!(again["response"], json!("Still three."));
    let seen = vendor_env.offline.server().requests();
    assert!(seen.last().unwrap().body.to_string().contains("Count the herons."));
}

/// The names of the tools that the model was offered in the last request.
fn offered_tools(vendor_env: &VendorEnv) -> Vec<String> {
    let seen = vendor_env.offline.server().requests();
    let tools = seen.last().unwrap().body["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).map(ToOwned::to_owned).collect()
}

#[test]
fn the_users_servers_reach_an_agent_that_includes_them_and_no_other() {
    let vendor_env = vendor_env("budgie-servers", Vec::new(), &[("_system.md", SYSTEM)]);
    let (server, _) = vendor_env.marking_server("count", "seven");
    let kiro = vendor_env.env.path("home/.kiro");
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
        vendor_env.offline.server().add(vec![ScriptedReply::say("Done.")]);
        let answer = ask(&vendor_env, &mut serve(&vendor_env), "Count.", None);
        assert_eq!(answer["response"], json!("Done."), "{allowed} {included}: {answer}");
        let offered = offered_tools(&vendor_env);
        let has = offered.iter().any(|tool| tool == "aviary___count");
        assert_eq!(has, included, "{allowed}: {offered:?}");
    }
}
