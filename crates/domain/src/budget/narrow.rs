//! From what was asked to what is in force: later layers override, and a child never exceeds its parent.

use super::limits::{AskedLimits, Limits};

/// Returns the defaults with each layer's wishes laid over them, the last one winning.
pub fn resolve<'a>(layers: impl IntoIterator<Item = &'a AskedLimits>) -> Limits {
    layers.into_iter().fold(Limits::default(), |limits, asked| Limits {
        timeout_ms: asked.timeout_ms.unwrap_or(limits.timeout_ms),
        idle_timeout_ms: asked.idle_timeout_ms.or(limits.idle_timeout_ms),
        grace_ms: asked.grace_ms.unwrap_or(limits.grace_ms),
        answer_timeout_ms: asked.answer_timeout_ms.unwrap_or(limits.answer_timeout_ms),
        memory_bytes: asked.memory_bytes.or(limits.memory_bytes),
        cpu_ms: asked.cpu_ms.or(limits.cpu_ms),
        processes: asked.processes.or(limits.processes),
        open_files: asked.open_files.or(limits.open_files),
        file_bytes: asked.file_bytes.or(limits.file_bytes),
        output_bytes: asked.output_bytes.unwrap_or(limits.output_bytes),
        depth: asked.depth.unwrap_or(limits.depth),
        children: asked.children.unwrap_or(limits.children),
        tree_runs: asked.tree_runs.unwrap_or(limits.tree_runs),
    })
}

/// Returns the child's limits cut down to what its parent has.
pub fn narrow(parent: &Limits, asked: &Limits) -> Limits {
    Limits {
        timeout_ms: asked.timeout_ms.min(parent.timeout_ms),
        idle_timeout_ms: least(parent.idle_timeout_ms, asked.idle_timeout_ms),
        grace_ms: asked.grace_ms.min(parent.grace_ms),
        answer_timeout_ms: asked.answer_timeout_ms.min(parent.answer_timeout_ms),
        memory_bytes: least(parent.memory_bytes, asked.memory_bytes),
        cpu_ms: least(parent.cpu_ms, asked.cpu_ms),
        processes: least(parent.processes, asked.processes),
        open_files: least(parent.open_files, asked.open_files),
        file_bytes: least(parent.file_bytes, asked.file_bytes),
        output_bytes: asked.output_bytes.min(parent.output_bytes),
        depth: asked.depth.min(parent.depth),
        children: asked.children.min(parent.children),
        tree_runs: asked.tree_runs.min(parent.tree_runs),
    }
}

fn least(parent: Option<u64>, asked: Option<u64>) -> Option<u64> {
    match (parent, asked) {
        (Some(parent), Some(asked)) => Some(parent.min(asked)),
        (one, other) => one.or(other),
    }
}
