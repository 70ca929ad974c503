//! Says what an agent was denied: the tool, what it was to be used for, and whose rule or level denies it.

use std::collections::VecDeque;

use backend::contract::Ask;
use domain::permission::{Permission, Ruling};
use domain::run::{Event, RunSpec};
use journal::StoreError;
use serde_json::Value;

use super::desk::Desk;

/// How many uses of tools are remembered, and how long the input of one may be.
const CALLS_MAX: usize = 256;
const INPUT_BYTES_MAX: usize = 2 << 10;
/// The most of a command or a path in one line.
const SHOWN_CHARS_MAX: usize = 120;
/// Under which keys tools are given what they work on, the most telling first.
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

/// The inputs of the last uses of tools. Some programs tell only later, and by its id alone, that one was denied.
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
        self.0.iter().rev().find(|(known, _)| known == id).map(|(_, input)| input.clone()).unwrap_or_default()
    }
}

impl Desk {
    /// Records that the agent's program denied a use of a tool by itself: by rules that it was given, or by its own.
    pub(super) fn denied_by_program(
        &mut self,
        call: &str,
        tool: &str,
        reason: &str,
    ) -> Result<(), StoreError> {
        let input = self.recent_calls.input(call);
        let reason = match self.ruling(tool, &input) {
            // Without an input, a rule about some commands is taken to be about this one, which nobody knows.
            Ruling::Deny(ours) if !input.is_null() => ours,
            Ruling::Deny(_) | Ruling::Ask(_) | Ruling::Allow(_) => reason.to_owned(),
        };
        self.record_denial(tool, &input, &reason)
    }

    /// Records that a use of a tool was denied here.
    pub(super) fn denied_here(&mut self, ask: &Ask, reason: &str) -> Result<(), StoreError> {
        self.record_denial(&ask.tool, &ask.input, reason)
    }

    fn record_denial(&mut self, tool: &str, input: &Value, reason: &str) -> Result<(), StoreError> {
        self.append(Event::Warned { message: sentence(tool, input, &with_source(&self.spec, reason)) })
    }
}

/// `denied: Bash(touch a.txt): the rule deny Bash(touch:*), set by the command line`
fn sentence(tool: &str, input: &Value, reason: &str) -> String {
    // An answer to a question says itself that it denies.
    let reason = reason.strip_prefix("denied: ").unwrap_or(reason);
    match subject(input) {
        Some(subject) => format!("denied: {tool}({subject}): {reason}"),
        None => format!("denied: {tool}: {reason}"),
    }
}

/// Returns what a tool was to work on, on one line.
fn subject(input: &Value) -> Option<String> {
    let found = SUBJECTS.iter().find_map(|key| input.get(key))?;
    let text = match found {
        Value::String(text) => text.clone(),
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        _ => return None,
    };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => Some(format!("{}…", &line[..end])),
        None => Some(line).filter(|line| !line.is_empty()),
    }
}

/// Adds to a reason who set the rule or the level that it names.
fn with_source(spec: &RunSpec, reason: &str) -> String {
    let names = |permission: &Permission| {
        let rule = |rule: &domain::permission::Rule| reason == format!("the rule deny {rule}");
        let level = |level: domain::permission::Level| {
            reason == format!("the level {} does not allow it", level.as_str())
        };
        permission.deny.iter().any(rule) || permission.level.is_some_and(level)
    };
    if let Some(grant) = spec.grants.iter().rev().find(|grant| names(&grant.asked)) {
        return format!("{reason}, set by {}", grant.by);
    }
    match names(&spec.setup.permission) {
        true => format!("{reason}, set by the agent's definition"),
        false => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_denial_names_the_tool_its_subject_and_the_reason_once() {
        let bash = json!({"command": "touch  a.txt\n"});
        assert_eq!(sentence("Bash", &bash, "a rule"), "denied: Bash(touch a.txt): a rule");
        let unattended = "denied: nobody can answer: no terminal";
        assert_eq!(
            sentence("Bash", &bash, unattended),
            "denied: Bash(touch a.txt): nobody can answer: no terminal"
        );
        assert_eq!(sentence("Fetch", &Value::Null, "x"), "denied: Fetch: x");
        let long = json!({"cmd": ["echo", "x".repeat(500)]});
        assert_eq!(subject(&long).unwrap().chars().count(), SHOWN_CHARS_MAX + 1);
    }

    #[test]
    fn what_is_remembered_of_calls_is_bounded() {
        let mut calls = RecentCalls::default();
        calls.remember("long", &json!({"command": "x".repeat(INPUT_BYTES_MAX)}));
        for number in 0..=CALLS_MAX {
            calls.remember(&number.to_string(), &json!(number));
        }
        assert_eq!((calls.input("long"), calls.input("0")), (Value::Null, Value::Null));
        assert_eq!(calls.input(&CALLS_MAX.to_string()), json!(CALLS_MAX));
    }
}
