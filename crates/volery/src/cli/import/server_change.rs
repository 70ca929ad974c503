//! The change of a client's entry, in the format of the client's file.

use backends::client_setup::ConfigEntry;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::server_entry::{EntryForm, ServerEntry};

/// The new members of an entry; its other members stay.
#[derive(Debug, Serialize)]
pub(super) struct ServerChange {
    pub(super) command: String,
    args: Vec<String>,
    /// Variables to set; existing ones stay.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) env: Map<String, Value>,
    /// The lines, in the client's format.
    pub(super) lines: Vec<String>,
}

impl ServerChange {
    pub(super) fn new(form: EntryForm, command: String, args: Vec<String>, env: Map<String, Value>) -> Self {
        let mut lines = match form {
            EntryForm::Json => vec![format!("\"command\": {}, \"args\": {}", json!(command), json!(args))],
            EntryForm::OneList => vec![format!("\"command\": {}", json!(one_list(&command, &args)))],
            // Lists of strings have the same syntax in JSON, TOML and YAML.
            EntryForm::Toml => {
                vec![format!("command = {}", json!(command)), format!("args = {}", json!(args))]
            }
            EntryForm::Goose => vec![format!("cmd: {}", json!(command)), format!("args: {}", json!(args))],
        };
        let table = form.variables();
        lines.extend(env.iter().map(|(name, value)| match form {
            EntryForm::Toml => format!("and in {table}: {name} = {value}"),
            EntryForm::Goose => format!("and in {table}: {name}: {value}"),
            EntryForm::Json | EntryForm::OneList => format!("and in \"{table}\": \"{name}\": {value}"),
        }));
        Self { command, args, env, lines }
    }

    /// Returns the change as an edit of the entry's file.
    pub(super) fn edit(&self, entry: &ServerEntry) -> ConfigEntry {
        let mut members = match entry.form {
            EntryForm::Json | EntryForm::Toml => json!({"command": self.command, "args": self.args}),
            EntryForm::OneList => json!({"command": one_list(&self.command, &self.args)}),
            EntryForm::Goose => json!({"cmd": self.command, "args": self.args}),
        };
        if !self.env.is_empty() {
            members[entry.form.variables()] = Value::Object(self.env.clone());
        }
        ConfigEntry::Key { path: entry.path(), value: members }
    }
}

impl EntryForm {
    /// Returns the key of the environment variables.
    fn variables(self) -> &'static str {
        match self {
            Self::Json | Self::Toml => "env",
            Self::OneList => "environment",
            Self::Goose => "envs",
        }
    }
}

fn one_list<'a>(command: &'a str, args: &'a [String]) -> Vec<&'a str> {
    std::iter::once(command).chain(args.iter().map(String::as_str)).collect()
}
