//! What a vendor's file grants in the vendor's own words is what the real program gets: no less, and no more.

use std::fs;
use std::path::Path;

use model_server::Reply;
use serde_json::json;

use super::place::{Place, Vendor};
use crate::stage::git;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn the_servers_of_a_file_of_codex_are_used_in_its_read_only_sandbox() {
    let Some(place) = Place::make_for(&["codex"], "formats", Vec::new()) else { return };
    let made = place.stage.project().join("made.txt");
    let script = [
        Reply::say("I look.").and_call_in("mcp__docs", "look_up", json!({})),
        Reply::call("exec_command", json!({"cmd": format!("touch '{}'", made.display())})),
        Reply::say("On page 7.").always(),
    ];
    place.offline.server().add(script);
    let (server, mark) = place.marking_server("look_up", "Herons are on page 7.");
    let text = format!(
        "name = \"worker\"\ndescription = \"Documentation specialist.\"\nsandbox_mode = \"read-only\"\n\
         developer_instructions = \"\"\"\nUse the docs MCP server.\n\"\"\"\n\n[mcp_servers.docs]\ncommand = \"{}\"\n",
        server.display()
    );
    write(&place.stage.project().join(".codex/agents/worker.toml"), &text);
    assert_eq!(place.volery(&["trust", "--yes"]).code, 0);
    let run = place.run("Where are the herons?", &[]);
    assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!("On page 7.")), "{run}");
    assert!(mark.exists(), "the server was not called: {run}");
    assert!(!made.exists(), "the sandbox does not hold: {run}");
    assert!(!run["warnings"].to_string().contains("no tool of the MCP server"), "{run}");
}

#[test]
fn what_claude_code_may_use_a_tool_for_can_stand_behind_its_name() {
    let Some(place) = Place::make_for(&["claude"], "formats", Vec::new()) else { return };
    let project = place.stage.project();
    let command =
        |command: &str| Reply::call("Bash", json!({"command": command, "description": "for a test"}));
    let agent = |kind: &str| {
        let input =
            json!({"subagent_type": kind, "description": "counts", "prompt": format!("I am {kind}.")});
        Reply::call("Agent", input)
    };
    let script = [
        command("git log --oneline"),
        command("touch made.txt"),
        agent("general-purpose"),
        agent("counter"),
        Reply::say("Three.").always(),
    ];
    place.offline.server().add(script);
    git(&project, &["init", "-q"]);
    git(&project, &["commit", "--allow-empty", "-m", "herons came"]);
    write(
        &project.join(".claude/agents/counter.md"),
        "---\nname: counter\ndescription: Counts\n---\nCount.\n",
    );
    let text = "---\nname: worker\ndescription: Asks\n\
                tools: Read, Agent(counter, researcher), Bash(git log:*)\npermissionMode: dontAsk\n---\nAsk.\n";
    write(&project.join(".claude/agents/worker.md"), text);
    let run = place.run("How many?", &[]);
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    let asks = place.offline.server().asks();
    let mut offered = asks[0].tools.clone();
    offered.sort();
    // It stands for tools that are looked for, of which there are none here.
    offered.retain(|tool| tool != "DeferredToolPlaceholder");
    assert_eq!(offered, ["Agent", "Bash", "Read"], "{run}");
    let told = |text: &str| asks.iter().any(|ask| format!("{:?}", ask.messages).contains(text));
    assert!(told("herons came"), "{asks:?}");
    assert!(!project.join("made.txt").exists(), "{run}");
    let began = |kind: &str| asks.iter().any(|ask| ask.last_user_text().contains(&format!("I am {kind}.")));
    assert!(began("counter") && !began("general-purpose"), "{asks:?}");
}

#[test]
fn a_value_for_a_server_that_the_program_would_change_is_warned_about() {
    let vendor = Vendor::named("claude");
    let script = vec![Reply::say("I see.").always()];
    let Some(mut place) = Place::make(&vendor, "dollars", script) else { return };
    place.set("AVIARY_TOKEN", "pa$HOME-x");
    place.set("OTHER_TOKEN", "plain-value");
    let server = "{command: /bin/true, env: {TOKEN: '${AVIARY_TOKEN}', OTHER: '${OTHER_TOKEN}'}}";
    place.agent(&vendor, &format!("timeout: 100s\nmcp_servers: {{aviary: {server}}}"));
    assert_eq!(place.volery(&["trust", "--yes"]).code, 0);
    let warnings = place.run("Say hello.", &[])["warnings"].to_string();
    assert!(warnings.contains("the value of AVIARY_TOKEN holds a $"), "{warnings}");
    assert!(!warnings.contains("OTHER_TOKEN") && !warnings.contains("pa$HOME"), "{warnings}");
}
