//! The three tools that every one of them has, under its vendor's names, and how they are carried out.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// What a tool does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Shell,
    /// One of an MCP server.
    Mcp,
}

/// A vendor's name for a tool, and those of its arguments.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The path or the command.
    pub(crate) subject: &'static str,
    /// The text to write.
    pub(crate) text: &'static str,
}

impl Tool {
    pub(crate) fn described(&self) -> Value {
        described(self.name)
    }

    pub(crate) fn subject<'a>(&self, arguments: &'a Value) -> &'a str {
        arguments[self.subject].as_str().unwrap_or_default()
    }

    /// Does it; returns what to tell the model, and whether it went well.
    pub(crate) fn carry_out(&self, arguments: &Value, directory: &Path) -> Result<String, String> {
        let subject = self.subject(arguments);
        let told = |error: std::io::Error| format!("{subject}: {error}");
        match self.kind {
            Kind::Read => fs::read_to_string(directory.join(subject)).map_err(told),
            Kind::Write => {
                let text = arguments[self.text].as_str().unwrap_or_default();
                fs::write(directory.join(subject), text).map_err(told)?;
                Ok(format!("wrote {subject}"))
            }
            Kind::Shell => shell(subject, directory),
            Kind::Mcp => Err("no such tool".to_owned()),
        }
    }
}

/// Returns a tool as the model is told of it.
pub(crate) fn described(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
}

#[expect(clippy::disallowed_methods, reason = "a vendor's program starts its own commands")]
fn shell(command: &str, directory: &Path) -> Result<String, String> {
    let output = Command::new("sh").arg("-c").arg(command).current_dir(directory).output();
    let output = output.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(0) => Ok(said),
        code => Err(format!("{said}{}\n{code:?}", String::from_utf8_lossy(&output.stderr))),
    }
}
