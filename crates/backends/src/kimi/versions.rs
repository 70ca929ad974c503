//! The tested versions of Kimi Code, and the names and texts that they use.

use domain::permission::ToolKind;
use domain::run::ModelError;

use crate::program::{ProgramSpec, TestedVersions};

/// The package `kimi-cli` of another registry has a program of the same name, which only prints a notice.
pub(crate) static PROGRAM: ProgramSpec = ProgramSpec {
    names: &["kimi"],
    native_paths: &[],
    path_variable: None,
    install: "npm install -g @moonshot-ai/kimi-code",
    tested_versions: TestedVersions::Real("2.1.0", "2.1.0"),
};

/// The variable in an agent file for the directory's instructions. The program's own system prompt already contains them.
pub(super) const INSTRUCTIONS_VARIABLE: &str = "${agents_md}";
/// The variable in an agent file for the program's own system prompt.
pub(super) const BASE_PROMPT_VARIABLE: &str = "${base_prompt}";
/// A variable in an agent file that is replaced by nothing.
pub(super) const EMPTY_VARIABLE: &str = "${role_additional}";

/// Tools with their kinds. Tools that wait for people, plan, or schedule work are missing.
pub(super) const TOOLS: [(&str, ToolKind<'static>); 16] = [
    ("Read", ToolKind::Read),
    ("ReadMediaFile", ToolKind::Read),
    ("Glob", ToolKind::Search),
    ("Grep", ToolKind::Search),
    // They only change the agent's own memory.
    ("TodoList", ToolKind::Read),
    ("Skill", ToolKind::Read),
    ("Edit", ToolKind::Edit),
    ("Write", ToolKind::Edit),
    ("Bash", ToolKind::Shell),
    ("TaskList", ToolKind::Shell),
    ("TaskOutput", ToolKind::Shell),
    ("TaskStop", ToolKind::Shell),
    ("FetchURL", ToolKind::Fetch),
    ("WebSearch", ToolKind::WebSearch),
    ("Agent", ToolKind::Delegate),
    ("AgentSwarm", ToolKind::Delegate),
];

/// The text before and after the name of a tool, in the error for a tool that the run does not have.
pub(super) const UNKNOWN_TOOL: (&str, &str) = ("Tool \"", "\" not found");

/// The beginning of the error of a failed run.
pub(super) const RUN_FAILED_PREFIX: &str = "error: failed to run prompt: ";
/// The beginning of any error.
pub(super) const ERROR_PREFIX: &str = "error: ";

/// The beginning and a part of the error for an unknown session.
pub(super) const UNKNOWN_SESSION: (&str, &str) = ("Session ", "not found");

/// The meaning of errors, by the beginning of their names.
pub(super) const ERRORS: [(&str, ModelError); 7] = [
    ("provider.auth_error", ModelError::Denied),
    ("provider.rate_limit", ModelError::RateLimit),
    ("provider.quota", ModelError::RateLimit),
    ("provider.connection_error", ModelError::Unreachable),
    ("provider.context", ModelError::TooLong),
    ("provider.overloaded", ModelError::Overloaded),
    ("provider.", ModelError::Other),
];
