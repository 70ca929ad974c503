//! The real program gets exactly the permissions that an agent file grants in the vendor's own syntax.

use std::fs;
use std::path::Path;

use fake_llm::ScriptedReply;
use serde_json::json;

use super::vendor_env::{Vendor, VendorEnv};
use crate::test_env::git;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn the_servers_of_a_file_of_codex_are_used_in_its_read_only_sandbox() {
    let Some(vendor_env) = VendorEnv::make_for(&["codex"], "formats", Vec::new()) else { return };
    let made = vendor_env.env.project().join("made.txt");
    let script = [
        ScriptedReply::say("I look.").and_call_in("mcp__docs", "look_up", json!({})),
        ScriptedReply::call("exec_command", json!({"cmd": format!("touch '{}'", made.display())})),
        ScriptedReply::say("On page 7.").always(),
    ];
    vendor_env.offline.server().add(script);
    let (server, mark) = vendor_env.marking_server("look_up", "Herons are on page 7.");
    let text = format!(
        "name = \"worker\"\ndescription = \"Documentation specialist.\"\nsandbox_mode = \"read-only\"\n\
         developer_instructions = \"\"\"\nUse the docs MCP server.\n\"\"\"\n\n[mcp_servers.docs]\ncommand = \"{}\"\n",
        server.display()
    );
    write(&vendor_env.env.project().join(".codex/agents/worker.toml"), &text);
    assert_eq!(vendor_env.volery(&["trust", "--yes"]).code, 0);
    let run = vendor_env.run("Where are the herons?", &[]);
    assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!("On page 7.")), "{run}");
    assert!(mark.exists(), "the server was not called: {run}");
    assert!(!made.exists(), "the sandbox does not hold: {run}");
    assert!(!run["warnings"].to_string().contains("no tool of the MCP server"), "{run}");
}

#[test]
fn rules_in_parentheses_after_a_tool_name_limit_claude_code() {
    let Some(vendor_env) = VendorEnv::make_for(&["claude"], "formats", Vec::new()) else { return };
    let project = vendor_env.env.project();
    let command =
        |command: &str| ScriptedReply::call("Bash", json!({"command": command, "description": "for a test"}));
    let agent = |kind: &str| {
        let input =
            json!({"subagent_type": kind, "description": "counts", "prompt": format!("I am {kind}.")});
        ScriptedReply::call("Agent", input)
    };
    let script = [
        command("git log --oneline"),
        command("touch made.txt"),
        agent("general-purpose"),
        agent("counter"),
        ScriptedReply::say("Three.").always(),
    ];
    vendor_env.offline.server().add(script);
    git(&project, &["init", "-q"]);
    git(&project, &["commit", "--allow-empty", "-m", "herons came"]);
    write(
        &project.join(".claude/agents/counter.md"),
        "---\nname: counter\ndescription: Counts\n---\nCount.\n",
    );
    let text = "---\nname: worker\ndescription: Asks\n\
                tools: Read, Agent(counter, researcher), Bash(git log:*)\npermissionMode: dontAsk\n---\nAsk.\n";
    write(&project.join(".claude/agents/worker.md"), text);
    assert_eq!(vendor_env.volery(&["trust", "--yes"]).code, 0);
    let run = vendor_env.run("How many?", &[]);
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    let asks = vendor_env.offline.server().model_requests();
    let mut offered = asks[0].tools.clone();
    offered.sort();
    // A placeholder for deferred tools, of which there are none here.
    offered.retain(|tool| tool != "DeferredToolPlaceholder");
    assert_eq!(offered, ["Agent", "Bash", "Read"], "{run}");
    let reached_the_model = |text: &str| asks.iter().any(|ask| format!("{:?}", ask.messages).contains(text));
    assert!(reached_the_model("herons came"), "{asks:?}");
    assert!(!project.join("made.txt").exists(), "{run}");
    let began = |kind: &str| asks.iter().any(|ask| ask.last_user_text().contains(&format!("I am {kind}.")));
    assert!(began("counter") && !began("general-purpose"), "{asks:?}");
}

#[test]
fn a_value_for_a_server_that_the_program_would_change_is_warned_about() {
    let vendor = Vendor::new("claude");
    let script = vec![ScriptedReply::say("I see.").always()];
    let Some(mut vendor_env) = VendorEnv::make(&vendor, "dollars", script) else { return };
    vendor_env.set("AVIARY_TOKEN", "pa$HOME-x");
    vendor_env.set("OTHER_TOKEN", "plain-value");
    let server = "{command: /bin/true, env: {TOKEN: '${AVIARY_TOKEN}', OTHER: '${OTHER_TOKEN}'}}";
    vendor_env.agent(&vendor, &format!("timeout: 100s\nmcp_servers: {{aviary: {server}}}"));
    assert_eq!(vendor_env.volery(&["trust", "--yes"]).code, 0);
    let warnings = vendor_env.run("Say hello.", &[])["warnings"].to_string();
    assert!(warnings.contains("the value of AVIARY_TOKEN holds a $"), "{warnings}");
    assert!(!warnings.contains("OTHER_TOKEN") && !warnings.contains("pa$HOME"), "{warnings}");
}
