//! Grok's program, `grok`, in its headless mode: the prompt comes from a file, an argument or as JSON, never from a pipe.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::agent::{End, Finished, Voice, Work};
use crate::arguments::{self, Given, Known, flag, value};
use crate::model::{Call, Trouble};
use crate::place;
use crate::sessions;
use crate::signals;
use crate::tools::{Kind, Tool};
use crate::{complain, say, say_raw};

const OPTIONS: &[Known] = &[
    value(&["--single", "-p"]),
    value(&["--prompt-file"]),
    value(&["--model", "-m"]),
    value(&["--session-id", "-s"]),
    flag(&["--fork-session"]),
    value(&["--resume", "-r"]),
    flag(&["--continue", "-c"]),
    value(&["--cwd"]),
    value(&["--output-format"]),
    flag(&["--always-approve", "--yolo"]),
    value(&["--rules"]),
    value(&["--tools"]),
    value(&["--disallowed-tools"]),
    value(&["--max-turns"]),
    value(&["--reasoning-effort", "--effort"]),
    value(&["--permission-mode"]),
    value(&["--allow"]),
    value(&["--deny"]),
    flag(&["--verbatim"]),
    value(&["--sandbox"]),
    flag(&["--no-auto-update"]),
    flag(&["--version", "-v"]),
];

const TOOLS: &[Tool] = &[
    Tool { name: "read_file", kind: Kind::Read, subject: "target_file", text: "" },
    Tool { name: "search_replace", kind: Kind::Write, subject: "file_path", text: "new_string" },
    Tool { name: "run_terminal_cmd", kind: Kind::Shell, subject: "command", text: "" },
];

const PROFILES: [&str; 5] = ["off", "workspace", "devbox", "read-only", "strict"];
const FORMATS: [&str; 2] = ["json", "streaming-json"];
const MODES: [&str; 5] = ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"];

/// By these a model finds the tools of MCP servers, and uses them.
const SERVER_TOOLS: [&str; 2] = ["search_tool", "use_tool"];

/// What the library says that it reads its arguments with.
const USAGE: u8 = 2;
const FAILED: u8 = 1;

pub(crate) fn run(arguments: &[String]) -> u8 {
    signals::end_with_a_code();
    let given = match arguments::read(OPTIONS, arguments).and_then(checked) {
        Ok(given) => given,
        Err(reason) => {
            complain(&format!("error: {reason}"));
            return USAGE;
        }
    };
    if given.has("--version") {
        say("grok 1.0.41 (stand-in)");
        return 0;
    }
    match headless(&given) {
        Ok(()) => 0,
        Err(message) => {
            say(&json!({"type": "error", "message": message}).to_string());
            FAILED
        }
    }
}

fn checked(given: Given) -> Result<Given, String> {
    let choices: [(&str, &[&str]); 3] =
        [("--sandbox", &PROFILES), ("--output-format", &FORMATS), ("--permission-mode", &MODES)];
    for (option, known) in choices {
        if let Some(value) = given.value(option).filter(|value| !known.contains(value)) {
            return Err(format!("invalid value '{value}' for '{option}'"));
        }
    }
    match given.words.first() {
        Some(word) => Err(format!("unexpected argument '{word}' found")),
        None => Ok(given),
    }
}

