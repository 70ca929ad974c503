//! `volery import`: what a set-up of another system becomes. It changes nothing.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::stage::Stage;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn sub_agents_mcp_is_found_in_a_clients_configuration() {
    let stage = Stage::new();
    let project = stage.project();
    write(&project.join("team/reviewer.md"), "# Reviewer\nYou review.\n");
    write(&project.join(".mcp-sessions/s1_reviewer.json"), "{}");
    let config = json!({"mcpServers": {"subs": {
        "command": "npx", "args": ["-y", "sub-agents-mcp"],
        "env": {"AGENTS_DIR": project.join("team"), "AGENT_TYPE": "claude", "LOG_FILE": "/x", "SECRET_X": "s3cret"},
    }}});
    write(&project.join(".mcp.json"), &config.to_string());
    let report = stage.json(["import"]);
    let found = &report["found"][0];
    assert_eq!(report["found"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!((&found["system"], &found["available"]), (&json!("sub-agents-mcp"), &json!(true)));
    assert_eq!(
        found["entry"],
        json!({"client": "claude", "file": project.join(".mcp.json"), "name": "subs"})
    );
    assert_eq!(
        found["change"],
        json!({"command": "volery", "args": ["serve", "--dialect", "sub-agents-mcp"]})
    );
    assert_eq!(
        (&found["agents"][0]["name"], &found["agents"][0]["backend"]),
        (&json!("reviewer"), &json!("claude"))
    );
    assert_eq!(found["sessions"], json!(["s1_reviewer"]));
    assert_eq!(found["honoured"], json!(["AGENTS_DIR", "AGENT_TYPE"]));
    let not: Vec<_> = found["not_honoured"].as_array().unwrap().iter().map(|told| &told["name"]).collect();
    assert_eq!(not, ["LOG_FILE", "SECRET_X"]);
    assert!(!report.to_string().contains("s3cret"), "a value was told");
    assert_eq!(fs::read_to_string(project.join(".mcp.json")).unwrap(), config.to_string());
    let text = stage.volery(["import"]).ok().stdout;
    assert!(
        text.contains(
            "change to   \"command\": \"volery\", \"args\": [\"serve\",\"--dialect\",\"sub-agents-mcp\"]"
        ),
        "{text}"
    );
}

#[test]
fn jarvis_keeps_its_home_and_its_sessions() {
    let stage = Stage::new();
    let home = stage.path("jarvis");
    write(
        &home.join("agents/scout/agent.md"),
        "---\nname: scout\ndescription: Looks.\nsession: true\n---\nYou look.\n",
    );
    write(&home.join("agents/broken/agent.md"), "---\ndescription: [\n---\n");
    write(&home.join("data/sessions.json"), "{\"scout\": \"x\"}");
    let server = home.join("dist/mcp/subagent-server.js");
    let entry = format!("[mcp_servers.jarvis-subagents]\ncommand = \"node\"\nargs = [{server:?}]\n");
    write(&stage.path("home/.codex/config.toml"), &entry);
    let report = stage.json(["import", "--from", "jarvis"]);
    let found = &report["found"][0];
    assert_eq!(found["entry"]["client"], "codex", "{report}");
    assert_eq!(found["change"]["env"], json!({"JARVIS_HOME": home}));
    assert_eq!((&found["agents"][0]["name"], &found["sessions"]), (&json!("scout"), &json!(["scout"])));
    let broken = found["diagnostics"].as_array().unwrap();
    assert!(broken.iter().any(|problem| problem["file"].as_str().unwrap().contains("broken")), "{report}");
}

#[test]
fn flags_of_budgie_stay() {
    let stage = Stage::new();
    write(
        &stage.path("kiro/helper.json"),
        "{\"name\": \"helper\", \"description\": \"Sub-agent: helps\", \"prompt\": \"You help.\"}",
    );
    let config = json!({"mcpServers": {"b": {
        "command": "/opt/budgie", "args": ["-agent-timeout", "5m", format!("--agents-dir={}", stage.path("kiro").display()), "--odd"],
    }}});
    write(&stage.path("home/.kiro/settings/mcp.json"), &config.to_string());
    let report = stage.json(["import"]);
    let found = &report["found"][0];
    let dir = format!("--agents-dir={}", stage.path("kiro").display());
    assert_eq!(
        found["change"]["args"],
        json!(["serve", "--dialect", "budgie", "--agent-timeout", "5m", dir]),
        "{report}"
    );
    assert_eq!(
        (&found["agents"][0]["name"], &found["not_honoured"][0]["name"]),
        (&json!("helper"), &json!("--odd"))
    );
}

#[test]
fn what_is_not_there_yet_is_said() {
    let stage = Stage::new();
    fs::create_dir_all(stage.project().join(".ai/directives")).unwrap();
    let text = stage.volery(["import"]).ok().stdout;
    assert!(
        text.contains("kiwi: by its files") && text.contains("this version has no dialect kiwi"),
        "{text}"
    );
}

#[test]
fn an_entry_that_was_changed_already_is_not_old() {
    let stage = Stage::new();
    let entry = json!({"mcpServers": {"jarvis-subagents": {"command": "volery", "args": ["serve", "--dialect", "jarvis"]}}});
    write(&stage.project().join(".mcp.json"), &entry.to_string());
    write(&stage.project().join(".gemini/settings.json"), "{,}");
    let report = stage.json(["import"]);
    assert_eq!(report["found"], json!([]));
    assert!(report["problems"][0].as_str().unwrap().contains("line 1, column 2"), "{report}");
}
