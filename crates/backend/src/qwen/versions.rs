//! Which versions of Qwen Code were tried, and what its tools are called.

use domain::permission::ToolKind;

use crate::program::{Program, Tried};

pub(crate) static PROGRAM: Program = Program {
    names: &["qwen"],
    // What is on the search path starts this in another process, and leaves it behind when it is killed.
    natives: &["@qwen-code/qwen-code/cli.js"],
    variable: None,
    tried: Tried::Real("0.24.4", "0.24.4"),
};

/// What its tools do.
const TOOLS: [(ToolKind<'static>, &[&str]); 7] = [
    (ToolKind::Read, &["read_file", "list_directory", "zoom_image"]),
    (ToolKind::Search, &["glob", "grep_search"]),
    (ToolKind::Edit, &["edit", "write_file", "notebook_edit"]),
    (ToolKind::Shell, &["run_shell_command", "monitor"]),
    (ToolKind::Fetch, &["web_fetch"]),
    (ToolKind::WebSearch, &["web_search"]),
    (ToolKind::Delegate, &["agent", "list_agents", "send_message"]),
];

/// Tools that change things without a question: they plan later runs, and make work trees and branches.
pub(super) const UNASKED_TOOLS: [&str; 5] =
    ["cron_create", "cron_delete", "enter_worktree", "exit_worktree", "loop_wakeup"];

/// Asks a person in a way that has no answer here.
pub(super) const ASKING_TOOL: &str = "ask_user_question";

/// Variables that it leaves out of files `.env` if nobody says which.
pub(super) const EXCLUDED_VARIABLES: [&str; 2] = ["DEBUG", "DEBUG_MODE"];

/// Settings by which it soon gives a service up that is out of quota. By itself it tries for more than ten minutes.
pub(super) const RETRIES: [(&str, u32); 3] =
    [("maxRetries", 2), ("retryInitialDelayMs", 1_000), ("retryMaxDelayMs", 5_000)];

/// How hard its models can be made to think.
pub(super) const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// The longest time in which it waits for a decision.
pub(super) const DECISION_TIMEOUT_MS: u64 = 600_000;

/// How much earlier a question is denied, so that the program is told before it gives up by itself.
pub(super) const DECISION_MARGIN_MS: u64 = 10_000;

/// How the program says that it does not know a session.
pub(super) const UNKNOWN_SESSION: &str = "No saved session found";
/// How its own words begin when the service refused.
pub(super) const API_ERROR: &str = "[API Error: ";

/// How it tells that it stopped at a budget of its own options.
pub(super) const OWN_BUDGET: &str = "Run aborted: ";

/// Exit codes that say more than that the run failed.
pub(super) const EXIT_AUTHENTICATION: i32 = 41;
pub(super) const EXIT_TURNS: i32 = 53;

/// Returns its tools of a kind; none for kinds that are no tools of its own.
pub(super) fn tools(kind: ToolKind<'_>) -> &'static [&'static str] {
    TOOLS.iter().find(|(known, _)| *known == kind).map_or(&[], |(_, tools)| tools)
}

/// Returns all of its tools that do something, by what they do.
pub(super) fn all_tools() -> impl Iterator<Item = (ToolKind<'static>, &'static [&'static str])> {
    TOOLS.iter().copied()
}
