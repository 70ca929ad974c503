//! Describes what an agent was denied: the tool, its subject, and whose rule or level denies it.

use std::collections::VecDeque;

use backends::contract::NO_SUCH_TOOL;
use backends::user_environment::UserEnvironment;
use domain::invisible_text::one_line;
use domain::permission::{Permission, ToolKind};
use domain::policy::{Basis, Effect, Layer, Policy, Verdict};
use domain::run::tool_summary::{tool_subject, truncate};
use domain::run::{Denial, DenialCause, Event};
use domain::size::head;
use journal::StoreError;
use serde_json::Value;

use super::resolved_path;
use super::supervisor::RunSupervisor;
use crate::env;

/// How many tool calls are remembered, and how long the input of one may be.
const CALLS_MAX: usize = 256;
const INPUT_BYTES_MAX: usize = 2 << 10;
/// How many bytes of the reason the record of a denial contains.
const REASON_BYTES_MAX: usize = 1 << 10;

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
    /// Returns the narrowest rules that would allow a tool use. Returns nothing if the backend cannot express them, or if
    /// another rule or another run denies the use.
    pub(super) fn rules_to_allow(&self, tool: &str, input: &Value) -> Vec<String> {
        let spec = &self.attempt_spec;
        let Some(backend) = backends::registry::by_kind(&spec.backend.kind) else { return Vec::new() };
        let of = resolved_path::resolved_use(tool, input, &spec.directory);
        let rules = self.policy().rules_to_allow(&of);
        let own = &spec.setup.permission;
        let widened = Permission { allow: [own.allow.clone(), rules.clone()].concat(), ..own.clone() };
        let gaps = |permission: &Permission| {
            let permission = permission.for_vendor();
            let options = &spec.backend.options;
            backend.unenforceable(&permission, options).len()
                + backend.inexpressible_grants(&permission, options).len()
        };
        match gaps(&widened) <= gaps(own) {
            true => rules.iter().map(ToString::to_string).collect(),
            false => Vec::new(),
        }
    }

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
        let denied = match by_settings {
            Some(verdict) => DeniedUse::by_verdict(&verdict),
            None if is_ours => DeniedUse::by_verdict(&verdict),
            None if reason == NO_SUCH_TOOL => DeniedUse::because(DenialCause::NoSuchTool, reason.to_owned()),
            None => DeniedUse::because(DenialCause::Program, reason.to_owned()),
        };
        self.record_denial(tool, &input, denied)
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

    /// Records a denial, with the rules that would have prevented it.
    pub(super) fn record_denial(
        &mut self,
        tool: &str,
        input: &Value,
        denied: DeniedUse,
    ) -> Result<(), StoreError> {
        let DeniedUse { cause, reason, by } = denied;
        let allow_rules = match cause {
            // A rule cannot change a person's decision or another rule's, or give the agent a tool that it does not have.
            DenialCause::Person | DenialCause::NoSuchTool | DenialCause::Rule => Vec::new(),
            DenialCause::Level | DenialCause::Unattended | DenialCause::Unanswered | DenialCause::Program => {
                self.rules_to_allow(tool, input)
            }
        };
        let (tool, reason) = (truncate(&one_line(tool)), one_line(head(&reason, REASON_BYTES_MAX)));
        let denial = Denial { tool, subject: tool_subject(input), cause, reason, by, allow_rules };
        self.subscribers.set_activity(denial.sentence());
        self.append(Event::ToolDenied { denial })
    }
}

/// Why a tool use is denied.
#[derive(Debug, Clone)]
pub(super) struct DeniedUse {
    cause: DenialCause,
    reason: String,
    /// The person who denied it.
    by: Option<String>,
}

impl DeniedUse {
    pub(super) fn because(cause: DenialCause, reason: String) -> Self {
        Self { cause, reason, by: None }
    }

    pub(super) fn by_verdict(verdict: &Verdict) -> Self {
        let cause = match verdict.basis {
            Basis::Rule(_) => DenialCause::Rule,
            Basis::Level(_) | Basis::UserRules(_) | Basis::NoRule => DenialCause::Level,
        };
        Self::because(cause, verdict.explanation())
    }

    pub(super) fn by_person(name: String, reason: String) -> Self {
        Self { cause: DenialCause::Person, reason, by: Some(name) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
