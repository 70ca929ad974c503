//! The limits of one run: as requested, and as in force after defaults.

use serde::{Deserialize, Serialize};

/// Limits in force. Every run has all of these; `None` means that the resource is not limited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Total time of the run, without the time it waits for a slot or a person.
    pub timeout_ms: u64,
    /// Longest time without any output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// The time between terminating the agent and killing it.
    pub grace_ms: u64,
    /// How long a question may stay unanswered before it is denied.
    pub answer_timeout_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// Spooled output per stream.
    pub output_bytes: u64,
    /// How many levels of child runs may be below a root.
    pub depth: u32,
    /// How many child runs one run may start.
    pub children: u32,
    /// How many runs a whole tree may have, the root included.
    pub tree_runs: u32,
    /// How often an agent loop may call its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// How many tools an agent loop may call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Input and output of all model calls of an agent loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The longest answer to one model call of an agent loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_tokens: Option<u64>,
    /// The price of all model calls of an agent loop, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microusd: Option<u64>,
}

impl From<&Limits> for RequestedLimits {
    /// Requests exactly these limits.
    fn from(limits: &Limits) -> Self {
        Self {
            timeout_ms: Some(limits.timeout_ms),
            idle_timeout_ms: limits.idle_timeout_ms,
            grace_ms: Some(limits.grace_ms),
            answer_timeout_ms: Some(limits.answer_timeout_ms),
            memory_bytes: limits.memory_bytes,
            cpu_ms: limits.cpu_ms,
            processes: limits.processes,
            open_files: limits.open_files,
            file_bytes: limits.file_bytes,
            output_bytes: Some(limits.output_bytes),
            depth: Some(limits.depth),
            children: Some(limits.children),
            tree_runs: Some(limits.tree_runs),
            steps: limits.steps,
            tool_calls: limits.tool_calls,
            tokens: limits.tokens,
            answer_tokens: limits.answer_tokens,
            cost_microusd: limits.cost_microusd,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout_ms: 600_000,
            idle_timeout_ms: None,
            grace_ms: 5_000,
            answer_timeout_ms: 3_600_000,
            memory_bytes: None,
            cpu_ms: None,
            processes: None,
            open_files: None,
            file_bytes: None,
            output_bytes: 64 << 20,
            depth: 5,
            children: 20,
            tree_runs: 200,
            steps: None,
            tool_calls: None,
            tokens: None,
            answer_tokens: None,
            cost_microusd: None,
        }
    }
}

/// Limits that an agent, a configuration or a call requests. A missing one is inherited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestedLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree_runs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_microusd: Option<u64>,
}
