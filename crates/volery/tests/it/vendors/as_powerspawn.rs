//! `--dialect powerspawn` with the real Claude Code: the scenario of its document, and what the program is given.

use std::fs;

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::vendor_env::{PATIENCE, Vendor, VendorEnv};
use crate::test_env::Client;

fn call(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let id = client.send("tools/call", json!({"name": tool, "arguments": arguments}));
    let result = client.answer(id, PATIENCE)["result"].clone();
    assert_eq!(result["isError"], json!(false), "{result}");
    result["structuredContent"].clone()
}

#[test]
fn claude_reads_its_own_file_works_without_approval_with_its_six_tools_and_is_in_the_file() {
    let vendor = Vendor::new("claude");
    let wishes = |vendor_env: &VendorEnv| vendor_env.env.project().join("herons.txt");
    let script = Vec::new();
    let Some(vendor_env) = VendorEnv::make_for(&["claude"], "powerspawn", script) else { return };
    let herons = wishes(&vendor_env);
    vendor_env.offline.server().add([
        vendor.writes(&herons, "thirty"),
        ScriptedReply::say("Written."),
        ScriptedReply::say("Half."),
    ]);
    fs::write(vendor_env.env.project().join("AGENTS.md"), "Herons are grey.\n").unwrap();
    fs::write(vendor_env.env.project().join("CLAUDE.md"), "Egrets are white.\n").unwrap();
    let command = vendor_env.command(&["serve", "--dialect", "powerspawn"]);
    let mut client = Client::start(command).initialize("claude-code");
    let spawned =
        call(&mut client, "spawn_claude", json!({"prompt": "Run the tests, then count the herons."}));
    let id = spawned["agent_id"].as_str().unwrap_or_else(|| panic!("{spawned}")).to_owned();
    assert_eq!((&spawned["agent_type"], &spawned["model"]), (&json!("claude"), &json!("sonnet")));
    let waited = call(&mut client, "wait_for_agents", json!({"timeout": 120}));
    let waited = if waited["status"] == json!("timeout") {
        call(&mut client, "wait_for_agents", json!({"timeout": 120}))
    } else {
        waited
    };
    assert_eq!(waited["status"], json!("all_completed"), "{waited}");
    let result = call(&mut client, "result", json!({"agent_id": id}));
    assert_eq!((&result["result"], &result["success"]), (&json!("Written."), &json!(true)), "{result}");
    assert_eq!(fs::read_to_string(&herons).unwrap(), "thirty", "nobody was asked");
    let asks = vendor_env.offline.server().model_requests();
    let mut tools = asks[0].tools.clone();
    // The program's own, which does nothing.
    tools.retain(|tool| tool != "DeferredToolPlaceholder");
    tools.sort();
    assert_eq!(tools, ["Bash", "Edit", "Glob", "Grep", "Read", "Write"]);
    let prompt = asks[0].last_user_text();
    assert!(prompt.contains("Run the tests") && !prompt.contains("# Primary briefing"), "{prompt}");
    let body = vendor_env.offline.server().requests()[0].body.to_string();
    assert!(
        body.contains("Egrets are white.") && !body.contains("Herons are grey."),
        "it reads its own file"
    );
    let spec = vendor_env.env.spec(&vendor_env.env.only_run());
    assert_eq!(spec["limits"]["timeout_ms"], json!(600_000), "tasks that test have more time");
    let iac = fs::read_to_string(vendor_env.env.project().join("IAC.md")).unwrap();
    assert!(iac.contains(&format!("| `#{id}` | Claude (sonnet) [CLI] | ")), "{iac}");
    assert!(
        iac.contains("| Tools: Bash, Read, Write, Edit, Glob, Grep\n") && iac.contains("Written."),
        "{iac}"
    );
    let changed = vendor_env.env.json(["show", &id])["changes"].to_string();
    assert!(changed.contains("herons.txt") || changed == "null", "{changed}");
}

/// Differs from powerspawn: `cost_usd` of Codex | made up in early versions | computed from its tokens, or null
#[test]
fn codex_writes_code_and_its_cost_is_not_made_up() {
    let made = VendorEnv::make_for(&["codex"], "powerspawn-codex", vec![ScriptedReply::say("Done.")]);
    let Some(vendor_env) = made else { return };
    let command = vendor_env.command(&["serve", "--dialect", "powerspawn"]);
    let mut client = Client::start(command).initialize("claude-code");
    let ask = json!({"prompt": "Write a test for the herons."});
    let spawned = call(&mut client, "spawn_codex", ask);
    let id = spawned["agent_id"].as_str().unwrap_or_else(|| panic!("{spawned}")).to_owned();
    assert_eq!((&spawned["agent_type"], &spawned["status"]), (&json!("codex"), &json!("running")));
    let mut waited = call(&mut client, "wait_for_agents", json!({"timeout": 120}));
    while waited["status"] == json!("timeout") {
        waited = call(&mut client, "wait_for_agents", json!({"timeout": 120}));
    }
    let result = call(&mut client, "result", json!({"agent_id": id}));
    assert_eq!((&result["result"], &result["success"]), (&json!("Done."), &json!(true)), "{result}");
    assert_ne!(result["cost_usd"], json!(0.005), "{result}");
    if !result["cost_usd"].is_null() {
        assert_eq!(result["cost_basis"], json!("computed"), "codex tells none: {result}");
    }
    let started = vendor_env.env.wait_for_event(&vendor_env.env.only_run(), "agent_started");
    let argv = started["argv"].to_string();
    assert!(argv.contains("app-server"), "{argv}");
    let spec = vendor_env.env.spec(&vendor_env.env.only_run());
    assert_eq!(spec["setup"]["permission"]["level"], json!("yolo"));
    let iac = fs::read_to_string(vendor_env.env.project().join("IAC.md")).unwrap();
    assert!(iac.contains("### 🤖 Write a test for the herons.\n") && iac.contains("✅ **Done**"), "{iac}");
}
