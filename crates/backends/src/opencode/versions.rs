//! The tested versions of opencode, and the texts that they use.

use crate::program::{ProgramSpec, TestedVersions};

pub(crate) static PROGRAM: ProgramSpec = ProgramSpec {
    names: &["opencode"],
    native_paths: &[
        "opencode-linux-x64/bin/opencode",
        "opencode-linux-arm64/bin/opencode",
        "opencode-linux-x64-musl/bin/opencode",
        "opencode-linux-x64-baseline/bin/opencode",
    ],
    path_variable: None,
    install: "npm install -g opencode-ai",
    tested_versions: TestedVersions::Real("1.18.33", "1.18.33"),
};

/// The variables that write errors to the error stream. The other output does not show a failed connection, and opencode repeats
/// such a request forever.
pub(crate) const LOG_VARIABLES: [(&str, &str); 2] =
    [("OPENCODE_PRINT_LOGS", "1"), ("OPENCODE_LOG_LEVEL", "ERROR")];
/// The beginning of a line of the log.
pub(super) const LOG_LINE: &str = "timestamp=";

/// Returns the model whose service was not reached, if a line of the log reports this. Requests for titles are marked as small and
/// only repeated three times.
pub(crate) fn parse_lost_request(line: &str) -> Option<String> {
    let contains = |text: &str| line.contains(text);
    if !contains("message=\"stream error\"") || !contains("Cannot connect to API") || contains(" small=true ")
    {
        return None;
    }
    let value = |key: &str| line.split_once(key)?.1.split_whitespace().next();
    Some(format!("{}/{}", value(" providerID=")?, value(" modelID=")?))
}

/// The tool that calls other agents.
pub(super) const DELEGATION_TOOL: &str = "task";

/// The error for an unknown session.
pub(super) const UNKNOWN_SESSION: &str = "Session not found";
/// The message that opencode uses another agent than the requested one.
pub(super) const OTHER_AGENT: &str = "Falling back to default agent";
/// The tool that replaces one that cannot be called.
pub(super) const INVALID_TOOL: &str = "invalid";
/// Error messages for a tool that a rule denies or disables.
pub(super) const DENIED_MESSAGES: [&str; 3] = [
    "specified a rule which prevents you",
    "rejected permission to use this specific tool",
    "Model tried to call unavailable tool",
];
