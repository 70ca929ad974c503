//! Computes the limits in force from the requested ones: later layers override, and a child never exceeds its parent.

use super::limits::{Limits, RequestedLimits};

/// Applies the layers to the defaults; the last one wins.
pub fn resolve<'a>(layers: impl IntoIterator<Item = &'a RequestedLimits>) -> Limits {
    layers.into_iter().fold(Limits::default(), |limits, requested| Limits {
        timeout_ms: requested.timeout_ms.unwrap_or(limits.timeout_ms),
        idle_timeout_ms: requested.idle_timeout_ms.or(limits.idle_timeout_ms),
        grace_ms: requested.grace_ms.unwrap_or(limits.grace_ms),
        answer_timeout_ms: requested.answer_timeout_ms.unwrap_or(limits.answer_timeout_ms),
        memory_bytes: requested.memory_bytes.or(limits.memory_bytes),
        cpu_ms: requested.cpu_ms.or(limits.cpu_ms),
        processes: requested.processes.or(limits.processes),
        open_files: requested.open_files.or(limits.open_files),
        file_bytes: requested.file_bytes.or(limits.file_bytes),
        output_bytes: requested.output_bytes.unwrap_or(limits.output_bytes),
        depth: requested.depth.unwrap_or(limits.depth),
        children: requested.children.unwrap_or(limits.children),
        tree_runs: requested.tree_runs.unwrap_or(limits.tree_runs),
        steps: requested.steps.or(limits.steps),
        tool_calls: requested.tool_calls.or(limits.tool_calls),
        tokens: requested.tokens.or(limits.tokens),
        answer_tokens: requested.answer_tokens.or(limits.answer_tokens),
        cost_microusd: requested.cost_microusd.or(limits.cost_microusd),
    })
}

/// Returns the child's limits, reduced to those of its parent.
pub fn narrow(parent: &Limits, requested: &Limits) -> Limits {
    Limits {
        timeout_ms: requested.timeout_ms.min(parent.timeout_ms),
        idle_timeout_ms: min_limit(parent.idle_timeout_ms, requested.idle_timeout_ms),
        grace_ms: requested.grace_ms.min(parent.grace_ms),
        answer_timeout_ms: requested.answer_timeout_ms.min(parent.answer_timeout_ms),
        memory_bytes: min_limit(parent.memory_bytes, requested.memory_bytes),
        cpu_ms: min_limit(parent.cpu_ms, requested.cpu_ms),
        processes: min_limit(parent.processes, requested.processes),
        open_files: min_limit(parent.open_files, requested.open_files),
        file_bytes: min_limit(parent.file_bytes, requested.file_bytes),
        output_bytes: requested.output_bytes.min(parent.output_bytes),
        depth: requested.depth.min(parent.depth),
        children: requested.children.min(parent.children),
        tree_runs: requested.tree_runs.min(parent.tree_runs),
        steps: min_limit(parent.steps, requested.steps),
        tool_calls: min_limit(parent.tool_calls, requested.tool_calls),
        tokens: min_limit(parent.tokens, requested.tokens),
        answer_tokens: min_limit(parent.answer_tokens, requested.answer_tokens),
        cost_microusd: min_limit(parent.cost_microusd, requested.cost_microusd),
    }
}

fn min_limit(parent: Option<u64>, requested: Option<u64>) -> Option<u64> {
    match (parent, requested) {
        (Some(parent), Some(requested)) => Some(parent.min(requested)),
        (one, other) => one.or(other),
    }
}