fn headless(given: &Given) -> Result<(), String> {
    let prompt = match (given.value("--prompt-file"), given.value("--single")) {
        (Some(file), _) => std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?,
        (None, Some(prompt)) => prompt.to_owned(),
        (None, None) => return Err("stand-in: only the headless mode".to_owned()),
    };
    if place::variable("XAI_API_KEY").is_none() {
        return Err("Not authenticated. Run `grok login` or set XAI_API_KEY.".to_owned());
    }
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let directory = given.value("--cwd").map_or(here, PathBuf::from);
    let (session, mut messages) = conversation(given, &directory)?;
    let removed: Vec<&str> = given.value("--disallowed-tools").unwrap_or_default().split(',').collect();
    let server_tools: Vec<String> =
        SERVER_TOOLS.iter().filter(|name| !removed.contains(name)).map(|name| (*name).to_owned()).collect();
    if !server_tools.is_empty() {
        let told = format!("MCP servers: {}", servers(&directory).join(", "));
        messages.push(json!({"role": "system", "content": told}));
    }
    messages.push(json!({"role": "user", "content": prompt}));
    let turns_max = given.value("--max-turns").and_then(|turns| turns.parse().ok()).unwrap_or(u64::MAX);
    let work = Work {
        model: given.value("--model").unwrap_or("grok-build"),
        tools: TOOLS,
        mcp_tools: &server_tools,
        directory: &directory,
        turns_max,
    };
    let streams = given.value("--output-format") == Some("streaming-json");
    let mut out = Events { given, directory: &directory, streams };
    let done = work.run(&mut messages, &mut out).map_err(|trouble| told(&trouble))?;
    sessions::write(&session_file(&session), &messages);
    if place::fails("cut") {
        say_raw("{\"type\":\"end\",\"stopReason\":\"end_tu");
        return Ok(());
    }
    if place::fails("exit-0-with-an-error") {
        say(&json!({"type": "error", "message": "the turn could not be completed"}).to_string());
        return Ok(());
    }
    say(&end(&done, &session, work.model, streams).to_string());
    Ok(())
}

fn end(done: &Finished, session: &str, model: &str, streams: bool) -> Value {
    let reason = if done.stopped { "max_turn_requests" } else { "end_turn" };
    let total = done.used.input + done.used.output;
    let mut end = json!({
        "stopReason": reason, "sessionId": session, "requestId": "r-1", "num_turns": done.turns,
        "usage": {
            "input_tokens": done.used.input, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0,
            "output_tokens": done.used.output, "reasoning_tokens": 0, "total_tokens": total,
        },
        "modelUsage": {},
        "total_cost_usd": 0.01, "total_cost_usd_ticks": 100_000_000,
    });
    end["modelUsage"][model] = json!({"inputTokens": done.used.input, "outputTokens": done.used.output});
    if streams {
        end["type"] = "end".into();
    } else {
        end["text"] = done.text.as_str().into();
    }
    end
}

/// Returns the conversation that is begun or continued.
fn conversation(given: &Given, directory: &Path) -> Result<(String, Vec<Value>), String> {
    if let Some(session) = given.value("--resume") {
        let known = sessions::read(&session_file(session));
        let known = known.ok_or_else(|| format!("Session not found: {session}"))?;
        let copied = given.has("--fork-session").then(sessions::fresh_id);
        return Ok((copied.unwrap_or_else(|| session.to_owned()), known));
    }
    let session = given.value("--session-id").map_or_else(sessions::fresh_id, ToOwned::to_owned);
    if session_file(&session).exists() {
        return Err(format!("Couldn't start session: {session} is already in use"));
    }
    let rules = given.value("--rules").map(ToOwned::to_owned);
    let project = std::fs::read_to_string(directory.join("AGENTS.md")).ok();
    let instructions: Vec<String> = rules.into_iter().chain(project).collect();
    let system =
        (!instructions.is_empty()).then(|| json!({"role": "system", "content": instructions.join("\n\n")}));
    Ok((session, system.into_iter().collect()))
}

/// Returns the names of the servers that it would load: the project's, and those for other vendors' programs unless a
/// variable says otherwise.
fn servers(directory: &Path) -> Vec<String> {
    let wanted = |name: &str| place::variable(name).as_deref() != Some("false");
    let cursor = [place::home(), directory.to_owned()].map(|folder| folder.join(".cursor/mcp.json"));
    let others = cursor.into_iter().filter(|_| wanted("GROK_CURSOR_MCPS_ENABLED"));
    let files = others.chain([directory.join(".mcp.json")]);
    let read = |file: PathBuf| serde_json::from_slice::<Value>(&std::fs::read(file).ok()?).ok();
    let names = |file: Value| file["mcpServers"].as_object().cloned().unwrap_or_default().into_iter();
    files.filter_map(read).flat_map(names).map(|(name, _)| name).collect()
}

