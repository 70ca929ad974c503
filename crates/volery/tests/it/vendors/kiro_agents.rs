//! Agents in Kiro's own format, with its fake CLI: they are started by name, and answer into a file if they may write.

use std::fs;

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::vendor_env::{Vendor, VendorEnv};

/// Defines `worker` in Kiro's form, in the project or for the user, and asks it.
fn run_agent(
    folder: &str,
    allowed: &[&str],
    script: impl FnOnce(&VendorEnv) -> Vec<ScriptedReply>,
) -> (VendorEnv, Value) {
    run_agent_with_files(folder, allowed, script, &[])
}

/// The same, with the prompt for a summary if the agent answers nothing.
fn run_agent_with_summary(folder: &str, script: Vec<ScriptedReply>) -> (VendorEnv, Value) {
    let summary = ("_context-summary.md", "Sum up what you did.");
    run_agent_with_files(folder, &["fs_write"], |_| script, &[summary])
}

fn run_agent_with_files(
    folder: &str,
    allowed: &[&str],
    script: impl FnOnce(&VendorEnv) -> Vec<ScriptedReply>,
    templates: &[(&str, &str)],
) -> (VendorEnv, Value) {
    let vendor = Vendor::new("kiro");
    let vendor_env = VendorEnv::make(&vendor, "own agents", Vec::new()).expect("a fake CLI is always there");
    vendor_env.offline.server().add(script(&vendor_env));
    let agents = vendor_env.env.path(folder).join(".kiro/agents");
    fs::create_dir_all(&agents).unwrap();
    let agent = json!({
        "name": "worker", "description": "sub-agent: counts birds", "prompt": "You count twice.",
        "tools": ["*"], "allowedTools": allowed,
    });
    fs::write(agents.join("worker.json"), agent.to_string()).unwrap();
    let prompts = vendor_env.env.path("home/.kiro/sub-agents/prompts");
    fs::create_dir_all(&prompts).unwrap();
    let template = "Write your answer to {{RESPONSE_FILE}}, working in {{WORKING_DIRECTORY}}.";
    fs::write(prompts.join("_system.md"), template).unwrap();
    for (name, text) in templates {
        fs::write(prompts.join(name), text).unwrap();
    }
    assert_eq!(vendor_env.volery(&["trust", "--yes"]).code, 0);
    let run = vendor_env.run("Count the herons.", &[]);
    (vendor_env, run)
}

fn into_the_file(vendor_env: &VendorEnv) -> Vec<ScriptedReply> {
    // The prompt has the path of the file, but this script is written before the run exists.
    let files = vendor_env.env.path("state").join("runs/*/*/work/response.txt");
    let command = format!("for file in {}; do printf 'Three herons.' > \"$file\"; done", files.display());
    vec![ScriptedReply::call("execute_bash", json!({"command": command})), ScriptedReply::say("I wrote it.")]
}

/// Defines `worker` in the project by this file, adds MCP servers of the project, and runs it.
fn run_agent_as_written(agent: &Value, script: Vec<ScriptedReply>) -> (VendorEnv, Value) {
    let vendor = Vendor::new("kiro");
    let vendor_env = VendorEnv::make(&vendor, "own agents", script).expect("a fake CLI is always there");
    let folder = vendor_env.env.project().join(".kiro");
    fs::create_dir_all(folder.join("agents")).unwrap();
    fs::create_dir_all(folder.join("settings")).unwrap();
    fs::write(folder.join("agents/worker.json"), agent.to_string()).unwrap();
    let server =
        format!("touch '{}'; exec cat > /dev/null", vendor_env.env.path("server-was-started").display());
    let servers = json!({"mcpServers": {"strange": {"command": "/bin/sh", "args": ["-c", server]}}});
    fs::write(folder.join("settings/mcp.json"), servers.to_string()).unwrap();
    let run = vendor_env.run("Count the herons.", &[]);
    (vendor_env, run)
}

#[test]
fn the_servers_of_the_project_are_not_started_though_the_file_includes_them() {
    let mut warnings = String::new();
    for key in ["includeMcpJson", "useLegacyMcpJson"] {
        let mut agent = json!({
            "name": "worker", "description": "sub-agent: counts birds", "prompt": "You count twice.",
            "tools": ["*"], "allowedTools": ["fs_read"],
        });
        agent[key] = json!(true);
        let (vendor_env, run) = run_agent_as_written(&agent, vec![ScriptedReply::say("Three herons.")]);
        assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!("Three herons.")), "{run}");
        assert!(!vendor_env.env.path("server-was-started").exists(), "{run}");
        let seen = vendor_env.offline.server().requests();
        assert!(seen[0].body.to_string().contains("You count twice."), "it is not the agent of this name");
        let checked = vendor_env.volery(&["agents", "check"]);
        warnings += &vendor_env.env.masked(&checked.stdout);
    }
    insta::assert_snapshot!(warnings, @"
    .kiro/agents/worker.json:1:144: warning: includeMcpJson is not honoured: an agent gets only the servers of its own file
    .kiro/agents/worker.json:1:146: warning: useLegacyMcpJson is not honoured: an agent gets only the servers of its own file
    ");
}

