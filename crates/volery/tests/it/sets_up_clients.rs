//! `volery init` from the outside: what it finds, writes, shows and takes back.

use std::fs;

use serde_json::json;

use crate::stage::Stage;

#[test]
fn clients_that_are_found_are_only_listed_where_nobody_can_be_asked() {
    let stage = Stage::new();
    fs::create_dir(stage.project().join(".cursor")).unwrap();
    fs::write(stage.project().join("QWEN.md"), "").unwrap();
    let mut command = stage.command(["init", "--json"]);
    let said = crate::stage::said(command.env("PATH", stage.path("empty")).output().unwrap()).ok();
    assert_eq!(said.json()["found"], json!(["cursor", "qwen"]));
    assert!(!stage.project().join(".cursor/mcp.json").exists());
}

#[test]
fn a_client_is_set_up_with_this_very_program_and_taken_back() {
    let stage = Stage::new();
    let path = stage.project().join(".cursor/mcp.json");
    let said = stage.volery(["init", "--client", "cursor", "--dialect", "jarvis"]).ok();
    assert!(said.stdout.contains("+      \"command\":"), "{said:?}");
    let entry: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let entry = &entry["mcpServers"]["volery"];
    let own = fs::canonicalize(env!("CARGO_BIN_EXE_volery")).unwrap();
    assert_eq!((&entry["command"], &entry["args"]), (&json!(own), &json!(["serve", "--dialect", "jarvis"])));
    assert_eq!(entry["env"]["VOLERY_HOME"], json!(stage.path("state")));
    let again = stage.json(["init", "--client", "cursor", "--dialect", "jarvis"]);
    assert_eq!(again["files"][0]["state"], "unchanged");
    let back = stage.json(["init", "--undo"]);
    assert_eq!(back["files"][0]["state"], "removed", "{back}");
    assert!(!path.parent().unwrap().exists());
    assert_eq!(stage.json(["init", "--undo"])["files"], json!([]));
    // What was recorded stands in the state directory, and is none of the journal's business.
    stage.volery(["ps"]).ok();
}

#[test]
fn the_name_is_written_where_it_finds_this_program() {
    let stage = Stage::new();
    let bin = stage.path("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_volery"), bin.join("volery")).unwrap();
    let mut command = stage.command(["init", "--client", "kiro", "--json"]);
    crate::stage::said(command.env("PATH", bin).output().unwrap()).ok();
    let text = fs::read_to_string(stage.project().join(".kiro/settings/mcp.json")).unwrap();
    assert!(text.contains("\"command\": \"volery\""), "{text}");
}

#[test]
fn one_project_does_not_take_back_what_another_asked_for() {
    let stage = Stage::new();
    stage.volery(["init", "--client", "copilot"]).ok();
    let config = stage.path("home/.copilot/mcp-config.json");
    let other = stage.path("other");
    fs::create_dir_all(other.join(".volery")).unwrap();
    let mut command = stage.command(["init", "--undo", "--json"]);
    crate::stage::said(command.current_dir(other).output().unwrap()).ok();
    assert!(config.exists());
    stage.volery(["init", "--undo"]).ok();
    assert!(!config.exists());
}

#[test]
fn a_file_that_cannot_be_read_fails_the_command_and_stays() {
    let stage = Stage::new();
    let path = stage.project().join(".mcp.json");
    fs::write(&path, "{\n  \"mcpServers\": {\n").unwrap();
    let said = stage.volery(["init", "--client", "claude", "--client", "cursor"]).exits(1);
    assert!(said.stdout.contains(".mcp.json left alone: line 3, column 1: "), "{said:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\n  \"mcpServers\": {\n");
    assert!(!stage.project().join(".claude").exists(), "half of a client was set up");
    assert!(stage.project().join(".cursor/mcp.json").exists(), "another client had to suffer for it");
}

#[test]
fn what_forbids_the_server_is_named_and_left() {
    let stage = Stage::new();
    let settings = stage.project().join(".claude/settings.local.json");
    let bans = json!({"disabledMcpjsonServers": ["volery"], "permissions": {"deny": ["mcp__volery"]}});
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(&settings, bans.to_string()).unwrap();
    fs::create_dir_all(stage.path("home/.gemini")).unwrap();
    fs::write(stage.path("home/.gemini/settings.json"), "{\"mcp\": {\"allowed\": [\"other\"]}}").unwrap();
    let said = stage.volery(["init", "--client", "claude", "--client", "gemini"]).ok();
    for ban in [
        "settings.local.json: disabledMcpjsonServers names volery",
        "settings.local.json: permissions.deny has mcp__volery",
        "home/.gemini/settings.json: mcp.allowed does not name volery",
    ] {
        assert!(said.stderr.contains(ban), "{ban}: {said:?}");
    }
    let after: serde_json::Value = serde_json::from_str(&fs::read_to_string(&settings).unwrap()).unwrap();
    assert_eq!(after["disabledMcpjsonServers"], bans["disabledMcpjsonServers"]);
    assert_eq!(after["permissions"]["deny"], bans["permissions"]["deny"]);
}

#[test]
fn an_entry_of_the_system_that_is_stood_in_for_is_named() {
    let stage = Stage::new();
    let old = json!({"mcpServers": {"jarvis-subagents": {"command": "node", "args": ["dist/mcp/subagent-server.js"]}}});
    fs::write(stage.project().join(".mcp.json"), old.to_string()).unwrap();
    let plain = stage.json(["init", "--client", "claude", "--dry-run"]);
    assert!(!plain["notes"].to_string().contains("jarvis"), "{plain}");
    let said = stage.json(["init", "--client", "claude", "--dialect", "jarvis"]);
    let notes = said["notes"].to_string();
    assert!(notes.contains("jarvis-subagents in ") && notes.contains("volery import"), "{notes}");
    let other = stage.json(["init", "--client", "cursor", "--dialect", "jarvis", "--dry-run"]);
    assert!(!other["notes"].to_string().contains("jarvis-subagents"), "{other}");
}

#[test]
fn an_entry_that_was_changed_since_fails_the_undoing_each_time() {
    let stage = Stage::new();
    stage.volery(["init", "--client", "cursor"]).ok();
    let path = stage.project().join(".cursor/mcp.json");
    let edited =
        fs::read_to_string(&path).unwrap().replace("\"serve\"", "\"serve\", \"--tools\", \"per-agent\"");
    fs::write(&path, &edited).unwrap();
    for _ in 0..2 {
        let said = stage.volery(["init", "--undo"]).exits(1);
        assert!(said.stdout.contains("left alone: mcpServers.volery was changed since"), "{said:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), edited);
    }
}
