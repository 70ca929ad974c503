//! What was tried of Kimi Code, and the words it uses.

use domain::permission::ToolKind;
use domain::run::ModelError;

use crate::program::{Program, Tried};

/// The package `kimi-cli` of another registry has a program of the same name, which does nothing but say so.
pub(crate) static PROGRAM: Program =
    Program { names: &["kimi"], natives: &[], variable: None, tried: Tried::Real("2.1.0", "2.1.0") };

/// Stands for the instructions of the directory in an agent file; its own system prompt holds them already.
pub(super) const INSTRUCTIONS: &str = "${agents_md}";
/// Stands for its own system prompt in an agent file.
pub(super) const BASE_PROMPT: &str = "${base_prompt}";
/// Stands for no text in an agent file.
pub(super) const NOTHING: &str = "${role_additional}";

/// Its tools, with what they do. Those that wait for people, plan or work at another time are left out.
pub(super) const TOOLS: [(&str, ToolKind<'static>); 16] = [
    ("Read", ToolKind::Read),
    ("ReadMediaFile", ToolKind::Read),
    ("Glob", ToolKind::Search),
    ("Grep", ToolKind::Search),
    // What they change is their own memory.
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

/// How it answers the use of a tool that the run does not have: this, the name, and then that.
pub(super) const UNKNOWN_TOOL: (&str, &str) = ("Tool \"", "\" not found");

/// How its error stream says that a run has failed.
pub(super) const FAILED: &str = "error: failed to run prompt: ";
/// How its error stream says anything that went wrong.
pub(super) const WRONG: &str = "error: ";

/// How it says, between these, that it does not know a session.
pub(super) const NO_SESSION: (&str, &str) = ("Session ", "not found");

/// What its names of errors mean.
pub(super) const ERRORS: [(&str, ModelError); 7] = [
    ("provider.auth_error", ModelError::Denied),
    ("provider.rate_limit", ModelError::RateLimit),
    ("provider.quota", ModelError::RateLimit),
    ("provider.connection_error", ModelError::Unreachable),
    ("provider.context", ModelError::TooLong),
    ("provider.overloaded", ModelError::Overloaded),
    ("provider.", ModelError::Other),
];
