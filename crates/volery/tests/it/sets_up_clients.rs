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
fn a_project_does_not_take_back_what_its_user_asked_for() {
    let stage = Stage::new();
    stage.volery(["init", "--client", "copilot", "--user"]).ok();
    let config = stage.path("home/.copilot/mcp-config.json");
    stage.volery(["init", "--undo"]).ok();
    assert!(config.exists(), "a project took back what its user asked for");
    stage.volery(["init", "--undo", "--user"]).ok();
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
        "~/.gemini/settings.json: mcp.allowed does not name volery",
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

/// A project with a file that names paths of this machine: neither the program nor the state are in the usual places.
#[test]
fn a_shared_file_with_a_path_of_this_machine_is_named() {
    let stage = Stage::new();
    let own = fs::canonicalize(env!("CARGO_BIN_EXE_volery")).unwrap();
    let said = stage.volery(["init", "--client", "claude", "--client", "vscode"]).ok();
    let project = stage.project();
    let wanted = format!(
        "warning: {}, {} is usually shared with others, and names paths of this machine: the command {}, \
         VOLERY_HOME and VOLERY_CONFIG_HOME; put volery on the PATH of everybody and write \"volery\" as the command; \
         take VOLERY_HOME and VOLERY_CONFIG_HOME out before you commit",
        project.join(".mcp.json").display(),
        project.join(".vscode/mcp.json").display(),
        own.display(),
    );
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&said.stderr).contains(&wanted), "{said:?}");
    let again = stage.json(["init", "--client", "claude"]);
    assert_eq!(again.get("warnings"), None, "nothing was written: {again}");
    let user = stage.json(["init", "--client", "claude", "--user"]);
    assert_eq!(user.get("warnings"), None, "a user's own file is not shared: {user}");
}

#[test]
fn a_shared_file_gets_the_name_where_any_build_of_the_program_is_found() {
    let stage = Stage::new();
    let bin = stage.path("bin");
    fs::create_dir(&bin).unwrap();
    fs::copy("/bin/true", bin.join("volery")).unwrap();
    let set_up = |words: &[&str]| {
        let mut command = stage.command(words);
        command.env_remove("VOLERY_CONFIG_HOME").env("PATH", &bin);
        crate::stage::said(command.arg("--json").output().unwrap()).ok().json()
    };
    set_up(&["init", "--client", "kimi"]);
    let text = fs::read_to_string(stage.project().join(".kimi-code/mcp.json")).unwrap();
    assert!(text.contains("\"command\": \"volery\""), "{text}");
    set_up(&["init", "--client", "kimi", "--user"]);
    let text = fs::read_to_string(stage.path("home/.kimi-code/mcp.json")).unwrap();
    assert!(text.contains(env!("CARGO_BIN_EXE_volery")), "a user gets the program that was started: {text}");
}

#[test]
fn a_client_for_all_projects_is_not_set_up_for_one() {
    let stage = Stage::new();
    for name in ["copilot", "goose", "cline", "windsurf", "claude-desktop"] {
        let said = stage.volery(["init", "--client", name]).exits(1);
        let advice = format!("volery init --client {name} --user");
        assert!(said.stdout.contains("left alone") && said.stdout.contains(&advice), "{said:?}");
    }
    let home: Vec<_> = fs::read_dir(stage.path("home")).unwrap().collect();
    assert!(home.is_empty(), "{home:?}");
    let said = stage.volery(["init", "--client", "goose", "--client", "cursor"]).exits(1);
    assert!(stage.project().join(".cursor/mcp.json").exists(), "{said:?}");
}

#[test]
fn clients_that_are_found_and_do_not_fit_a_project_do_not_fail_it() {
    let stage = Stage::new();
    fs::create_dir(stage.project().join(".cursor")).unwrap();
    fs::create_dir_all(stage.path("home/.codeium/windsurf")).unwrap();
    let mut command = stage.command(["init", "--dry-run", "--json"]);
    let report = crate::stage::said(command.env("PATH", stage.path("empty")).output().unwrap()).ok().json();
    assert_eq!(report["found"], json!(["cursor", "windsurf"]));
    assert_eq!(report["files"].as_array().unwrap().len(), 1, "{report}");
    let note = "windsurf has no configuration for one project; for all of them: volery init --client windsurf --user";
    assert_eq!(report["notes"][0], note);
}

#[test]
fn a_user_hears_nothing_of_projects() {
    let stage = Stage::new();
    // What a project has says nothing about the user's configuration.
    let old = json!({"mcpServers": {"jarvis-subagents": {"command": "node", "args": ["dist/mcp/subagent-server.js"]}}});
    fs::write(stage.project().join(".mcp.json"), old.to_string()).unwrap();
    fs::create_dir(stage.project().join(".claude")).unwrap();
    fs::write(stage.project().join(".claude/settings.json"), "{\"disabledMcpjsonServers\": [\"volery\"]}")
        .unwrap();
    let clients =
        ["claude", "codex", "gemini", "qwen", "kimi", "zed", "goose", "cline", "windsurf", "claude-desktop"];
    let words = |more: &[&'static str]| -> Vec<&'static str> {
        let clients = clients.iter().flat_map(|name| ["--client", name]);
        ["init", "--dialect", "jarvis"].into_iter().chain(clients).chain(more.iter().copied()).collect()
    };
    let user = stage.volery(words(&["--user", "--dry-run"])).ok();
    let report = stage.json(words(&["--user", "--dry-run"]));
    assert_eq!((report.get("project"), report.get("warnings")), (None, None), "{report}");
    for text in [&user.stderr, &report["notes"].to_string()] {
        for word in ["project", "folder", "worktree", ".mcp.json"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
    }
    let here = stage.json(words(&["--dry-run"]));
    assert_eq!(here["project"], json!(stage.project()));
    assert!(
        here["notes"].to_string().contains("folder")
            && here["warnings"].to_string().contains("disabledMcpjson")
    );
}

#[test]
fn any_other_client_gets_the_text_to_paste() {
    let stage = Stage::new();
    let before = fs::read_dir(stage.project()).unwrap().count();
    let bin = stage.path("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_volery"), bin.join("volery")).unwrap();
    let other = |words: &[&str]| {
        let mut command = stage.command(["init", "--client", "other", "--dialect", "jarvis"]);
        command.args(words).env("PATH", &bin).env("VOLERY_HOME", "/v").env_remove("VOLERY_CONFIG_HOME");
        crate::stage::said(command.output().unwrap()).ok()
    };
    insta::assert_snapshot!(other(&[]).stdout, @r#"
    {
      "mcpServers": {
        "volery": {
          "command": "volery",
          "args": ["serve", "--dialect", "jarvis"],
          "env": {
            "VOLERY_HOME": "/v"
          }
        }
      }
    }

    command: volery
    arguments: serve --dialect jarvis
    variable: VOLERY_HOME=/v
    "#);
    let paste = &other(&["--json"]).json()["paste"];
    assert_eq!(
        (&paste["command"], &paste["args"]),
        (&json!("volery"), &json!(["serve", "--dialect", "jarvis"]))
    );
    let text: serde_json::Value = serde_json::from_str(paste["json"].as_str().unwrap()).unwrap();
    assert_eq!(text["mcpServers"]["volery"]["command"], "volery");
    assert_eq!(fs::read_dir(stage.project()).unwrap().count(), before, "something was written");
    let mut command = stage.command(["init"]);
    let listed = crate::stage::said(command.env("PATH", stage.path("empty")).output().unwrap()).ok();
    assert!(listed.stderr.contains("volery init --client other"), "{listed:?}");
}
