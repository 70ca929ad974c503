//! The flags of budgie: what they do, and what is said where they cannot.

use std::fs;

use serde_json::json;

use super::place::{Place, answered, call};

#[test]
fn the_tools_can_be_printed_in_the_ways_of_both_versions() {
    let place = Place::new();
    for flag in ["--list-tools", "--debug", "-debug", "-list-tools=true"] {
        let said = place.says(&[flag]).ok();
        let expected = "kiro-subagents.code-writer\n  Writes code\n\nkiro-subagents.test-agent\n  Validation and testing \
            specialist\n\nkiro-subagents.health-check\n";
        assert!(said.stdout.starts_with(expected), "{said:?}");
    }
    let prefixed = place.says(&["--tool-prefix", "my-agents.", "--debug"]).ok();
    assert!(prefixed.stdout.starts_with("my-agents.code-writer\n"), "{prefixed:?}");
    assert_eq!(place.says(&["--debug", "--json"]).ok().json()["tools"].as_array().unwrap().len(), 3);
}

#[test]
fn programs_folders_and_templates_can_be_named() {
    let place = Place::new();
    let kiro = fs::read(place.stage.path("bin/kiro-cli")).unwrap();
    fs::remove_file(place.stage.path("bin/kiro-cli")).unwrap();
    let program = place.program("renamed", &String::from_utf8(kiro).unwrap());
    let agents = place.stage.path("agents");
    fs::create_dir_all(&agents).unwrap();
    let agent = json!({
        "name": "own", "description": "sub-agent: elsewhere", "prompt": "You count twice.",
        "allowedTools": ["fs_read", "fs_write"],
    });
    fs::write(agents.join("own.json"), agent.to_string()).unwrap();
    let prompts = place.stage.path("prompts");
    fs::create_dir_all(&prompts).unwrap();
    fs::write(prompts.join("own.md"), "---\nname: own\ndescription: From the prompts\n---\n").unwrap();
    fs::write(place.stage.path("system.md"), "Be brief: {{WORKING_DIRECTORY}}").unwrap();
    let flags = [
        ("-agents-dir", agents),
        ("-prompts-dir", prompts),
        ("-system-prompt", place.stage.path("system.md")),
        ("-kiro-binary", program),
    ];
    let flags: Vec<String> =
        flags.into_iter().flat_map(|(flag, path)| [flag.to_owned(), path.display().to_string()]).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut client = place.serve(&flags);
    let tools = client.request("tools/list", json!({}));
    assert_eq!(tools["tools"][0]["description"], json!("From the prompts"));
    let result = call(&mut client, "kiro-subagents.own", place.ask("x"));
    assert_ne!(result["isError"], json!(true), "{result}");
    let noted = &place.calls()[0];
    let directory = place.stage.project().display().to_string();
    assert!(noted.contains(&format!("arg=In directory {directory}, x\n\nBe brief: {directory}")), "{noted}");
    assert!(noted.contains("You count twice."), "Kiro finds the agent, which it does not know: {noted}");
}

/// Differs from budgie: an agent of another `--agents-dir` | started by its name, which Kiro may not find | Kiro
///    2.3 or later is led to a copy with its prompt and servers; else by name
#[test]
fn an_agent_of_another_folder_is_copied_only_for_a_version_that_finds_the_copy() {
    let place = Place::new();
    let agents = place.stage.path("agents");
    fs::create_dir_all(&agents).unwrap();
    let agent = json!({
        "name": "Far Off", "description": "sub-agent: elsewhere", "prompt": "You count twice.",
        "allowedTools": ["fs_read", "fs_write"],
    });
    fs::write(agents.join("far.json"), agent.to_string()).unwrap();
    for (version, copied) in [("2.3.0", true), ("1.20.0", false), ("nightly", false)] {
        let text = include_str!("kiro-cli.sh").replace("2.3.0", version);
        place.program("kiro-cli", &text);
        let mut client = place.serve(&["--agents-dir", agents.to_str().unwrap()]);
        let result = call(&mut client, "kiro-subagents.far-off", place.ask("x"));
        assert_ne!(result["isError"], json!(true), "{result}");
        let noted = place.calls().pop().unwrap();
        assert_eq!(noted.contains("You count twice."), copied, "{version}: {noted}");
        assert_eq!(noted.contains("\narg=--agent\narg=Far Off\n"), !copied, "{version}: {noted}");
    }
}

#[test]
fn a_program_of_kiro_that_is_not_there_is_told_by_name() {
    let place = Place::new();
    let mut client = place.serve(&["--kiro-binary", "/nowhere/kiro-cli"]);
    let result = call(&mut client, "kiro-subagents.test-agent", place.ask("x"));
    let text = super::place::refused(&result);
    assert!(text.contains("/nowhere/kiro-cli"), "{text}");
}

#[test]
fn a_server_that_is_told_nonsense_does_not_start() {
    let place = Place::new();
    let says = |flags: &[&str], wanted: &str| {
        let said = place.says(flags).exits(2);
        assert!(said.stderr.contains(wanted), "{said:?}");
        assert_eq!(said.stdout, "");
    };
    says(&["--agent-timeout", "5"], "--agent-timeout: \"5\" is not a duration");
    says(&["--agent-timeout", "0s"], "leaves no time");
    says(&["--tool-prefix", "my agents"], "--tool-prefix: \"my agents\" cannot begin the name of a tool");
    says(&["--system-prompt", "/nowhere.md"], "--system-prompt: there is no file /nowhere.md");
    says(&["--agents-dir", "/nowhere"], "there are no sub-agents in /nowhere");
    place.agent(json!({"name": "health-check", "description": "sub-agent: x"}));
    says(&[], "two agents would both be the tool kiro-subagents.health-check");
}

#[test]
fn flags_of_budgie_need_its_dialect() {
    let place = Place::new();
    for flags in [&["--agent-timeout", "5m"][..], &["-debug"][..], &["--dialect", "volery", "--sandbox"][..]]
    {
        let said = place.stage.volery(["serve"].iter().chain(flags)).exits(2);
        assert!(
            said.stderr.contains("of the dialect budgie") && said.stderr.contains("--dialect budgie"),
            "{said:?}"
        );
    }
    place.stage.configure("[serve]\ndialects = [\"budgie\"]\n");
    let said = place.stage.volery(["serve", "--debug"]).ok();
    assert!(said.stdout.contains("kiro-subagents.test-agent"), "{said:?}");
}

#[test]
fn other_dialects_can_be_served_beside_it() {
    let place = Place::new();
    place.stage.rehearsal("native", "- say: hi", "");
    let mut client = place.serve(&["--dialect", "volery"]);
    answered(&mut client, place.ask("x"));
    let native = client.call("run_agent", json!({"agent": "native", "prompt": "x"}));
    assert_eq!(native["result"], json!("hi\n"));
}
