//! Cursor's program: `cursor-agent`, also called `agent`. Only its print mode; the interactive mode would need a
//! terminal.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::agent_loop::{AgentRun, ToolCallOutcome, VendorBehavior};
use crate::arguments::{self, OptionSpec, ParsedArguments, flag, value};
use crate::environment;
use crate::mcp_client;
use crate::model_client::{ModelFailure, ModelToolCall};
use crate::sessions;
use crate::tools::{Tool, ToolCategory};
use crate::{print_error, print_line, print_raw};

const OPTIONS: &[OptionSpec] = &[
    flag(&["--print", "-p"]),
    value(&["--output-format"]),
    flag(&["--stream-partial-output"]),
    value(&["--model"]),
    value(&["--mode"]),
    flag(&["--force", "-f", "--yolo"]),
    flag(&["--trust"]),
    value(&["--sandbox"]),
    flag(&["--approve-mcps"]),
    value(&["--workspace"]),
    value(&["--resume"]),
    flag(&["--continue"]),
    value(&["--api-key"]),
    flag(&["--version", "-v"]),
];

const TOOLS: &[Tool] = &[
    Tool { name: "read", kind: ToolCategory::Read, subject: "path", text: "" },
    Tool { name: "write", kind: ToolCategory::Write, subject: "path", text: "fileText" },
    Tool { name: "shell", kind: ToolCategory::Shell, subject: "command", text: "" },
];

const USAGE: u8 = 1;
const FAILED: u8 = 1;

pub(crate) fn run(arguments: &[String]) -> u8 {
    let parsed = match arguments::parse(OPTIONS, arguments) {
        Ok(parsed) => parsed,
        Err(reason) => {
            print_error(&format!("error: {reason}"));
            return USAGE;
        }
    };
    if parsed.has("--version") {
        print_line("2026.09.15-fake");
        return 0;
    }
    match print(&parsed) {
        Ok(()) => 0,
        Err(reason) => {
            print_error(&reason);
            FAILED
        }
    }
}

fn print(parsed: &ParsedArguments) -> Result<(), String> {
    if !parsed.has("--print") || parsed.value("--output-format") != Some("stream-json") {
        return Err("fake-cli: only --print with --output-format stream-json".to_owned());
    }
    if !matches!(parsed.value("--mode"), None | Some("plan" | "ask")) {
        return Err(
            "error: option '--mode <mode>' argument is invalid. Allowed choices are plan, ask.".to_owned()
        );
    }
    if parsed.value("--api-key").is_none() && environment::variable("CURSOR_API_KEY").is_none() {
        let advice = "Please run 'agent login' first, or set CURSOR_API_KEY environment variable.";
        return Err(format!("Error: Authentication required. {advice}"));
    }
    let directory: PathBuf = match parsed.value("--workspace") {
        Some(directory) => directory.into(),
        None => std::env::current_dir().map_err(|error| error.to_string())?,
    };
    if !parsed.has("--trust") && !parsed.has("--force") {
        return Err(format!(
            "Workspace Trust Required: {}. Pass --trust, --yolo, or -f.",
            directory.display()
        ));
    }
    let (session, mut messages) = conversation(parsed, &directory)?;
    let prompt = prompt(parsed)?;
    messages.push(json!({"role": "user", "content": prompt}));
    let mut out = CursorEvents { session, partial: parsed.has("--stream-partial-output"), parsed };
    let init =
        json!({"apiKeySource": "env", "cwd": directory, "model": "Stand-in", "permissionMode": "default"});
    out.event("system", "init", init);
    out.event("user", "", json!({"message": text_message("user", &prompt)}));
    let mcp_tools = server_tools(parsed, &directory)?;
    let agent_run = AgentRun {
        model: parsed.value("--model").unwrap_or("auto"),
        tools: TOOLS,
        mcp_tools: &mcp_tools,
        directory: &directory,
        turns_max: u64::MAX,
    };
    let agent_result = agent_run.run(&mut messages, &mut out).map_err(|failure| failure_message(&failure))?;
    sessions::write(&chat_file(&out.session), &messages);
    if environment::should_fail("cut") {
        print_raw("{\"type\":\"result\",\"subtype\":\"succ");
        return Ok(());
    }
    let error = environment::should_fail("exit-0-with-an-error");
    let result =
        json!({"duration_ms": 1, "duration_api_ms": 1, "is_error": error, "result": agent_result.text});
    out.event("result", if error { "error" } else { "success" }, result);
    if environment::should_fail("stays") {
        environment::wait_forever();
    }
    Ok(())
}

/// Returns the id and messages of the new or resumed conversation.
fn conversation(parsed: &ParsedArguments, directory: &Path) -> Result<(String, Vec<Value>), String> {
    if let Some(chat) = parsed.value("--resume") {
        let known = sessions::read(&chat_file(chat));
        return Ok((chat.to_owned(), known.ok_or_else(|| format!("Error: Chat {chat} not found"))?));
    }
    let rules = std::fs::read_to_string(directory.join("AGENTS.md")).ok();
    let system = rules.map(|rules| json!({"role": "system", "content": rules}));
    Ok((sessions::fresh_id(), system.into_iter().collect()))
}

/// Returns the prompt: the positional arguments, or standard input.
fn prompt(parsed: &ParsedArguments) -> Result<String, String> {
    let mut prompt = parsed.positional.join(" ");
    if prompt.is_empty() {
        std::io::stdin().read_to_string(&mut prompt).map_err(|error| error.to_string())?;
    }
    match prompt.trim() {
        "" => Err("Error: No prompt provided for print mode".to_owned()),
        _ => Ok(prompt),
    }
}

