//! Grok's program, `grok`, in its headless mode: the prompt comes from a file, an argument or JSON, never from a
//! pipe.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::agent_loop::{AgentResult, AgentRun, ToolCallOutcome, VendorBehavior};
use crate::arguments::{self, OptionSpec, ParsedArguments, flag, value};
use crate::environment;
use crate::model_client::{ModelFailure, ModelToolCall};
use crate::sessions;
use crate::signals;
use crate::tools::{Tool, ToolCategory};
use crate::{print_error, print_line, print_raw};

const OPTIONS: &[OptionSpec] = &[
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
    Tool { name: "read_file", kind: ToolCategory::Read, subject: "target_file", text: "" },
    Tool { name: "search_replace", kind: ToolCategory::Write, subject: "file_path", text: "new_string" },
    Tool { name: "run_terminal_cmd", kind: ToolCategory::Shell, subject: "command", text: "" },
];

const PROFILES: [&str; 5] = ["off", "workspace", "devbox", "read-only", "strict"];
const FORMATS: [&str; 2] = ["json", "streaming-json"];
const MODES: [&str; 5] = ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"];

/// The tools with which a model finds and uses the tools of MCP servers.
const SERVER_TOOLS: [&str; 2] = ["search_tool", "use_tool"];

/// The exit code of the argument parser that Grok uses.
const USAGE: u8 = 2;
const FAILED: u8 = 1;

pub(crate) fn run(arguments: &[String]) -> u8 {
    signals::exit_with_signal_code();
    let parsed = match arguments::parse(OPTIONS, arguments).and_then(check_arguments) {
        Ok(parsed) => parsed,
        Err(reason) => {
            print_error(&format!("error: {reason}"));
            return USAGE;
        }
    };
    if parsed.has("--version") {
        print_line("grok 1.0.41 (fake)");
        return 0;
    }
    match headless(&parsed) {
        Ok(()) => 0,
        Err(message) => {
            print_line(&json!({"type": "error", "message": message}).to_string());
            FAILED
        }
    }
}

fn check_arguments(parsed: ParsedArguments) -> Result<ParsedArguments, String> {
    let choices: [(&str, &[&str]); 3] =
        [("--sandbox", &PROFILES), ("--output-format", &FORMATS), ("--permission-mode", &MODES)];
    for (option, known) in choices {
        if let Some(value) = parsed.value(option).filter(|value| !known.contains(value)) {
            return Err(format!("invalid value '{value}' for '{option}'"));
        }
    }
    match parsed.positional.first() {
        Some(argument) => Err(format!("unexpected argument '{argument}' found")),
        None => Ok(parsed),
    }
}

fn headless(parsed: &ParsedArguments) -> Result<(), String> {
    let prompt = match (parsed.value("--prompt-file"), parsed.value("--single")) {
        (Some(file), _) => std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?,
        (None, Some(prompt)) => prompt.to_owned(),
        (None, None) => return Err("fake-cli: only the headless mode".to_owned()),
    };
    if environment::variable("XAI_API_KEY").is_none() {
        return Err("Not authenticated. Run `grok login` or set XAI_API_KEY.".to_owned());
    }
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let directory = parsed.value("--cwd").map_or(here, PathBuf::from);
    let (session, mut messages) = conversation(parsed, &directory)?;
    let removed: Vec<&str> = parsed.value("--disallowed-tools").unwrap_or_default().split(',').collect();
    let server_tools: Vec<String> =
        SERVER_TOOLS.iter().filter(|name| !removed.contains(name)).map(|name| (*name).to_owned()).collect();
    if !server_tools.is_empty() {
        let notice = format!("MCP servers: {}", server_names(&directory).join(", "));
        messages.push(json!({"role": "system", "content": notice}));
    }
    messages.push(json!({"role": "user", "content": prompt}));
    let turns_max = parsed.value("--max-turns").and_then(|turns| turns.parse().ok()).unwrap_or(u64::MAX);
    let agent_run = AgentRun {
        model: parsed.value("--model").unwrap_or("grok-build"),
        tools: TOOLS,
        mcp_tools: &server_tools,
        directory: &directory,
        turns_max,
    };
    let streams = parsed.value("--output-format") == Some("streaming-json");
    let mut out = GrokEvents { parsed, directory: &directory, streams };
    let agent_result = agent_run.run(&mut messages, &mut out).map_err(|failure| failure_message(&failure))?;
    sessions::write(&session_file(&session), &messages);
    if environment::should_fail("cut") {
        print_raw("{\"type\":\"end\",\"stopReason\":\"end_tu");
        return Ok(());
    }
    if environment::should_fail("exit-0-with-an-error") {
        print_line(&json!({"type": "error", "message": "the turn could not be completed"}).to_string());
        return Ok(());
    }
    print_line(&end_event(&agent_result, &session, agent_run.model, streams).to_string());
    Ok(())
}

