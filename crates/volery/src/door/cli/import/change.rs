//! What an entry becomes, as its client's file has to say it.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::super::init::Entry;
use super::entry::{Form, ServerEntry};

/// What an entry becomes. What it has beside this stays.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    pub(super) command: String,
    args: Vec<String>,
    /// Variables to set; those that are there stay.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) env: Map<String, Value>,
    /// The lines, in the client's own form.
    pub(super) lines: Vec<String>,
}

impl Change {
    pub(super) fn new(form: Form, command: String, args: Vec<String>, env: Map<String, Value>) -> Self {
        let mut lines = match form {
            Form::Json => vec![format!("\"command\": {}, \"args\": {}", json!(command), json!(args))],
            Form::OneList => vec![format!("\"command\": {}", json!(one_list(&command, &args)))],
            // A list of texts is written the same in these.
            Form::Toml => vec![format!("command = {}", json!(command)), format!("args = {}", json!(args))],
            Form::Goose => vec![format!("cmd: {}", json!(command)), format!("args: {}", json!(args))],
        };
        let table = form.variables();
        lines.extend(env.iter().map(|(name, value)| match form {
            Form::Toml => format!("and in {table}: {name} = {value}"),
            Form::Goose => format!("and in {table}: {name}: {value}"),
            Form::Json | Form::OneList => format!("and in \"{table}\": \"{name}\": {value}"),
        }));
        Self { command, args, env, lines }
    }

    /// Returns the change as what shall stand in the file of the entry.
    pub(super) fn edit(&self, entry: &ServerEntry) -> Entry {
        let mut members = match entry.form {
            Form::Json | Form::Toml => json!({"command": self.command, "args": self.args}),
            Form::OneList => json!({"command": one_list(&self.command, &self.args)}),
            Form::Goose => json!({"cmd": self.command, "args": self.args}),
        };
        if !self.env.is_empty() {
            members[entry.form.variables()] = Value::Object(self.env.clone());
        }
        Entry::Key { path: entry.path(), value: members }
    }
}

impl Form {
    /// Returns the key below which variables stand.
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
