//! What the protocol of ACP agents has no words for, and they are told in another way: which tools of their own there are,
//! how many turns they may take, how hard to think.

use model_server::Reply;
use serde_json::{Value, json};

use super::place::{Place, Vendor};

fn has(asks: &[model_server::Ask], tool: &str) -> bool {
    asks.iter().any(|ask| ask.tools.iter().any(|name| name == tool))
}

/// An agent with a list has none of the program's own tools but those, and the tools of its servers.
fn has_only(name: &'static str, (listed, other): (&str, &str)) {
    let vendor = Vendor::named(name);
    let Some(place) = Place::make(&vendor, "tools", vec![Reply::say("I see.").always()]) else { return };
    let program = env!("CARGO_BIN_EXE_volery");
    let servers = format!("mcp_servers:\n  aviary:\n    command: {program}\n    args: [serve]\n");
    let asked = |frontmatter: &str| {
        place.agent(&vendor, &format!("timeout: 100s\n{frontmatter}{servers}"));
        assert_eq!(place.volery(&["trust", "--yes"]).code, 0);
        let before = place.offline.server().asks().len();
        let run = place.run("What is there?", &[]);
        assert_eq!(run["status"], json!("succeeded"), "{run}");
        assert!(!run["warnings"].to_string().contains("tools is not honoured"), "{run}");
        place.offline.server().asks()[before..].to_vec()
    };
    let asks = asked("");
    assert!(has(&asks, listed) && has(&asks, other), "{:?}", asks[0].tools);
    let asks = asked(&format!("tools: [{listed}]\n"));
    assert!(has(&asks, listed) && !has(&asks, other), "{:?}", asks[0].tools);
    let of_server = |tool: &String| tool.contains("aviary");
    // It shows the tools of servers only to a model that looks for them.
    let shown = name == "acp-qwen" || asks.iter().flat_map(|ask| &ask.tools).any(of_server);
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
fn is_limited(name: &'static str, call: Reply) {
    let vendor = Vendor::named(name);
    let Some(place) = Place::make(&vendor, "turns", vec![call.always()]) else { return };
    place.agent(&vendor, "timeout: 100s\npermission: yolo\nmax_turns: 2");
    let run = place.run("Look around.", &[]);
    assert_eq!(run["outcome"]["outcome"], json!("over_budget"), "{run}");
    assert_eq!(run["outcome"]["limit"], json!("turns"), "{run}");
    assert!(place.offline.server().asks().len() <= 3, "{}", place.offline.server().asks().len());
}

#[test]
fn turns_of_claude_are_limited() {
    is_limited("acp-claude", Reply::call("Glob", json!({"pattern": "*"})));
}

#[test]
fn turns_of_gemini_are_limited() {
    is_limited("acp-gemini", Reply::call("list_directory", json!({"dir_path": "."})));
}

#[test]
fn turns_of_goose_are_limited() {
    is_limited("acp-goose", Reply::call("tree", json!({"path": "."})));
}

/// An agent thinks as hard as it is told to.
fn thinks(name: &'static str, effort: fn(&Value) -> &Value) {
    let vendor = Vendor::named(name);
    let Some(place) = Place::make(&vendor, "effort", vec![Reply::say("Hm.").always()]) else { return };
    for wanted in ["low", "high"] {
        place.agent(&vendor, &format!("timeout: 100s\neffort: {wanted}"));
        let before = place.offline.server().seen().len();
        let run = place.run("Think.", &[]);
        assert_eq!(run["status"], json!("succeeded"), "{run}");
        assert!(!run["warnings"].to_string().contains("not honoured"), "{run}");
        let seen = place.offline.server().seen();
        let told: Vec<&Value> = seen[before..].iter().map(|seen| effort(&seen.body)).collect();
        assert!(told.iter().any(|told| **told == json!(wanted)), "{told:?}");
    }
}

#[test]
fn claude_thinks_as_hard_as_it_is_told() {
    thinks("acp-claude", |body| &body["output_config"]["effort"]);
}

#[test]
fn codex_thinks_as_hard_as_it_is_told() {
    thinks("acp-codex", |body| &body["reasoning"]["effort"]);
}

#[test]
fn copilot_thinks_as_hard_as_it_is_told() {
    thinks("acp-copilot", |body| &body["reasoning_effort"]);
}
