//! The flags of budgie: their effects and their error messages.

use std::fs;

use serde_json::json;

use super::budgie_env::{BudgieEnv, answered, call};

#[test]
fn the_tools_can_be_printed_in_the_ways_of_both_versions() {
    let budgie = BudgieEnv::new();
    for flag in ["--list-tools", "--debug", "-debug", "-list-tools=true"] {
        let output = budgie.serve_output(&[flag]).ok();
        let expected = "kiro-subagents.code-writer\n  Writes code\n\nkiro-subagents.test-agent\n  Validation and testing \
            specialist\n\nkiro-subagents.health-check\n";
        assert!(output.stdout.starts_with(expected), "{output:?}");
    }
    let prefixed = budgie.serve_output(&["--tool-prefix", "my-agents.", "--debug"]).ok();
    assert!(prefixed.stdout.starts_with("my-agents.code-writer\n"), "{prefixed:?}");
    assert_eq!(budgie.serve_output(&["--debug", "--json"]).ok().json()["tools"].as_array().unwrap().len(), 3);
}

#[test]
fn programs_folders_and_templates_can_be_named() {
    let budgie = BudgieEnv::new();
    let kiro = fs::read(budgie.env.path("bin/kiro-cli")).unwrap();
    fs::remove_file(budgie.env.path("bin/kiro-cli")).unwrap();
    let program = budgie.program("renamed", &String::from_utf8(kiro).unwrap());
    let agents = budgie.env.path("agents");
    fs::create_dir_all(&agents).unwrap();
    let agent = json!({
        "name": "own", "description": "sub-agent: elsewhere", "prompt": "You count twice.",
        "allowedTools": ["fs_read", "fs_write"],
    });
    fs::write(agents.join("own.json"), agent.to_string()).unwrap();
    let prompts = budgie.env.path("prompts");
    fs::create_dir_all(&prompts).unwrap();
    fs::write(prompts.join("own.md"), "---\nname: own\ndescription: From the prompts\n---\n").unwrap();
    fs::write(budgie.env.path("system.md"), "Be brief: {{WORKING_DIRECTORY}}").unwrap();
    let flags = [
        ("-agents-dir", agents),
        ("-prompts-dir", prompts),
        ("-system-prompt", budgie.env.path("system.md")),
        ("-kiro-binary", program),
    ];
    let flags: Vec<String> =
        flags.into_iter().flat_map(|(flag, path)| [flag.to_owned(), path.display().to_string()]).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut client = budgie.serve(&flags);
    let tools = client.request("tools/list", json!({}));
    assert_eq!(tools["tools"][0]["description"], json!("From the prompts"));
    let result = call(&mut client, "kiro-subagents.own", budgie.ask("x"));
    assert_ne!(result["isError"], json!(true), "{result}");
    let noted = &budgie.calls()[0];
    let directory = budgie.env.project().display().to_string();
    assert!(noted.contains(&format!("arg=In directory {directory}, x\n\nBe brief: {directory}")), "{noted}");
    assert!(noted.contains("You count twice."), "Kiro finds the agent, which it does not know: {noted}");
}

/// Differs from budgie: an agent of another `--agents-dir` | started by its name, which Kiro may not find | Kiro
///    2.3 or later is led to a copy with its prompt and servers; else by name
#[test]
fn an_agent_of_another_folder_is_copied_only_for_a_version_that_finds_the_copy() {
    let budgie = BudgieEnv::new();
    let agents = budgie.env.path("agents");
    fs::create_dir_all(&agents).unwrap();
    let agent = json!({
        "name": "Far Off", "description": "sub-agent: elsewhere", "prompt": "You count twice.",
        "allowedTools": ["fs_read", "fs_write"],
    });
    fs::write(agents.join("far.json"), agent.to_string()).unwrap();
    for (version, copied) in [("2.3.0", true), ("1.20.0", false), ("nightly", false)] {
        let text = include_str!("kiro-cli.sh").replace("2.3.0", version);
        budgie.program("kiro-cli", &text);
        let mut client = budgie.serve(&["--agents-dir", agents.to_str().unwrap()]);
        let result = call(&mut client, "kiro-subagents.far-off", budgie.ask("x"));
        assert_ne!(result["isError"], json!(true), "{result}");
        let noted = budgie.calls().pop().unwrap();
        assert_eq!(noted.contains("You count twice."), copied, "{version}: {noted}");
        assert_eq!(noted.contains("\narg=--agent\narg=Far Off\n"), !copied, "{version}: {noted}");
    }
}

