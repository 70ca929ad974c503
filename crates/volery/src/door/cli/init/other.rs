//! Any other client: the text that most of them take, to paste by hand.

use serde::Serialize;
use serde_json::json;

use super::client::{SERVER, Server};
use super::edit::{Entry, Syntax, apply};

/// The name by which `--client` knows it.
pub(super) const NAME: &str = "other";

/// What to paste into a client's configuration or into its form for a new server.
#[derive(Debug, Serialize)]
pub(super) struct Paste {
    pub(super) json: String,
    pub(super) command: String,
    pub(super) args: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) env: Vec<(String, String)>,
}

impl Paste {
    pub(super) fn of(server: &Server) -> Self {
        let entry = json!({"command": server.command, "args": server.arguments});
        let entry = Entry::key(&["mcpServers", SERVER], server.with_env("env", entry));
        // An empty file takes every entry.
        let json = apply(Syntax::Json, "", &[entry]).map(|(text, _)| text).unwrap_or_default();
        Self {
            json,
            command: server.command.clone(),
            args: server.arguments.clone(),
            env: server.env.clone(),
        }
    }

    /// Returns the lines that people read.
    pub(super) fn page(&self) -> String {
        let mut page = format!("{}\ncommand: {}\n", self.json, self.command);
        page.push_str(&format!("arguments: {}\n", self.args.join(" ")));
        for (name, value) in &self.env {
            page.push_str(&format!("variable: {name}={value}\n"));
        }
        page
    }
}
