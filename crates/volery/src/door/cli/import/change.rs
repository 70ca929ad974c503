//! What an entry becomes, as its client's file has to say it.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::entry::Form;

/// What an entry becomes. What it has beside this stays.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    command: &'static str,
    args: Vec<String>,
    /// Variables to set; those that are there stay.
    #[serde(skip_serializing_if = "Map::is_empty")]
    env: Map<String, Value>,
    /// The lines, in the client's own form.
    pub(super) lines: Vec<String>,
}

impl Change {
    pub(super) fn new(form: Form, args: Vec<String>, env: Map<String, Value>) -> Self {
        let command = "volery";
        let mut lines = match form {
            Form::Json => vec![format!("\"command\": \"{command}\", \"args\": {}", json!(args))],
            Form::OneList => {
                let words: Vec<&str> =
                    std::iter::once(command).chain(args.iter().map(String::as_str)).collect();
                vec![format!("\"command\": {}", json!(words))]
            }
            // A list of texts is written the same in both.
            Form::Toml => vec![format!("command = \"{command}\""), format!("args = {}", json!(args))],
        };
        let table = if form == Form::OneList { "environment" } else { "env" };
        let sign = if form == Form::Toml { " =" } else { ":" };
        lines.extend(env.iter().map(|(name, value)| match form {
            Form::Toml => format!("and in {table}: {name}{sign} {value}"),
            Form::Json | Form::OneList => format!("and in \"{table}\": \"{name}\"{sign} {value}"),
        }));
        Self { command, args, env, lines }
    }
}
