//! Kiro's program, `kiro-cli chat --no-interactive`: it writes for people, keeps one conversation per directory, and
//! ends with 0 also where nobody could be logged in.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::agent::{End, Voice, Work};
use crate::arguments::{self, Given, Known, attached, flag, value};
use crate::kiro_acp;
use crate::mcp;
use crate::model::{Call, Trouble};
use crate::place;
use crate::sessions;
use crate::tools::{Kind, Tool};
use crate::{complain, say, say_raw};

const OPTIONS: &[Known] = &[
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
    Tool { name: "fs_read", kind: Kind::Read, subject: "path", text: "" },
    Tool { name: "fs_write", kind: Kind::Write, subject: "path", text: "file_text" },
    Tool { name: "execute_bash", kind: Kind::Shell, subject: "command", text: "" },
];

const FAILED: u8 = 1;
const NO_SERVER: u8 = 3;
const NO_AGENT: u8 = 4;

pub(crate) fn run(arguments: &[String]) -> u8 {
    if arguments.first().is_some_and(|word| word == "--version") {
        say("kiro-cli 2.3.0-stand-in");
        return 0;
    }
    let rest = match arguments.split_first().map(|(word, rest)| (word.as_str(), rest)) {
        Some(("acp", [])) => return kiro_acp::serve(),
        Some(("chat", rest)) => rest,
        _ => {
            complain("error: stand-in: only `chat` and `acp`");
            return FAILED;
        }
    };
    match arguments::read(OPTIONS, rest) {
        Ok(given) if given.has("--no-interactive") => chat(&given),
        Ok(_) => {
            complain("error: stand-in: only --no-interactive");
            FAILED
        }
        Err(reason) => {
            complain(&format!("error: {reason}"));
            FAILED
        }
    }
}

fn chat(given: &Given) -> u8 {
    if place::variable("KIRO_API_KEY").is_none() {
        complain("Open this URL: https://view.awsapps.com/start/#/device?user_code=ABCD-EFGH");
        place::wait_for_ever();
    }
    let Ok(directory) = std::env::current_dir() else { return FAILED };
    let agent = match given.value("--agent").map(|name| agent(name, &directory)) {
        None => None,
        Some(Some(agent)) => Some(agent),
        Some(None) => {
            complain(&format!(
                "error: no agent with name {} found",
                given.value("--agent").unwrap_or_default()
            ));
            return NO_AGENT;
        }
    };
    let servers = servers(agent.as_ref(), &directory);
    let mcp_tools = match mcp::tools(&servers, &directory, |server, tool| format!("{server}___{tool}")) {
        Ok(tools) => tools,
        Err(failed) if given.has("--require-mcp-startup") => {
            complain(&format!("error: MCP server {} failed to start", failed.server));
            return NO_SERVER;
        }
        Err(failed) => {
            complain(&format!("warning: MCP server {} failed to start", failed.server));
            Vec::new()
        }
    };
    let Some(prompt) = prompt(given) else {
        complain("error: Input must be supplied when running in non-interactive mode");
        return FAILED;
    };
    let kept = conversation_file(&directory);
    let continued = given.has("--resume").then(|| sessions::read(&kept)).flatten();
    let mut messages = continued.unwrap_or_else(|| beginning(agent.as_ref(), &directory));
    messages.push(json!({"role": "user", "content": prompt}));
    let work = Work {
        model: given.value("--model").unwrap_or("auto"),
        tools: TOOLS,
        mcp_tools: &mcp_tools,
        directory: &directory,
        turns_max: u64::MAX,
    };
    let mut out = Transcript { given, agent: agent.as_ref(), begun: false };
    match work.run(&mut messages, &mut out) {
        Ok(_) => {
            sessions::write(&kept, &messages);
            credits();
            0
        }
        Err(Trouble::Refused { status: 401 | 403, message }) => {
            complain(&format!("error: Authentication failed, invalid API key: {message}"));
            0
        }
        Err(Trouble::Refused { status, message }) => {
            complain(&format!(
                "error: Kiro is having trouble responding right now: status {status}: {message}"
            ));
            FAILED
        }
        Err(Trouble::Lost) => {
            complain("error: dispatch failure: the connection was lost");
            FAILED
        }
    }
}

