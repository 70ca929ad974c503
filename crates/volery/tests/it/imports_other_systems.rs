//! `volery import`: what a set-up of another system becomes. Without `--apply` it changes nothing.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::test_env::TestEnv;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns how the changed entries start the program: the search path of tests does not have it.
fn own() -> String {
    fs::canonicalize(env!("CARGO_BIN_EXE_volery")).unwrap().display().to_string()
}

#[test]
fn sub_agents_mcp_is_found_in_a_clients_configuration() {
    let env = TestEnv::new();
    let project = env.project();
    write(&project.join("team/reviewer.md"), "# Reviewer\nYou review.\n");
    let exchange = json!({"request": {"prompt": "p"}, "response": {"stdout": "a"}});
    let session = json!({"sessionId": "s1", "agentType": "reviewer", "history": [exchange]});
    write(&project.join(".mcp-sessions/s1_reviewer.json"), &session.to_string());
    write(&project.join(".mcp-sessions/s2_reviewer.json"), "{}");
    let config = json!({"mcpServers": {"subs": {
        "command": "npx", "args": ["-y", "sub-agents-mcp"],
        "env": {"AGENTS_DIR": project.join("team"), "AGENT_TYPE": "claude", "LOG_FILE": "/x", "SECRET_X": "s3cret",
            "SESSION_ENABLED": "true", "ANTHROPIC_API_KEY": "s3cret", "OPENAI_API_KEY": "s3cret"},
    }}});
    write(&project.join(".mcp.json"), &config.to_string());
    let report = env.json(["import"]);
    let found = &report["found"][0];
    assert_eq!(report["found"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!((&found["system"], &found["available"]), (&json!("sub-agents-mcp"), &json!(true)));
    assert_eq!(
        found["entry"],
        json!({"client": "claude", "file": project.join(".mcp.json"), "name": "subs"})
    );
    assert_eq!(
        found["change"],
        json!({"command": own(), "args": ["serve", "--dialect", "sub-agents-mcp"],
            "lines": [format!("\"command\": {:?}, \"args\": [\"serve\",\"--dialect\",\"sub-agents-mcp\"]", own())]})
    );
    assert_eq!(found["to_mend"], json!([]));
    assert_eq!(
        (&found["agents"][0]["name"], &found["agents"][0]["backend"]),
        (&json!("reviewer"), &json!("claude"))
    );
    assert_eq!(found["sessions"], json!(["s1_reviewer"]));
    assert_eq!(
        found["honoured"],
        json!([
            "AGENTS_DIR",
            "AGENT_TYPE",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "SECRET_X",
            "SESSION_ENABLED"
        ])
    );
    assert_eq!(
        found["gives"],
        "the server's environment, the user's MCP servers and the user's settings and allow rules"
    );
    let not: Vec<_> = found["not_honoured"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(not, ["LOG_FILE"]);
    assert!(!report.to_string().contains("s3cret"), "a value was told");
    assert_eq!(fs::read_to_string(project.join(".mcp.json")).unwrap(), config.to_string());
    let text = env.volery(["import"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&text), @r#"
    sub-agents-mcp: subs in [stage]/project/.mcp.json (claude)
    change to   "command": "[programs]/volery", "args": ["serve","--dialect","sub-agents-mcp"]
    tools       run_agent
    agents      reviewer (claude)
    agents get  the server's environment, the user's MCP servers and the user's settings and allow rules
    sessions    s1_reviewer
    honoured    AGENTS_DIR, AGENT_TYPE, ANTHROPIC_API_KEY, OPENAI_API_KEY, SECRET_X, SESSION_ENABLED
    ignored     LOG_FILE: the log goes to standard error
    "#);
}

#[test]
fn jarvis_keeps_its_home_and_its_sessions() {
    let env = TestEnv::new();
    let home = env.path("jarvis");
    write(
        &home.join("agents/scout/agent.md"),
        "---\nname: scout\ndescription: Looks.\nsession: true\n---\nYou look.\n",
    );
    write(
        &home.join("agents/forgetful/agent.md"),
        "---\nname: forgetful\ndescription: Forgets.\nsession: false\n---\nYou forget.\n",
    );
    write(&home.join("agents/broken/agent.md"), "---\ndescription: [\n---\n");
    write(&home.join("data/sessions.json"), "{\"scout\": \"x\", \"forgetful\": \"y\"}");
    let server = home.join("dist/mcp/subagent-server.js");
    let entry = format!("[mcp_servers.jarvis-subagents]\ncommand = \"node\"\nargs = [{server:?}]\n");
    write(&env.path("home/.codex/config.toml"), &entry);
    let report = env.json(["import", "--from", "jarvis"]);
    let found = &report["found"][0];
    assert_eq!(found["entry"]["client"], "codex", "{report}");
    assert_eq!(found["change"]["env"], json!({"JARVIS_HOME": home}));
    assert_eq!(
        found["change"]["lines"],
        json!([
            format!("command = {:?}", own()),
            "args = [\"serve\",\"--dialect\",\"jarvis\"]",
            format!("and in env: JARVIS_HOME = {home:?}"),
        ])
    );
    assert_eq!((&found["agents"][1]["name"], &found["sessions"]), (&json!("scout"), &json!(["scout"])));
    let broken = found["diagnostics"].as_array().unwrap();
    assert!(broken.iter().any(|problem| problem["file"].as_str().unwrap().contains("broken")), "{report}");
}

#[test]
fn flags_of_budgie_stay() {
    let env = TestEnv::new();
    write(
        &env.path("kiro/helper.json"),
        "{\"name\": \"helper\", \"description\": \"Sub-agent: helps\", \"prompt\": \"You help.\"}",
    );
    let config = json!({"mcpServers": {"b": {
        "command": "/opt/budgie", "args": ["-agent-timeout", "5m", format!("--agents-dir={}", env.path("kiro").display()), "--odd"],
    }}});
    write(&env.path("home/.kiro/settings/mcp.json"), &config.to_string());
    write(&env.path("home/.kiro/sub-agents/sessions/0000-uuid/x"), "");
    let report = env.json(["import"]);
    let found = &report["found"][0];
    assert_eq!((&found["sessions"], &found["to_mend"]), (&json!([]), &json!([])), "{report}");
    let dir = format!("--agents-dir={}", env.path("kiro").display());
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
fn a_system_without_a_dialect_is_reported() {
    let env = TestEnv::new();
    fs::create_dir_all(env.project().join(".ai/directives")).unwrap();
    let text = env.volery(["import"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&text), @"
    kiwi: by its files; no client's configuration starts it
    not yet     this version has no dialect kiwi
    note        volery runs directives (volery run NAME), but has no dialect kiwi yet: leave the entry as it is
    ");
}

#[test]
fn an_entry_that_was_changed_already_is_not_old() {
    let env = TestEnv::new();
    let entry = json!({"mcpServers": {"jarvis-subagents": {"command": "volery", "args": ["serve", "--dialect", "jarvis"]}}});
    write(&env.project().join(".mcp.json"), &entry.to_string());
    write(&env.project().join(".gemini/settings.json"), "{,}");
    let report = env.json(["import"]);
    assert_eq!(report["found"], json!([]));
    insta::assert_snapshot!(env.masked_texts(&report["problems"]), @"[stage]/project/.gemini/settings.json: line 1, column 2: a key in double quotes was expected");
}

/// Writes a file and returns the one mapping that is found.
fn only(env: &TestEnv, path: &Path, text: &str) -> serde_json::Value {
    write(path, text);
    let report = env.json(["import"]);
    assert_eq!(report["found"].as_array().unwrap().len(), 1, "{report}");
    report["found"][0].clone()
}

#[test]
fn jarvis_is_found_where_its_design_registers_it() {
    let env = TestEnv::new();
    let config = json!({"mcpServers": {"jarvis-subagents":
        {"command": "node", "args": ["dist/mcp/subagent-server.js"]}}});
    write(&env.project().join("dist/mcp/subagent-server.js"), "");
    let found = only(&env, &env.project().join(".claude/settings.json"), &config.to_string());
    assert_eq!(
        found["entry"],
        json!({"client": "claude", "file": env.project().join(".claude/settings.json"), "name": "jarvis-subagents"})
    );
    insta::assert_snapshot!(env.masked_texts(&found["to_mend"][0]["why"]), @"the client reads no servers from this file: put the changed entry into .mcp.json");
    // Also where the home is the project: without it, agents with servers wait for `volery trust`.
    assert_eq!(found["change"]["env"], json!({"JARVIS_HOME": env.project()}));
}

#[test]
fn budgie_is_found_in_the_orchestrators_agent_file() {
    let env = TestEnv::new();
    let agent = json!({
        "name": "orchestrator",
        "mcpServers": {"kiro-subagents": {"command": "/path/to/budgie", "args": [], "type": "stdio"}},
        "tools": ["@kiro-subagents"],
    });
    let file = env.path("home/.kiro/agents/orchestrator.json");
    let found = only(&env, &file, &agent.to_string());
    assert_eq!((&found["system"], &found["entry"]["client"]), (&json!("budgie"), &json!("kiro")));
    assert_eq!(found["entry"]["file"], json!(file));
    assert_eq!(found["change"]["args"], json!(["serve", "--dialect", "budgie"]));
}

#[test]
fn powerspawn_is_found_as_its_document_sets_it_up() {
    let env = TestEnv::new();
    let server = json!({"command": "python", "args": ["powerspawn/mcp_server.py"],
        "env": {"PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1", "XAI_API_KEY": "k", "OPENAI_API_KEY": "k"}});
    let found =
        only(&env, &env.project().join(".mcp.json"), &json!({"mcpServers": {"agents": server}}).to_string());
    assert_eq!(
        (&found["system"], &found["change"]["args"]),
        (&json!("powerspawn"), &json!(["serve", "--dialect", "powerspawn"]))
    );
    assert_eq!(found["honoured"], json!(["OPENAI_API_KEY", "XAI_API_KEY"]));
    insta::assert_snapshot!(env.masked_texts(&found["note"]), @"api_keys.json and models.json are read in the project's root and in its folder powerspawn; IAC.md is written in the root");
    assert_eq!(found["change"]["env"], json!(null), "no file says which version it is: {found}");
    fs::remove_file(env.project().join(".mcp.json")).unwrap();
    let server =
        json!({"command": "python", "args": ["powerspawn/mcp_server.py"], "cwd": "${workspaceFolder}"});
    let config = json!({"servers": {"powerspawn": server}});
    let found = only(&env, &env.project().join(".vscode/mcp.json"), &config.to_string());
    assert_eq!(found["entry"]["client"], "vscode");
}

#[test]
fn the_version_of_powerspawn_is_seen_and_becomes_a_variable() {
    let env = TestEnv::new();
    let config = |server: serde_json::Value| json!({"mcpServers": {"agents": server}}).to_string();
    let file = env.project().join(".mcp.json");
    fs::create_dir(env.project().join("powerspawn")).unwrap();
    let script = "SERVER_VERSION = \"1.6.2\"\ndef spawn_claude(): pass\n";
    fs::write(env.project().join("powerspawn/mcp_server.py"), script).unwrap();
    let copied = config(json!({"command": "python", "args": ["powerspawn/mcp_server.py"]}));
    let found = only(&env, &file, &copied);
    assert_eq!(found["change"]["env"], json!({"POWERSPAWN_VERSION": "1.6.2"}), "{found}");
    let venv = env.path("venv");
    fs::create_dir_all(venv.join("lib/python3.12/site-packages/powerspawn-1.8.1.dist-info")).unwrap();
    let installed = config(json!({"command": venv.join("bin/powerspawn"), "args": []}));
    let found = only(&env, &file, &installed);
    assert_eq!(found["change"]["env"], json!({"POWERSPAWN_VERSION": "1.8.1"}), "{found}");
    let versioned = config(json!({
        "command": venv.join("bin/powerspawn"), "args": [], "env": {"POWERSPAWN_VERSION": "1.6"},
    }));
    let found = only(&env, &file, &versioned);
    assert_eq!((&found["change"]["env"], &found["honoured"]), (&json!(null), &json!(["POWERSPAWN_VERSION"])));
}

#[test]
fn servers_that_claude_code_keeps_for_this_project_are_found_and_those_of_others_not() {
    let env = TestEnv::new();
    let server = json!({"mcpServers": {"subs": {"command": "npx", "args": ["sub-agents-mcp"], "env": {}}}});
    let state = json!({"projects": {env.project().to_str().unwrap(): server, "/elsewhere": server}});
    let found = only(&env, &env.path("home/.claude.json"), &state.to_string());
    assert_eq!(found["entry"]["below"], json!(env.project()));
    assert_eq!(found["to_mend"][0]["name"], "AGENTS_DIR", "{found}");
}

#[test]
fn claude_desktop_is_looked_at() {
    let env = TestEnv::new();
    let server = json!({"mcpServers": {"subs": {"command": "npx", "args": ["sub-agents-mcp"]}}});
    let file = env.path("home/Library/Application Support/Claude/claude_desktop_config.json");
    assert_eq!(only(&env, &file, &server.to_string())["entry"]["client"], "claude-desktop");
}

#[test]
fn codex_as_a_server_is_a_system_too() {
    let env = TestEnv::new();
    let entry = |words: serde_json::Value| json!({"mcp": {"codex": {"type": "local", "command": words}}});
    let file = env.project().join("opencode.json");
    let words = json!(["npx", "-y", "@openai/codex", "mcp-server", "-c", "model=x"]);
    let found = only(&env, &file, &entry(words).to_string());
    assert_eq!(found["system"], "codex");
    assert_eq!(
        found["change"]["lines"],
        json!([format!("\"command\": [{:?},\"serve\",\"--dialect\",\"codex\"]", own())]),
        "opencode has one list"
    );
    assert_eq!(found["not_honoured"][0]["name"], "-c", "{found}");
    write(&file, &entry(json!(["codex", "mcp", "list"])).to_string());
    assert_eq!(env.json(["import"])["found"], json!([]));
}

#[test]
fn a_kiwi_entry_without_a_dialect_gets_no_change() {
    let env = TestEnv::new();
    let config = json!({"mcpServers": {"kiwi": {"command": "python", "args": ["-m", "kiwi_mcp.server"]}}});
    let found = only(&env, &env.project().join(".mcp.json"), &config.to_string());
    assert_eq!((&found["system"], &found["available"]), (&json!("kiwi"), &json!(false)));
    assert!(found.get("change").is_none(), "{found}");
}

#[test]
fn values_that_the_server_would_refuse_are_reported_beforehand() {
    let env = TestEnv::new();
    let project = env.project();
    fs::create_dir(project.join("team")).unwrap();
    let config = |folder: &str| {
        json!({"mcp": {"subs": {"type": "local", "command": ["npx", "sub-agents-mcp"], "environment": {
            "AGENTS_DIR": folder, "EXECUTION_TIMEOUT_MS": "abc", "AGENT_TYPE": "cursor", "AGENT_EFFORT": "high",
            "AGENT_PERMISSION": "all", "LOG_LEVEL": "warn",
        }}}})
    };
    let file = project.join("opencode.json");
    let found = only(&env, &file, &config("./team").to_string());
    let names_to_mend = |found: &serde_json::Value| -> Vec<String> {
        let entries = found["to_mend"].as_array().unwrap().iter();
        entries.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names_to_mend(&found), ["AGENT_EFFORT", "AGENT_PERMISSION"], "{found}");
    assert_eq!(found["change"]["env"], json!({"AGENTS_DIR": project.join("team")}));
    let line = format!("and in \"environment\": \"AGENTS_DIR\": {:?}", project.join("team"));
    assert_eq!(found["change"]["lines"][1], json!(line));
    assert_eq!(
        (&found["honoured"], &found["differs"][0]["name"]),
        (&json!(["AGENT_TYPE", "EXECUTION_TIMEOUT_MS", "LOG_LEVEL"]), &json!("AGENTS_DIR"))
    );
    let found = only(&env, &file, &config("/not/there").to_string());
    assert_eq!(names_to_mend(&found)[0], "AGENTS_DIR", "{found}");
    insta::assert_snapshot!(env.masked_texts(&found["to_mend"][0]["why"]), @"there is no folder /not/there");
}

#[test]
fn unset_variables_that_an_agents_servers_need_are_reported() {
    let env = TestEnv::new();
    let home = env.path("jarvis");
    let agent = "---\nname: seeker\ndescription: Seeks.\nmcp_servers:\n  - name: s\n    command: npx\n    env:\n      \
                 A: \"${NOT_THERE}\"\n      B: \"${OTHERWISE:-x}\"\n      C: \"${GIVEN}\"\n---\nYou seek.\n";
    write(&home.join("agents/seeker/agent.md"), agent);
    let config = json!({"mcpServers": {"j": {"command": "node", "args": [home.join("dist/mcp/subagent-server.js")],
        "env": {"GIVEN": "g"}}}});
    let found = only(&env, &env.project().join(".mcp.json"), &config.to_string());
    assert_eq!(found["to_mend"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["to_mend"][0]["name"], "seeker");
    let why = found["to_mend"][0]["why"].as_str().unwrap();
    assert!(why.contains("NOT_THERE") && !why.contains("OTHERWISE") && !why.contains("GIVEN"), "{why}");
}

#[test]
fn a_requested_system_that_does_not_exist_is_not_found() {
    let env = TestEnv::new();
    let refusals = ["jarvis", "sub-agents-mcp", "codex"].map(|system| {
        let output = env.volery(["import", "--from", system]).exits(5);
        assert_eq!(output.stdout, "");
        output.stderr
    });
    insta::assert_snapshot!(env.masked(&refusals.concat()), @"
    no set-up of jarvis was found here
    no set-up of sub-agents-mcp was found here
    no set-up of codex was found here
    ");
}
