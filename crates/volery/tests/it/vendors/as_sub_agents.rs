//! `--dialect sub-agents-mcp` with real programs, held against the command lines of sub-agents-mcp itself: the same program
//! of the same user with the same model, started by both, may do the same.

mod follows_advice;
mod others;

use std::fs;
use std::path::Path;
use std::process::Command;

use model_server::Reply;
use serde_json::{Value, json};

use super::place::{PATIENCE, Place, Vendor};
use crate::stage::Client;

const DONE: &str = "Done.";

/// What became of each use of a tool: whether it worked.
type Uses = Vec<bool>;

fn serve(place: &Place, kind: &str, level: Option<&str>) -> Client {
    let agents = place.stage.path("agents");
    fs::create_dir_all(&agents).unwrap();
    fs::write(agents.join("worker.md"), "# Works\n\nDo as you are told.").unwrap();
    let mut command = place.command(&["serve", "--dialect", "sub-agents-mcp"]);
    command.env("AGENTS_DIR", agents).env("AGENT_TYPE", kind).env("LOG_LEVEL", "error");
    command.env("AVIARY_COLOUR", "blue").env("VOLERY_SLOTS", "3");
    command.envs(level.map(|level| ("AGENT_PERMISSION", level)));
    if kind == "gemini" {
        command.env("AGENT_MODEL", "gemini-2.5-flash");
    }
    Client::start(command).initialize("claude-code")
}

fn ask(place: &Place, client: &mut Client) -> Value {
    let arguments = json!({"agent": "worker", "prompt": "Work.", "cwd": place.stage.project()});
    let id = client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}));
    let answer = client.answer(id, PATIENCE)["result"]["structuredContent"].clone();
    assert_eq!((&answer["status"], &answer["result"]), (&json!("success"), &json!(DONE)), "{answer}");
    answer
}

/// Returns what the model was told of its uses of tools since this many requests.
fn uses_since(place: &Place, before: usize) -> Uses {
    let seen = place.offline.server().seen();
    assert!(seen.len() > before, "the model was asked");
    let mut uses = Uses::new();
    collect(&seen.last().unwrap().body, &mut uses);
    uses
}

/// How programs tell the model in words that a tool was not used.
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
            uses.push(!REFUSALS.iter().any(|words| content.contains(words)));
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
fn user_of_claude(place: &Place) {
    let (server, _) = place.marking_server("count", "seven");
    let home = place.stage.path("home");
    fs::create_dir_all(home.join(".claude")).unwrap();
    fs::write(home.join(".claude.json"), json!({"mcpServers": {"aviary": {"command": server}}}).to_string())
        .unwrap();
    let rules = json!({"permissions": {"allow": ["Bash(make:*)", "mcp__aviary"]}});
    fs::write(home.join(".claude/settings.json"), rules.to_string()).unwrap();
}

