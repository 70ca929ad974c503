//! The servers that clients' configurations name. Reads only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::init::{CLIENTS, Scope, Server, Surroundings, find};

/// The keys below which clients keep their servers.
const TABLES: [&str; 4] = ["mcpServers", "servers", "mcp", "mcp_servers"];

/// A server as a client starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerEntry {
    pub(super) client: &'static str,
    pub(super) file: PathBuf,
    pub(super) name: String,
    /// The program and its arguments.
    pub(super) words: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
}

impl ServerEntry {
    /// Tells whether one of the words that start it contains this text.
    pub(super) fn mentions(&self, text: &str) -> bool {
        self.words.iter().any(|word| word.to_lowercase().contains(text))
    }

    /// Returns the value of a flag, in any of the ways to write it.
    pub(super) fn flag(&self, name: &str) -> Option<&str> {
        let mut words = self.words.iter();
        while let Some(word) = words.next() {
            let Some(flag) = flag_of(word) else { continue };
            match flag.split_once('=') {
                Some((flag, value)) if flag == name => return Some(value),
                None if flag == name => return words.next().map(String::as_str),
                Some(_) | None => {}
            }
        }
        None
    }

    /// Returns a setting that is a path, from a variable.
    pub(super) fn env_path(&self, name: &str, base: &Path) -> Option<PathBuf> {
        self.env.get(name).map(|path| base.join(path))
    }
}

/// Returns a word as a flag without its dashes: one or two, as Go takes them.
pub(super) fn flag_of(word: &str) -> Option<&str> {
    word.strip_prefix("--")
        .or_else(|| word.strip_prefix('-'))
        .filter(|flag| flag.starts_with(|char: char| char.is_ascii_alphabetic()))
}

/// Returns every server of every client's configuration, and what is wrong with files that could not be read.
pub(super) fn entries(surroundings: &Surroundings) -> (Vec<ServerEntry>, Vec<String>) {
    let nothing = Server { command: String::new(), arguments: Vec::new(), env: Vec::new() };
    let mut seen = BTreeSet::new();
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for client in CLIENTS {
        for scope in [Scope::Project, Scope::User] {
            for wish in (client.wishes)(surroundings, scope, &nothing) {
                if !seen.insert(wish.path.clone()) {
                    continue;
                }
                let found =
                    find(&wish.path, wish.scope, &surroundings.project).map_err(|error| error.to_string());
                let text = found.map(|found| found.text);
                let value = text.and_then(|text| {
                    text.map(|text| wish.syntax.value(&text).map_err(|error| error.to_string())).transpose()
                });
                match value {
                    Ok(Some(value)) => entries.extend(servers(client.name, &wish.path, &value)),
                    Ok(None) => {}
                    Err(error) => problems.push(format!("{}: {error}", wish.path.display())),
                }
            }
        }
    }
    (entries, problems)
}

fn servers(client: &'static str, file: &Path, value: &Value) -> Vec<ServerEntry> {
    let tables = TABLES.iter().filter_map(|table| value.get(table)?.as_object());
    let servers = tables.flatten().filter_map(|(name, entry)| {
        let command = entry.get("command")?;
        let mut words = texts(command);
        words.extend(entry.get("args").map(texts).unwrap_or_default());
        let env = entry.get("env").or_else(|| entry.get("environment")).and_then(Value::as_object);
        let env = env
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        Some(ServerEntry { client, file: file.to_owned(), name: name.clone(), words, env: env.collect() })
    });
    servers.collect()
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}
