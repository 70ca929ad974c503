//! Kiro's program, `kiro-cli chat --no-interactive`: it writes for people, stores one conversation per directory, and
//! exits with 0 even if the login failed.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::agent_loop::{AgentRun, ToolCallOutcome, VendorBehavior};
use crate::arguments::{self, OptionSpec, ParsedArguments, attached, flag, value};
use crate::environment;
use crate::kiro_acp;
use crate::mcp_client;
use crate::model_client::{ModelFailure, ModelToolCall};
use crate::sessions;
use crate::tools::{Tool, ToolCategory};
use crate::{print_error, print_line, print_raw};

const OPTIONS: &[OptionSpec] = &[
    flag(&["--no-interactive"]),
    value(&["--agent"]),
    value(&["--model"]),
    flag(&["--trust-all-tools", "-a"]),
    attached(&["--trust-tools"]),
    flag(&["--resume", "-r"]),
    flag(&["--require-mcp-startup"]),
    value(&["--wrap"]),
    flag(&["--v2"]),
    flag(&["--v3"]),
];

pub(crate) const TOOLS: &[Tool] = &[
    Tool { name: "fs_read", kind: ToolCategory::Read, subject: "path", text: "" },
    Tool { name: "fs_write", kind: ToolCategory::Write, subject: "path", text: "file_text" },
    Tool { name: "execute_bash", kind: ToolCategory::Shell, subject: "command", text: "" },
];

const FAILED: u8 = 1;
const NO_SERVER: u8 = 3;
const NO_AGENT: u8 = 4;

pub(crate) fn run(arguments: &[String]) -> u8 {
    if arguments.first().is_some_and(|argument| argument == "--version") {
        print_line("kiro-cli 2.3.0-fake");
        return 0;
    }
    let rest = match arguments.split_first().map(|(argument, rest)| (argument.as_str(), rest)) {
        Some(("acp", [])) => return kiro_acp::serve(),
        Some(("chat", rest)) => rest,
        _ => {
            print_error("error: fake-cli: only `chat` and `acp`");
            return FAILED;
        }
    };
    match arguments::parse(OPTIONS, rest) {
        Ok(parsed) if parsed.has("--no-interactive") => chat(&parsed),
        Ok(_) => {
            print_error("error: fake-cli: only --no-interactive");
            FAILED
        }
        Err(reason) => {
            print_error(&format!("error: {reason}"));
            FAILED
        }
    }
}

fn chat(parsed: &ParsedArguments) -> u8 {
    if environment::variable("KIRO_API_KEY").is_none() {
        print_error("Open this URL: https://view.awsapps.com/start/#/device?user_code=ABCD-EFGH");
        environment::wait_forever();
    }
    let Ok(directory) = std::env::current_dir() else { return FAILED };
    let agent = match parsed.value("--agent").map(|name| agent(name, &directory)) {
        None => None,
        Some(Some(agent)) => Some(agent),
        Some(None) => {
            print_error(&format!(
                "error: no agent with name {} found",
                parsed.value("--agent").unwrap_or_default()
            ));
            return NO_AGENT;
        }
    };
    let servers = servers(agent.as_ref(), &directory);
    let mcp_tools =
        match mcp_client::list_all_tools(&servers, &directory, |server, tool| format!("{server}___{tool}")) {
            Ok(tools) => tools,
            Err(failed) if parsed.has("--require-mcp-startup") => {
                print_error(&format!("error: MCP server {} failed to start", failed.server));
                return NO_SERVER;
            }
            Err(failed) => {
                print_error(&format!("warning: MCP server {} failed to start", failed.server));
                Vec::new()
            }
        };
    let Some(prompt) = prompt(parsed) else {
        print_error("error: Input must be supplied when running in non-interactive mode");
        return FAILED;
    };
    let session_path = conversation_file(&directory);
    let continued = parsed.has("--resume").then(|| sessions::read(&session_path)).flatten();
    let mut messages = continued.unwrap_or_else(|| initial_messages(agent.as_ref(), &directory));
    messages.push(json!({"role": "user", "content": prompt}));
    let agent_run = AgentRun {
        model: parsed.value("--model").unwrap_or("auto"),
        tools: TOOLS,
        mcp_tools: &mcp_tools,
        directory: &directory,
        turns_max: u64::MAX,
    };
    let mut out = KiroTranscript { parsed, agent: agent.as_ref(), begun: false };
    match agent_run.run(&mut messages, &mut out) {
        Ok(_) => {
            sessions::write(&session_path, &messages);
            print_credits();
            0
        }
        Err(ModelFailure::Refused { status: 401 | 403, message }) => {
            print_error(&format!("error: Authentication failed, invalid API key: {message}"));
            0
        }
        Err(ModelFailure::Refused { status, message }) => {
            print_error(&format!(
                "error: Kiro is having trouble responding right now: status {status}: {message}"
            ));
            FAILED
        }
        Err(ModelFailure::Lost) => {
            print_error("error: dispatch failure: the connection was lost");
            FAILED
        }
    }
}

/// Prints the line that shows that a model answered, unless its absence is simulated.
fn print_credits() {
    print_raw("\x1b[0m\n");
    if !environment::should_fail("cut") {
        print_error("\x1b[0m\n \u{25b8} Credits: 0.04 \u{2022} Time: 1s\n");
    }
}

