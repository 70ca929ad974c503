//! `--dialect sub-agents-mcp` with real programs, held against the command lines of sub-agents-mcp itself: the same program
//! of the same user with the same model, started by both, may do the same.

mod follows_advice;
mod other_programs;

use std::fs;
use std::path::Path;
use std::process::Command;

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::vendor_env::{PATIENCE, Vendor, VendorEnv};
use crate::test_env::Client;

const DONE: &str = "Done.";

/// Whether each tool call worked.
type Uses = Vec<bool>;

fn serve(vendor_env: &VendorEnv, kind: &str, level: Option<&str>) -> Client {
    let agents = vendor_env.env.path("agents");
    fs::create_dir_all(&agents).unwrap();
    fs::write(agents.join("worker.md"), "# Works\n\nDo as you are told.").unwrap();
    let mut command = vendor_env.command(&["serve", "--dialect", "sub-agents-mcp"]);
    command.env("AGENTS_DIR", agents).env("AGENT_TYPE", kind).env("LOG_LEVEL", "error");
    command.env("AVIARY_COLOUR", "blue").env("VOLERY_SLOTS", "3");
    command.envs(level.map(|level| ("AGENT_PERMISSION", level)));
    if kind == "gemini" {
        command.env("AGENT_MODEL", "gemini-2.5-flash");
    }
    Client::start(command).initialize("claude-code")
}

fn ask(vendor_env: &VendorEnv, client: &mut Client) -> Value {
    let arguments = json!({"agent": "worker", "prompt": "Work.", "cwd": vendor_env.env.project()});
    let id = client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}));
    let answer = client.answer(id, PATIENCE)["result"]["structuredContent"].clone();
    assert_eq!((&answer["status"], &answer["result"]), (&json!("success"), &json!(DONE)), "{answer}");
    answer
}

/// Returns the results of tool calls in the requests after the first `before` ones.
fn uses_since(vendor_env: &VendorEnv, before: usize) -> Uses {
    let seen = vendor_env.offline.server().requests();
    assert!(seen.len() > before, "the model was asked");
    let mut uses = Uses::new();
    collect(&seen.last().unwrap().body, &mut uses);
    uses
}

/// Texts by which programs report to the model that a tool was refused.
const REFUSALS: [&str; 5] =
    ["Rejected: ", "Permission denied", "no such tool", "rule which prevents", "unavailable tool"];

