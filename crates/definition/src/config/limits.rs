//! The limits that configuration gives to every run, each with its origin.

use domain::budget::AskedLimits;
use serde_json::{Value, json};

use super::effective::{Row, Setting, row, time};
use super::written;

/// Limits as configured; `None` leaves the resource to the agent and the call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitSettings {
    pub timeout_ms: Option<Setting<u64>>,
    pub idle_timeout_ms: Option<Setting<u64>>,
    pub grace_ms: Option<Setting<u64>>,
    pub answer_timeout_ms: Option<Setting<u64>>,
    pub memory_bytes: Option<Setting<u64>>,
    pub cpu_ms: Option<Setting<u64>>,
    pub processes: Option<Setting<u64>>,
    pub open_files: Option<Setting<u64>>,
    pub file_bytes: Option<Setting<u64>>,
    pub output_bytes: Option<Setting<u64>>,
    pub depth: Option<Setting<u32>>,
    pub children: Option<Setting<u32>>,
    pub tree_runs: Option<Setting<u32>>,
}

impl LimitSettings {
    /// Returns the limits as one layer for `budget::resolve`.
    pub fn asked(&self) -> AskedLimits {
        fn value<T: Copy>(setting: &Option<Setting<T>>) -> Option<T> {
            setting.as_ref().map(|setting| setting.value)
        }
        AskedLimits {
            timeout_ms: value(&self.timeout_ms),
            idle_timeout_ms: value(&self.idle_timeout_ms),
            grace_ms: value(&self.grace_ms),
            answer_timeout_ms: value(&self.answer_timeout_ms),
            memory_bytes: value(&self.memory_bytes),
            cpu_ms: value(&self.cpu_ms),
            processes: value(&self.processes),
            open_files: value(&self.open_files),
            file_bytes: value(&self.file_bytes),
            output_bytes: value(&self.output_bytes),
            depth: value(&self.depth),
            children: value(&self.children),
            tree_runs: value(&self.tree_runs),
        }
    }

    pub(super) fn add_rows(&self, rows: &mut Vec<Row>) {
        fn size(bytes: &u64) -> Value {
            written::size(*bytes)
        }
        let times = [
            ("timeout", &self.timeout_ms),
            ("idle_timeout", &self.idle_timeout_ms),
            ("grace", &self.grace_ms),
            ("answer_timeout", &self.answer_timeout_ms),
            ("cpu", &self.cpu_ms),
        ];
        let sizes =
            [("memory", &self.memory_bytes), ("file_size", &self.file_bytes), ("output", &self.output_bytes)];
        let amounts = [("processes", &self.processes), ("open_files", &self.open_files)];
        let counts = [("depth", &self.depth), ("children", &self.children), ("tree_runs", &self.tree_runs)];
        let key = |key: &str| format!("limits.{key}");
        rows.extend(times.iter().filter_map(|(name, set)| Some(row(key(name), set.as_ref()?, time))));
        rows.extend(sizes.iter().filter_map(|(name, set)| Some(row(key(name), set.as_ref()?, size))));
        rows.extend(
            amounts
                .iter()
                .filter_map(|(name, set)| Some(row(key(name), set.as_ref()?, |count| json!(count)))),
        );
        rows.extend(
            counts.iter().filter_map(|(name, set)| Some(row(key(name), set.as_ref()?, |count| json!(count)))),
        );
    }
}