/// The line that shows that a model answered, unless it shall be missing.
fn credits() {
    say_raw("\x1b[0m\n");
    if !place::fails("cut") {
        complain("\x1b[0m\n \u{25b8} Credits: 0.04 \u{2022} Time: 1s\n");
    }
}

/// Returns where the user's agents and settings are.
fn kiro_home() -> PathBuf {
    place::variable("KIRO_HOME").map_or_else(|| place::home().join(".kiro"), PathBuf::from)
}

/// Returns an agent's configuration: the directory's own, else the user's.
fn agent(name: &str, directory: &Path) -> Option<Value> {
    let folders = [directory.join(".kiro"), kiro_home()];
    let files = folders.map(|folder| folder.join("agents").join(format!("{name}.json")));
    let text = files.iter().find_map(|file| fs::read(file).ok())?;
    serde_json::from_slice(&text).ok()
}

/// Returns the servers of an agent, and those of user and directory unless the agent leaves them out.
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

/// Returns what stands before the first prompt: an agent's own words and resources, else the directory's instructions.
pub(crate) fn beginning(agent: Option<&Value>, directory: &Path) -> Vec<Value> {
    let Some(agent) = agent else {
        let own = fs::read_to_string(directory.join("AGENTS.md"));
        return own.ok().map(|text| json!({"role": "system", "content": text})).into_iter().collect();
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

/// Returns the prompt: the words behind the options, or what is piped in.
fn prompt(given: &Given) -> Option<String> {
    let mut prompt = given.words.join(" ");
    if prompt.is_empty() {
        std::io::stdin().read_to_string(&mut prompt).ok()?;
    }
    Some(prompt).filter(|prompt| !prompt.trim().is_empty())
}

/// Returns where the conversation of a directory is kept: there is one, and its id is told to nobody.
fn conversation_file(directory: &Path) -> PathBuf {
    let name = directory.display().to_string().replace('/', "_");
    place::home().join(".local/share/kiro-cli").join(format!("{name}.json"))
}

/// What is written for people.
struct Transcript<'a> {
    given: &'a Given,
    agent: Option<&'a Value>,
    begun: bool,
}

impl Voice for Transcript<'_> {
    /// What is not trusted would be asked for, and nobody is there.
    fn refuses(&self, _kind: Kind, tool: &str, _subject: &str) -> Option<String> {
        if self.given.has("--trust-all-tools") {
            return None;
        }
        let trusted = self.given.value("--trust-tools").unwrap_or_default();
        let allowed = self.agent.and_then(|agent| agent["allowedTools"].as_array()).into_iter().flatten();
        let mut all = trusted.split(',').chain(allowed.filter_map(Value::as_str));
        let server = tool.split_once("___").map(|(server, _)| format!("@{server}"));
        let known = all.any(|name| name == tool || server.as_deref() == Some(name));
        (!known).then(|| format!("Tool use denied: {tool} is not trusted"))
    }

    fn piece(&mut self, text: &str) {
        if !self.begun {
            self.begun = true;
            say_raw("\x1b[38;5;141m> \x1b[0m");
        }
        say_raw(text);
    }

    fn message(&mut self, _text: &str, _tools_follow: bool) {
        self.begun = false;
        say_raw("\x1b[0m\n");
    }

    fn began(&mut self, call: &Call) {
        say(&format!("\x1b[38;5;13mUsing tool: {}\x1b[0m", call.name));
    }

    fn ended(&mut self, call: &Call, end: &End) {
        match end {
            End::Done(_) => say(" \u{25cf} Completed"),
            End::Failed(text) => say(&format!(" \u{25cf} Execution failed: {text}")),
            End::Refused(reason) => complain(&format!("{}: {reason}", call.name)),
        }
    }
}