#[test]
fn a_missing_kiro_program_is_named_in_the_error() {
    let budgie = BudgieEnv::new();
    let mut client = budgie.serve(&["--kiro-binary", "/nowhere/kiro-cli"]);
    let result = call(&mut client, "kiro-subagents.test-agent", budgie.ask("x"));
    let text = super::budgie_env::refused(&result);
    insta::assert_snapshot!(budgie.env.masked(text), @"
    agent test-agent needs /nowhere/kiro-cli, which is not on the PATH
    hint: install /nowhere/kiro-cli, or give the agent another backend
    ");
}

#[test]
fn a_server_with_invalid_settings_does_not_start() {
    let budgie = BudgieEnv::new();
    let refusal_for = |flags: &[&str]| {
        let output = budgie.serve_output(flags).exits(2);
        assert_eq!(output.stdout, "");
        budgie.env.masked(&output.stderr)
    };
    let refusals = [
        refusal_for(&["--agent-timeout", "5"]),
        refusal_for(&["--agent-timeout", "0s"]),
        refusal_for(&["--tool-prefix", "my agents"]),
        refusal_for(&["--system-prompt", "/nowhere.md"]),
        refusal_for(&["--agents-dir", "/nowhere"]),
    ];
    insta::assert_snapshot!(refusals.concat(), @r#"
    error: --agent-timeout: "5" is not a duration; write for example [span], 5m, [span] or [span]
    error: --agent-timeout: [span] leaves no time
    error: --tool-prefix: "my agents" cannot begin the name of a tool
    hint: at most 64 letters, digits, '_', '.' or '-'
    error: --system-prompt: there is no file /nowhere.md
    error: there are no sub-agents in /nowhere
    hint: an agent is a .json file with a name, and a description that begins with "sub-agent:"
    "#);
    budgie.agent(json!({"name": "health-check", "description": "sub-agent: x"}));
    insta::assert_snapshot!(refusal_for(&[]), @r#"
    [stage]/home/.kiro/agents/Code-Writer.json:1:9: warning: name: "Code Writer" is asked for as code-writer
    error: two agents would both be the tool kiro-subagents.health-check
    hint: rename one of them: upper and lower case and other characters than letters, digits, '_', '.' and '-' make no difference to a tool's name, and with --safe-names '.' and '_' are the same
    "#);
}

#[test]
fn flags_of_budgie_need_its_dialect() {
    let budgie = BudgieEnv::new();
    let refusals = [&["--agent-timeout", "5m"][..], &["-debug"], &["--dialect", "volery", "--sandbox"]]
        .map(|flags| budgie.env.volery(["serve"].iter().chain(flags)).exits(2).stderr);
    insta::assert_snapshot!(budgie.env.masked(&refusals.concat()), @"
    error: these flags are of the dialect budgie, which is not served here
    hint: add --dialect budgie, or leave them out: --agents-dir, --sessions-dir, --prompts-dir, --system-prompt, --context-summary-prompt, --kiro-binary, --tool-prefix, --agent-timeout, --sandbox-image, --safe-names, --no-retry, --list-tools, --debug, --verbose, --sandbox
    error: these flags are of the dialect budgie, which is not served here
    hint: add --dialect budgie, or leave them out: --agents-dir, --sessions-dir, --prompts-dir, --system-prompt, --context-summary-prompt, --kiro-binary, --tool-prefix, --agent-timeout, --sandbox-image, --safe-names, --no-retry, --list-tools, --debug, --verbose, --sandbox
    error: these flags are of the dialect budgie, which is not served here
    hint: add --dialect budgie, or leave them out: --agents-dir, --sessions-dir, --prompts-dir, --system-prompt, --context-summary-prompt, --kiro-binary, --tool-prefix, --agent-timeout, --sandbox-image, --safe-names, --no-retry, --list-tools, --debug, --verbose, --sandbox
    ");
    budgie.env.configure("[serve]\ndialects = [\"budgie\"]\n");
    let output = budgie.env.volery(["serve", "--debug"]).ok();
    assert!(output.stdout.contains("kiro-subagents.test-agent"), "{output:?}");
}

#[test]
fn other_dialects_can_be_served_with_it() {
    let budgie = BudgieEnv::new();
    budgie.env.rehearsal("native", "- say: hi", "");
    let mut client = budgie.serve(&["--dialect", "volery"]);
    answered(&mut client, budgie.ask("x"));
    let native = client.call("run_agent", json!({"agent": "native", "prompt": "x"}));
    assert_eq!(native["result"], json!("hi\n"));
}
