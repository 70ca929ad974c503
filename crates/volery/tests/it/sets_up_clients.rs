//! `volery init` from the outside: what it finds, writes, shows and takes back.

use std::fs;

use serde_json::json;

use crate::test_env::TestEnv;

#[test]
fn clients_that_are_found_are_only_listed_without_a_terminal() {
    let env = TestEnv::new();
    fs::create_dir(env.project().join(".cursor")).unwrap();
    fs::write(env.project().join("QWEN.md"), "").unwrap();
    let mut command = env.command(["init", "--json"]);
    let output =
        crate::test_env::command_output(command.env("PATH", env.path("empty")).output().unwrap()).ok();
    assert_eq!(output.json()["found"], json!(["qwen", "cursor"]));
    assert!(!env.project().join(".cursor/mcp.json").exists());
}

#[test]
fn a_client_is_set_up_with_this_very_program_and_taken_back() {
    let env = TestEnv::new();
    let path = env.project().join(".cursor/mcp.json");
    let output = env.volery(["init", "--client", "cursor", "--dialect", "jarvis"]).ok();
    assert!(output.stdout.contains("+      \"command\":"), "{output:?}");
    let entry: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let entry = &entry["mcpServers"]["volery"];
    let own = fs::canonicalize(env!("CARGO_BIN_EXE_volery")).unwrap();
    assert_eq!((&entry["command"], &entry["args"]), (&json!(own), &json!(["serve", "--dialect", "jarvis"])));
    assert_eq!(entry["env"]["VOLERY_HOME"], json!(env.path("state")));
    let again = env.json(["init", "--client", "cursor", "--dialect", "jarvis"]);
    assert_eq!(again["files"][0]["state"], "unchanged");
    let back = env.json(["init", "--undo"]);
    assert_eq!(back["files"][0]["state"], "removed", "{back}");
    assert!(!path.parent().unwrap().exists());
    assert_eq!(env.json(["init", "--undo"])["files"], json!([]));
    // The record of the change is in the state directory, but not in the journal.
    env.volery(["ps"]).ok();
}

#[test]
fn the_name_is_written_where_it_finds_this_program() {
    let env = TestEnv::new();
    let bin = env.path("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_volery"), bin.join("volery")).unwrap();
    let mut command = env.command(["init", "--client", "kiro", "--json"]);
    crate::test_env::command_output(command.env("PATH", bin).output().unwrap()).ok();
    let text = fs::read_to_string(env.project().join(".kiro/settings/mcp.json")).unwrap();
    assert!(text.contains("\"command\": \"volery\""), "{text}");
}

#[test]
fn a_project_does_not_undo_the_setup_of_its_user() {
    let env = TestEnv::new();
    env.volery(["init", "--client", "copilot", "--user"]).ok();
    let config = env.path("home/.copilot/mcp-config.json");
    env.volery(["init", "--undo"]).ok();
    assert!(config.exists(), "a project took back what its user asked for");
    env.volery(["init", "--undo", "--user"]).ok();
    assert!(!config.exists());
}

#[test]
fn a_file_that_cannot_be_read_fails_the_command_and_stays() {
    let env = TestEnv::new();
    let path = env.project().join(".mcp.json");
    fs::write(&path, "{\n  \"mcpServers\": {\n").unwrap();
    let output = env.volery(["init", "--client", "claude", "--client", "cursor"]).exits(1);
    insta::assert_snapshot!(env.masked(&output.stdout), @r#"
    claude: .mcp.json left alone: line 3, column 1: the closing bracket was expected
    {
      "mcpServers": {
        "volery": {
          "type": "stdio",
          "command": "[programs]/volery",
          "args": ["serve"],
          "env": {
            "VOLERY_HOME": "[stage]/state",
            "VOLERY_CONFIG_HOME": "[stage]/config"
          }
        }
      }
    }
    claude: .claude/settings.local.json left alone: the other files of claude could not be changed
    --- [stage]/project/.cursor/mcp.json
    +++ [stage]/project/.cursor/mcp.json
    @@ -0,0 +1,12 @@
    +{
    +  "mcpServers": {
    +    "volery": {
    +      "command": "[programs]/volery",
    +      "args": ["serve"],
    +      "env": {
    +        "VOLERY_HOME": "[stage]/state",
    +        "VOLERY_CONFIG_HOME": "[stage]/config"
    +      }
    +    }
    +  }
    +}
    cursor: .cursor/mcp.json written
    "#);
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\n  \"mcpServers\": {\n");
    assert!(!env.project().join(".claude").exists(), "half of a client was set up");
    assert!(env.project().join(".cursor/mcp.json").exists(), "another client had to suffer for it");
}

