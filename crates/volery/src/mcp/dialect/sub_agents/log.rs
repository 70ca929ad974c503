//! The log of sub-agents-mcp: one JSON object per line on stderr, filtered by `LOG_LEVEL`.

use std::io::Write;

use serde_json::{Value, json};

use engine::clock;

/// The severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    Debug,
    Info,
    Warn,
    Error,
}

impl Severity {
    const ALL: [Self; 4] = [Self::Debug, Self::Info, Self::Warn, Self::Error];

    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// The log of one server.
#[derive(Debug)]
pub(super) struct Log {
    from: Severity,
}

impl Log {
    pub(super) fn new(from: Severity) -> Self {
        Self { from }
    }

    pub(super) fn write(&self, severity: Severity, message: &str, context: &Value) {
        if severity < self.from {
            return;
        }
        let line = json!({
            "timestamp": clock::now().to_string(),
            "level": severity.as_str(),
            "message": message,
            "context": context,
        });
        // If standard error is closed, nobody reads the log.
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }
}
