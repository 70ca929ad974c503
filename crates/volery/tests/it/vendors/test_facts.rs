//! What tests know about a vendor's program, from the file `test_facts.toml` in the vendor's folder: the tools of its
//! model, the files of its user, and its message without a login. The program is not compiled with these facts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fake_llm::ScriptedReply;
use serde::Deserialize;
use serde_json::Value;

/// The facts about one vendor's program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TestFacts {
    /// Where it keeps its own state below the user's home.
    pub(super) state_folders: Vec<String>,
    /// The file of instructions that it reads in its directory.
    pub(super) instructions: String,
    /// The file in which it looks for a project's own MCP servers.
    #[serde(default = "usual_project_servers")]
    pub(super) project_servers: String,
    /// The tool with which its model answers in a shape, if it has one.
    pub(super) schema_tool: Option<String>,
    pub(super) fake_cli: Option<FakeCliFacts>,
    write: CallTemplate,
    execute: CallTemplate,
    execute_beyond: Option<CallTemplate>,
    server_tool: ServerTool,
    pub(super) logged_out: LoggedOut,
    pub(super) users_server: Option<UsersServer>,
    #[serde(default)]
    pub(super) acp: AcpFacts,
}

/// A fake program in place of the vendor's.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FakeCliFacts {
    /// The name on the search path.
    pub(super) program: String,
    /// The variable of its key, which it demands.
    pub(super) key: String,
}

/// A call of a tool by the model, as JSON with words in capitals in place of values.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallTemplate {
    tool: String,
    input: String,
}

/// The name under which the model sees the tool of a server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerTool {
    name: String,
    namespace: Option<String>,
}

/// The end of a run without a login.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoggedOut {
    pub(super) error: String,
    pub(super) message: String,
    pub(super) advice: String,
}

/// An MCP server in the user's settings of the program, and in those of a project.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UsersServer {
    pub(super) file: String,
    pub(super) project_file: Option<String>,
    pub(super) key: String,
    entry: String,
}

/// Differences of the program over ACP.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AcpFacts {
    /// The program in the list of those that are installed, if it is another one.
    pub(super) program: Option<String>,
    pub(super) logged_out: Option<LoggedOut>,
}

fn usual_project_servers() -> String {
    ".mcp.json".to_owned()
}

impl TestFacts {
    /// Reads the facts about the program that a backend drives.
    pub(super) fn read(backend: &str) -> Self {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backends/src");
        let file = sources.join(driver_program(backend)).join("test_facts.toml");
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// Returns a model reply that writes a file.
    pub(super) fn writes(&self, path: &str, text: &str) -> ScriptedReply {
        self.write.reply(&[("PATH", path), ("TEXT", text)])
    }

    /// Returns a model reply that executes a command.
    pub(super) fn executes(&self, command: &str) -> ScriptedReply {
        self.execute.reply(&[("COMMAND", command)])
    }

    /// Returns a model reply that executes a command outside the sandbox.
    pub(super) fn executes_beyond(&self, command: &str) -> ScriptedReply {
        self.execute_beyond.as_ref().unwrap_or(&self.execute).reply(&[("COMMAND", command)])
    }

    /// Returns a model reply that calls the tool of an MCP server.
    pub(super) fn calls_server(&self, server: &str, tool: &str, input: Value) -> ScriptedReply {
        let filled = |name: &str| name.replace("SERVER", server).replace("TOOL", tool);
        let name = filled(&self.server_tool.name);
        match &self.server_tool.namespace {
            Some(namespace) => {
                ScriptedReply::say("I ask somebody.").and_call_in(&filled(namespace), &name, input)
            }
            None => ScriptedReply::call(&name, input),
        }
    }
}

impl CallTemplate {
    fn reply(&self, values: &[(&str, &str)]) -> ScriptedReply {
        ScriptedReply::call(&self.tool, fill_in(&self.input, values))
    }
}

impl UsersServer {
    /// Returns the entry of a server that is this program.
    pub(super) fn entry(&self, script: &str) -> Value {
        fill_in(&self.entry, &[("SCRIPT", script)])
    }
}

/// Returns the program that a backend drives, whichever way: the name of its vendor's folder.
pub(super) fn driver_program(backend: &str) -> &str {
    match backend {
        "glm" | "claude-kimi" => "claude",
        name => name.strip_prefix("acp-").unwrap_or(name),
    }
}

/// Parses JSON and replaces words in its texts.
fn fill_in(json: &str, values: &[(&str, &str)]) -> Value {
    fn replaced(value: Value, values: &[(&str, &str)]) -> Value {
        match value {
            Value::String(text) => {
                // One pass per word: a value is not searched for later words, which it could contain.
                let mut parts = vec![(text, false)];
                for (word, with) in values {
                    parts = parts.into_iter().flat_map(|part| split(part, word, with)).collect();
                }
                Value::String(parts.into_iter().map(|(text, _)| text).collect())
            }
            Value::Array(items) => items.into_iter().map(|item| replaced(item, values)).collect(),
            Value::Object(members) => {
                members.into_iter().map(|(key, value)| (key, replaced(value, values))).collect()
            }
            other => other,
        }
    }
    replaced(serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}")), values)
}

/// Splits a text at a word, and marks what replaces it as done.
fn split((text, is_done): (String, bool), word: &str, with: &str) -> Vec<(String, bool)> {
    if is_done {
        return vec![(text, true)];
    }
    let mut parts = Vec::new();
    for (at, piece) in text.split(word).enumerate() {
        if at > 0 {
            parts.push((with.to_owned(), true));
        }
        parts.push((piece.to_owned(), false));
    }
    parts
}

/// Every vendor has its facts, so that a missing or wrong file fails before any program starts.
#[test]
fn every_vendor_has_facts() {
    let read: BTreeMap<&str, TestFacts> = backends::registry::VENDORS
        .iter()
        .map(|vendor| (vendor.name, TestFacts::read(vendor.name)))
        .collect();
    for vendor in backends::registry::VENDORS.iter().filter(|vendor| vendor.acp.is_some()) {
        let facts = &read[vendor.name];
        assert!(facts.acp.logged_out.is_some() || facts.fake_cli.is_some(), "{}", vendor.name);
    }
}
