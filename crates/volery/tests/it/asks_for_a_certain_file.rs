//! Several files define one name, or a file defines several agents: each can be requested.

use std::path::Path;

use serde_json::json;

use crate::test_env::TestEnv;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Returns the format and the description of the agent that a name means.
fn meant(env: &TestEnv, name: &str) -> (String, String) {
    let shown = env.json(["agents", "show", name]);
    let agent = if shown["agent"].is_object() { &shown["agent"] } else { &shown };
    let text = |key: &str| agent[key].as_str().unwrap_or_default().to_owned();
    (text("format"), text("description"))
}

fn pair(format: &str, description: &str) -> (String, String) {
    (format.to_owned(), description.to_owned())
}

#[test]
fn a_format_before_the_name_asks_for_its_file() {
    let env = TestEnv::new();
    let markdown = |origin: &str| format!("---\nname: reviewer\ndescription: of {origin}\n---\nx");
    let toml = "name = \"reviewer\"\ndescription = \"of codex\"\ndeveloper_instructions = \"x\"\n";
    write(&env.project().join(".claude/agents/r.md"), &markdown("claude"));
    write(&env.project().join(".gemini/agents/r.md"), &markdown("gemini"));
    write(&env.project().join(".codex/agents/r.toml"), toml);
    write(&env.path("home/.codex/agents/r.toml"), &toml.replace("of codex", "of the user"));
    for (name, format) in [
        ("reviewer", "claude"),
        ("claude:reviewer", "claude"),
        ("codex:reviewer", "codex"),
        ("gemini:reviewer", "gemini"),
    ] {
        assert_eq!(meant(&env, name), pair(format, &format!("of {format}")), "{name}");
    }
    let refused = env.volery(["run", "qwen:reviewer", "go"]).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&refused), @"
    error: there is no agent qwen:reviewer in [stage]/project
    hint: available: reviewer
    ");
    let listed = env.json(["agents"]);
    let names: Vec<&serde_json::Value> =
        listed["agents"].as_array().unwrap().iter().map(|agent| &agent["name"]).collect();
    assert!(names.contains(&&json!("reviewer")), "{listed}");
    assert!(!names.contains(&&json!("codex:reviewer")), "the list has each name once: {listed}");
}

#[test]
fn a_run_of_a_certain_file_carries_its_name() {
    let env = TestEnv::new();
    let text = "---\nname: poet\ndescription: d\nbackend: rehearsal\nsteps: [{say: ours}]\n---\n";
    write(&env.project().join(".volery/agents/poet.md"), text);
    write(&env.project().join(".claude/agents/poet.md"), "---\nname: poet\ndescription: d\n---\nx");
    assert_eq!(env.volery(["run", "volery:poet", "go"]).ok().stdout, "ours\n");
    assert_eq!(env.spec(&env.only_run())["agent"], "poet", "the used file has the plain name");
    // Whether claude is installed or not, the other file is meant.
    let shown = env.json(["agents", "show", "claude:poet"]);
    assert!(shown.to_string().contains("\"claude:poet\""), "{shown}");
}

#[test]
fn the_name_of_an_agent_comes_before_a_format() {
    let env = TestEnv::new();
    let kit = env.path("home/.claude/plugins/cache/market/codex");
    write(&kit.join(".claude-plugin/plugin.json"), r#"{"name": "codex"}"#);
    write(&kit.join("agents/rescue.md"), "---\nname: rescue\ndescription: of the plug-in\n---\nx");
    let installed =
        json!({"version": 2, "plugins": {"codex@market": [{"scope": "user", "installPath": kit}]}});
    write(&env.path("home/.claude/plugins/installed_plugins.json"), &installed.to_string());
    write(&env.path("home/.claude/settings.json"), r#"{"enabledPlugins": {"codex@market": true}}"#);
    let toml = "name = \"rescue\"\ndescription = \"of codex\"\ndeveloper_instructions = \"x\"\n";
    write(&env.project().join(".codex/agents/rescue.toml"), toml);
    assert_eq!(meant(&env, "codex:rescue"), pair("claude", "of the plug-in"));
    assert_eq!(meant(&env, "claude:codex:rescue"), pair("claude", "of the plug-in"));
    assert_eq!(meant(&env, "rescue"), pair("codex", "of codex"));
}

#[test]
fn configuration_files_of_a_project_name_no_file_outside_of_it() {
    let env = TestEnv::new();
    write(&env.path("secret.txt"), "the secret");
    let config = r#"{"agent": {"leak": {"description": "d", "prompt": "{file:../secret.txt}"},
        "fine": {"description": "fine", "prompt": "{file:./p.txt} Go."}}}"#;
    write(&env.project().join("opencode.json"), config);
    write(&env.project().join("p.txt"), "You plan.\n");
    let roles = "[agents.leaky]\ndescription = \"d\"\nconfig_file = \"../../secret.txt\"\n";
    write(&env.project().join(".codex/config.toml"), roles);
    let checked = env.volery(["agents", "check"]).exits(1).stdout;
    insta::assert_snapshot!(env.masked(&checked), @"
    opencode.json: error: agent.leak.prompt: ../secret.txt is outside of the project, so it is not read
    .codex/config.toml: error: agents.leaky.config_file: .codex/../../secret.txt is outside of the project, so it is not read
    ");
    let shown = env.json(["agents", "show", "fine"]);
    assert!(shown.to_string().contains("You plan. Go."), "{shown}");
    env.volery(["agents", "show", "leak"]).exits(5);
}

#[test]
fn a_hidden_agents_servers_need_trust_too() {
    let env = TestEnv::new();
    let served = "---\nname: poet\ndescription: d\nmcp_servers: {x: {command: danger}}\n---\nx";
    write(&env.project().join(".gemini/agents/poet.md"), served);
    write(&env.project().join(".claude/agents/poet.md"), "---\nname: poet\ndescription: d\n---\nx");
    env.volery(["trust", "--yes"]).ok();
    assert_eq!(env.json(["trust", "--list"])["projects"][0]["state"], json!("trusted"));
    write(&env.project().join(".gemini/agents/poet.md"), &served.replace("danger", "worse"));
    assert_eq!(env.json(["trust", "--list"])["projects"][0]["state"], json!("changed"));
}
