//! The configured limits for every run, each with its origin.

use domain::budget::RequestedLimits;
use serde_json::{Value, json};

use super::effective::{ConfigSetting, SettingRow, duration_value, row};
use super::toml_spelling;

/// Limits as configured; `None` leaves the resource to the agent and the call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitSettings {
    pub timeout_ms: Option<ConfigSetting<u64>>,
    pub idle_timeout_ms: Option<ConfigSetting<u64>>,
    pub grace_ms: Option<ConfigSetting<u64>>,
    pub answer_timeout_ms: Option<ConfigSetting<u64>>,
    pub memory_bytes: Option<ConfigSetting<u64>>,
    pub cpu_ms: Option<ConfigSetting<u64>>,
    pub processes: Option<ConfigSetting<u64>>,
    pub open_files: Option<ConfigSetting<u64>>,
    pub file_bytes: Option<ConfigSetting<u64>>,
    pub output_bytes: Option<ConfigSetting<u64>>,
    pub depth: Option<ConfigSetting<u32>>,
    pub children: Option<ConfigSetting<u32>>,
    pub tree_runs: Option<ConfigSetting<u32>>,
    pub steps: Option<ConfigSetting<u64>>,
    pub tool_calls: Option<ConfigSetting<u64>>,
    pub tokens: Option<ConfigSetting<u64>>,
    pub answer_tokens: Option<ConfigSetting<u64>>,
    pub cost_microusd: Option<ConfigSetting<u64>>,
}

impl LimitSettings {
    /// Returns the limits as one layer for `budget::resolve`.
    pub fn to_requested_limits(&self) -> RequestedLimits {
        fn value<T: Copy>(setting: &Option<ConfigSetting<T>>) -> Option<T> {
            setting.as_ref().map(|setting| setting.value)
        }
        RequestedLimits {
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
            steps: value(&self.steps),
            tool_calls: value(&self.tool_calls),
            tokens: value(&self.tokens),
            answer_tokens: value(&self.answer_tokens),
            cost_microusd: value(&self.cost_microusd),
        }
    }

    pub(super) fn add_rows(&self, rows: &mut Vec<SettingRow>) {
        fn size_value(bytes: &u64) -> Value {
            toml_spelling::spell_size(*bytes)
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
        let amounts = [
            ("processes", &self.processes),
            ("open_files", &self.open_files),
            ("steps", &self.steps),
            ("tool_calls", &self.tool_calls),
            ("tokens", &self.tokens),
            ("answer_tokens", &self.answer_tokens),
        ];
        let counts = [("depth", &self.depth), ("children", &self.children), ("tree_runs", &self.tree_runs)];
        let key = |key: &str| format!("limits.{key}");
        rows.extend(
            times.iter().filter_map(|(name, set)| Some(row(key(name), set.as_ref()?, duration_value))),
        );
        rows.extend(sizes.iter().filter_map(|(name, set)| Some(row(key(name), set.as_ref()?, size_value))));
        rows.extend(
            amounts
                .iter()
                .filter_map(|(name, set)| Some(row(key(name), set.as_ref()?, |count| json!(count)))),
        );
        rows.extend(
            self.cost_microusd
                .iter()
                .map(|cost| row(key("cost"), cost, |cost| toml_spelling::spell_dollars(*cost))),
        );
        rows.extend(
            counts.iter().filter_map(|(name, set)| Some(row(key(name), set.as_ref()?, |count| json!(count)))),
        );
    }
}