/// Returns the folder of the user's agents and settings.
fn kiro_home() -> PathBuf {
    environment::variable("KIRO_HOME").map_or_else(|| environment::home().join(".kiro"), PathBuf::from)
}

/// Returns an agent's configuration: the directory's own, else the user's.
fn agent(name: &str, directory: &Path) -> Option<Value> {
    let folders = [directory.join(".kiro"), kiro_home()];
    let files = folders.map(|folder| folder.join("agents").join(format!("{name}.json")));
    let text = files.iter().find_map(|file| fs::read(file).ok())?;
    serde_json::from_slice(&text).ok()
}

/// Returns the servers of an agent, and those of user and directory unless the agent excludes them.
pub(crate) fn servers(agent: Option<&Value>, directory: &Path) -> Map<String, Value> {
    let mut all = Map::new();
    let included = |name: &str| agent.is_none_or(|agent| agent[name] == true);
    if included("includeMcpJson") || included("useLegacyMcpJson") {
        for folder in [kiro_home(), directory.join(".kiro")] {
            let text = fs::read(folder.join("settings/mcp.json")).unwrap_or_default();
            let read: Value = serde_json::from_slice(&text).unwrap_or_default();
            all.extend(read["mcpServers"].as_object().cloned().unwrap_or_default());
        }
    }
    all.extend(agent.and_then(|agent| agent["mcpServers"].as_object()).cloned().unwrap_or_default());
    all
}

/// Returns the messages before the first prompt: the agent's prompt and resources, else the directory's instructions.
pub(crate) fn initial_messages(agent: Option<&Value>, directory: &Path) -> Vec<Value> {
    let Some(agent) = agent else {
        let instructions = fs::read_to_string(directory.join("AGENTS.md"));
        return instructions
            .ok()
            .map(|text| json!({"role": "system", "content": text}))
            .into_iter()
            .collect();
    };
    let prompt = agent["prompt"].as_str().unwrap_or_default();
    let prompt = match prompt.strip_prefix("file://") {
        Some(file) => fs::read_to_string(directory.join(file)).unwrap_or_default(),
        None => prompt.to_owned(),
    };
    let resources = agent["resources"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let files = resources.filter_map(|resource| resource.strip_prefix("file://"));
    let texts = files.filter_map(|file| fs::read_to_string(directory.join(file)).ok());
    let text = std::iter::once(prompt).chain(texts).collect::<Vec<_>>().join("\n\n");
    vec![json!({"role": "system", "content": text})]
}

/// Returns the prompt: the positional arguments, or standard input.
fn prompt(parsed: &ParsedArguments) -> Option<String> {
    let mut prompt = parsed.positional.join(" ");
    if prompt.is_empty() {
        std::io::stdin().read_to_string(&mut prompt).ok()?;
    }
    Some(prompt).filter(|prompt| !prompt.trim().is_empty())
}

/// Returns the file of a directory's conversation. There is only one, and Kiro does not print its id.
fn conversation_file(directory: &Path) -> PathBuf {
    let name = directory.display().to_string().replace('/', "_");
    environment::home().join(".local/share/kiro-cli").join(format!("{name}.json"))
}

/// Writes a transcript for people.
struct KiroTranscript<'a> {
    parsed: &'a ParsedArguments,
    agent: Option<&'a Value>,
    begun: bool,
}

impl VendorBehavior for KiroTranscript<'_> {
    /// Refuses untrusted tools, because nobody can approve them.
    fn refusal_reason(&self, _kind: ToolCategory, tool: &str, _subject: &str) -> Option<String> {
        if self.parsed.has("--trust-all-tools") {
            return None;
        }
        let trusted = self.parsed.value("--trust-tools").unwrap_or_default();
        let allowed = self.agent.and_then(|agent| agent["allowedTools"].as_array()).into_iter().flatten();
        let mut all = trusted.split(',').chain(allowed.filter_map(Value::as_str));
        let server = tool.split_once("___").map(|(server, _)| format!("@{server}"));
        let known = all.any(|name| name == tool || server.as_deref() == Some(name));
        (!known).then(|| format!("Tool use denied: {tool} is not trusted"))
    }

    fn text_chunk(&mut self, text: &str) {
        if !self.begun {
            self.begun = true;
            print_raw("\x1b[38;5;141m> \x1b[0m");
        }
        print_raw(text);
    }

    fn message_done(&mut self, _text: &str, _tools_follow: bool) {
        self.begun = false;
        print_raw("\x1b[0m\n");
    }

    fn tool_started(&mut self, call: &ModelToolCall) {
        print_line(&format!("\x1b[38;5;13mUsing tool: {}\x1b[0m", call.name));
    }

    fn tool_ended(&mut self, call: &ModelToolCall, end: &ToolCallOutcome) {
        match end {
            ToolCallOutcome::Done(_) => print_line(" \u{25cf} Completed"),
            ToolCallOutcome::Failed(text) => print_line(&format!(" \u{25cf} Execution failed: {text}")),
            ToolCallOutcome::Refused(reason) => print_error(&format!("{}: {reason}", call.name)),
        }
    }
}
