//! What was tried of GitHub Copilot's program, and the words it uses.

use crate::program::{Program, Tried};

pub(crate) static PROGRAM: Program = Program {
    names: &["copilot"],
    natives: &[
        "@github/copilot-linux-x64/copilot",
        "@github/copilot-linux-arm64/copilot",
        "@github/copilot-linuxmusl-x64/copilot",
        "@github/copilot-linuxmusl-arm64/copilot",
    ],
    variable: None,
    tried: Tried::Real("1.0.102", "1.0.102"),
};

/// How the program says that it does not know a session.
pub(super) const UNKNOWN_SESSION: &str = "No session, task, or name matched";
/// How the program says that nobody is logged in.
pub(super) const NOT_LOGGED_IN: &str = "No authentication information found";
/// The program's own words for groups of its tools, which fit whatever the model's tools are called.
pub(super) const TOOL_GROUPS: [&str; 7] = ["execute", "read", "edit", "search", "agent", "web", "todo"];