#[test]
fn what_forbids_the_server_is_named_and_left() {
    let env = TestEnv::new();
    let settings = env.project().join(".claude/settings.local.json");
    let bans = json!({"disabledMcpjsonServers": ["volery"], "permissions": {"deny": ["mcp__volery"]}});
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(&settings, bans.to_string()).unwrap();
    fs::create_dir_all(env.path("home/.gemini")).unwrap();
    fs::write(env.path("home/.gemini/settings.json"), "{\"mcp\": {\"allowed\": [\"other\"]}}").unwrap();
    let output = env.volery(["init", "--client", "claude", "--client", "gemini"]).ok();
    insta::assert_snapshot!(env.masked(&output.stderr), @r#"
    what it was is kept in [stage]/project/.claude/settings.local.json.before-volery
    warning: [stage]/project/.claude/settings.local.json: disabledMcpjsonServers names volery; that wins over what is added, and is left as it is
    warning: [stage]/project/.claude/settings.local.json: permissions.deny has mcp__volery; that wins over what is added, and is left as it is
    warning: ~/.gemini/settings.json: mcp.allowed does not name volery; that wins over what is added, and is left as it is
    warning: [stage]/project/.mcp.json, [stage]/project/.gemini/settings.json is usually shared with others, and names paths of this machine: the command [programs]/volery, VOLERY_HOME and VOLERY_CONFIG_HOME; put volery on the PATH of everybody and write "volery" as the command; take VOLERY_HOME and VOLERY_CONFIG_HOME out before you commit
    Claude Code asks whether you trust the folder when you open it there first; claude -p does not ask
    Gemini CLI reads a project's settings in a trusted folder only
    hint: clients that run already have to be started anew; volery init --undo takes it back
    "#);
    let after: serde_json::Value = serde_json::from_str(&fs::read_to_string(&settings).unwrap()).unwrap();
    assert_eq!(after["disabledMcpjsonServers"], bans["disabledMcpjsonServers"]);
    assert_eq!(after["permissions"]["deny"], bans["permissions"]["deny"]);
}

#[test]
fn an_entry_of_the_system_that_is_stood_in_for_is_named() {
    let env = TestEnv::new();
    let old = json!({"mcpServers": {"jarvis-subagents": {"command": "node", "args": ["dist/mcp/subagent-server.js"]}}});
    fs::write(env.project().join(".mcp.json"), old.to_string()).unwrap();
    let plain = env.json(["init", "--client", "claude", "--dry-run"]);
    assert!(!plain["notes"].to_string().contains("jarvis"), "{plain}");
    let report = env.json(["init", "--client", "claude", "--dialect", "jarvis"]);
    insta::assert_snapshot!(env.masked_texts(&report["notes"]), @"
    Claude Code asks whether you trust the folder when you open it there first; claude -p does not ask
    jarvis-subagents in [stage]/project/.mcp.json still starts jarvis; volery import --apply changes that
    ");
    let other = env.json(["init", "--client", "cursor", "--dialect", "jarvis", "--dry-run"]);
    assert!(!other["notes"].to_string().contains("jarvis-subagents"), "{other}");
}

#[test]
fn an_entry_that_was_changed_since_fails_the_undoing_each_time() {
    let env = TestEnv::new();
    env.volery(["init", "--client", "cursor"]).ok();
    let path = env.project().join(".cursor/mcp.json");
    let edited =
        fs::read_to_string(&path).unwrap().replace("\"serve\"", "\"serve\", \"--tools\", \"per-agent\"");
    fs::write(&path, &edited).unwrap();
    for _ in 0..2 {
        let output = env.volery(["init", "--undo"]).exits(1);
        insta::allow_duplicates! {
            insta::assert_snapshot!(env.masked(&output.stdout), @"cursor: .cursor/mcp.json left alone: mcpServers.volery was changed since: take it out by hand, and then undo the rest");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), edited);
    }
}

/// A project with a file that names paths of this machine: neither the program nor the state are in the usual places.
#[test]
fn a_shared_file_with_a_path_of_this_machine_is_named() {
    let env = TestEnv::new();
    let output = env.volery(["init", "--client", "claude", "--client", "vscode"]).ok();
    insta::assert_snapshot!(env.masked(&output.stderr), @r#"
    warning: [stage]/project/.mcp.json, [stage]/project/.vscode/mcp.json is usually shared with others, and names paths of this machine: the command [programs]/volery, VOLERY_HOME and VOLERY_CONFIG_HOME; put volery on the PATH of everybody and write "volery" as the command; take VOLERY_HOME and VOLERY_CONFIG_HOME out before you commit
    Claude Code asks whether you trust the folder when you open it there first; claude -p does not ask
    VS Code asks whether you trust the server when it starts first
    hint: clients that run already have to be started anew; volery init --undo takes it back
    "#);
    let again = env.json(["init", "--client", "claude"]);
    assert_eq!(again.get("warnings"), None, "nothing was written: {again}");
    let user = env.json(["init", "--client", "claude", "--user"]);
    assert_eq!(user.get("warnings"), None, "a user's own file is not shared: {user}");
}

#[test]
fn a_shared_file_gets_the_name_where_any_build_of_the_program_is_found() {
    let env = TestEnv::new();
    let bin = env.path("bin");
    fs::create_dir(&bin).unwrap();
    fs::copy("/bin/true", bin.join("volery")).unwrap();
    let set_up = |words: &[&str]| {
        let mut command = env.command(words);
        command.env_remove("VOLERY_CONFIG_HOME").env("PATH", &bin);
        crate::test_env::command_output(command.arg("--json").output().unwrap()).ok().json()
    };
    set_up(&["init", "--client", "kimi"]);
    let text = fs::read_to_string(env.project().join(".kimi-code/mcp.json")).unwrap();
    assert!(text.contains("\"command\": \"volery\""), "{text}");
    set_up(&["init", "--client", "kimi", "--user"]);
    let text = fs::read_to_string(env.path("home/.kimi-code/mcp.json")).unwrap();
    assert!(text.contains(env!("CARGO_BIN_EXE_volery")), "a user gets the program that was started: {text}");
}

#[test]
fn a_client_for_all_projects_is_not_set_up_for_one() {
    let env = TestEnv::new();
    let notes = ["copilot", "goose", "cline", "windsurf", "claude-desktop"]
        .map(|name| env.volery(["init", "--client", name]).exits(1).stdout);
    insta::assert_snapshot!(env.masked(&notes.concat()), @"
    copilot: ~/.copilot/mcp-config.json left alone: copilot has no configuration for one project; for all of them: volery init --client copilot --user
    goose: ~/.config/goose/config.yaml left alone: goose has no configuration for one project; for all of them: volery init --client goose --user
    cline: ~/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json left alone: cline has no configuration for one project; for all of them: volery init --client cline --user
    windsurf: ~/.codeium/windsurf/mcp_config.json left alone: windsurf has no configuration for one project; for all of them: volery init --client windsurf --user
    claude-desktop: ~/.config/Claude/claude_desktop_config.json left alone: claude-desktop has no configuration for one project; for all of them: volery init --client claude-desktop --user
    ");
    let home: Vec<_> = fs::read_dir(env.path("home")).unwrap().collect();
    assert!(home.is_empty(), "{home:?}");
    let output = env.volery(["init", "--client", "goose", "--client", "cursor"]).exits(1);
    assert!(env.project().join(".cursor/mcp.json").exists(), "{output:?}");
}

#[test]
fn clients_that_are_found_and_do_not_fit_a_project_do_not_fail_it() {
    let env = TestEnv::new();
    fs::create_dir(env.project().join(".cursor")).unwrap();
    fs::create_dir_all(env.path("home/.codeium/windsurf")).unwrap();
    let mut command = env.command(["init", "--dry-run", "--json"]);
    let report =
        crate::test_env::command_output(command.env("PATH", env.path("empty")).output().unwrap()).ok().json();
    assert_eq!(report["found"], json!(["cursor", "windsurf"]));
    assert_eq!(report["files"].as_array().unwrap().len(), 1, "{report}");
    let note = "windsurf has no configuration for one project; for all of them: volery init --client windsurf --user";
    assert_eq!(report["notes"][0], note);
}

#[test]
fn a_user_hears_nothing_of_projects() {
    let env = TestEnv::new();
    // What a project has says nothing about the user's configuration.
    let old = json!({"mcpServers": {"jarvis-subagents": {"command": "node", "args": ["dist/mcp/subagent-server.js"]}}});
    fs::write(env.project().join(".mcp.json"), old.to_string()).unwrap();
    fs::create_dir(env.project().join(".claude")).unwrap();
    fs::write(env.project().join(".claude/settings.json"), "{\"disabledMcpjsonServers\": [\"volery\"]}")
        .unwrap();
    let clients =
        ["claude", "codex", "gemini", "qwen", "kimi", "zed", "goose", "cline", "windsurf", "claude-desktop"];
    let words = |more: &[&'static str]| -> Vec<&'static str> {
        let clients = clients.iter().flat_map(|name| ["--client", name]);
        ["init", "--dialect", "jarvis"].into_iter().chain(clients).chain(more.iter().copied()).collect()
    };
    let user = env.volery(words(&["--user", "--dry-run"])).ok();
    let report = env.json(words(&["--user", "--dry-run"]));
    assert_eq!((report.get("project"), report.get("warnings")), (None, None), "{report}");
    for text in [&user.stderr, &report["notes"].to_string()] {
        for word in ["project", "folder", "worktree", ".mcp.json"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
    }
    let here = env.json(words(&["--dry-run"]));
    assert_eq!(here["project"], json!(env.project()));
    insta::assert_snapshot!(env.masked_texts(&here["notes"]), @"
    Claude Code asks whether you trust the folder when you open it there first; claude -p does not ask
    jarvis-subagents in [stage]/project/.mcp.json still starts jarvis; volery import --apply changes that
    Codex reads a project's .codex/config.toml once you have opened it there and trusted the folder
    Gemini CLI reads a project's settings in a trusted folder only
    Qwen Code starts a project's server once you agree there: qwen mcp approve volery
    Kimi Code reads a project's .kimi-code/mcp.json once you trust the folder
    Zed starts a project's server once you trust the worktree (Restricted Mode ends)
    ");
    insta::assert_snapshot!(env.masked_texts(&here["warnings"]), @r#"
    [stage]/project/.claude/settings.json: disabledMcpjsonServers names volery; that wins over what is added, and is left as it is
    [stage]/project/.mcp.json, [stage]/project/.codex/config.toml, [stage]/project/.gemini/settings.json, [stage]/project/.qwen/settings.json, [stage]/project/.kimi-code/mcp.json, [stage]/project/.zed/settings.json is usually shared with others, and names paths of this machine: the command [programs]/volery, VOLERY_HOME and VOLERY_CONFIG_HOME; put volery on the PATH of everybody and write "volery" as the command; take VOLERY_HOME and VOLERY_CONFIG_HOME out before you commit
    "#);
}

#[test]
fn any_other_client_gets_the_text_to_paste() {
    let env = TestEnv::new();
    let before = fs::read_dir(env.project()).unwrap().count();
    let bin = env.path("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_volery"), bin.join("volery")).unwrap();
    let other = |words: &[&str]| {
        let mut command = env.command(["init", "--client", "other", "--dialect", "jarvis"]);
        command.args(words).env("PATH", &bin).env("VOLERY_HOME", "/v").env_remove("VOLERY_CONFIG_HOME");
        crate::test_env::command_output(command.output().unwrap()).ok()
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
    assert_eq!(fs::read_dir(env.project()).unwrap().count(), before, "something was written");
    let mut command = env.command(["init"]);
    let listed =
        crate::test_env::command_output(command.env("PATH", env.path("empty")).output().unwrap()).ok();
    insta::assert_snapshot!(env.masked(&listed.stderr), @"
    no client was found here
    hint: name one: volery init --client claude
    hint: any other client: volery init --client other
    ");
}
