//! `--dialect codex` with the real Codex: begin, reply, and approvals by the client's user.

use std::fs;

use model_server::Reply;
use serde_json::{Value, json};

use super::place::{PATIENCE, Place};
use crate::stage::{Client, wait_for};

fn place(case: &str, script: Vec<Reply>) -> Option<Place> {
    Place::make_for(&["codex"], case, script)
}

fn serve(place: &Place, capabilities: Value) -> Client {
    let mut client = Client::start(place.command(&["serve", "--dialect", "codex"]));
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": capabilities,
        "clientInfo": {"name": "test", "version": "1"},
    });
    client.request("initialize", params);
    client.notify("notifications/initialized", json!({}));
    client
}

fn call(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let id = client.send("tools/call", json!({"name": tool, "arguments": arguments}));
    client.answer(id, PATIENCE)["result"].clone()
}

/// Differs from codex-mcp-server: `profile` | a profile of `config.toml` | refused
/// Differs from codex-mcp-server: `include-plan-tool` | ignored or honoured, by version | refused
/// Differs from codex-mcp-server: a wrong parameter | an error of the protocol that names the type | an error of the tool that names
///    what can be given
/// Differs from codex-mcp-server: `config` | any setting of Codex | settings that grant nothing; others are refused by name
#[test]
fn the_tools_are_the_ones_that_were_reviewed_and_wrong_calls_are_told() {
    let Some(place) = place("codex-tools", Vec::new()) else { return };
    let mut client = serve(&place, json!({}));
    let tools = client.request("tools/list", json!({}));
    insta::assert_snapshot!("codex", serde_json::to_string_pretty(&tools["tools"]).unwrap());
    let mut refused = |tool: &str, arguments: Value, wanted: &str| {
        let result = call(&mut client, tool, arguments);
        assert_eq!(result["isError"], json!(true), "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(wanted), "{text}");
    };
    refused("codex", json!({}), "prompt is required");
    refused("codex", json!({"prompt": "x", "sandbox": "none"}), "sandbox is \"none\"; it can be read-only");
    refused("codex", json!({"prompt": "x", "profile": "y"}), "profile is not honoured here");
    refused("codex", json!({"prompt": "x", "config": "model_verbosity"}), "config must be an object");
    refused("codex", json!({"prompt": "x", "config": {"model_verbosity": []}}), "must be a text, a number");
    refused(
        "codex",
        json!({"prompt": "x", "config": {"mcp_servers": {}}}),
        "config.mcp_servers cannot be set",
    );
    refused(
        "codex",
        json!({"prompt": "x", "include-plan-tool": true}),
        "include-plan-tool is not honoured here",
    );
    refused("codex-reply", json!({"prompt": "x"}), "threadId is required");
    refused("codex-reply", json!({"prompt": "x", "threadId": "nobody"}), "there is no session nobody");
    assert_eq!(place.stage.runs(), Vec::<String>::new());
}

/// Differs from codex-mcp-server: `codex-reply` with a thread of another server | unknown: a server knows the threads that it began |
///    the conversation goes on
#[test]
fn a_conversation_goes_on_where_it_was_and_as_it_was() {
    let script = vec![Reply::say("Noted."), Reply::say("It was heron.")];
    let Some(place) = place("codex-reply", script) else { return };
    place.stage.agent("other", "backend: codex");
    let below = place.stage.project().join("below");
    fs::create_dir(&below).unwrap();
    let mut client = serve(&place, json!({}));
    let arguments = json!({"prompt": "The word is heron.", "cwd": below, "developer-instructions": "Be brief.", "model": null});
    let first = call(&mut client, "codex", arguments);
    assert_eq!(first["isError"], json!(false), "{first}");
    let said = &first["structuredContent"];
    assert_eq!((&said["content"], &first["content"][0]["text"]), (&json!("Noted."), &json!("Noted.")));
    let thread = said["threadId"].as_str().unwrap().to_owned();
    drop(client);
    // Another server, by the name that the id had before.
    let mut client = serve(&place, json!({}));
    let second = call(&mut client, "codex-reply", json!({"conversationId": thread, "prompt": "Which word?"}));
    assert_eq!(
        second["structuredContent"],
        json!({"threadId": thread, "content": "It was heron."}),
        "{second}"
    );
    let seen = place.offline.server().seen();
    let last = seen.last().unwrap().body.to_string();
    assert!(last.contains("The word is heron.") && last.contains("Be brief."), "{last}");
    let runs = place.stage.runs();
    let specs: Vec<Value> = runs.iter().map(|run| place.stage.spec(run)).collect();
    assert_eq!((&specs[1]["directory"], specs.len()), (&json!(below), 2));
    assert_eq!(specs[0]["setup"]["permission"]["level"], json!("read-only"), "nothing more is asked for");
}

#[test]
fn what_needs_an_approval_is_put_to_the_clients_user() {
    // As Codex' own model asks to be let out of the sandbox.
    let write = |name: &str| {
        let beyond = json!({
            "cmd": format!("touch {name}"), "sandbox_permissions": "require_escalated",
            "justification": "May I write this file?",
        });
        Reply::call("exec_command", beyond)
    };
    let script = vec![write("approved.txt"), write("denied.txt"), Reply::say("Done.")];
    let Some(place) = place("codex-approvals", script) else { return };
    let mut client = serve(&place, json!({"elicitation": {}}));
    let arguments =
        json!({"prompt": "Write.", "cwd": place.stage.project(), "approval-policy": "on-request"});
    let id = client.send("tools/call", json!({"name": "codex", "arguments": arguments}));
    for action in ["accept", "decline"] {
        let question =
            client.next_where(PATIENCE, |message| message["method"] == json!("elicitation/create"));
        let text = question["params"]["message"].as_str().unwrap();
        assert!(text.contains("touch "), "{text}");
        client.respond(&question["id"], json!({"action": action, "content": {}}));
    }
    let answer = client.answer(id, PATIENCE);
    assert_eq!(answer["result"]["structuredContent"]["content"], json!("Done."), "{answer}");
    let there = |name: &str| place.stage.project().join(name).exists();
    let events = place.volery(&["show", &place.stage.only_run(), "--events"]).stdout;
    assert_eq!((there("approved.txt"), there("denied.txt")), (true, false), "{events}");
}

/// Differs from codex-mcp-server: `sandbox` left out | `sandbox_mode` of `config.toml` counts | `read-only`
#[test]
fn with_nobody_to_ask_what_needs_an_approval_is_denied() {
    let script = vec![
        Reply::call("exec_command", json!({"cmd": "touch unasked.txt"})),
        Reply::say("It was not allowed."),
    ];
    let Some(place) = place("codex-unasked", script) else { return };
    let file = place.stage.path("home/.codex/config.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("sandbox_mode = \"workspace-write\"\n{text}")).unwrap();
    let mut client = serve(&place, json!({}));
    let arguments = json!({"prompt": "Write.", "cwd": place.stage.project()});
    let answer = call(&mut client, "codex", arguments);
    assert_eq!(answer["structuredContent"]["content"], json!("It was not allowed."), "{answer}");
    assert!(!place.stage.project().join("unasked.txt").exists());
}

