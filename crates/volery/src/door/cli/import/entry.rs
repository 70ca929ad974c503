//! The servers that clients' configurations name. Reads only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::super::init::{Scope, Surroundings, Syntax, find};
use super::places::{Place, places};

/// The keys below which clients keep their servers.
const TABLES: [&str; 6] = ["mcpServers", "servers", "mcp", "mcp_servers", "context_servers", "extensions"];
/// The key below which Claude Code keeps what belongs to one project.
const PROJECTS: &str = "projects";

/// A server as a client starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerEntry {
    pub(super) client: &'static str,
    pub(super) file: PathBuf,
    pub(super) scope: Scope,
    pub(super) syntax: Syntax,
    /// The key of its table.
    pub(super) table: &'static str,
    /// The project below which it stands, in a file that has servers for several.
    pub(super) below: Option<String>,
    pub(super) name: String,
    pub(super) form: Form,
    /// The program and its arguments.
    pub(super) words: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    /// Where the client would read it, if not there.
    pub(super) belongs_in: Option<&'static str>,
}

/// How a client's file writes a server down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `command`, `args` and `env`, in JSON.
    Json,
    /// The program and its arguments as one list `command`, and `environment`.
    OneList,
    Toml,
    /// `cmd`, `args` and `envs`, in YAML.
    Goose,
}

impl ServerEntry {
    /// Returns the keys that lead to it in its file.
    pub(super) fn path(&self) -> Vec<String> {
        let below = self.below.iter().flat_map(|project| [PROJECTS, project.as_str()]);
        below.chain([self.table, self.name.as_str()]).map(str::to_owned).collect()
    }

    /// Tells whether one of the words that start it contains this text.
    pub(super) fn mentions(&self, text: &str) -> bool {
        self.words.iter().any(|word| word.to_lowercase().contains(text))
    }

    /// Returns the words that follow the first that contains this text: what its launcher takes is none of its own.
    pub(super) fn words_after(&self, text: &str) -> &[String] {
        let position = self.words.iter().position(|word| word.to_lowercase().contains(text));
        self.words.get(position.unwrap_or_default() + 1..).unwrap_or_default()
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
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for place in places(surroundings) {
        match read(&place, &surroundings.project) {
            Ok(Some(value)) => entries.extend(servers(&place, &surroundings.project, &value)),
            Ok(None) => {}
            Err(error) => problems.push(format!("{}: {error}", place.path.display())),
        }
    }
    (entries, problems)
}

fn read(place: &Place, project: &Path) -> Result<Option<Value>, String> {
    let found = find(&place.path, place.scope, project).map_err(|error| error.to_string())?;
    let value = found.text.map(|text| place.syntax.value(&text)).transpose();
    value.map_err(|error| error.to_string())
}

fn servers(place: &Place, project: &Path, value: &Value) -> Vec<ServerEntry> {
    let of = |below: Option<&String>, value: &Value| -> Vec<ServerEntry> {
        let tables = TABLES.into_iter().filter_map(|table| Some((table, value.get(table)?.as_object()?)));
        let entries = tables.flat_map(|(table, entries)| entries.iter().map(move |entry| (table, entry)));
        entries.filter_map(|(table, (name, entry))| server(place, below, table, name, entry)).collect()
    };
    let mut servers = of(None, value);
    let projects = value.get(PROJECTS).and_then(Value::as_object).into_iter().flatten();
    // Those of other projects are none of this one's.
    for (named, value) in projects.filter(|(named, _)| is_same(Path::new(named), project)) {
        servers.extend(of(Some(named), value));
    }
    servers
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    one == other || real(one) == real(other)
}

fn server(
    place: &Place,
    below: Option<&String>,
    table: &'static str,
    name: &str,
    entry: &Value,
) -> Option<ServerEntry> {
    let command = entry.get("command").or_else(|| entry.get("cmd"))?;
    let form = match (place.syntax, command.is_array()) {
        (Syntax::Toml, _) => Form::Toml,
        (Syntax::Yaml, _) => Form::Goose,
        (Syntax::Json, true) => Form::OneList,
        (Syntax::Json, false) => Form::Json,
    };
    let mut words = texts(command);
    words.extend(entry.get("args").map(texts).unwrap_or_default());
    let env = ["env", "environment", "envs"].into_iter().find_map(|key| entry.get(key)?.as_object());
    Some(ServerEntry {
        client: place.client,
        file: place.path.clone(),
        scope: place.scope,
        syntax: place.syntax,
        table,
        below: below.cloned(),
        name: name.to_owned(),
        form,
        words,
        env: env.map(variables).unwrap_or_default(),
        belongs_in: place.belongs_in,
    })
}

fn variables(env: &Map<String, Value>) -> BTreeMap<String, String> {
    env.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}