fn end_event(agent_result: &AgentResult, session: &str, model: &str, streams: bool) -> Value {
    let reason = if agent_result.stopped { "max_turn_requests" } else { "end_turn" };
    let total = agent_result.used.input + agent_result.used.output;
    let mut end = json!({
        "stopReason": reason, "sessionId": session, "requestId": "r-1", "num_turns": agent_result.turns,
        "usage": {
            "input_tokens": agent_result.used.input, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0,
            "output_tokens": agent_result.used.output, "reasoning_tokens": 0, "total_tokens": total,
        },
        "modelUsage": {},
        "total_cost_usd": 0.01, "total_cost_usd_ticks": 100_000_000,
    });
    end["modelUsage"][model] =
        json!({"inputTokens": agent_result.used.input, "outputTokens": agent_result.used.output});
    if streams {
        end["type"] = "end".into();
    } else {
        end["text"] = agent_result.text.as_str().into();
    }
    end
}

/// Returns the id and messages of the new or resumed conversation.
fn conversation(parsed: &ParsedArguments, directory: &Path) -> Result<(String, Vec<Value>), String> {
    if let Some(session) = parsed.value("--resume") {
        let known = sessions::read(&session_file(session));
        let known = known.ok_or_else(|| format!("Session not found: {session}"))?;
        let copied = parsed.has("--fork-session").then(sessions::fresh_id);
        return Ok((copied.unwrap_or_else(|| session.to_owned()), known));
    }
    let session = parsed.value("--session-id").map_or_else(sessions::fresh_id, ToOwned::to_owned);
    if session_file(&session).exists() {
        return Err(format!("Couldn't start session: {session} is already in use"));
    }
    let rules = parsed.value("--rules").map(ToOwned::to_owned);
    let project = std::fs::read_to_string(directory.join("AGENTS.md")).ok();
    let instructions: Vec<String> = rules.into_iter().chain(project).collect();
    let system =
        (!instructions.is_empty()).then(|| json!({"role": "system", "content": instructions.join("\n\n")}));
    Ok((session, system.into_iter().collect()))
}

/// Returns the names of the servers that Grok would load: the project's, and those of other vendors' configurations
/// unless a variable disables them.
fn server_names(directory: &Path) -> Vec<String> {
    let is_enabled = |name: &str| environment::variable(name).as_deref() != Some("false");
    let cursor = [environment::home(), directory.to_owned()].map(|folder| folder.join(".cursor/mcp.json"));
    let others = cursor.into_iter().filter(|_| is_enabled("GROK_CURSOR_MCPS_ENABLED"));
    let files = others.chain([directory.join(".mcp.json")]);
    let read = |file: PathBuf| serde_json::from_slice::<Value>(&std::fs::read(file).ok()?).ok();
    let names = |file: Value| file["mcpServers"].as_object().cloned().unwrap_or_default().into_iter();
    files.filter_map(read).flat_map(names).map(|(name, _)| name).collect()
}

fn session_file(session: &str) -> PathBuf {
    grok_home().join("sessions").join(format!("{session}.json"))
}

fn grok_home() -> PathBuf {
    environment::variable("GROK_HOME").map_or_else(|| environment::home().join(".grok"), PathBuf::from)
}