fn session_file(session: &str) -> PathBuf {
    grok_home().join("sessions").join(format!("{session}.json"))
}

fn grok_home() -> PathBuf {
    place::variable("GROK_HOME").map_or_else(|| place::home().join(".grok"), PathBuf::from)
}

fn told(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Refused { status, message } => format!("API error (status {status}): {message}"),
        Trouble::Lost => "network error: the connection was lost".to_owned(),
    }
}

/// The stream of events, or silence until the end.
struct Events<'a> {
    given: &'a Given,
    directory: &'a Path,
    streams: bool,
}

impl Events<'_> {
    fn event(&self, event: &Value) {
        if self.streams {
            say(&event.to_string());
        }
    }

    /// Tells whether the sandbox lets a file be changed. The real one is the kernel's; this one believes the paths
    /// that it sees.
    fn is_writable(&self, path: &Path) -> bool {
        let always = [grok_home(), "/tmp".into(), "/var/tmp".into(), "/dev".into()];
        let free = always.iter().any(|folder| path.starts_with(folder));
        match self.given.value("--sandbox").unwrap_or("off") {
            "off" => true,
            "read-only" => free,
            _ => free || path.starts_with(self.directory),
        }
    }

    fn is_denied(&self, kind: Kind) -> bool {
        self.given.values("--deny").any(|rule| speaks_of(rule, kind))
    }

    fn is_allowed(&self, kind: Kind) -> bool {
        let all = self.given.has("--always-approve")
            || self.given.value("--permission-mode") == Some("bypassPermissions");
        all || kind == Kind::Read || self.given.values("--allow").any(|rule| speaks_of(rule, kind))
    }
}

/// Tells whether a rule without a pattern is about this kind of tool.
fn speaks_of(rule: &str, kind: Kind) -> bool {
    let prefixes: &[&str] = match kind {
        Kind::Read => &["Read", "Grep"],
        Kind::Write => &["Edit", "Write"],
        Kind::Shell => &["Bash"],
        Kind::Mcp => &["MCPTool"],
    };
    prefixes.contains(&rule)
}

impl Voice for Events<'_> {
    fn refuses(&self, kind: Kind, tool: &str, subject: &str) -> Option<String> {
        if self.is_denied(kind) || !self.is_allowed(kind) {
            return Some(format!("Permission denied: {tool}"));
        }
        let paths = match kind {
            Kind::Write => vec![subject],
            Kind::Shell => {
                subject.split(['\'', ' ', '"', '>']).filter(|word| word.starts_with('/')).collect()
            }
            Kind::Read | Kind::Mcp => Vec::new(),
        };
        let beyond = paths.into_iter().find(|path| !self.is_writable(&self.directory.join(path)));
        beyond.map(|path| format!("{path}: Permission denied (os error 13)"))
    }

    fn piece(&mut self, text: &str) {
        self.event(&json!({"type": "text", "data": text}));
    }

    fn message(&mut self, _text: &str, _tools_follow: bool) {
        self.event(&json!({"type": "usage", "messageId": "m-1", "stopReason": "end_turn", "usage": {}}));
    }

    fn began(&mut self, call: &Call) {
        self.event(&json!({
            "type": "tool_call", "toolCallId": call.id, "title": call.name, "kind": "other",
            "status": "in_progress", "toolName": call.name, "rawInput": call.arguments, "content": [],
            "locations": [],
        }));
    }

    fn ended(&mut self, call: &Call, end: &End) {
        let (status, output) = match end {
            End::Done(text) => ("completed", text),
            End::Failed(text) | End::Refused(text) => ("failed", text),
        };
        self.event(&json!({
            "type": "tool_call_update", "toolCallId": call.id, "status": status, "content": [],
            "rawOutput": {"output": output}, "locations": [],
        }));
    }
}
