//! Agents in Kiro's own form, with its stand-in: they go by their name, and answer into a file where they may write one.

use std::fs;

use model_server::Reply;
use serde_json::{Value, json};

use super::place::{Place, Vendor};

/// Defines `worker` in Kiro's form, in the project or for the user, and asks it.
fn ask(folder: &str, allowed: &[&str], script: impl FnOnce(&Place) -> Vec<Reply>) -> (Place, Value) {
    ask_by(folder, allowed, script, &[])
}

/// The same, with what it is asked if it says nothing.
fn ask_with_summary(folder: &str, script: Vec<Reply>) -> (Place, Value) {
    let summary = ("_context-summary.md", "Sum up what you did.");
    ask_by(folder, &["fs_write"], |_| script, &[summary])
}

fn ask_by(
    folder: &str,
    allowed: &[&str],
    script: impl FnOnce(&Place) -> Vec<Reply>,
    templates: &[(&str, &str)],
) -> (Place, Value) {
    let vendor = Vendor::named("kiro");
    let place = Place::make(&vendor, "own agents", Vec::new()).expect("a stand-in is always there");
    place.offline.server().add(script(&place));
    let agents = place.stage.path(folder).join(".kiro/agents");
    fs::create_dir_all(&agents).unwrap();
    let agent = json!({
        "name": "worker", "description": "sub-agent: counts birds", "prompt": "You count twice.",
        "tools": ["*"], "allowedTools": allowed,
    });
    fs::write(agents.join("worker.json"), agent.to_string()).unwrap();
    let prompts = place.stage.path("home/.kiro/sub-agents/prompts");
    fs::create_dir_all(&prompts).unwrap();
    let template = "Write your answer to {{RESPONSE_FILE}}, working in {{WORKING_DIRECTORY}}.";
    fs::write(prompts.join("_system.md"), template).unwrap();
    for (name, text) in templates {
        fs::write(prompts.join(name), text).unwrap();
    }
    let run = place.run("Count the herons.", &[]);
    (place, run)
}

fn into_the_file(place: &Place) -> Vec<Reply> {
    // Where that is, the model is told; whoever writes its words knows only the folder of all runs.
    let files = place.stage.path("state").join("runs/*/*/work/response.txt");
    let command = format!("for file in {}; do printf 'Three herons.' > \"$file\"; done", files.display());
    vec![Reply::call("execute_bash", json!({"command": command})), Reply::say("I wrote it.")]
}

/// Defines `worker` in the project as its file says, beside servers of the project's, and asks it.
fn ask_as_written(agent: &Value, script: Vec<Reply>) -> (Place, Value) {
    let vendor = Vendor::named("kiro");
    let place = Place::make(&vendor, "own agents", script).expect("a stand-in is always there");
    let folder = place.stage.project().join(".kiro");
    fs::create_dir_all(folder.join("agents")).unwrap();
    fs::create_dir_all(folder.join("settings")).unwrap();
    fs::write(folder.join("agents/worker.json"), agent.to_string()).unwrap();
    let server =
        format!("touch '{}'; exec cat > /dev/null", place.stage.path("server-was-started").display());
    let servers = json!({"mcpServers": {"strange": {"command": "/bin/sh", "args": ["-c", server]}}});
    fs::write(folder.join("settings/mcp.json"), servers.to_string()).unwrap();
    let run = place.run("Count the herons.", &[]);
    (place, run)
}

#[test]
fn the_servers_of_the_project_are_not_started_though_the_file_includes_them() {
    for key in ["includeMcpJson", "useLegacyMcpJson"] {
        let mut agent = json!({
            "name": "worker", "description": "sub-agent: counts birds", "prompt": "You count twice.",
            "tools": ["*"], "allowedTools": ["fs_read"],
        });
        agent[key] = json!(true);
        let (place, run) = ask_as_written(&agent, vec![Reply::say("Three herons.")]);
        assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!("Three herons.")), "{run}");
        assert!(!place.stage.path("server-was-started").exists(), "{run}");
        let seen = place.offline.server().seen();
        assert!(seen[0].body.to_string().contains("You count twice."), "it is not the agent of this name");
        let checked = place.volery(&["agents", "check"]);
        assert!(checked.stdout.contains(&format!("{key} is not honoured")), "{checked:?}");
    }
}

#[test]
fn a_tool_that_the_file_does_not_allow_is_not_trusted() {
    let agent = json!({
        "name": "worker", "description": "sub-agent: counts birds", "prompt": "You count twice.",
        "tools": ["fs_read", "fs_write"], "allowedTools": ["fs_read"],
    });
    let write = json!({"command": "create", "path": "made.txt", "file_text": "x"});
    let script = vec![Reply::call("fs_write", write), Reply::say("It was not allowed.").always()];
    let (place, run) = ask_as_written(&agent, script);
    assert!(!place.stage.project().join("made.txt").exists(), "{run}");
    let refusal = place.offline.server().asks()[1].last_result().unwrap().text.clone();
    assert_eq!(refusal, "Tool use denied: fs_write is not trusted");
    // The file is Kiro's own, which does as it says.
    let checked = place.volery(&["agents", "check"]);
    assert!(!checked.stdout.contains("tools is not honoured"), "{checked:?}");
}

#[test]
fn the_answer_stands_in_the_file_that_the_agent_was_told() {
    for folder in ["project", "home"] {
        let (place, run) = ask(folder, &["fs_write", "execute_bash"], into_the_file);
        assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!("Three herons.")), "{run}");
        let asks = place.offline.server().asks();
        let project = place.stage.project();
        let file = place.stage.run_dir(run["run_id"].as_str().unwrap()).join("work/response.txt");
        let expected = format!(
            "In directory {0}, Count the herons.\n\nWrite your answer to {1}, working in {0}.",
            project.display(),
            file.display()
        );
        assert_eq!(asks[0].last_user_text(), expected);
        let seen = place.offline.server().seen();
        assert!(seen[0].body.to_string().contains("You count twice."), "it is not the agent of this name");
    }
}

#[test]
fn without_a_file_the_answer_is_what_was_written_without_colours_and_trailer() {
    let (_, run) = ask("project", &["fs_write"], |_| vec![Reply::say("Three herons.\n\n> And a wren.")]);
    let expected = json!("Three herons.\n\n> And a wren.");
    assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &expected), "{run}");
}

#[test]
fn a_tool_that_is_not_trusted_is_refused_and_the_run_ends() {
    let (place, run) = ask("project", &["fs_write"], |place| {
        let mut replies = into_the_file(place);
        replies[1] = Reply::say("It was not allowed.").always();
        replies
    });
    assert_eq!(
        (&run["status"], &run["result"].to_string().contains("not allowed")),
        (&json!("succeeded"), &true)
    );
    let told = place.offline.server().asks();
    let refusal = &told[1].last_result().unwrap().text;
    assert_eq!(refusal, "Tool use denied: execute_bash is not trusted");
}

#[test]
fn an_agent_that_says_nothing_is_asked_for_a_summary_wherever_its_file_stands() {
    for folder in ["project", "home"] {
        let (place, run) = ask_with_summary(folder, vec![Reply::say(""), Reply::say("Three herons.")]);
        assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!("Three herons.")), "{run}");
        let asks = place.offline.server().asks();
        assert_eq!(asks.last().unwrap().last_user_text(), "Sum up what you did.");
        let seen = place.offline.server().seen();
        assert!(seen.iter().all(|seen| seen.body.to_string().contains("You count twice.")), "another agent");
    }
}
