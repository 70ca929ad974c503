//! Cursor's program: `cursor-agent`, also called `agent`. Print mode only; without it there would be a terminal to draw on.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::agent::{End, Voice, Work};
use crate::arguments::{self, Given, Known, flag, value};
use crate::mcp;
use crate::model::{Call, Trouble};
use crate::place;
use crate::sessions;
use crate::tools::{Kind, Tool};
use crate::{complain, say, say_raw};

const OPTIONS: &[Known] = &[
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
    Tool { name: "read", kind: Kind::Read, subject: "path", text: "" },
    Tool { name: "write", kind: Kind::Write, subject: "path", text: "fileText" },
    Tool { name: "shell", kind: Kind::Shell, subject: "command", text: "" },
];

const USAGE: u8 = 1;
const FAILED: u8 = 1;

pub(crate) fn run(arguments: &[String]) -> u8 {
    let given = match arguments::read(OPTIONS, arguments) {
        Ok(given) => given,
        Err(reason) => {
            complain(&format!("error: {reason}"));
            return USAGE;
        }
    };
    if given.has("--version") {
        say("2026.09.15-stand-in");
        return 0;
    }
    match print(&given) {
        Ok(()) => 0,
        Err(reason) => {
            complain(&reason);
            FAILED
        }
    }
}

fn print(given: &Given) -> Result<(), String> {
    if !given.has("--print") || given.value("--output-format") != Some("stream-json") {
        return Err("stand-in: only --print with --output-format stream-json".to_owned());
    }
    if !matches!(given.value("--mode"), None | Some("plan" | "ask")) {
        return Err(
            "error: option '--mode <mode>' argument is invalid. Allowed choices are plan, ask.".to_owned()
        );
    }
    if given.value("--api-key").is_none() && place::variable("CURSOR_API_KEY").is_none() {
        let advice = "Please run 'agent login' first, or set CURSOR_API_KEY environment variable.";
        return Err(format!("Error: Authentication required. {advice}"));
    }
    let directory: PathBuf = match given.value("--workspace") {
        Some(directory) => directory.into(),
        None => std::env::current_dir().map_err(|error| error.to_string())?,
    };
    if !given.has("--trust") && !given.has("--force") {
        return Err(format!(
            "Workspace Trust Required: {}. Pass --trust, --yolo, or -f.",
            directory.display()
        ));
    }
    let (session, mut messages) = conversation(given, &directory)?;
    let prompt = prompt(given)?;
    messages.push(json!({"role": "user", "content": prompt}));
    let mut out = Events { session, partial: given.has("--stream-partial-output"), given };
    let init =
        json!({"apiKeySource": "env", "cwd": directory, "model": "Stand-in", "permissionMode": "default"});
    out.event("system", "init", init);
    out.event("user", "", json!({"message": text_message("user", &prompt)}));
    let mcp_tools = servers(given, &directory)?;
    let work = Work {
        model: given.value("--model").unwrap_or("auto"),
        tools: TOOLS,
        mcp_tools: &mcp_tools,
        directory: &directory,
        turns_max: u64::MAX,
    };
    let done = work.run(&mut messages, &mut out).map_err(|trouble| told(&trouble))?;
    sessions::write(&chat_file(&out.session), &messages);
    if place::fails("cut") {
        say_raw("{\"type\":\"result\",\"subtype\":\"succ");
        return Ok(());
    }
    let error = place::fails("exit-0-with-an-error");
    let result = json!({"duration_ms": 1, "duration_api_ms": 1, "is_error": error, "result": done.text});
    out.event("result", if error { "error" } else { "success" }, result);
    if place::fails("stays") {
        place::wait_for_ever();
    }
    Ok(())
}

/// Returns the conversation that is begun or continued.
fn conversation(given: &Given, directory: &Path) -> Result<(String, Vec<Value>), String> {
    if let Some(chat) = given.value("--resume") {
        let known = sessions::read(&chat_file(chat));
        return Ok((chat.to_owned(), known.ok_or_else(|| format!("Error: Chat {chat} not found"))?));
    }
    let rules = std::fs::read_to_string(directory.join("AGENTS.md")).ok();
    let system = rules.map(|rules| json!({"role": "system", "content": rules}));
    Ok((sessions::fresh_id(), system.into_iter().collect()))
}

/// Returns the prompt: the words behind the options, or what is piped in.
fn prompt(given: &Given) -> Result<String, String> {
    let mut prompt = given.words.join(" ");
    if prompt.is_empty() {
        std::io::stdin().read_to_string(&mut prompt).map_err(|error| error.to_string())?;
    }
    match prompt.trim() {
        "" => Err("Error: No prompt provided for print mode".to_owned()),
        _ => Ok(prompt),
    }
}