#[test]
fn what_a_call_says_about_model_instructions_and_settings_reaches_codex() {
    let Some(place) = place("codex-settings", vec![Reply::say("Noted.")]) else { return };
    let mut client = serve(&place, json!({}));
    let arguments = json!({
        "prompt": "Go.", "cwd": place.stage.project(), "model": "gpt-5.5", "approval-policy": "never",
        "sandbox": "workspace-write", "base-instructions": "You count herons.",
        "developer-instructions": "Count twice.", "compact-prompt": "Keep the \"numbers\".",
        "config": {"model_reasoning_effort": "high", "tool_output_token_limit": 5000, "hide_agent_reasoning": true},
    });
    let answer = call(&mut client, "codex", arguments);
    assert_eq!(answer["structuredContent"]["content"], json!("Noted."), "{answer}");
    let seen = place.offline.server().seen();
    let body = &seen.last().unwrap().body;
    assert_eq!((&body["model"], &body["reasoning"]["effort"]), (&json!("gpt-5.5"), &json!("high")), "{body}");
    let instructions = body["input"][0].to_string();
    assert!(instructions.contains("You count herons.\\n\\nCount twice."), "{instructions}");
    let spec = place.stage.spec(&place.stage.only_run());
    assert_eq!(spec["setup"]["permission"]["level"], json!("safe-edit"));
    let settings = [
        "--config=tool_output_token_limit=5000",
        "--config=hide_agent_reasoning=true",
        "--config=compact_prompt=\"Keep the \\\"numbers\\\".\"",
    ];
    assert_eq!(spec["setup"]["extra_args"], json!(settings));
}

