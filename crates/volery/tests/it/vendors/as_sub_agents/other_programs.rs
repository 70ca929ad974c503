//! The programs of sub-agents-mcp other than Claude Code, Gemini CLI and Codex.

use std::fs;
use std::path::Path;

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::super::vendor_env::{Vendor, VendorEnv};
use super::{Case, DONE, compare, script, user_of_claude};

/// The values of `OPENCODE_PERMISSION` that sub-agents-mcp sets.
const OPENCODE_SAFE_EDIT: &str =
    r#"{"edit":"allow","bash":"allow","task":"deny","external_directory":"deny","question":"deny"}"#;
const OPENCODE_READ_ONLY: &str =
    r#"{"edit":"deny","bash":"deny","task":"deny","external_directory":"deny","question":"deny"}"#;

/// The user has a server, denies `webfetch`, and wants a prompt for `glob`.
fn user_of_opencode(vendor_env: &VendorEnv) {
    let (server, _) = vendor_env.marking_server("count", "seven");
    let file = vendor_env.env.path("home/.config/opencode/opencode.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    settings["mcp"] = json!({"aviary": {"type": "local", "command": [server], "enabled": true}});
    settings["permission"] = json!({"webfetch": "deny", "glob": "ask"});
    fs::write(file, settings.to_string()).unwrap();
}

fn script_for_opencode(project: &Path) -> Vec<ScriptedReply> {
    let opencode = Vendor::new("opencode");
    let outside = project.parent().unwrap().join("outside.txt");
    vec![
        opencode.executes("make all"),
        opencode.writes(&project.join("written.txt"), "x"),
        opencode.writes(&outside, "x"),
        ScriptedReply::call("webfetch", json!({"url": "http://127.0.0.1:9/", "format": "text"})),
        ScriptedReply::call("glob", json!({"pattern": "*"})),
        ScriptedReply::call("aviary_count", json!({})),
        ScriptedReply::say(DONE),
    ]
}

/// Differs from sub-agents-mcp: the user's settings for opencode's agent `build` | count | do not count: the agent is Volery's own,
///    and only the user's `permission`, `tools` and `mcp` reach it
#[test]
fn at_safe_edit_opencode_executes_and_follows_its_users_rules() {
    let case = Case {
        name: "sub-agents-opencode",
        program: "opencode",
        level: None,
        theirs: &["--auto"],
        variables: &[("OPENCODE_PERMISSION", OPENCODE_SAFE_EDIT)],
        user: user_of_opencode,
        script: script_for_opencode,
    };
    let Some((uses, left, answer)) = compare(&case) else { return };
    assert_eq!(uses, [true, true, false, false, true, true], "{answer}");
    assert_eq!(left, ["made.txt", "written.txt"]);
    assert_denied(&answer, &["write", "webfetch"]);
}

#[test]
fn at_read_only_opencode_neither_edits_nor_executes() {
    let case = Case {
        name: "sub-agents-opencode-read-only",
        program: "opencode",
        level: Some("read-only"),
        theirs: &["--auto"],
        variables: &[("OPENCODE_PERMISSION", OPENCODE_READ_ONLY)],
        user: user_of_opencode,
        script: script_for_opencode,
    };
    let Some((uses, left, answer)) = compare(&case) else { return };
    assert_eq!(uses, [false, false, false, false, true, true], "{answer}");
    assert_eq!(left, Vec::<String>::new());
    assert_denied(&answer, &["bash", "write", "webfetch"]);
}

/// The notes of an answer name these tools, in this order.
fn assert_denied(answer: &Value, tools: &[&str]) {
    let notes: Vec<&str> = answer["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let denied: Vec<&str> = notes.iter().filter_map(|note| note.strip_prefix("denied: ")).collect();
    let mut denied_tools: Vec<&str> =
        denied.iter().filter_map(|note| note.split(['(', ':']).next()).collect();
    // A tool has a note for each command or file.
    denied_tools.dedup();
    assert_eq!(denied_tools, tools, "{answer}");
    assert!(!notes.iter().any(|note| note.starts_with("withheld: ")), "{answer}");
}

/// Claude Code with the service of another vendor, at both levels.
fn by_claude(program: &'static str, names: [&str; 2]) {
    let modes = [(None, "acceptEdits"), (Some("read-only"), "plan")];
    let expected = [
        (vec![true, true, false, true, true, true], vec!["made.txt", "touched.txt", "written.txt"]),
        (vec![true, true, false, false, false, false], vec!["made.txt"]),
    ];
    for ((name, (level, mode)), expected) in names.into_iter().zip(modes).zip(expected) {
        let theirs = ["--permission-mode", mode, "--system-prompt", "Do as you are told."];
        let case =
            Case { name, program, level, theirs: &theirs, variables: &[], user: user_of_claude, script };
        let Some((uses, left, answer)) = compare(&case) else { return };
        assert_eq!(
            (uses, left),
            (expected.0, expected.1.into_iter().map(ToOwned::to_owned).collect()),
            "{answer}"
        );
        assert!(answer["notes"][0].as_str().unwrap().starts_with("denied: "), "{answer}");
    }
}

#[test]
fn glm_does_what_claude_code_does_in_its_modes() {
    by_claude("glm", ["sub-agents-glm", "sub-agents-glm-read-only"]);
}

#[test]
fn kimi_is_claude_code_with_kimis_service() {
    by_claude("kimi", ["sub-agents-kimi", "sub-agents-kimi-read-only"]);
}

/// The user lets Cursor execute one command and write one file unasked.
fn user_of_cursor(vendor_env: &VendorEnv) {
    let folder = vendor_env.env.path("home/.cursor");
    fs::create_dir_all(&folder).unwrap();
    let rules =
        json!({"permissions": {"allow": ["Shell(make)", "Write(allowed.txt)"], "deny": ["Shell(rm)"]}});
    fs::write(folder.join("cli-config.json"), rules.to_string()).unwrap();
}

fn script_for_cursor(project: &Path) -> Vec<ScriptedReply> {
    let cursor = Vendor::new("cursor");
    vec![
        cursor.executes("make all"),
        cursor.executes("rm -f made.txt"),
        cursor.writes(&project.join("allowed.txt"), "x"),
        cursor.writes(&project.join("written.txt"), "x"),
        ScriptedReply::say(DONE),
    ]
}

#[test]
fn at_safe_edit_cursor_does_what_its_users_rules_allow() {
    let case = Case {
        name: "sub-agents-cursor",
        program: "cursor",
        level: None,
        theirs: &["--trust"],
        variables: &[],
        user: user_of_cursor,
        script: script_for_cursor,
    };
    let Some((uses, left, answer)) = compare(&case) else { return };
    assert_eq!(uses, [true, false, true, false], "{answer}");
    assert_eq!(left, ["allowed.txt", "made.txt"]);
    assert_denied(&answer, &["shell", "write"]);
}

/// Differs from sub-agents-mcp: cursor at `read-only` in a directory that it does not trust | fails: it is not started with
///    `--trust` at that level | runs
#[test]
fn at_read_only_cursor_plans_and_needs_no_trust_for_it() {
    let case = Case {
        name: "sub-agents-cursor-read-only",
        program: "cursor",
        level: Some("read-only"),
        theirs: &["--mode", "plan", "--trust"],
        variables: &[],
        user: user_of_cursor,
        script: script_for_cursor,
    };
    let Some((uses, left, answer)) = compare(&case) else { return };
    assert_eq!(uses, [false; 4], "{answer}");
    assert_eq!(left, Vec::<String>::new());
    assert_denied(&answer, &["shell", "write"]);
}

fn script_for_grok(project: &Path) -> Vec<ScriptedReply> {
    let grok = Vendor::new("grok");
    vec![
        grok.executes("cat Makefile"),
        grok.executes("make all"),
        grok.writes(&project.join("written.txt"), "x"),
        grok.writes(Path::new("/nonexistent/outside.txt"), "x"),
        ScriptedReply::say(DONE),
    ]
}

fn user_of_grok(vendor_env: &VendorEnv) {
    let folder = vendor_env.env.path("home/.cursor");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mcp.json"), json!({"mcpServers": {"aviary": {"command": "true"}}}).to_string())
        .unwrap();
}

#[test]
fn grok_has_the_sandbox_of_its_level_and_its_users_servers() {
    let at = |name, level: Option<&'static str>, sandbox: &str| {
        let theirs = ["--permission-mode", "bypassPermissions", "--sandbox", sandbox];
        compare(&Case {
            name,
            program: "grok",
            level,
            theirs: &theirs,
            variables: &[],
            user: user_of_grok,
            script: script_for_grok,
        })
    };
    let Some((uses, left, answer)) = at("sub-agents-grok", None, "workspace") else { return };
    assert_eq!(uses, [true, true, true, false], "{answer}");
    assert_eq!(left, ["made.txt", "written.txt"]);
    assert_denied(&answer, &["search_replace"]);
    let Some((uses, left, answer)) = at("sub-agents-grok-read-only", Some("read-only"), "read-only") else {
        return;
    };
    // The sandbox allows temporary folders, and the test environment is in one of them.
    assert_eq!(uses, [true, true, true, false], "{answer}");
    assert_eq!(left, ["made.txt", "written.txt"]);
    assert_denied(&answer, &["search_replace"]);
}

/// Differs from sub-agents-mcp: grok in a project that defines MCP servers | has the project's servers and the user's | has neither:
///    it cannot be given the user's alone; `notes` in the answer names the file
#[test]
fn grok_has_no_servers_where_a_project_defines_some() {
    let Some(vendor_env) = VendorEnv::make_for(
        &["grok"],
        "sub-agents-grok-servers",
        vec![ScriptedReply::say(DONE), ScriptedReply::say(DONE)],
    ) else {
        return;
    };
    user_of_grok(&vendor_env);
    let offered = |request: &Value| {
        let tools = request["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().any(|tool| tool["function"]["name"] == "use_tool")
    };
    let mut client = super::serve(&vendor_env, "grok", None);
    let answer = super::ask(&vendor_env, &mut client);
    assert!(offered(&vendor_env.offline.server().requests().last().unwrap().body), "{answer}");
    assert_eq!(answer.get("notes"), None, "{answer}");
    let file = vendor_env.env.project().join(".mcp.json");
    fs::write(&file, json!({"mcpServers": {"theirs": {"command": "true"}}}).to_string()).unwrap();
    let answer = super::ask(&vendor_env, &mut client);
    assert!(!offered(&vendor_env.offline.server().requests().last().unwrap().body), "{answer}");
    insta::assert_snapshot!(vendor_env.env.masked_texts(&answer["notes"]), @"withheld: the user's MCP servers: [stage]/project/.mcp.json defines servers too, and grok cannot be given the user's alone");
}
