//! Clients that Volery does not know: prints an entry that most of them accept, to paste by hand.

use backends::client_setup::{ConfigEntry, SERVER, ServerCommand, Syntax};
use serde::Serialize;
use serde_json::json;

use super::edit::apply;

/// The value of `--client`.
pub(super) const NAME: &str = "other";

/// The text for a client's configuration, or for its form for a new server.
#[derive(Debug, Serialize)]
pub(super) struct Paste {
    pub(super) json: String,
    pub(super) command: String,
    pub(super) args: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) env: Vec<(String, String)>,
}

impl Paste {
    pub(super) fn new(server: &ServerCommand) -> Self {
        let entry = json!({"command": server.command, "args": server.arguments});
        let entry = ConfigEntry::key(&["mcpServers", SERVER], server.with_env("env", entry));
        // Editing an empty file cannot fail.
        let json = apply(Syntax::Json, "", &[entry]).map(|(text, _)| text).unwrap_or_default();
        Self {
            json,
            command: server.command.clone(),
            args: server.arguments.clone(),
            env: server.env.clone(),
        }
    }

    /// Returns the text for people.
    pub(super) fn page(&self) -> String {
        let mut page = format!("{}\ncommand: {}\n", self.json, self.command);
        page.push_str(&format!("arguments: {}\n", self.args.join(" ")));
        for (name, value) in &self.env {
            page.push_str(&format!("variable: {name}={value}\n"));
        }
        page
    }
}