#[test]
fn each_sandbox_allows_what_it_says() {
    for (sandbox, inside, outside) in
        [("read-only", false, false), ("workspace-write", true, false), ("danger-full-access", true, true)]
    {
        let Some(place) = place("codex-sandbox", Vec::new()) else { return };
        // Folders for temporary files are open to it, and the stage is in one of them.
        let elsewhere = tempfile::Builder::new().prefix("volery-it-").tempdir_in("/var/tmp").unwrap();
        let beside = elsewhere.path().join("beside.txt");
        let command = format!("touch inside.txt; touch {}", beside.display());
        place
            .offline
            .server()
            .add([Reply::call("exec_command", json!({"cmd": command})), Reply::say("Done.")]);
        let arguments = json!({
            "prompt": "Write.", "cwd": place.stage.project(), "sandbox": sandbox, "approval-policy": "never",
        });
        let answer = call(&mut serve(&place, json!({})), "codex", arguments);
        assert_eq!(answer["structuredContent"]["content"], json!("Done."), "{answer}");
        let there = (place.stage.project().join("inside.txt").exists(), beside.exists());
        assert_eq!(there, (inside, outside), "{sandbox}");
    }
}

/// Differs from codex-mcp-server: a client that gives up before the answer | loses the answer | is told that Codex is at
///    work; the same call again gets the answer
/// Differs from codex-mcp-server: `codex/event` | every event of Codex | when Codex begins, what it is at, and how it ends
#[test]
fn the_same_call_again_waits_for_the_same_conversation() {
    let Some(place) = place("codex-again", vec![Reply::say("At last.").after_ms(4_000)]) else { return };
    place.stage.configure("[serve]\nwait = \"1s\"\n");
    let mut client = serve(&place, json!({}));
    let arguments = json!({"prompt": "Take your time.", "cwd": place.stage.project()});
    let id = client.send("tools/call", json!({"name": "codex", "arguments": arguments}));
    for kind in ["task_started", "background_event"] {
        let event = client.next_where(PATIENCE, |message| message["method"] == json!("codex/event"));
        assert_eq!(event["params"]["msg"]["type"], json!(kind), "{event}");
        assert_eq!(event["params"]["_meta"]["requestId"], json!(id), "{event}");
    }
    let first = client.answer(id, PATIENCE)["result"].clone();
    let told = first["structuredContent"]["content"].as_str().unwrap();
    assert!(told.contains("still at work"), "{first}");
    let said = wait_for(PATIENCE, "the answer", || {
        let again = call(&mut client, "codex", arguments.clone());
        let said = again["structuredContent"]["content"].as_str().unwrap().to_owned();
        (!said.contains("still at work")).then_some(said)
    });
    assert_eq!(said, "At last.");
    let complete =
        client.next_where(PATIENCE, |message| message["params"]["msg"]["type"] == json!("task_complete"));
    assert_eq!(complete["params"]["msg"]["last_agent_message"], json!("At last."));
    place.stage.only_run();
}

#[test]
fn the_users_own_servers_reach_codex() {
    let script =
        vec![Reply::say("I count.").and_call_in("mcp__aviary", "count", json!({})), Reply::say("Done.")];
    let Some(place) = place("codex-servers", script) else { return };
    let (server, mark) = place.marking_server("count", "seven");
    let file = place.stage.path("home/.codex/config.toml");
    let text = fs::read_to_string(&file).unwrap();
    let server = format!(
        "[mcp_servers.aviary]\ncommand = \"{}\"\ndefault_tools_approval_mode = \"approve\"\n",
        server.display()
    );
    fs::write(&file, format!("{text}{server}")).unwrap();
    let arguments = json!({"prompt": "Count.", "cwd": place.stage.project(), "approval-policy": "never"});
    let answer = call(&mut serve(&place, json!({})), "codex", arguments);
    assert_eq!(answer["structuredContent"]["content"], json!("Done."), "{answer}");
    assert!(mark.exists(), "its user's server was used: {answer}");
}
