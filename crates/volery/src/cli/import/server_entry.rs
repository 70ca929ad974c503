//! Reads the servers in clients' configurations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use backends::client_setup::{ClientEnvironment, ConfigScope, Syntax};
use serde_json::{Map, Value};

use super::super::init::{SyntaxEdit, find_config_file};
use super::server_files::{ServerFile, find_server_files};

/// The keys under which clients store their servers.
const TABLES: [&str; 6] = ["mcpServers", "servers", "mcp", "mcp_servers", "context_servers", "extensions"];
/// The key under which Claude Code stores settings of a project.
const PROJECTS: &str = "projects";

/// A server in a client's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerEntry {
    pub(super) client: &'static str,
    pub(super) file: PathBuf,
    pub(super) scope: ConfigScope,
    pub(super) syntax: Syntax,
    /// The key of its table.
    pub(super) table: &'static str,
    /// The project of the entry, in a file with servers of several projects.
    pub(super) below: Option<String>,
    pub(super) name: String,
    pub(super) form: EntryForm,
    /// The program and its arguments.
    pub(super) command_line: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    /// The file where the client expects it, if not this one.
    pub(super) belongs_in: Option<&'static str>,
}

/// The format of a server in a client's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryForm {
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

    /// Returns whether the program or an argument contains this text.
    pub(super) fn mentions(&self, text: &str) -> bool {
        self.command_line.iter().any(|argument| argument.to_lowercase().contains(text))
    }

    /// Returns the arguments after the first word that contains this text: those before it belong to a launcher.
    pub(super) fn arguments_after(&self, text: &str) -> &[String] {
        let position = self.command_line.iter().position(|argument| argument.to_lowercase().contains(text));
        self.command_line.get(position.unwrap_or_default() + 1..).unwrap_or_default()
    }

    /// Returns the value of a flag, in any notation.
    pub(super) fn flag(&self, name: &str) -> Option<&str> {
        let mut command_line = self.command_line.iter();
        while let Some(argument) = command_line.next() {
            let Some(flag) = parse_flag(argument) else { continue };
            match flag.split_once('=') {
                Some((flag, value)) if flag == name => return Some(value),
                None if flag == name => return command_line.next().map(String::as_str),
                Some(_) | None => {}
            }
        }
        None
    }

    /// Returns the path in a variable.
    pub(super) fn env_path(&self, name: &str, base: &Path) -> Option<PathBuf> {
        self.env.get(name).map(|path| base.join(path))
    }
}

/// Returns a flag without its dashes: one or two, as in Go.
pub(super) fn parse_flag(argument: &str) -> Option<&str> {
    argument
        .strip_prefix("--")
        .or_else(|| argument.strip_prefix('-'))
        .filter(|flag| flag.starts_with(|char: char| char.is_ascii_alphabetic()))
}

/// Returns the servers of all clients' configurations, and the errors of unreadable files.
pub(super) fn entries(environment: &ClientEnvironment) -> (Vec<ServerEntry>, Vec<String>) {
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for file in find_server_files(environment) {
        match read(&file, &environment.project) {
            Ok(Some(value)) => entries.extend(servers(&file, &environment.project, &value)),
            Ok(None) => {}
            Err(error) => problems.push(format!("{}: {error}", file.path.display())),
        }
    }
    (entries, problems)
}

fn read(file: &ServerFile, project: &Path) -> Result<Option<Value>, String> {
    let found = find_config_file(&file.path, file.scope, project).map_err(|error| error.to_string())?;
    let value = found.text.map(|text| file.syntax.value(&text)).transpose();
    value.map_err(|error| error.to_string())
}

fn servers(file: &ServerFile, project: &Path, value: &Value) -> Vec<ServerEntry> {
    let collect = |below: Option<&String>, value: &Value| -> Vec<ServerEntry> {
        let tables = TABLES.into_iter().filter_map(|table| Some((table, value.get(table)?.as_object()?)));
        let entries = tables.flat_map(|(table, entries)| entries.iter().map(move |entry| (table, entry)));
        entries.filter_map(|(table, (name, entry))| server(file, below, table, name, entry)).collect()
    };
    let mut servers = collect(None, value);
    let projects = value.get(PROJECTS).and_then(Value::as_object).into_iter().flatten();
    // Servers of other projects are skipped.
    for (project_path, value) in
        projects.filter(|(project_path, _)| is_same_path(Path::new(project_path), project))
    {
        servers.extend(collect(Some(project_path), value));
    }
    servers
}

fn is_same_path(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    one == other || real(one) == real(other)
}

fn server(
    file: &ServerFile,
    below: Option<&String>,
    table: &'static str,
    name: &str,
    entry: &Value,
) -> Option<ServerEntry> {
    let command = entry.get("command").or_else(|| entry.get("cmd"))?;
    let form = match (file.syntax, command.is_array()) {
        (Syntax::Toml, _) => EntryForm::Toml,
        (Syntax::Yaml, _) => EntryForm::Goose,
        (Syntax::Json, true) => EntryForm::OneList,
        (Syntax::Json, false) => EntryForm::Json,
    };
    let mut command_line = texts(command);
    command_line.extend(entry.get("args").map(texts).unwrap_or_default());
    let env = ["env", "environment", "envs"].into_iter().find_map(|key| entry.get(key)?.as_object());
    Some(ServerEntry {
        client: file.client,
        file: file.path.clone(),
        scope: file.scope,
        syntax: file.syntax,
        table,
        below: below.cloned(),
        name: name.to_owned(),
        form,
        command_line,
        env: env.map(variables).unwrap_or_default(),
        belongs_in: file.belongs_in,
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
