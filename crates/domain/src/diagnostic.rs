//! A diagnostic about a text that a person wrote: location, message and hint.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Warning,
    Error,
}

/// One diagnostic. Lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    pub severity: Severity,
    pub file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Diagnostic {
    pub fn error(file: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, file, message.into())
    }

    pub fn warning(file: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, file, message.into())
    }

    fn new(severity: Severity, file: &str, message: String) -> Self {
        Self { severity, file: file.to_owned(), line: None, column: None, message, hint: None }
    }

    #[must_use]
    pub fn at(mut self, line: u32, column: u32) -> Self {
        self.line = Some(line);
        self.column = Some(column);
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl Diagnostic {
    /// Returns file, line, column and message, without severity and hint.
    pub fn location_and_message(&self) -> String {
        format!("{}: {}", self.location(), self.message)
    }

    /// Returns `file:line:column`, as far as they are known.
    fn location(&self) -> String {
        let number = |number: Option<u32>| number.map(|number| format!(":{number}")).unwrap_or_default();
        format!("{}{}{}", self.file, number(self.line), number(self.column))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.location())?;
        let word = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, ": {word}: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}
