//! Describes what an agent was denied: the tool, its subject, and whose rule or level denies it.

use std::collections::VecDeque;

use backends::contract::NO_SUCH_TOOL;
use backends::user_environment::UserEnvironment;
use domain::permission::{Permission, ToolKind};
use domain::policy::{Basis, Effect, Layer, Policy, Verdict};
use domain::run::Event;
use journal::StoreError;
use serde_json::Value;

use super::resolved_path;
use super::supervisor::RunSupervisor;
use crate::env;

/// How many tool calls are remembered, and how long the input of one may be.
const CALLS_MAX: usize = 256;
const INPUT_BYTES_MAX: usize = 2 << 10;
/// The most of a command or a path in one line.
const SHOWN_CHARS_MAX: usize = 120;
/// The input keys that name the subject of a tool call, the most telling first.
const SUBJECTS: [&str; 10] = [
    "command",
    "cmd",
    "file_path",
    "path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "url",
    "pattern",
    "query",
];

/// The inputs of the last tool calls. Some programs report a denial only later, and only by the id of the call.
#[derive(Debug, Default)]
pub(super) struct RecentCalls(VecDeque<(String, Value)>);

impl RecentCalls {
    pub(super) fn remember(&mut self, id: &str, input: &Value) {
        if input.to_string().len() > INPUT_BYTES_MAX {
            return;
        }
        if self.0.len() == CALLS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((id.to_owned(), input.clone()));
    }

    fn input(&self, id: &str) -> Value {
        self.0
            .iter()
            .rev()
            .find(|(call_id, _)| call_id == id)
            .map(|(_, input)| input.clone())
            .unwrap_or_default()
    }
}

impl RunSupervisor {
    /// Records that the agent's program denied a tool use by itself: by the rules that it was passed, or by its own.
    pub(super) fn record_program_denial(
        &mut self,
        call: &str,
        tool: &str,
        reason: &str,
    ) -> Result<(), StoreError> {
        let input = self.recent_calls.input(call);
        let verdict = self.verdict_for(tool, &input);
        // Without an input, a rule about some commands would be taken to match this one, which is unknown.
        let is_ours = verdict.effect == Effect::Deny && !input.is_null() && !self.lacks_tool(tool, reason);
        let is_by_rule = is_ours && matches!(verdict.basis, Basis::Rule(_));
        let by_settings = match is_by_rule || reason == NO_SUCH_TOOL {
            true => None,
            false => self.settings_denial(tool, &input),
        };
        let reason = match by_settings {
            Some(denial) => denial.explanation(),
            None if is_ours => verdict.explanation(),
            None => reason.to_owned(),
        };
        self.record_denial(tool, &input, &reason)
    }

    /// Returns whether the agent would not have a tool at any level. A level can withhold the tools of the program
    /// itself; then the level is the reason.
    fn lacks_tool(&self, tool: &str, reason: &str) -> bool {
        let kind = ToolKind::from_name(tool);
        let is_listed = |tools: &Vec<String>| tools.iter().any(|tool| ToolKind::from_name(tool) == kind);
        let is_unknown = matches!(kind, ToolKind::Mcp { .. } | ToolKind::Other(_));
        reason == NO_SUCH_TOOL
            && (is_unknown || self.spec.setup.tools.as_ref().is_some_and(|tools| !is_listed(tools)))
    }

    /// Returns the verdict of a settings file whose rules the agent's program enforces by itself, if one denies the call.
    fn settings_denial(&self, tool: &str, input: &Value) -> Option<Verdict> {
        if input.is_null() {
            return None;
        }
        let spec = &self.attempt_spec;
        let home = env::home();
        let user = UserEnvironment { home: home.as_deref(), variable: &env::get };
        let rules = backends::registry::by_kind(&spec.backend.kind)?.settings_denials(spec, &user);
        let of = resolved_path::resolved_use(tool, input, &spec.directory);
        rules.into_iter().find_map(|(file, rule)| {
            let permission = Permission { deny: vec![rule.parse().ok()?], ..Permission::default() };
            let set_by = Some(file.display().to_string());
            let directory = resolved_path::resolved_directory(&spec.directory);
            let policy =
                Policy::in_directory(directory).with_layer(Layer { permission, set_by, ..Layer::default() });
            Some(policy.decide(&of)).filter(|verdict| verdict.effect == Effect::Deny)
        })
    }

    pub(super) fn record_denial(
        &mut self,
        tool: &str,
        input: &Value,
        reason: &str,
    ) -> Result<(), StoreError> {
        self.append(Event::Warned { message: denial_message(tool, input, reason) })
    }
}

/// `denied: Bash(touch a.txt): the rule deny Bash(touch:*), set by the command line`
fn denial_message(tool: &str, input: &Value, reason: &str) -> String {
    // The answer to a question already begins with "denied: ".
    let reason = reason.strip_prefix("denied: ").unwrap_or(reason);
    match subject(input) {
        Some(subject) => format!("denied: {tool}({subject}): {reason}"),
        None => format!("denied: {tool}: {reason}"),
    }
}

/// Returns the subject of a tool call, on one line.
fn subject(input: &Value) -> Option<String> {
    let value = SUBJECTS.iter().find_map(|key| input.get(key))?;
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(arguments) => arguments.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        _ => return None,
    };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => Some(format!("{}…", &line[..end])),
        None => Some(line).filter(|line| !line.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_denial_names_the_tool_its_subject_and_the_reason_once() {
        let bash = json!({"command": "touch  a.txt\n"});
        assert_eq!(denial_message("Bash", &bash, "a rule"), "denied: Bash(touch a.txt): a rule");
        let unattended = "denied: nobody can answer: no terminal";
        assert_eq!(
            denial_message("Bash", &bash, unattended),
            "denied: Bash(touch a.txt): nobody can answer: no terminal"
        );
        assert_eq!(denial_message("Fetch", &Value::Null, "x"), "denied: Fetch: x");
        let long = json!({"cmd": ["echo", "x".repeat(500)]});
        assert_eq!(subject(&long).unwrap().chars().count(), SHOWN_CHARS_MAX + 1);
    }

    #[test]
    fn remembered_calls_are_bounded() {
        let mut calls = RecentCalls::default();
        calls.remember("long", &json!({"command": "x".repeat(INPUT_BYTES_MAX)}));
        for number in 0..=CALLS_MAX {
            calls.remember(&number.to_string(), &json!(number));
        }
        assert_eq!((calls.input("long"), calls.input("0")), (Value::Null, Value::Null));
        assert_eq!(calls.input(&CALLS_MAX.to_string()), json!(CALLS_MAX));
    }
}