/// Returns the tools of the servers that the user and the project name, if they are approved.
fn servers(given: &Given, directory: &Path) -> Result<Vec<String>, String> {
    if !given.has("--approve-mcps") {
        return Ok(Vec::new());
    }
    let mut all = serde_json::Map::new();
    for folder in [place::home(), directory.to_owned()] {
        let text = std::fs::read(folder.join(".cursor/mcp.json")).unwrap_or_default();
        let read: Value = serde_json::from_slice(&text).unwrap_or_default();
        all.extend(read["mcpServers"].as_object().cloned().unwrap_or_default());
    }
    let named = |server: &str, tool: &str| format!("mcp_{server}_{tool}");
    mcp::tools(&all, directory, named).map_err(|failed| format!("Error: MCP server {} failed", failed.server))
}

fn chat_file(chat: &str) -> PathBuf {
    place::home().join(".cursor/chats").join(format!("{chat}.json"))
}

/// Says what is wrong in the words of its protocol, whose codes stand in brackets.
fn told(trouble: &Trouble) -> String {
    let (code, message) = match trouble {
        Trouble::Refused { status, message } => {
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
        Trouble::Lost => ("aborted", "the connection was lost"),
    };
    format!("ConnectError: [{code}] {message}")
}

fn text_message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": [{"type": "text", "text": text}]})
}

/// Tells whether the user's own rules allow a use: `Shell(command)` and `Write(file)`, of which those that deny count more.
fn rules_allow(kind: Kind, subject: &str) -> bool {
    let folder =
        place::variable("CURSOR_CONFIG_DIR").map_or_else(|| place::home().join(".cursor"), PathBuf::from);
    let text = std::fs::read(folder.join("cli-config.json")).unwrap_or_default();
    let settings: Value = serde_json::from_slice(&text).unwrap_or_default();
    let used = match kind {
        Kind::Shell => format!("Shell({})", subject.split_whitespace().next().unwrap_or_default()),
        Kind::Write => {
            let name = Path::new(subject).file_name().unwrap_or_default();
            format!("Write({})", name.to_string_lossy())
        }
        Kind::Read | Kind::Mcp => return false,
    };
    let lists = |name: &str| {
        let rules = settings["permissions"][name].as_array();
        rules.is_some_and(|rules| rules.iter().any(|rule| *rule == used))
    };
    lists("allow") && !lists("deny")
}

/// The stream of events.
struct Events<'a> {
    session: String,
    partial: bool,
    given: &'a Given,
}

impl Events<'_> {
    fn event(&self, kind: &str, subtype: &str, more: Value) {
        let mut event = json!({"type": kind});
        if !subtype.is_empty() {
            event["subtype"] = subtype.into();
        }
        if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
            event.extend(more);
        }
        event["session_id"] = self.session.as_str().into();
        say(&event.to_string());
    }

    fn tool(&self, subtype: &str, call: &Call, result: Option<Value>) {
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

impl Voice for Events<'_> {
    /// Without force nothing is changed that the user's rules do not allow: edits are proposed and commands wait for somebody who
    /// is not there.
    fn refuses(&self, kind: Kind, _tool: &str, subject: &str) -> Option<String> {
        let changes = self.given.has("--force") || rules_allow(kind, subject);
        let free = kind == Kind::Read || (changes && !self.given.has("--mode"));
        (!free).then(|| "Rejected: it needs an approval".to_owned())
    }

    fn piece(&mut self, text: &str) {
        if self.partial {
            self.event(
                "assistant",
                "",
                json!({"message": text_message("assistant", text), "timestamp_ms": 1}),
            );
        }
    }

    /// A whole message repeats its pieces: before a tool with the number of the call, at the end without the time.
    fn message(&mut self, text: &str, tools_follow: bool) {
        let mut more = json!({"message": text_message("assistant", text)});
        if self.partial && tools_follow {
            more["timestamp_ms"] = 1.into();
            more["model_call_id"] = "m-1".into();
        }
        self.event("assistant", "", more);
    }

    fn began(&mut self, call: &Call) {
        self.tool("started", call, None);
    }

    fn ended(&mut self, call: &Call, end: &End) {
        let result = match end {
            End::Done(text) => json!({"success": {"output": text}}),
            End::Failed(text) => json!({"error": {"message": text}}),
            End::Refused(reason) => {
                json!({"rejected": {"command": call.arguments["command"], "reason": reason, "isReadonly": false}})
            }
        };
        self.tool("completed", call, Some(result));
    }
}