fn script(project: &Path) -> Vec<Reply> {
    let claude = Vendor::named("claude");
    vec![
        claude.executes("pwd"),
        claude.executes("make all"),
        claude.executes("python3 -c 'open(\"python.txt\", \"w\")'"),
        claude.executes("touch touched.txt"),
        claude.writes(&project.join("written.txt"), "x"),
        Reply::call("mcp__aviary__count", json!({})),
        Reply::say(DONE),
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
    user: fn(&Place),
    script: fn(&Path) -> Vec<Reply>,
}

/// Returns the program as sub-agents-mcp starts it.
fn theirs(case: &Case<'_>, place: &Place) -> Command {
    let url = place.offline.server().url();
    match case.program {
        // The stand-ins speak only the format that Volery asks for.
        "cursor" => {
            place.stand_in("cursor-agent", case.theirs, &["--output-format", "stream-json", "-p", "Work."])
        }
        "grok" => {
            place.stand_in("grok", case.theirs, &["--output-format", "json", "--verbatim", "-p", "Work."])
        }
        // sub-agents-mcp points Claude Code at another service by variables.
        "glm" | "kimi" => {
            let mut command = place.client("claude", "Work.", case.theirs);
            command.env("ANTHROPIC_BASE_URL", url).env("ANTHROPIC_API_KEY", "dummy");
            command
        }
        program => place.client(program, "Work.", case.theirs),
    }
}

/// Has both start the program, and compares what its agent could do. Returns that and the answer.
fn compare(case: &Case<'_>) -> Option<(Uses, Vec<String>, Value)> {
    // The script names the place, so it comes when that is there.
    let backend = if case.program == "kimi" { "claude-kimi" } else { case.program };
    let place = Place::make_for(&[backend], case.name, Vec::new())?;
    let project = place.stage.project();
    fs::write(project.join("Makefile"), "all:\n\t@env > made.txt\n").unwrap();
    (case.user)(&place);
    place.offline.server().add([(case.script)(&project), (case.script)(&project)].concat());
    let done = theirs(case, &place).envs(case.variables.iter().copied()).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let theirs = (uses_since(&place, 0), left_behind(&project));
    let before = place.offline.server().seen().len();
    let mut client = serve(&place, case.program, case.level);
    let answer = ask(&place, &mut client);
    if let Ok(made) = fs::read_to_string(project.join("made.txt")) {
        assert!(made.lines().any(|line| line == "AVIARY_COLOUR=blue"), "{made}");
        assert!(!made.contains("VOLERY_SLOTS"), "{made}");
    }
    let ours = (uses_since(&place, before), left_behind(&project));
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
    assert!(answer["notes"].as_array().unwrap().len() >= 2, "{answer}");
}

/// Differs from sub-agents-mcp: the servers of a project's `.mcp.json` | Claude Code starts them unasked | they are not
///    started: they are not the user's own; `notes` in the answer names them
#[test]
fn a_projects_servers_are_not_its_users_and_are_named_in_the_answer() {
    let Some(place) = Place::make_for(&["claude"], "sub-agents-project-servers", vec![Reply::say(DONE)])
    else {
        return;
    };
    let (project, started) = (place.stage.project(), place.stage.path("started"));
    let server = json!({"command": "sh", "args": ["-c", "touch \"$0\"; cat", started]});
    fs::write(project.join(".mcp.json"), json!({"mcpServers": {"theirs": server}}).to_string()).unwrap();
    let answer = ask(&place, &mut serve(&place, "claude", None));
    let note = answer["notes"][0].as_str().unwrap();
    assert!(note.starts_with("withheld: the MCP servers theirs of "), "{answer}");
    assert!(!started.exists(), "{answer}");
    let shown = place.volery(&["show", &place.stage.only_run()]).stdout;
    assert!(shown.contains("the user's MCP servers"), "{shown}");
}

/// Differs from sub-agents-mcp: a project's settings for Claude Code | all of them count, also what they allow | only what
///    they deny counts: they are not the user's own; `notes` in the answer names the file
#[test]
fn what_a_projects_settings_allow_is_not_its_users_word() {
    let command = Vendor::named("claude").executes("python3 -c 'open(\"python.txt\", \"w\")'");
    let script = vec![command, Reply::say(DONE)];
    let Some(place) = Place::make_for(&["claude"], "sub-agents-project-settings", script) else { return };
    let project = place.stage.project();
    fs::create_dir_all(project.join(".claude")).unwrap();
    let allows = json!({"permissions": {"allow": ["Bash"], "additionalDirectories": ["/"]}});
    fs::write(project.join(".claude/settings.local.json"), allows.to_string()).unwrap();
    let mut client = serve(&place, "claude", None);
    let answer = ask(&place, &mut client);
    assert!(answer["notes"].to_string().contains("withheld: the settings of "), "{answer}");
    assert_eq!(left_behind(&project), Vec::<String>::new(), "{answer}");
    // A file of servers that Claude Code can read and we cannot.
    let started = place.stage.path("started");
    let server = json!({"command": "sh", "args": ["-c", "touch \"$0\"; cat", started]});
    let servers = json!({"note": "BYTE", "mcpServers": {"theirs": server}}).to_string();
    let (before, after) = servers.split_once("BYTE").unwrap();
    fs::write(project.join(".mcp.json"), [before.as_bytes(), b"\xff", after.as_bytes()].concat()).unwrap();
    let arguments = json!({"agent": "worker", "prompt": "Work.", "cwd": project});
    let id = client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}));
    let answer = client.answer(id, PATIENCE).to_string();
    assert!(answer.contains("cannot be left out, because the file cannot be read"), "{answer}");
    assert!(!started.exists(), "{answer}");
}

#[test]
fn at_safe_edit_gemini_does_what_its_users_rules_allow() {
    let user = |place: &Place| {
        let (server, _) = place.marking_server("count", "seven");
        let file = place.stage.path("home/.gemini/settings.json");
        let mut settings: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        settings["tools"] = json!({"allowed": ["run_shell_command(make)"]});
        settings["mcpServers"] = json!({"aviary": {"command": server, "trust": true}});
        fs::write(file, settings.to_string()).unwrap();
    };
    let script = |project: &Path| {
        let gemini = Vendor::named("gemini");
        vec![
            gemini.executes("ls"),
            gemini.executes("make all"),
            gemini.writes(&project.join("written.txt"), "x"),
            Reply::call("mcp_aviary_count", json!({})),
            Reply::say(DONE),
        ]
    };
    let theirs = ["--approval-mode", "auto_edit", "--skip-trust"];
    let name = "sub-agents-gemini";
    let case = Case {
        name,
        program: "gemini",
        level: Some("safe-edit"),
        theirs: &theirs,
        variables: &[],
        user,
        script,
    };
    let Some((uses, left, answer)) = compare(&case) else { return };
    assert_eq!(uses, [false, true, true, true]);
    assert_eq!(left, ["made.txt", "written.txt"]);
    assert!(answer["notes"][0].as_str().unwrap().starts_with("denied: run_shell_command("), "{answer}");
}

#[test]
fn at_safe_edit_codex_has_its_users_servers_and_the_sandbox_of_the_level() {
    let user = |place: &Place| {
        let (server, _) = place.marking_server("count", "seven");
        let file = place.stage.path("home/.codex/config.toml");
        let text = fs::read_to_string(&file).unwrap();
        let server = format!(
            "[mcp_servers.aviary]\ncommand = \"{}\"\ndefault_tools_approval_mode = \"approve\"\n",
            server.display()
        );
        fs::write(file, format!("{text}{server}")).unwrap();
    };
    let script = |_: &Path| {
        let codex = Vendor::named("codex");
        vec![
            codex.executes("touch touched.txt"),
            Reply::say("I count.").and_call_in("mcp__aviary", "count", json!({})),
            Reply::say(DONE),
        ]
    };
    let theirs = ["-s", "workspace-write", "-c", "approval_policy=never"];
    let name = "sub-agents-codex";
    let case = Case {
        name,
        program: "codex",
        level: Some("safe-edit"),
        theirs: &theirs,
        variables: &[],
        user,
        script,
    };
    let Some((uses, left, answer)) = compare(&case) else { return };
    assert_eq!((uses.len(), uses[0]), (2, true), "{answer}");
    assert_eq!(left, ["touched.txt"]);
    assert_eq!(answer.get("notes"), None, "the user's server may be used: {answer}");
}
