//! The tested versions of Gemini CLI, and the names and texts that they use.

use domain::permission::ToolKind;

use crate::program::{ProgramSpec, TestedVersions};

pub(crate) static PROGRAM: ProgramSpec = ProgramSpec {
    names: &["gemini"],
    native_paths: &[],
    path_variable: None,
    install: "npm install -g @google/gemini-cli",
    tested_versions: TestedVersions::Real("0.61.0", "0.61.0"),
};

/// Tools by the kind that permission rules use.
const TOOLS_BY_KIND: [(ToolKind<'static>, &[&str]); 7] = [
    (ToolKind::Read, &["read_file", "read_many_files", "list_directory"]),
    (ToolKind::Search, &["glob", "grep_search"]),
    (ToolKind::Edit, &["write_file", "replace"]),
    (ToolKind::Shell, &["run_shell_command"]),
    (ToolKind::Fetch, &["web_fetch"]),
    (ToolKind::WebSearch, &["google_web_search"]),
    (ToolKind::Delegate, &["invoke_agent"]),
];

/// Tools that only change the program's own notes.
pub(super) const NOTE_TOOLS: &[&str] = &[
    "complete_task",
    "get_internal_docs",
    "list_mcp_resources",
    "tracker_add_dependency",
    "tracker_create_task",
    "tracker_get_task",
    "tracker_list_tasks",
    "tracker_update_task",
    "tracker_visualize",
    "update_topic",
    "write_todos",
];

/// The error type for a tool that the agent does not have.
pub(super) const TOOL_NOT_REGISTERED: &str = "tool_not_registered";
/// The error type for a denied tool call.
pub(super) const POLICY_VIOLATION: &str = "policy_violation";
/// The text of an error without a type of its own: the user would have to confirm the call.
pub(super) const NEEDS_CONFIRMATION: &str = "requires user confirmation";

/// How the errors begin that a session cannot be continued.
pub(super) const UNKNOWN_SESSION: [&str; 2] = ["Error resuming session", "Invalid session identifier"];

/// The number of requests to a service without quota, if there are fallbacks.
pub(super) const MAX_ATTEMPTS: u64 = 3;

/// Variables that it ignores in `.env` files by default.
pub(super) const EXCLUDED_VARIABLES: [&str; 4] =
    ["DEBUG", "DEBUG_MODE", "GEMINI_CLI_IDE_SERVER_STDIO_ARGS", "GEMINI_CLI_IDE_SERVER_STDIO_COMMAND"];

/// Exit codes with a specific meaning.
pub(super) const EXIT_AUTHENTICATION: i32 = 41;
pub(super) const EXIT_TURNS: i32 = 53;

/// Returns the built-in tools of a kind.
pub(super) fn tools_for(kind: ToolKind<'_>) -> &'static [&'static str] {
    TOOLS_BY_KIND.iter().find(|(known, _)| *known == kind).map_or(&[], |(_, tools)| tools)
}

/// Returns all built-in tools except [`NOTE_TOOLS`].
pub(super) fn all_tools() -> impl Iterator<Item = &'static str> {
    TOOLS_BY_KIND.iter().flat_map(|(_, tools)| tools.iter().copied())
}

/// Part of a line on the error stream between two requests to the model.
pub(super) const RETRYING: &str = "Retrying with backoff";

/// An error before a `result` that claims success.
pub(super) const TURNS_EXCEEDED: &str = "Maximum session turns exceeded";
