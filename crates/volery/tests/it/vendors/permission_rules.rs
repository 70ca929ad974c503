//! Permission rules also hold for tools of MCP servers, for delegated work, and for answers with a schema.

use std::fs;
use std::path::PathBuf;

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::vendor_env::{Vendor, VendorEnv};

/// Returns a model reply that calls the server's tool.
fn counts(vendor: &Vendor) -> ScriptedReply {
    vendor.test_facts().calls_server("aviary", "count", json!({}))
}

/// Runs an agent with a server, and returns the run and whether the server's tool was used.
fn with_server(vendor: &Vendor, permission: &str) -> Option<(Value, bool)> {
    let script = vec![counts(vendor), ScriptedReply::say("I am done.").always()];
    let vendor_env = VendorEnv::make(vendor, "rules of servers", script)?;
    let (server, mark) = vendor_env.marking_server("count", "three herons");
    let servers = format!("mcp_servers: {{aviary: {{command: '{}'}}}}", server.display());
    vendor_env.agent(vendor, &format!("timeout: 100s\nanswer_timeout: 2s\n{permission}\n{servers}"));
    assert_eq!(vendor_env.volery(&["trust", "--yes"]).code, 0);
    let run = vendor_env.run("Count.", &[]);
    Some((run, mark.exists()))
}

/// A server's tool is allowed by default and denied by its rule.
fn follows_the_rule_of_its_tool(name: &'static str) {
    let vendor = Vendor::new(name);
    let Some((run, used)) = with_server(&vendor, "") else { return };
    assert_eq!((used, &run["status"]), (true, &json!("succeeded")), "{name}: {run}");
    // Kimi Code has no rule for a single tool of a server.
    let deny = if name == "kimi" { "mcp__aviary" } else { "mcp__aviary__count" };
    let permission = format!("permission: {{level: yolo, deny: [{deny}]}}");
    let Some((run, used)) = with_server(&vendor, &permission) else { return };
    assert!(!used && run["ended"] == json!(true), "{name}: {run}");
}

/// A rule that allows commands does not allow the tool of a server.
fn needs_a_rule_of_its_own(name: &'static str) {
    let vendor = Vendor::new(name);
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

/// The delegated agent would use every tool without approval.
#[test]
fn delegation_does_not_escape_the_rules_of_an_agent() {
    for (name, tool, input) in [
        ("acp-goose", "delegate", json!({"instructions": "Make the file."})),
        ("kimi", "Agent", json!({"description": "x", "prompt": "Make the file.", "subagent_type": "coder"})),
    ] {
        let vendor = Vendor::new(name);
        for permission in ["{level: yolo, deny: [Bash]}", "{level: read-only, allow: [Task]}"] {
            let Some(vendor_env) = VendorEnv::make(&vendor, "handed on", Vec::new()) else { return };
            let made = vendor_env.env.project().join("made.txt");
            let touch = format!("touch '{}'", made.display());
            let script = [
                ScriptedReply::call(tool, input.clone()),
                vendor.executes(&touch),
                ScriptedReply::say("Done.").always(),
            ];
            vendor_env.offline.server().add(script);
            vendor_env.agent(&vendor, &format!("timeout: 60s\nanswer_timeout: 2s\npermission: {permission}"));
            let run = vendor_env.run("Have it made.", &[]);
            assert!(!made.exists() && run["ended"] == json!(true), "{name} {permission}: {run}");
        }
    }
}

/// Qwen Code's own option for a shape takes no questions.
#[test]
fn qwen_edits_nothing_outside_when_an_output_schema_is_set() {
    let vendor = Vendor::new("qwen");
    for permission in ["", "permission: safe-edit"] {
        let Some(vendor_env) = VendorEnv::make(&vendor, "shaped edits", Vec::new()) else { return };
        let project = vendor_env.env.project();
        fs::create_dir_all(project.join(".git/hooks")).unwrap();
        let denied: [PathBuf; 2] =
            [vendor_env.env.path("outside.txt"), project.join(".git/hooks/pre-commit")];
        let inside = project.join("made.txt");
        let writes = denied.iter().chain([&inside]).map(|file| vendor.writes(file, "egg"));
        vendor_env.offline.server().add(writes.chain([ScriptedReply::say("Sure: {\"ok\": true}").always()]));
        let schema = "output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]}";
        vendor_env.agent(&vendor, &format!("timeout: 100s\nanswer_timeout: 2s\n{permission}\n{schema}"));
        let run = vendor_env.run("Write some files.", &[]);
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
fn a_service_that_fails_after_a_tool_call_fails_the_run() {
    for (name, status) in [("acp-goose", 402), ("acp-kimi", 400)] {
        let vendor = Vendor::new(name);
        let Some(vendor_env) = VendorEnv::make(&vendor, "fails later", Vec::new()) else { return };
        let tool = if name == "acp-goose" { "shell" } else { "Bash" };
        let first = ScriptedReply::say("Let me look first.").and_call(tool, json!({"command": "true"}));
        vendor_env.offline.server().add([first, ScriptedReply::error(status, "not now").always()]);
        vendor_env.agent(&vendor, "timeout: 100s\npermission: yolo");
        let run = vendor_env.run("Look.", &[]);
        assert_eq!(
            (&run["status"], &run["outcome"]["kind"]),
            (&json!("failed"), &json!("model")),
            "{name}: {run}"
        );
    }
}
