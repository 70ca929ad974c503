//! The tested versions of GitHub Copilot's program, and the texts that they use.

use crate::program::{ProgramSpec, TestedVersions};

pub(crate) static PROGRAM: ProgramSpec = ProgramSpec {
    names: &["copilot"],
    native_paths: &[
        "@github/copilot-linux-x64/copilot",
        "@github/copilot-linux-arm64/copilot",
        "@github/copilot-linuxmusl-x64/copilot",
        "@github/copilot-linuxmusl-arm64/copilot",
    ],
    path_variable: None,
    install: "npm install -g @github/copilot",
    tested_versions: TestedVersions::Real("1.0.102", "1.0.102"),
};

/// The error for an unknown session.
pub(super) const UNKNOWN_SESSION: &str = "No session, task, or name matched";
/// The error without a login.
pub(super) const NOT_LOGGED_IN: &str = "No authentication information found";
/// The program's names for groups of tools. The names of single tools depend on the model.
pub(super) const TOOL_GROUPS: [&str; 7] = ["execute", "read", "edit", "search", "agent", "web", "todo"];
