//! `--dialect codex` with the real Codex: begin, reply, and approvals by the client's user.

use std::fs;

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::vendor_env::{PATIENCE, VendorEnv};
use crate::test_env::{Client, wait_for};

fn vendor_env(case: &str, script: Vec<ScriptedReply>) -> Option<VendorEnv> {
    VendorEnv::make_for(&["codex"], case, script)
}

fn serve(vendor_env: &VendorEnv, capabilities: Value) -> Client {
    let mut client = Client::start(vendor_env.command(&["serve", "--dialect", "codex"]));
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
fn the_tools_are_the_ones_that_were_reviewed_and_wrong_calls_are_errors() {
    let Some(vendor_env) = vendor_env("codex-tools", Vec::new()) else { return };
    let mut client = serve(&vendor_env, json!({}));
    let tools = client.request("tools/list", json!({}));
    insta::assert_snapshot!("codex", serde_json::to_string_pretty(&tools["tools"]).unwrap());
    let mut refused = |tool: &str, arguments: Value| {
        let result = call(&mut client, tool, arguments);
        assert_eq!(result["isError"], json!(true), "{result}");
        format!("{}\n", result["content"][0]["text"].as_str().unwrap())
    };
    // These texts are those of Codex.
    assert_eq!(refused("codex", json!({})), "prompt is required\n");
    assert_eq!(refused("codex-reply", json!({"prompt": "x"})), "threadId is required\n");
    let refusals = [
        refused("codex", json!({"prompt": "x", "sandbox": "none"})),
        refused("codex", json!({"prompt": "x", "profile": "y"})),
        refused("codex", json!({"prompt": "x", "config": "model_verbosity"})),
        refused("codex", json!({"prompt": "x", "config": {"model_verbosity": []}})),
        refused("codex", json!({"prompt": "x", "config": {"mcp_servers": {}}})),
        refused("codex", json!({"prompt": "x", "include-plan-tool": true})),
        refused("codex-reply", json!({"prompt": "x", "threadId": "nobody"})),
    ];
    insta::assert_snapshot!(vendor_env.env.masked(&refusals.concat()), @r#"
    sandbox is "none"; it can be read-only, workspace-write, danger-full-access
    profile is not honoured here; leave it out
    config must be an object
    config.model_verbosity must be a text, a number or true or false
    config.mcp_servers cannot be set by a call; of Codex' settings, these can: compact_prompt, hide_agent_reasoning, model_auto_compact_token_limit, model_context_window, model_reasoning_effort, model_reasoning_summary, model_verbosity, personality, show_raw_agent_reasoning, tool_output_token_limit. Put others into its own config.toml
    include-plan-tool is not honoured here; leave it out
    there is no session nobody
    "#);
    assert_eq!(vendor_env.env.runs(), Vec::<String>::new());
}

/// Differs from codex-mcp-server: `codex-reply` with a thread of another server | unknown: a server knows the threads that it began |
///    the conversation goes on
#[test]
fn a_reply_continues_in_the_same_directory_with_the_same_settings() {
    let script = vec![ScriptedReply::say("Noted."), ScriptedReply::say("It was heron.")];
    let Some(vendor_env) = vendor_env("codex-reply", script) else { return };
    vendor_env.env.agent("other", "backend: codex");
    let below = vendor_env.env.project().join("below");
    fs::create_dir(&below).unwrap();
    let mut client = serve(&vendor_env, json!({}));
    let arguments = json!({"prompt": "The word is heron.", "cwd": below, "developer-instructions": "Be brief.", "model": null});
    let first = call(&mut client, "codex", arguments);
    assert_eq!(first["isError"], json!(false), "{first}");
    let content = &first["structuredContent"];
    assert_eq!((&content["content"], &first["content"][0]["text"]), (&json!("Noted."), &json!("Noted.")));
    let thread = content["threadId"].as_str().unwrap().to_owned();
    drop(client);
    // Another server, by the name that the id had before.
    let mut client = serve(&vendor_env, json!({}));
    let second = call(&mut client, "codex-reply", json!({"conversationId": thread, "prompt": "Which word?"}));
    assert_eq!(
        second["structuredContent"],
        json!({"threadId": thread, "content": "It was heron."}),
        "{second}"
    );
    let seen = vendor_env.offline.server().requests();
    let last = seen.last().unwrap().body.to_string();
    assert!(last.contains("The word is heron.") && last.contains("Be brief."), "{last}");
    let runs = vendor_env.env.runs();
    let specs: Vec<Value> = runs.iter().map(|run| vendor_env.env.spec(run)).collect();
    assert_eq!((&specs[1]["directory"], specs.len()), (&json!(below), 2));
    assert_eq!(specs[0]["setup"]["permission"]["level"], json!("read-only"), "nothing more is asked for");
}

#[test]
fn an_approval_is_requested_from_the_clients_user() {
    // As Codex' own model asks to be let out of the sandbox.
    let write = |name: &str| {
        let beyond = json!({
            "cmd": format!("touch {name}"), "sandbox_permissions": "require_escalated",
            "justification": "May I write this file?",
        });
        ScriptedReply::call("exec_command", beyond)
    };
    let script = vec![write("approved.txt"), write("denied.txt"), ScriptedReply::say("Done.")];
    let Some(vendor_env) = vendor_env("codex-approvals", script) else { return };
    let mut client = serve(&vendor_env, json!({"elicitation": {}}));
    let arguments =
        json!({"prompt": "Write.", "cwd": vendor_env.env.project(), "approval-policy": "on-request"});
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
    let there = |name: &str| vendor_env.env.project().join(name).exists();
    let events = vendor_env.volery(&["show", &vendor_env.env.only_run(), "--events"]).stdout;
    assert_eq!((there("approved.txt"), there("denied.txt")), (true, false), "{events}");
}

/// Differs from codex-mcp-server: `sandbox` left out | `sandbox_mode` of `config.toml` counts | `read-only`
#[test]
fn an_approval_is_denied_if_the_client_cannot_prompt() {
    let script = vec![
        ScriptedReply::call("exec_command", json!({"cmd": "touch unasked.txt"})),
        ScriptedReply::say("It was not allowed."),
    ];
    let Some(vendor_env) = vendor_env("codex-unasked", script) else { return };
    let file = vendor_env.env.path("home/.codex/config.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("sandbox_mode = \"workspace-write\"\n{text}")).unwrap();
    let mut client = serve(&vendor_env, json!({}));
    let arguments = json!({"prompt": "Write.", "cwd": vendor_env.env.project()});
    let answer = call(&mut client, "codex", arguments);
    assert_eq!(answer["structuredContent"]["content"], json!("It was not allowed."), "{answer}");
    assert!(!vendor_env.env.project().join("unasked.txt").exists());
}

#[test]
fn model_instructions_and_settings_of_a_call_reach_codex() {
    let Some(vendor_env) = vendor_env("codex-settings", vec![ScriptedReply::say("Noted.")]) else { return };
    let mut client = serve(&vendor_env, json!({}));
    let arguments = json!({
        "prompt": "Go.", "cwd": vendor_env.env.project(), "model": "gpt-5.5", "approval-policy": "never",
        "sandbox": "workspace-write", "base-instructions": "You count herons.",
        "developer-instructions": "Count twice.", "compact-prompt": "Keep the \"numbers\".",
        "config": {"model_reasoning_effort": "high", "tool_output_token_limit": 5000, "hide_agent_reasoning": true},
    });
    let answer = call(&mut client, "codex", arguments);
    assert_eq!(answer["structuredContent"]["content"], json!("Noted."), "{answer}");
    let seen = vendor_env.offline.server().requests();
    let body = &seen.last().unwrap().body;
    assert_eq!((&body["model"], &body["reasoning"]["effort"]), (&json!("gpt-5.5"), &json!("high")), "{body}");
    let instructions = body["input"][0].to_string();
    assert!(instructions.contains("You count herons.\\n\\nCount twice."), "{instructions}");
    let spec = vendor_env.env.spec(&vendor_env.env.only_run());
    assert_eq!(spec["setup"]["permission"]["level"], json!("safe-edit"));
    let settings = [
        "--config=tool_output_token_limit=5000",
        "--config=hide_agent_reasoning=true",
        "--config=compact_prompt=\"Keep the \\\"numbers\\\".\"",
    ];
    assert_eq!(spec["setup"]["extra_args"], json!(settings));
}

#[test]
fn each_sandbox_allows_what_its_name_promises() {
    for (sandbox, inside, outside) in
        [("read-only", false, false), ("workspace-write", true, false), ("danger-full-access", true, true)]
    {
        let Some(vendor_env) = vendor_env("codex-sandbox", Vec::new()) else { return };
        // The sandbox allows temporary folders, and the test environment is in one of them.
        let elsewhere = tempfile::Builder::new().prefix("volery-it-").tempdir_in("/var/tmp").unwrap();
        let outside_file = elsewhere.path().join("beside.txt");
        let command = format!("touch inside.txt; touch {}", outside_file.display());
        vendor_env
            .offline
            .server()
            .add([ScriptedReply::call("exec_command", json!({"cmd": command})), ScriptedReply::say("Done.")]);
        let arguments = json!({
            "prompt": "Write.", "cwd": vendor_env.env.project(), "sandbox": sandbox, "approval-policy": "never",
        });
        let answer = call(&mut serve(&vendor_env, json!({})), "codex", arguments);
        assert_eq!(answer["structuredContent"]["content"], json!("Done."), "{answer}");
        let there = (vendor_env.env.project().join("inside.txt").exists(), outside_file.exists());
        assert_eq!(there, (inside, outside), "{sandbox}");
    }
}

/// Differs from codex-mcp-server: a client that gives up before the answer | loses the answer | is told that Codex is at
///    work; the same call again gets the answer
/// Differs from codex-mcp-server: `codex/event` | every event of Codex | when Codex begins, what it is at, and how it ends
#[test]
fn the_same_call_again_waits_for_the_same_conversation() {
    let Some(vendor_env) = vendor_env("codex-again", vec![ScriptedReply::say("At last.").after_ms(4_000)])
    else {
        return;
    };
    vendor_env.env.configure("[serve]\nwait = \"1s\"\n");
    let mut client = serve(&vendor_env, json!({}));
    let arguments = json!({"prompt": "Take your time.", "cwd": vendor_env.env.project()});
    let id = client.send("tools/call", json!({"name": "codex", "arguments": arguments}));
    for kind in ["task_started", "background_event"] {
        let event = client.next_where(PATIENCE, |message| message["method"] == json!("codex/event"));
        assert_eq!(event["params"]["msg"]["type"], json!(kind), "{event}");
        assert_eq!(event["params"]["_meta"]["requestId"], json!(id), "{event}");
    }
    let first = client.answer(id, PATIENCE)["result"].clone();
    let notice = first["structuredContent"]["content"].as_str().unwrap();
    insta::assert_snapshot!(vendor_env.env.masked(notice), @"Codex is still at work, as run [run-id]. Call again with exactly the same arguments to wait for its answer; nothing is started a second time.");
    let answer = wait_for(PATIENCE, "the answer", || {
        let again = call(&mut client, "codex", arguments.clone());
        let answer = again["structuredContent"]["content"].as_str().unwrap().to_owned();
        (answer != notice).then_some(answer)
    });
    assert_eq!(answer, "At last.");
    let complete =
        client.next_where(PATIENCE, |message| message["params"]["msg"]["type"] == json!("task_complete"));
    assert_eq!(complete["params"]["msg"]["last_agent_message"], json!("At last."));
    vendor_env.env.only_run();
}

#[test]
fn the_users_own_servers_reach_codex() {
    let script = vec![
        ScriptedReply::say("I count.").and_call_in("mcp__aviary", "count", json!({})),
        ScriptedReply::say("Done."),
    ];
    let Some(vendor_env) = vendor_env("codex-servers", script) else { return };
    let (server, mark) = vendor_env.marking_server("count", "seven");
    let file = vendor_env.env.path("home/.codex/config.toml");
    let text = fs::read_to_string(&file).unwrap();
    let server = format!(
        "[mcp_servers.aviary]\ncommand = \"{}\"\ndefault_tools_approval_mode = \"approve\"\n",
        server.display()
    );
    fs::write(&file, format!("{text}{server}")).unwrap();
    let arguments = json!({"prompt": "Count.", "cwd": vendor_env.env.project(), "approval-policy": "never"});
    let answer = call(&mut serve(&vendor_env, json!({})), "codex", arguments);
    assert_eq!(answer["structuredContent"]["content"], json!("Done."), "{answer}");
    assert!(mark.exists(), "its user's server was used: {answer}");
}
