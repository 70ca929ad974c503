//! Rules hold whichever way a real program goes about it: through tools of MCP servers, through agents that it hands work to,
//! and where the answer shall have a shape.

use std::fs;
use std::path::PathBuf;

use model_server::Reply;
use serde_json::{Value, json};

use super::place::{Place, Vendor};

/// Returns the model's wish to use the server's tool.
fn counts(vendor: &Vendor) -> Reply {
    match vendor.drives() {
        "codex" => Reply::say("I count.").and_call_in("mcp__aviary", "count", json!({})),
        "copilot" => Reply::call("aviary-count", json!({})),
        "goose" => Reply::call("aviary__count", json!({})),
        _ => Reply::call("mcp__aviary__count", json!({})),
    }
}

/// Runs an agent with a server, and returns the run and whether the server's tool was used.
fn with_server(vendor: &Vendor, permission: &str) -> Option<(Value, bool)> {
    let script = vec![counts(vendor), Reply::say("I am done.").always()];
    let place = Place::make(vendor, "rules of servers", script)?;
    let (server, mark) = place.marking_server("count", "three herons");
    let servers = format!("mcp_servers: {{aviary: {{command: '{}'}}}}", server.display());
    place.agent(vendor, &format!("timeout: 100s\nanswer_timeout: 2s\n{permission}\n{servers}"));
    assert_eq!(place.volery(&["trust", "--yes"]).code, 0);
    let run = place.run("Count.", &[]);
    Some((run, mark.exists()))
}

/// A server's tool is used where nothing is said about it, and denied by its rule.
fn follows_the_rule_of_its_tool(name: &'static str) {
    let vendor = Vendor::named(name);
    let Some((run, used)) = with_server(&vendor, "") else { return };
    assert_eq!((used, &run["status"]), (true, &json!("succeeded")), "{name}: {run}");
    // Kimi Code has no words for one tool of a server.
    let deny = if name == "kimi" { "mcp__aviary" } else { "mcp__aviary__count" };
    let permission = format!("permission: {{level: yolo, deny: [{deny}]}}");
    let Some((run, used)) = with_server(&vendor, &permission) else { return };
    assert!(!used && run["ended"] == json!(true), "{name}: {run}");
}

/// A rule that allows commands does not allow the tool of a server.
fn needs_a_rule_of_its_own(name: &'static str) {
    let vendor = Vendor::named(name);
    let with_rule =
        |rule: &str| with_server(&vendor, &format!("permission: {{level: safe-edit, allow: [{rule}]}}"));
    let Some((run, used)) = with_rule("Bash") else { return };
    assert!(!used, "{name}: {run}");
    let Some((run, used)) = with_rule("mcp__aviary__count") else { return };
    assert!(used, "{name}: {run}");
}

macro_rules! tools_of_servers {
    ($($check:ident: $($name:ident = $vendor:literal),*;)*) => {
        mod tools_of_servers {
            $(mod $check {
                $(#[test]
                fn $name() {
                    super::super::$check($vendor);
                })*
            })*
        }
    };
}

tools_of_servers! {
    follows_the_rule_of_its_tool: acp_codex = "acp-codex", acp_copilot = "acp-copilot", acp_goose = "acp-goose",
        acp_kimi = "acp-kimi", claude = "claude", kimi = "kimi";
    needs_a_rule_of_its_own: acp_codex = "acp-codex", acp_copilot = "acp-copilot";
}

/// What it is handed to would use every tool unasked.
#[test]
fn what_an_agent_may_not_do_no_agent_does_that_it_hands_work_to() {
    for (name, tool, input) in [
        ("acp-goose", "delegate", json!({"instructions": "Make the file."})),
        ("kimi", "Agent", json!({"description": "x", "prompt": "Make the file.", "subagent_type": "coder"})),
    ] {
        let vendor = Vendor::named(name);
        for permission in ["{level: yolo, deny: [Bash]}", "{level: read-only, allow: [Task]}"] {
            let Some(place) = Place::make(&vendor, "handed on", Vec::new()) else { return };
            let made = place.stage.project().join("made.txt");
            let touch = format!("touch '{}'", made.display());
            let script =
                [Reply::call(tool, input.clone()), vendor.executes(&touch), Reply::say("Done.").always()];
            place.offline.server().add(script);
            place.agent(&vendor, &format!("timeout: 60s\nanswer_timeout: 2s\npermission: {permission}"));
            let run = place.run("Have it made.", &[]);
            assert!(!made.exists() && run["ended"] == json!(true), "{name} {permission}: {run}");
        }
    }
}

/// Qwen Code's own option for a shape takes no questions.
#[test]
fn qwen_edits_nothing_outside_where_an_answer_shall_have_a_shape() {
    let vendor = Vendor::named("qwen");
    for permission in ["", "permission: safe-edit"] {
        let Some(place) = Place::make(&vendor, "shaped edits", Vec::new()) else { return };
        let project = place.stage.project();
        fs::create_dir_all(project.join(".git/hooks")).unwrap();
        let denied: [PathBuf; 2] = [place.stage.path("outside.txt"), project.join(".git/hooks/pre-commit")];
        let inside = project.join("made.txt");
        let writes = denied.iter().chain([&inside]).map(|file| vendor.writes(file, "egg"));
        place.offline.server().add(writes.chain([Reply::say("Sure: {\"ok\": true}").always()]));
        let schema = "output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]}";
        place.agent(&vendor, &format!("timeout: 100s\nanswer_timeout: 2s\n{permission}\n{schema}"));
        let run = place.run("Write some files.", &[]);
        assert_eq!(
            (&run["status"], &run["structured"]),
            (&json!("succeeded"), &json!({"ok": true})),
            "{run}"
        );
        assert!(inside.exists() && !denied.iter().any(|file| file.exists()), "{permission}: {run}");
    }
}

/// It ends the turn as any other when its model has no room, also after a tool.
#[test]
fn a_service_that_fails_after_a_tool_is_no_success() {
    for (name, status) in [("acp-goose", 402), ("acp-kimi", 400)] {
        let vendor = Vendor::named(name);
        let Some(place) = Place::make(&vendor, "fails later", Vec::new()) else { return };
        let tool = if name == "acp-goose" { "shell" } else { "Bash" };
        let first = Reply::say("Let me look first.").and_call(tool, json!({"command": "true"}));
        place.offline.server().add([first, Reply::error(status, "not now").always()]);
        place.agent(&vendor, "timeout: 100s\npermission: yolo");
        let run = place.run("Look.", &[]);
        assert_eq!(
            (&run["status"], &run["outcome"]["kind"]),
            (&json!("failed"), &json!("model")),
            "{name}: {run}"
        );
    }
}