/// Finds the results of tools in a request, in the protocol of Claude, Gemini, Codex or of OpenAI's chats.
fn collect(value: &Value, uses: &mut Uses) {
    match value {
        Value::Object(fields) if fields.get("type") == Some(&json!("tool_result")) => {
            uses.push(fields.get("is_error") != Some(&json!(true)));
        }
        Value::Object(fields) if fields.contains_key("functionResponse") => {
            uses.push(fields["functionResponse"]["response"].get("error").is_none());
        }
        Value::Object(fields) if fields.get("type") == Some(&json!("function_call_output")) => {
            uses.push(fields["output"].to_string().contains("exited with code 0"));
        }
        Value::Object(fields) if fields.get("role") == Some(&json!("tool")) => {
            let content = fields["content"].to_string();
            uses.push(!REFUSALS.iter().any(|refusal| content.contains(refusal)));
        }
        Value::Object(fields) => fields.values().for_each(|value| collect(value, uses)),
        Value::Array(items) => items.iter().for_each(|item| collect(item, uses)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Lists what the agent has left in its directory, and takes it away.
fn left_behind(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut names = Vec::new();
    for path in entries.filter(|path| path.extension().is_some_and(|ending| ending == "txt")) {
        names.push(path.file_name().unwrap().to_string_lossy().into_owned());
        fs::remove_file(path).unwrap();
    }
    names.sort();
    names
}

/// The user has a server and rules that allow it, and a command.
fn user_of_claude(vendor_env: &VendorEnv) {
    let (server, _) = vendor_env.marking_server("count", "seven");
    let home = vendor_env.env.path("home");
    fs::create_dir_all(home.join(".claude")).unwrap();
    fs::write(home.join(".claude.json"), json!({"mcpServers": {"aviary": {"command": server}}}).to_string())
        .unwrap();
    let rules = json!({"permissions": {"allow": ["Bash(make:*)", "mcp__aviary"]}});
    fs::write(home.join(".claude/settings.json"), rules.to_string()).unwrap();
}

fn script(project: &Path) -> Vec<ScriptedReply> {
    let claude = Vendor::new("claude");
    vec![
        claude.executes("pwd"),
        claude.executes("make all"),
        claude.executes("python3 -c 'open(\"python.txt\", \"w\")'"),
        claude.executes("touch touched.txt"),
        claude.writes(&project.join("written.txt"), "x"),
        ScriptedReply::call("mcp__aviary__count", json!({})),
        ScriptedReply::say(DONE),
    ]
}

/// What both start.
struct Case<'a> {
    name: &'a str,
    program: &'static str,
    level: Option<&'a str>,
    /// The words by which sub-agents-mcp holds the program to the level, and the variables.
    theirs: &'a [&'a str],
    variables: &'a [(&'a str, &'a str)],
    /// The user's own settings.
    user: fn(&VendorEnv),
    script: fn(&Path) -> Vec<ScriptedReply>,
}

/// Returns the program as sub-agents-mcp starts it.
fn theirs(case: &Case<'_>, vendor_env: &VendorEnv) -> Command {
    let url = vendor_env.offline.server().url();
    match case.program {
        // The fake CLIs support only the format that Volery requests.
        "cursor" => vendor_env.fake_cli(
            "cursor-agent",
            case.theirs,
            &["--output-format", "stream-json", "-p", "Work."],
        ),
        "grok" => vendor_env.fake_cli(
            "grok",
            case.theirs,
            &["--output-format", "json", "--verbatim", "-p", "Work."],
        ),
        // sub-agents-mcp points Claude Code at another service by variables.
        "glm" | "kimi" => {
            let mut command = vendor_env.client("claude", "Work.", case.theirs);
            command.env("ANTHROPIC_BASE_URL", url).env("ANTHROPIC_API_KEY", "dummy");
            command
        }
        program => vendor_env.client(program, "Work.", case.theirs),
    }
}

/// Has both start the program, and compares what its agent could do. Returns that and the answer.
fn compare(case: &Case<'_>) -> Option<(Uses, Vec<String>, Value)> {
    // The script contains the path of the environment, so it is added after the environment exists.
    let backend = if case.program == "kimi" { "claude-kimi" } else { case.program };
    let vendor_env = VendorEnv::make_for(&[backend], case.name, Vec::new())?;
    let project = vendor_env.env.project();
    fs::write(project.join("Makefile"), "all:\n\t@env > made.txt\n").unwrap();
    (case.user)(&vendor_env);
    vendor_env.offline.server().add([(case.script)(&project), (case.script)(&project)].concat());
    let done = theirs(case, &vendor_env).envs(case.variables.iter().copied()).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let theirs = (uses_since(&vendor_env, 0), left_behind(&project));
    let before = vendor_env.offline.server().requests().len();
    let mut client = serve(&vendor_env, case.program, case.level);
    let answer = ask(&vendor_env, &mut client);
    if let Ok(made) = fs::read_to_string(project.join("made.txt")) {
        assert!(made.lines().any(|line| line == "AVIARY_COLOUR=blue"), "{made}");
        assert!(!made.contains("VOLERY_SLOTS"), "{made}");
    }
    let ours = (uses_since(&vendor_env, before), left_behind(&project));
    assert_eq!(ours, theirs, "{answer}");
    Some((ours.0, ours.1, answer))
}

fn claude<'a>(name: &'a str, level: Option<&'a str>, theirs: &'a [&'a str]) -> Case<'a> {
    Case { name, program: "claude", level, theirs, variables: &[], user: user_of_claude, script }
}

/// Differs from sub-agents-mcp: a use of a tool that is denied | nothing in the answer says so | `notes` in the answer names
///    the tool and why
#[test]
fn at_safe_edit_claude_does_what_its_users_rules_allow_and_denials_are_in_the_answer() {
    let mode = ["--permission-mode", "acceptEdits", "--append-system-prompt", "Do as you are told."];
    let Some((uses, left, answer)) = compare(&claude("sub-agents-safe-edit", None, &mode)) else { return };
    assert_eq!(uses, [true, true, false, true, true, true]);
    assert_eq!(left, ["made.txt", "touched.txt", "written.txt"]);
    let notes = answer["notes"].as_array().unwrap();
    assert_eq!(notes.len(), 2, "{answer}");
    assert!(notes[0].as_str().unwrap().starts_with("denied: Bash("), "{answer}");
    assert!(notes[1].as_str().unwrap().starts_with("to allow more, write "), "{answer}");
}

#[test]
fn at_read_only_claude_plans_with_its_users_rules() {
    let mode = ["--permission-mode", "plan", "--append-system-prompt", "Do as you are told."];
    let case = claude("sub-agents-read-only", Some("read-only"), &mode);
    let Some((uses, left, answer)) = compare(&case) else { return };
    assert_eq!(uses, [true, true, false, false, false, false]);
    assert_eq!(left, ["made.txt"]);
    // The user's rules allow the server, and Claude Code does not follow them in plan mode: they are not to blame.
    let notes: Vec<&str> = answer["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let reason = "the level read-only is the program's read-only mode (plan mode in Claude Code), which does not allow it";
    for denied in ["Bash(python3", "Bash(touch touched.txt)", "Write(", "mcp__aviary__count"] {
        let is_note = |note: &&str| {
            let rest = note.strip_prefix("denied: ").filter(|rest| rest.starts_with(denied));
            rest.is_some_and(|rest| rest.ends_with(reason))
        };
        assert_eq!(notes.iter().filter(|note| is_note(note)).count(), 1, "{denied}: {answer}");
    }
}

/// Differs from sub-agents-mcp: the servers of a project's `.mcp.json` | Claude Code starts them unasked | they are not
///    started: they are not the user's own; `notes` in the answer names them
#[test]
fn a_projects_servers_are_not_its_users_and_are_named_in_the_answer() {
    let Some(vendor_env) =
        VendorEnv::make_for(&["claude"], "sub-agents-project-servers", vec![ScriptedReply::say(DONE)])
    else {
        return;
    };
    let (project, started) = (vendor_env.env.project(), vendor_env.env.path("started"));
    let server = json!({"command": "sh", "args": ["-c", "touch \"$0\"; cat", started]});
    fs::write(project.join(".mcp.json"), json!({"mcpServers": {"theirs": server}}).to_string()).unwrap();
    let answer = ask(&vendor_env, &mut serve(&vendor_env, "claude", None));
    insta::assert_snapshot!(vendor_env.env.masked_texts(&answer["notes"]), @"withheld: the MCP servers theirs of [stage]/project/.mcp.json: a project's servers are not the user's own; claude mcp add --scope user makes one yours");
    assert!(!started.exists(), "{answer}");
    let shown = vendor_env.volery(&["show", &vendor_env.env.only_run()]).stdout;
    assert!(shown.contains("the user's MCP servers"), "{shown}");
}

/// Differs from sub-agents-mcp: a project's settings for Claude Code | all of them count, also what they allow | only what
///    they deny counts: they are not the user's own; `notes` in the answer names the file
#[test]
fn a_projects_allow_rules_do_not_count_as_its_users() {
    let command = Vendor::new("claude").executes("python3 -c 'open(\"python.txt\", \"w\")'");
    let script = vec![command, ScriptedReply::say(DONE)];
    let Some(vendor_env) = VendorEnv::make_for(&["claude"], "sub-agents-project-settings", script) else {
        return;
    };
    let project = vendor_env.env.project();
    fs::create_dir_all(project.join(".claude")).unwrap();
    let allows = json!({"permissions": {"allow": ["Bash"], "additionalDirectories": ["/"]}});
    fs::write(project.join(".claude/settings.local.json"), allows.to_string()).unwrap();
    let mut client = serve(&vendor_env, "claude", None);
    let answer = ask(&vendor_env, &mut client);
    insta::assert_snapshot!(vendor_env.env.masked_texts(&answer["notes"]), @r#"
    denied: Bash(python3 -c 'open("python.txt", "w")'): neither the level safe-edit nor the user's own rules allow it
    withheld: the settings of [stage]/project/.claude/settings.local.json, except what they deny: a project's settings are not the user's own
    to allow more, write permission = { level = "safe-edit", allow = ["Bash"] } under [agents.worker] in your configuration
    "#);
    assert_eq!(left_behind(&project), Vec::<String>::new(), "{answer}");
    // A file of servers that Claude Code can read and we cannot.
    let started = vendor_env.env.path("started");
    let server = json!({"command": "sh", "args": ["-c", "touch \"$0\"; cat", started]});
    let servers = json!({"note": "BYTE", "mcpServers": {"theirs": server}}).to_string();
    let (before, after) = servers.split_once("BYTE").unwrap();
    fs::write(project.join(".mcp.json"), [before.as_bytes(), b"\xff", after.as_bytes()].concat()).unwrap();
    let arguments = json!({"agent": "worker", "prompt": "Work.", "cwd": project});
    let id = client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}));
    let answer = client.answer(id, PATIENCE);
    insta::assert_snapshot!(vendor_env.env.masked_texts(&answer["result"]["structuredContent"]["result"]), @"failed: the agent could not be started: the claude backend cannot carry out this run: the MCP servers of [stage]/project/.mcp.json cannot be left out, because the file cannot be read: it is not valid UTF-8");
    assert!(!started.exists(), "{answer}");
}

/// The user lets Gemini CLI execute `make` unasked, and has a server that it trusts.
fn user_of_gemini(vendor_env: &VendorEnv) {
    let (server, _) = vendor_env.marking_server("count", "seven");
    let file = vendor_env.env.path("home/.gemini/settings.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    settings["tools"] = json!({"allowed": ["run_shell_command(make)"]});
    settings["mcpServers"] = json!({"aviary": {"command": server, "trust": true}});
    fs::write(file, settings.to_string()).unwrap();
}

fn script_for_gemini(project: &Path) -> Vec<ScriptedReply> {
    let gemini = Vendor::new("gemini");
    vec![
        gemini.executes("ls"),
        gemini.executes("make all"),
        gemini.writes(&project.join("written.txt"), "x"),
        ScriptedReply::call("mcp_aviary_count", json!({})),
        ScriptedReply::say(DONE),
    ]
}

fn gemini<'a>(name: &'a str, level: &'a str, theirs: &'a [&'a str]) -> Case<'a> {
    let (user, script) =
        (user_of_gemini as fn(&VendorEnv), script_for_gemini as fn(&Path) -> Vec<ScriptedReply>);
    Case { name, program: "gemini", level: Some(level), theirs, variables: &[], user, script }
}

#[test]
fn at_safe_edit_gemini_does_what_its_users_rules_allow() {
    let theirs = ["--approval-mode", "auto_edit", "--skip-trust"];
    let Some((uses, left, answer)) = compare(&gemini("sub-agents-gemini", "safe-edit", &theirs)) else {
        return;
    };
    assert_eq!(uses, [false, true, true, true]);
    assert_eq!(left, ["made.txt", "written.txt"]);
    assert!(answer["notes"][0].as_str().unwrap().starts_with("denied: run_shell_command("), "{answer}");
}

#[test]
fn at_read_only_and_at_yolo_gemini_follows_its_users_rules() {
    let theirs = ["--approval-mode", "plan", "--skip-trust"];
    let Some((uses, left, answer)) = compare(&gemini("sub-agents-gemini-plan", "read-only", &theirs)) else {
        return;
    };
    assert_eq!(uses, [false, true, false, false], "{answer}");
    assert_eq!(left, ["made.txt"]);
    let theirs = ["-y", "--skip-trust"];
    let Some((uses, left, answer)) = compare(&gemini("sub-agents-gemini-yolo", "yolo", &theirs)) else {
        return;
    };
    // The user's settings allow some commands, and so deny the others even here.
    assert_eq!(uses, [false, true, true, true], "{answer}");
    assert_eq!(left, ["made.txt", "written.txt"]);
    assert!(answer["notes"][0].as_str().unwrap().starts_with("denied: run_shell_command("), "{answer}");
}

/// The user has a server whose tools Codex may use unasked.
fn user_of_codex(vendor_env: &VendorEnv) {
    let (server, _) = vendor_env.marking_server("count", "seven");
    let file = vendor_env.env.path("home/.codex/config.toml");
    let text = fs::read_to_string(&file).unwrap();
    let server = format!(
        "[mcp_servers.aviary]\ncommand = \"{}\"\ndefault_tools_approval_mode = \"approve\"\n",
        server.display()
    );
    fs::write(file, format!("{text}{server}")).unwrap();
}

fn script_for_codex(_: &Path) -> Vec<ScriptedReply> {
    let codex = Vendor::new("codex");
    vec![
        codex.executes("touch touched.txt"),
        ScriptedReply::say("I count.").and_call_in("mcp__aviary", "count", json!({})),
        ScriptedReply::say(DONE),
    ]
}

fn codex<'a>(name: &'a str, level: &'a str, theirs: &'a [&'a str]) -> Case<'a> {
    let (user, script) =
        (user_of_codex as fn(&VendorEnv), script_for_codex as fn(&Path) -> Vec<ScriptedReply>);
    Case { name, program: "codex", level: Some(level), theirs, variables: &[], user, script }
}

#[test]
fn at_safe_edit_codex_has_its_users_servers_and_the_sandbox_of_the_level() {
    let theirs = ["-s", "workspace-write", "-c", "approval_policy=never"];
    let Some((uses, left, answer)) = compare(&codex("sub-agents-codex", "safe-edit", &theirs)) else {
        return;
    };
    assert_eq!((uses.len(), uses[0]), (2, true), "{answer}");
    assert_eq!(left, ["touched.txt"]);
    assert_eq!(answer.get("notes"), None, "the user's server may be used: {answer}");
}

#[test]
fn at_read_only_codex_writes_nothing_and_at_yolo_it_has_no_sandbox() {
    let theirs = ["-s", "read-only"];
    let Some((uses, left, answer)) = compare(&codex("sub-agents-codex-read", "read-only", &theirs)) else {
        return;
    };
    assert_eq!((uses.len(), uses[0]), (2, false), "{answer}");
    assert_eq!(left, Vec::<String>::new());
    let theirs = ["--dangerously-bypass-approvals-and-sandbox"];
    let Some((uses, left, answer)) = compare(&codex("sub-agents-codex-yolo", "yolo", &theirs)) else {
        return;
    };
    assert_eq!((uses.len(), uses[0]), (2, true), "{answer}");
    assert_eq!(left, ["touched.txt"]);
}
