//! What differs between the versions of Claude Code, and which were tried.

use crate::program::{Program, Tried, is_before};

pub(super) static PROGRAM: Program =
    Program { names: &["claude"], natives: &[], variable: None, tried: Tried::Real("2.1.197", "2.1.325") };

/// The first version seen whose cost after a resume is that of the whole session. 2.1.197 reported the run's own.
const CUMULATIVE_COST: &str = "2.1.312";

/// The tools that a run with a level is offered; which of them it may use is for the permission. All others are left out,
/// also those that no version had when this was written: some change things without a question, such as those that plan
/// later runs, make work trees, or speak to other sessions.
pub(super) const TOOLS_OF_LEVELS: [&str; 30] = [
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

/// The variable by which it soon gives a service up that is out of quota. By itself it tries for three minutes.
pub(super) const RETRIES: (&str, &str) = ("CLAUDE_CODE_MAX_RETRIES", "2");

/// Tells whether the cost of a resumed run includes that of the runs before; in doubt it does.
pub(super) fn cost_is_cumulative(version: Option<&str>) -> bool {
    version.is_none_or(|version| !is_before(version, CUMULATIVE_COST))
}
