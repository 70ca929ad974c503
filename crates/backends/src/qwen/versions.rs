//! The tested versions of Qwen Code, and the names and texts that they use.

use domain::permission::ToolKind;

use crate::program::{ProgramSpec, TestedVersions};

pub(crate) static PROGRAM: ProgramSpec = ProgramSpec {
    names: &["qwen"],
    // The program on the search path starts this file in another process, and leaves that process behind when it is killed.
    native_paths: &["@qwen-code/qwen-code/cli.js"],
    path_variable: None,
    install: "npm install -g @qwen-code/qwen-code",
    tested_versions: TestedVersions::Real("0.24.4", "0.24.4"),
};

/// Tools by the kind that permission rules use.
const TOOLS_BY_KIND: [(ToolKind<'static>, &[&str]); 7] = [
    (ToolKind::Read, &["read_file", "list_directory", "zoom_image"]),
    (ToolKind::Search, &["glob", "grep_search"]),
    (ToolKind::Edit, &["edit", "write_file", "notebook_edit"]),
    (ToolKind::Shell, &["run_shell_command", "monitor"]),
    (ToolKind::Fetch, &["web_fetch"]),
    (ToolKind::WebSearch, &["web_search"]),
    (ToolKind::Delegate, &["agent", "list_agents", "send_message"]),
];

/// Tools that act without asking: they schedule runs, and create work trees and branches.
pub(super) const UNCONFIRMED_TOOLS: [&str; 5] =
    ["cron_create", "cron_delete", "enter_worktree", "exit_worktree", "loop_wakeup"];

/// The tool that asks the user. Nobody can answer it here.
pub(super) const ASK_USER_TOOL: &str = "ask_user_question";

/// Variables that it ignores in `.env` files by default.
pub(super) const EXCLUDED_VARIABLES: [&str; 2] = ["DEBUG", "DEBUG_MODE"];

/// Settings that limit retries of a service without quota. By default Qwen Code retries for more than ten minutes.
pub(super) const RETRY_SETTINGS: [(&str, u32); 3] =
    [("maxRetries", 2), ("retryInitialDelayMs", 1_000), ("retryMaxDelayMs", 5_000)];

/// The efforts that it accepts.
pub(super) const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// The longest time that it waits for a decision.
pub(super) const DECISION_TIMEOUT_MS: u64 = 600_000;

/// How much earlier a request is denied, so that the program gets the decision before it gives up.
pub(super) const DECISION_MARGIN_MS: u64 = 10_000;

/// The error for an unknown session.
pub(super) const UNKNOWN_SESSION: &str = "No saved session found";
/// The beginning of an error of the service.
pub(super) const API_ERROR: &str = "[API Error: ";

/// The message that a budget of its own options is used up.
pub(super) const BUDGET_EXCEEDED: &str = "Run aborted: ";

/// Exit codes with a specific meaning.
pub(super) const EXIT_AUTHENTICATION: i32 = 41;
pub(super) const EXIT_TURNS: i32 = 53;

/// Returns the built-in tools of a kind.
pub(super) fn tools_for(kind: ToolKind<'_>) -> &'static [&'static str] {
    TOOLS_BY_KIND.iter().find(|(known, _)| *known == kind).map_or(&[], |(_, tools)| tools)
}

/// Returns all built-in tools, by kind.
pub(super) fn all_tools() -> impl Iterator<Item = (ToolKind<'static>, &'static [&'static str])> {
    TOOLS_BY_KIND.iter().copied()
}