/// Returns the tools of the user's and the project's MCP servers, if they are approved.
fn server_tools(parsed: &ParsedArguments, directory: &Path) -> Result<Vec<String>, String> {
    if !parsed.has("--approve-mcps") {
        return Ok(Vec::new());
    }
    let mut all = serde_json::Map::new();
    for folder in [environment::home(), directory.to_owned()] {
        let text = std::fs::read(folder.join(".cursor/mcp.json")).unwrap_or_default();
        let read: Value = serde_json::from_slice(&text).unwrap_or_default();
        all.extend(read["mcpServers"].as_object().cloned().unwrap_or_default());
    }
    let tool_name = |server: &str, tool: &str| format!("mcp_{server}_{tool}");
    mcp_client::list_all_tools(&all, directory, tool_name)
        .map_err(|failed| format!("Error: MCP server {} failed", failed.server))
}

fn chat_file(chat: &str) -> PathBuf {
    environment::home().join(".cursor/chats").join(format!("{chat}.json"))
}

/// Formats a failure like Cursor's protocol, with the code in brackets.
fn failure_message(failure: &ModelFailure) -> String {
    let (code, message) = match failure {
        ModelFailure::Refused { status, message } => {
            let code = match status {
                400 => "invalid_argument",
                401 => "unauthenticated",
                403 => "permission_denied",
                404 => "not_found",
                429 => "resource_exhausted",
                503 => "unavailable",
                _ => "internal",
            };
            (code, message.as_str())
        }
        ModelFailure::Lost => ("aborted", "the connection was lost"),
    };
    format!("ConnectError: [{code}] {message}")
}

fn text_message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": [{"type": "text", "text": text}]})
}

/// Returns whether the user's rules allow a use: `Shell(command)` and `Write(file)`. Deny rules take precedence.
fn rules_allow(kind: ToolCategory, subject: &str) -> bool {
    let folder = environment::variable("CURSOR_CONFIG_DIR")
        .map_or_else(|| environment::home().join(".cursor"), PathBuf::from);
    let text = std::fs::read(folder.join("cli-config.json")).unwrap_or_default();
    let settings: Value = serde_json::from_slice(&text).unwrap_or_default();
    let used = match kind {
        ToolCategory::Shell => format!("Shell({})", subject.split_whitespace().next().unwrap_or_default()),
        ToolCategory::Write => {
            let name = Path::new(subject).file_name().unwrap_or_default();
            format!("Write({})", name.to_string_lossy())
        }
        ToolCategory::Read | ToolCategory::Mcp => return false,
    };
    let lists = |name: &str| {
        let rules = settings["permissions"][name].as_array();
        rules.is_some_and(|rules| rules.iter().any(|rule| *rule == used))
    };
    lists("allow") && !lists("deny")
}

/// The stream of events.
struct CursorEvents<'a> {
    session: String,
    partial: bool,
    parsed: &'a ParsedArguments,
}

impl CursorEvents<'_> {
    fn event(&self, kind: &str, subtype: &str, more: Value) {
        let mut event = json!({"type": kind});
        if !subtype.is_empty() {
            event["subtype"] = subtype.into();
        }
        if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
            event.extend(more);
        }
        event["session_id"] = self.session.as_str().into();
        print_line(&event.to_string());
    }

    fn tool(&self, subtype: &str, call: &ModelToolCall, result: Option<Value>) {
        let kind = format!("{}ToolCall", call.name);
        let mut body = json!({"args": call.arguments});
        if let Some(result) = result {
            body["result"] = result;
        }
        let mut tool_call = json!({});
        tool_call[kind] = body;
        let more =
            json!({"call_id": call.id, "tool_call": tool_call, "model_call_id": "m-1", "timestamp_ms": 1});
        self.event("tool_call", subtype, more);
    }
}

impl VendorBehavior for CursorEvents<'_> {
    /// Without `--force`, only the user's rules allow changes: edits are proposed, and commands wait for an approval
    /// that never comes.
    fn refusal_reason(&self, kind: ToolCategory, _tool: &str, subject: &str) -> Option<String> {
        let changes = self.parsed.has("--force") || rules_allow(kind, subject);
        let free = kind == ToolCategory::Read || (changes && !self.parsed.has("--mode"));
        (!free).then(|| "Rejected: it needs an approval".to_owned())
    }

    fn text_chunk(&mut self, text: &str) {
        if self.partial {
            self.event(
                "assistant",
                "",
                json!({"message": text_message("assistant", text), "timestamp_ms": 1}),
            );
        }
    }

    /// A complete message repeats its chunks: before a tool with the id of the model call, at the end without the
    /// timestamp.
    fn message_done(&mut self, text: &str, tools_follow: bool) {
        let mut more = json!({"message": text_message("assistant", text)});
        if self.partial && tools_follow {
            more["timestamp_ms"] = 1.into();
            more["model_call_id"] = "m-1".into();
        }
        self.event("assistant", "", more);
    }

    fn tool_started(&mut self, call: &ModelToolCall) {
        self.tool("started", call, None);
    }

    fn tool_ended(&mut self, call: &ModelToolCall, end: &ToolCallOutcome) {
        let result = match end {
            ToolCallOutcome::Done(text) => json!({"success": {"output": text}}),
            ToolCallOutcome::Failed(text) => json!({"error": {"message": text}}),
            ToolCallOutcome::Refused(reason) => {
                json!({"rejected": {"command": call.arguments["command"], "reason": reason, "isReadonly": false}})
            }
        };
        self.tool("completed", call, Some(result));
    }
}
