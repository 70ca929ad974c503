//! Requirements that ACP itself cannot express, and that agents get in another way: the list of tools, the limit of turns,
//! and the effort.

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::vendor_env::{Vendor, VendorEnv};

fn has(asks: &[fake_llm::ModelRequest], tool: &str) -> bool {
    asks.iter().any(|ask| ask.tools.iter().any(|name| name == tool))
}

/// An agent with a list has none of the program's own tools but those, and the tools of its servers.
fn has_only(name: &'static str, (listed, other): (&str, &str)) {
    let vendor = Vendor::new(name);
    let Some(vendor_env) = VendorEnv::make(&vendor, "tools", vec![ScriptedReply::say("I see.").always()])
    else {
        return;
    };
    let program = env!("CARGO_BIN_EXE_volery");
    let servers = format!("mcp_servers:\n  aviary:\n    command: {program}\n    args: [serve]\n");
    let requests_with = |frontmatter: &str| {
        vendor_env.agent(&vendor, &format!("timeout: 100s\n{frontmatter}{servers}"));
        assert_eq!(vendor_env.volery(&["trust", "--yes"]).code, 0);
        let before = vendor_env.offline.server().model_requests().len();
        let run = vendor_env.run("What is there?", &[]);
        assert_eq!(run["status"], json!("succeeded"), "{run}");
        assert!(!run["warnings"].to_string().contains("tools is not honoured"), "{run}");
        vendor_env.offline.server().model_requests()[before..].to_vec()
    };
    let asks = requests_with("");
    assert!(has(&asks, listed) && has(&asks, other), "{:?}", asks[0].tools);
    let asks = requests_with(&format!("tools: [{listed}]\n"));
    assert!(has(&asks, listed) && !has(&asks, other), "{:?}", asks[0].tools);
    let is_from_server = |tool: &String| tool.contains("aviary");
    // It shows the tools of servers only to a model that looks for them.
    let shown = name == "acp-qwen" || asks.iter().flat_map(|ask| &ask.tools).any(is_from_server);
    assert!(shown, "{:?}", asks[0].tools);
}

#[test]
fn claude_has_only_the_tools_of_its_list() {
    has_only("acp-claude", ("Read", "Bash"));
}

#[test]
fn gemini_has_only_the_tools_of_its_list() {
    has_only("acp-gemini", ("read_file", "run_shell_command"));
}

#[test]
fn goose_has_only_the_tools_of_its_list() {
    has_only("acp-goose", ("tree", "shell"));
}

#[test]
fn opencode_has_only_the_tools_of_its_list() {
    has_only("acp-opencode", ("read", "bash"));
}

#[test]
fn qwen_has_only_the_tools_of_its_list() {
    has_only("acp-qwen", ("read_file", "run_shell_command"));
}

/// An agent that never comes to an end is stopped by its turns.
fn is_limited(name: &'static str, call: ScriptedReply) {
    let vendor = Vendor::new(name);
    let Some(vendor_env) = VendorEnv::make(&vendor, "turns", vec![call.always()]) else { return };
    vendor_env.agent(&vendor, "timeout: 100s\npermission: yolo\nmax_turns: 2");
    let run = vendor_env.run("Look around.", &[]);
    assert_eq!(run["outcome"]["outcome"], json!("over_budget"), "{run}");
    assert_eq!(run["outcome"]["limit"], json!("turns"), "{run}");
    assert!(
        vendor_env.offline.server().model_requests().len() <= 3,
        "{}",
        vendor_env.offline.server().model_requests().len()
    );
}

#[test]
fn turns_of_claude_are_limited() {
    is_limited("acp-claude", ScriptedReply::call("Glob", json!({"pattern": "*"})));
}

#[test]
fn turns_of_gemini_are_limited() {
    is_limited("acp-gemini", ScriptedReply::call("list_directory", json!({"dir_path": "."})));
}

#[test]
fn turns_of_goose_are_limited() {
    is_limited("acp-goose", ScriptedReply::call("tree", json!({"path": "."})));
}

/// The effort of the agent file reaches the model.
fn thinks(name: &'static str, effort: fn(&Value) -> &Value) {
    let vendor = Vendor::new(name);
    let Some(vendor_env) = VendorEnv::make(&vendor, "effort", vec![ScriptedReply::say("Hm.").always()])
    else {
        return;
    };
    for level in ["low", "high"] {
        vendor_env.agent(&vendor, &format!("timeout: 100s\neffort: {level}"));
        let before = vendor_env.offline.server().requests().len();
        let run = vendor_env.run("Think.", &[]);
        assert_eq!(run["status"], json!("succeeded"), "{run}");
        assert!(!run["warnings"].to_string().contains("not honoured"), "{run}");
        let seen = vendor_env.offline.server().requests();
        let efforts: Vec<&Value> = seen[before..].iter().map(|seen| effort(&seen.body)).collect();
        assert!(efforts.iter().any(|effort| **effort == json!(level)), "{efforts:?}");
    }
}

#[test]
fn claude_uses_the_configured_effort() {
    thinks("acp-claude", |body| &body["output_config"]["effort"]);
}

#[test]
fn codex_uses_the_configured_effort() {
    thinks("acp-codex", |body| &body["reasoning"]["effort"]);
}

#[test]
fn copilot_uses_the_configured_effort() {
    thinks("acp-copilot", |body| &body["reasoning_effort"]);
}