fn failure_message(failure: &ModelFailure) -> String {
    match failure {
        ModelFailure::Refused { status, message } => format!("API error (status {status}): {message}"),
        ModelFailure::Lost => "network error: the connection was lost".to_owned(),
    }
}

/// Writes events as a stream, or nothing until the end.
struct GrokEvents<'a> {
    parsed: &'a ParsedArguments,
    directory: &'a Path,
    streams: bool,
}

impl GrokEvents<'_> {
    fn event(&self, event: &Value) {
        if self.streams {
            print_line(&event.to_string());
        }
    }

    /// Returns whether the sandbox allows changes to a file. The real sandbox is enforced by the kernel; this one
    /// only checks the paths that it sees.
    fn is_writable(&self, path: &Path) -> bool {
        let always = [grok_home(), "/tmp".into(), "/var/tmp".into(), "/dev".into()];
        let free = always.iter().any(|folder| path.starts_with(folder));
        match self.parsed.value("--sandbox").unwrap_or("off") {
            "off" => true,
            "read-only" => free,
            _ => free || path.starts_with(self.directory),
        }
    }

    fn is_denied(&self, kind: ToolCategory) -> bool {
        self.parsed.values("--deny").any(|rule| rule_covers(rule, kind))
    }

    fn is_allowed(&self, kind: ToolCategory) -> bool {
        let all = self.parsed.has("--always-approve")
            || self.parsed.value("--permission-mode") == Some("bypassPermissions");
        all || kind == ToolCategory::Read || self.parsed.values("--allow").any(|rule| rule_covers(rule, kind))
    }
}

/// Returns whether a rule without a pattern covers this kind of tool.
fn rule_covers(rule: &str, kind: ToolCategory) -> bool {
    let prefixes: &[&str] = match kind {
        ToolCategory::Read => &["Read", "Grep"],
        ToolCategory::Write => &["Edit", "Write"],
        ToolCategory::Shell => &["Bash"],
        ToolCategory::Mcp => &["MCPTool"],
    };
    prefixes.contains(&rule)
}

impl VendorBehavior for GrokEvents<'_> {
    fn refusal_reason(&self, kind: ToolCategory, tool: &str, subject: &str) -> Option<String> {
        if self.is_denied(kind) || !self.is_allowed(kind) {
            return Some(format!("Permission denied: {tool}"));
        }
        let paths = match kind {
            ToolCategory::Write => vec![subject],
            ToolCategory::Shell => {
                subject.split(['\'', ' ', '"', '>']).filter(|part| part.starts_with('/')).collect()
            }
            ToolCategory::Read | ToolCategory::Mcp => Vec::new(),
        };
        let unwritable = paths.into_iter().find(|path| !self.is_writable(&self.directory.join(path)));
        unwritable.map(|path| format!("{path}: Permission denied (os error 13)"))
    }

    fn text_chunk(&mut self, text: &str) {
        self.event(&json!({"type": "text", "data": text}));
    }

    fn message_done(&mut self, _text: &str, _tools_follow: bool) {
        self.event(&json!({"type": "usage", "messageId": "m-1", "stopReason": "end_turn", "usage": {}}));
    }

    fn tool_started(&mut self, call: &ModelToolCall) {
        self.event(&json!({
            "type": "tool_call", "toolCallId": call.id, "title": call.name, "kind": "other",
            "status": "in_progress", "toolName": call.name, "rawInput": call.arguments, "content": [],
            "locations": [],
        }));
    }

    fn tool_ended(&mut self, call: &ModelToolCall, end: &ToolCallOutcome) {
        let (status, output) = match end {
            ToolCallOutcome::Done(text) => ("completed", text),
            ToolCallOutcome::Failed(text) | ToolCallOutcome::Refused(text) => ("failed", text),
        };
        self.event(&json!({
            "type": "tool_call_update", "toolCallId": call.id, "status": status, "content": [],
            "rawOutput": {"output": output}, "locations": [],
        }));
    }
}
