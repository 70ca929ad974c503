//! The tested versions of Claude Code, and what differs between versions.

use crate::program::{ProgramSpec, TestedVersions, is_before};

pub(super) static PROGRAM: ProgramSpec = ProgramSpec {
    names: &["claude"],
    native_paths: &[],
    path_variable: None,
    install: "npm install -g @anthropic-ai/claude-code",
    tested_versions: TestedVersions::Real("2.1.197", "2.1.325"),
};

/// The first tested version whose cost after a resume is that of the whole session. 2.1.197 reported the cost of the run.
const CUMULATIVE_COST_SINCE: &str = "2.1.312";

/// The tools offered to a run with a level; the permission decides which of them it may use. An allow list also excludes
/// tools of future versions: some tools act without asking, for example those that schedule runs, create work trees, or send
/// messages to other sessions.
pub(super) const TOOLS_WITH_LEVEL: [&str; 30] = [
    "Agent",
    "AskUserQuestion",
    "Bash",
    "BashOutput",
    "Edit",
    "ExitPlanMode",
    "Glob",
    "Grep",
    "KillShell",
    "ListMcpResourcesTool",
    "Monitor",
    "NotebookEdit",
    "PowerShell",
    "Read",
    "ReadMcpResourceTool",
    "ReportFindings",
    "Skill",
    "StructuredOutput",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Write",
];

/// The variable, and its value, that limits retries of a service without quota. By default Claude Code retries for three minutes.
pub(super) const MAX_RETRIES: (&str, &str) = ("CLAUDE_CODE_MAX_RETRIES", "2");

/// Returns whether the cost of a resumed run includes the earlier runs of its session; `true` for an unknown version.
pub(super) fn cost_is_cumulative(version: Option<&str>) -> bool {
    version.is_none_or(|version| !is_before(version, CUMULATIVE_COST_SINCE))
}

/// The beginning of the error for a tool that the agent does not have; the name of the tool follows.
pub(super) const UNKNOWN_TOOL: &str = "No such tool available: ";

/// The error for an unknown session.
pub(super) const UNKNOWN_SESSION: &str = "No conversation found";