#[test]
fn a_tool_that_the_file_does_not_allow_is_not_trusted() {
    let agent = json!({
        "name": "worker", "description": "sub-agent: counts birds", "prompt": "You count twice.",
        "tools": ["fs_read", "fs_write"], "allowedTools": ["fs_read"],
    });
    let write = json!({"command": "create", "path": "made.txt", "file_text": "x"});
    let script =
        vec![ScriptedReply::call("fs_write", write), ScriptedReply::say("It was not allowed.").always()];
    let (vendor_env, run) = run_agent_as_written(&agent, script);
    assert!(!vendor_env.env.project().join("made.txt").exists(), "{run}");
    let refusal = vendor_env.offline.server().model_requests()[1].last_result().unwrap().text.clone();
    assert_eq!(refusal, "Tool use denied: fs_write is not trusted");
    // Kiro itself applies the file.
    let checked = vendor_env.volery(&["agents", "check"]);
    assert!(!checked.stdout.contains("tools is not honoured"), "{checked:?}");
}

#[test]
fn what_a_projects_file_allows_needs_trust_and_gives_way_to_a_narrower_permission() {
    let agent = json!({
        "name": "worker", "description": "counts birds", "prompt": "You count twice.", "tools": ["*"],
        "allowedTools": ["fs_read", "execute_bash"],
        "toolsSettings": {"execute_bash": {"allowedCommands": [".*"], "deniedCommands": ["rm .*"]}},
    });
    let script = || {
        let execute = ScriptedReply::call("execute_bash", json!({"command": "touch made"}));
        vec![execute, ScriptedReply::say("Three herons.")]
    };
    let (vendor_env, run) = run_agent_as_written(&agent, script());
    let made = vendor_env.env.project().join("made");
    let refused = || {
        let refusal =
            vendor_env.offline.server().model_requests().pop().unwrap().last_result().unwrap().text.clone();
        assert_eq!(refusal, "Tool use denied: execute_bash is not trusted");
        assert!(!made.exists());
    };
    refused();
    let requests = vendor_env.offline.server().requests();
    assert!(requests[0].body.to_string().contains("You count twice."), "{run}");
    assert!(run["warnings"].to_string().contains("does not count: permission"), "{run}");
    let work = vendor_env.env.run_dir(run["run_id"].as_str().unwrap()).join("work");
    let copy = fs::read_to_string(work.join("kiro/agents/volery-worker.json")).unwrap();
    let copy: Value = serde_json::from_str(&copy).unwrap();
    assert_eq!(copy["toolsSettings"], json!({"execute_bash": {"deniedCommands": ["rm .*"]}}));
    assert_eq!(copy["allowedTools"], Value::Null);

    let trusted = vendor_env.volery(&["trust", "--yes"]);
    insta::assert_snapshot!(vendor_env.env.masked(&trusted.stderr), @r#"
    project  [stage]/project
    state    not trusted

    its files would allow:
      agent worker in .kiro/agents/worker.json
        line 1: permission allow "fs_read" "execute_bash"
          why: it would allow agent worker more than safe-edit
        line 1: toolsSettings {"execute_bash":{"allowedCommands":[".*"],"deniedCommands":["rm .*"]}}
          why: its program would allow agent worker what this setting names

    in all: 2 grants
    "#);
    vendor_env.offline.server().add(script());
    vendor_env.run("Count again.", &["--permission", "read-only"]);
    refused();
    vendor_env.offline.server().add(script());
    let run = vendor_env.run("Count again.", &[]);
    assert!(made.exists(), "{run}");
}

#[test]
fn the_answer_is_read_from_the_response_file_of_the_prompt() {
    for folder in ["project", "home"] {
        let (vendor_env, run) = run_agent(folder, &["fs_write", "execute_bash"], into_the_file);
        assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!("Three herons.")), "{run}");
        let asks = vendor_env.offline.server().model_requests();
        let project = vendor_env.env.project();
        let file = vendor_env.env.run_dir(run["run_id"].as_str().unwrap()).join("work/response.txt");
        let expected = format!(
            "In directory {0}, Count the herons.\n\nWrite your answer to {1}, working in {0}.",
            project.display(),
            file.display()
        );
        assert_eq!(asks[0].last_user_text(), expected);
        let seen = vendor_env.offline.server().requests();
        assert!(seen[0].body.to_string().contains("You count twice."), "it is not the agent of this name");
    }
}

#[test]
fn without_a_file_the_answer_is_what_was_written_without_colours_and_trailer() {
    let (_, run) =
        run_agent("project", &["fs_write"], |_| vec![ScriptedReply::say("Three herons.\n\n> And a wren.")]);
    let expected = json!("Three herons.\n\n> And a wren.");
    assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &expected), "{run}");
}

#[test]
fn a_tool_that_is_not_trusted_is_refused_and_the_run_ends() {
    let (vendor_env, run) = run_agent("project", &["fs_write"], |vendor_env| {
        let mut replies = into_the_file(vendor_env);
        replies[1] = ScriptedReply::say("It was not allowed.").always();
        replies
    });
    assert_eq!(
        (&run["status"], &run["result"].to_string().contains("not allowed")),
        (&json!("succeeded"), &true)
    );
    let requests = vendor_env.offline.server().model_requests();
    let refusal = &requests[1].last_result().unwrap().text;
    assert_eq!(refusal, "Tool use denied: execute_bash is not trusted");
}

#[test]
fn an_agent_without_an_answer_is_prompted_for_a_summary_in_project_and_home() {
    for folder in ["project", "home"] {
        let (vendor_env, run) =
            run_agent_with_summary(folder, vec![ScriptedReply::say(""), ScriptedReply::say("Three herons.")]);
        assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!("Three herons.")), "{run}");
        let asks = vendor_env.offline.server().model_requests();
        assert_eq!(asks.last().unwrap().last_user_text(), "Sum up what you did.");
        let seen = vendor_env.offline.server().requests();
        assert!(seen.iter().all(|seen| seen.body.to_string().contains("You count twice.")), "another agent");
    }
}
