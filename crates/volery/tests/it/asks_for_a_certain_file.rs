//! Several files define one name, or a file defines several agents: each can be asked for.

use std::path::Path;

use serde_json::json;

use crate::stage::Stage;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Returns the format and the description of the agent that a name means.
fn meant(stage: &Stage, name: &str) -> (String, String) {
    let shown = stage.json(["agents", "show", name]);
    let agent = if shown["agent"].is_object() { &shown["agent"] } else { &shown };
    let text = |key: &str| agent[key].as_str().unwrap_or_default().to_owned();
    (text("format"), text("description"))
}

fn pair(format: &str, description: &str) -> (String, String) {
    (format.to_owned(), description.to_owned())
}

#[test]
fn a_format_before_the_name_asks_for_its_file() {
    let stage = Stage::new();
    let markdown = |of: &str| format!("---\nname: reviewer\ndescription: of {of}\n---\nx");
    let toml = "name = \"reviewer\"\ndescription = \"of codex\"\ndeveloper_instructions = \"x\"\n";
    write(&stage.project().join(".claude/agents/r.md"), &markdown("claude"));
    write(&stage.project().join(".gemini/agents/r.md"), &markdown("gemini"));
    write(&stage.project().join(".codex/agents/r.toml"), toml);
    write(&stage.path("home/.codex/agents/r.toml"), &toml.replace("of codex", "of the user"));
    for (name, format) in [
        ("reviewer", "claude"),
        ("claude:reviewer", "claude"),
        ("codex:reviewer", "codex"),
        ("gemini:reviewer", "gemini"),
    ] {
        assert_eq!(meant(&stage, name), pair(format, &format!("of {format}")), "{name}");
    }
    let refused = stage.volery(["run", "qwen:reviewer", "go"]).exits(5).stderr;
    assert!(refused.contains("there is no agent qwen:reviewer"), "{refused}");
    let listed = stage.json(["agents"]);
    let names: Vec<&serde_json::Value> =
        listed["agents"].as_array().unwrap().iter().map(|agent| &agent["name"]).collect();
    assert!(names.contains(&&json!("reviewer")), "{listed}");
    assert!(!names.contains(&&json!("codex:reviewer")), "the list has each name once: {listed}");
}

#[test]
fn a_run_of_a_certain_file_carries_its_name() {
    let stage = Stage::new();
    let text = "---\nname: poet\ndescription: d\nbackend: rehearsal\nsteps: [{say: ours}]\n---\n";
    write(&stage.project().join(".volery/agents/poet.md"), text);
    write(&stage.project().join(".claude/agents/poet.md"), "---\nname: poet\ndescription: d\n---\nx");
    assert_eq!(stage.volery(["run", "volery:poet", "go"]).ok().stdout, "ours\n");
    assert_eq!(stage.spec(&stage.only_run())["agent"], "poet", "the used file has the plain name");
    // Whether claude is installed or not, the other file is meant.
    let shown = stage.json(["agents", "show", "claude:poet"]);
    assert!(shown.to_string().contains("\"claude:poet\""), "{shown}");
}

#[test]
fn the_name_of_an_agent_comes_before_a_format() {
    let stage = Stage::new();
    let kit = stage.path("home/.claude/plugins/cache/market/codex");
    write(&kit.join(".claude-plugin/plugin.json"), r#"{"name": "codex"}"#);
    write(&kit.join("agents/rescue.md"), "---\nname: rescue\ndescription: of the plug-in\n---\nx");
    let installed =
        json!({"version": 2, "plugins": {"codex@market": [{"scope": "user", "installPath": kit}]}});
    write(&stage.path("home/.claude/plugins/installed_plugins.json"), &installed.to_string());
    write(&stage.path("home/.claude/settings.json"), r#"{"enabledPlugins": {"codex@market": true}}"#);
    let toml = "name = \"rescue\"\ndescription = \"of codex\"\ndeveloper_instructions = \"x\"\n";
    write(&stage.project().join(".codex/agents/rescue.toml"), toml);
    assert_eq!(meant(&stage, "codex:rescue"), pair("claude", "of the plug-in"));
    assert_eq!(meant(&stage, "claude:codex:rescue"), pair("claude", "of the plug-in"));
    assert_eq!(meant(&stage, "rescue"), pair("codex", "of codex"));
}

#[test]
fn configuration_files_of_a_project_name_no_file_outside_of_it() {
    let stage = Stage::new();
    write(&stage.path("secret.txt"), "the secret");
    let config = r#"{"agent": {"leak": {"description": "d", "prompt": "{file:../secret.txt}"},
        "fine": {"description": "fine", "prompt": "{file:./p.txt} Go."}}}"#;
    write(&stage.project().join("opencode.json"), config);
    write(&stage.project().join("p.txt"), "You plan.\n");
    let roles = "[agents.leaky]\ndescription = \"d\"\nconfig_file = \"../../secret.txt\"\n";
    write(&stage.project().join(".codex/config.toml"), roles);
    let checked = stage.volery(["agents", "check"]).exits(1).stdout;
    assert_eq!(checked.matches("is outside of the project, so it is not read").count(), 2, "{checked}");
    let shown = stage.json(["agents", "show", "fine"]);
    assert!(shown.to_string().contains("You plan. Go."), "{shown}");
    stage.volery(["agents", "show", "leak"]).exits(5);
}

#[test]
fn a_hidden_agents_servers_need_trust_too() {
    let stage = Stage::new();
    let served = "---\nname: poet\ndescription: d\nmcp_servers: {x: {command: danger}}\n---\nx";
    write(&stage.project().join(".gemini/agents/poet.md"), served);
    write(&stage.project().join(".claude/agents/poet.md"), "---\nname: poet\ndescription: d\n---\nx");
    stage.volery(["trust", "--yes"]).ok();
    assert_eq!(stage.json(["trust", "--list"])["projects"][0]["state"], json!("trusted"));
    write(&stage.project().join(".gemini/agents/poet.md"), &served.replace("danger", "worse"));
    assert_eq!(stage.json(["trust", "--list"])["projects"][0]["state"], json!("changed"));
}
