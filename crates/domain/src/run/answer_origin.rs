//! Where the answer to a question came from.

use serde::{Deserialize, Serialize};

/// Where the answer to a question of a run came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOrigin {
    /// The terminal of the command that started the run, or a run above it.
    Terminal,
    /// `volery approve`, `deny` or `answer`.
    #[default]
    Command,
    /// An MCP client: a tool call of its model, or a dialog with its user.
    McpClient,
    /// Volery, because nobody answered in time.
    Expired,
    /// Volery, because nobody can answer questions of the run.
    Unattended,
}
