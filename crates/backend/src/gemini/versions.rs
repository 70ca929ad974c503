//! Which versions of Gemini CLI were tried, and what its tools are called.

use domain::permission::ToolKind;

use crate::program::{Program, Tried};

pub(crate) static PROGRAM: Program =
    Program { names: &["gemini"], natives: &[], variable: None, tried: Tried::Real("0.61.0", "0.61.0") };

/// What its tools do.
const TOOLS: [(ToolKind<'static>, &[&str]); 7] = [
    (ToolKind::Read, &["read_file", "read_many_files", "list_directory"]),
    (ToolKind::Search, &["glob", "grep_search"]),
    (ToolKind::Edit, &["write_file", "replace"]),
    (ToolKind::Shell, &["run_shell_command"]),
    (ToolKind::Fetch, &["web_fetch"]),
    (ToolKind::WebSearch, &["google_web_search"]),
    (ToolKind::Delegate, &["invoke_agent"]),
];

/// Tools that touch nothing but the program's own notes.
pub(super) const NOTES: &[&str] = &[
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

/// How the refusal of a tool is typed in the stream that is not offered to the agent.
pub(super) const NOT_OFFERED: &str = "tool_not_registered";
/// How the refusal of one use of a tool is typed.
pub(super) const FORBIDDEN: &str = "policy_violation";
/// What a refusal says that has no type of its own: somebody would have to be asked.
pub(super) const WOULD_ASK: &str = "requires user confirmation";

/// How the program begins to say that it cannot continue a session.
pub(super) const UNKNOWN_SESSION: [&str; 2] = ["Error resuming session", "Invalid session identifier"];

/// How often it asks a service that is out of quota, where there are fallbacks.
pub(super) const ATTEMPTS: u64 = 3;

/// Variables that it leaves out of files `.env` if nobody says which.
pub(super) const EXCLUDED_VARIABLES: [&str; 4] =
    ["DEBUG", "DEBUG_MODE", "GEMINI_CLI_IDE_SERVER_STDIO_ARGS", "GEMINI_CLI_IDE_SERVER_STDIO_COMMAND"];

/// Exit codes that say more than that the run failed.
pub(super) const EXIT_AUTHENTICATION: i32 = 41;
pub(super) const EXIT_TURNS: i32 = 53;

/// Returns its tools of a kind; none for kinds that are no tools of its own.
pub(super) fn tools(kind: ToolKind<'_>) -> &'static [&'static str] {
    TOOLS.iter().find(|(known, _)| *known == kind).map_or(&[], |(_, tools)| tools)
}

/// Returns all of its tools that do something.
pub(super) fn all_tools() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().flat_map(|(_, tools)| tools.iter().copied())
}
