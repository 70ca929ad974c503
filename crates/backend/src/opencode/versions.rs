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
