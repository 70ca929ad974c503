//! What was tried of opencode, and the words it uses.

use crate::program::{Program, Tried};

pub(crate) static PROGRAM: Program = Program {
    names: &["opencode"],
    natives: &[
        "opencode-linux-x64/bin/opencode",
        "opencode-linux-arm64/bin/opencode",
        "opencode-linux-x64-musl/bin/opencode",
        "opencode-linux-x64-baseline/bin/opencode",
    ],
    variable: None,
    tried: Tried::Real("1.18.33", "1.18.33"),
};

/// The variables that put its errors on the error stream. Its other output does not show a request that found no
/// connection, and opencode repeats such a request without end.
pub(crate) const LOG: [(&str, &str); 2] = [("OPENCODE_PRINT_LOGS", "1"), ("OPENCODE_LOG_LEVEL", "ERROR")];
/// How a line of its log begins.
pub(super) const LOG_LINE: &str = "timestamp=";

/// Returns the model whose service was not reached, if that is what a line of the log says. Requests for titles are
/// marked as small and repeated three times only.
pub(crate) fn lost_request(line: &str) -> Option<String> {
    let says = |words: &str| line.contains(words);
    if !says("message=\"stream error\"") || !says("Cannot connect to API") || says(" small=true ") {
        return None;
    }
    let value = |key: &str| line.split_once(key)?.1.split_whitespace().next();
    Some(format!("{}/{}", value(" providerID=")?, value(" modelID=")?))
}

/// The tool by which a model hands work to other agents.
pub(super) const DELEGATION: &str = "task";

/// How the program says that it does not know a session.
pub(super) const UNKNOWN_SESSION: &str = "Session not found";
/// How the program says that it works as another agent than it was told to.
pub(super) const OTHER_AGENT: &str = "Falling back to default agent";
/// The tool that takes the place of one that cannot be called.
pub(super) const INVALID: &str = "invalid";
/// How a tool says that a rule forbids it, or takes it away altogether.
pub(super) const DENIED: [&str; 3] = [
    "specified a rule which prevents you",
    "rejected permission to use this specific tool",
    "Model tried to call unavailable tool",
];
