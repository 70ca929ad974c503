//! The three tools that all of these programs have, under their vendors' names, and their execution.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// The effect of a tool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolCategory {
    Read,
    Write,
    Shell,
    /// A tool of an MCP server.
    Mcp,
}

/// A vendor's names for a tool and its arguments.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) kind: ToolCategory,
    /// The argument for the path or the command.
    pub(crate) subject: &'static str,
    /// The argument for the text to write.
    pub(crate) text: &'static str,
}

impl Tool {
    pub(crate) fn definition(&self) -> Value {
        definition(self.name)
    }

    pub(crate) fn subject<'a>(&self, arguments: &'a Value) -> &'a str {
        arguments[self.subject].as_str().unwrap_or_default()
    }

    /// Executes the tool and returns the output for the model.
    pub(crate) fn execute(&self, arguments: &Value, directory: &Path) -> Result<String, String> {
        let subject = self.subject(arguments);
        let describe = |error: std::io::Error| format!("{subject}: {error}");
        match self.kind {
            ToolCategory::Read => fs::read_to_string(directory.join(subject)).map_err(describe),
            ToolCategory::Write => {
                let text = arguments[self.text].as_str().unwrap_or_default();
                fs::write(directory.join(subject), text).map_err(describe)?;
                Ok(format!("wrote {subject}"))
            }
            ToolCategory::Shell => shell(subject, directory),
            ToolCategory::Mcp => Err("no such tool".to_owned()),
        }
    }
}

/// Returns the definition of a tool for the model.
pub(crate) fn definition(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
}

#[expect(clippy::disallowed_methods, reason = "a vendor's program starts its own commands")]
fn shell(command: &str, directory: &Path) -> Result<String, String> {
    let output = Command::new("sh").arg("-c").arg(command).current_dir(directory).output();
    let output = output.map_err(|error| error.to_string())?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(0) => Ok(stdout),
        code => Err(format!("{stdout}{}\n{code:?}", String::from_utf8_lossy(&output.stderr))),
    }
}
