//! A scripted agent that needs nothing installed and spends nothing: for demos, tests and users' own CI.
//!
//! Each step is a call: journalled before and after, so that a run whose worker was lost continues with the first
//! step that was not completed.

use std::collections::BTreeMap;

use domain::agent::{RehearsalScript, RehearsalStep};
use domain::permission::{Permission, Rule, ToolKind};
use domain::policy::Extent;
use domain::run::{AgentEnd, CallClass, CallKind, Cost, CostBasis, Failure, LoopCall, RunSpec, Usage};
use serde_json::json;

use crate::contract::{
    Backend, CallAction, Capabilities, LaunchContext, LaunchPlan, Loop, LoopStep, PlannedCall, PrepareError,
    inexpressible,
};

pub struct Rehearsal;

impl Backend for Rehearsal {
    fn kind(&self) -> &'static str {
        "rehearsal"
    }

    fn capabilities(&self, _options: &serde_json::Value) -> Capabilities {
        Capabilities {
            system_prompt: true,
            model: true,
            usage: true,
            resumes_from_calls: true,
            is_script: true,
            ask: true,
            // A script has no tools and no instructions but its own, and neither turns nor effort to spend.
            replaces_prompt: true,
            effort: true,
            tools: true,
            can_skip_project_context: true,
            max_turns: true,
            output_schema: true,
            ..Capabilities::default()
        }
    }

    /// A script's only tool is writing files in its directory, so everything else is denied anyway.
    fn unenforceable(&self, permission: &Permission, options: &serde_json::Value) -> Vec<String> {
        let writes =
            |step: &RehearsalStep| matches!(step, RehearsalStep::Write { .. } | RehearsalStep::Append { .. });
        let script = serde_json::from_value::<RehearsalScript>(options.clone());
        if script.is_ok_and(|script| !script.steps.iter().any(writes)) {
            return Vec::new();
        }
        let edits = |rules: &[Rule]| -> Vec<Rule> {
            let edits = |rule: &&Rule| matches!(rule.kind(), ToolKind::Edit | ToolKind::Everything);
            rules.iter().filter(edits).cloned().collect()
        };
        inexpressible(&Permission {
            level: permission.level.filter(|level| level.extent(ToolKind::Edit) == Extent::Nothing),
            allow: Vec::new(),
            ask: edits(&permission.ask),
            deny: edits(&permission.deny),
        })
    }

    fn prepare(&self, spec: &RunSpec, _context: &LaunchContext<'_>) -> Result<LaunchPlan, PrepareError> {
        let script: RehearsalScript = serde_json::from_value(spec.backend.options.clone())
            .map_err(|error| PrepareError { kind: "rehearsal", reason: error.to_string() })?;
        Ok(LaunchPlan::Loop(Box::new(Rehearsed { script, prompt: spec.prompt.clone() })))
    }
}

struct Rehearsed {
    script: RehearsalScript,
    prompt: String,
}

impl Loop for Rehearsed {
    fn next(&self, done: &BTreeMap<u32, LoopCall>) -> LoopStep {
        let is_done = |call: &u32| done.get(call).is_some_and(|known| known.completed.is_some());
        if let Some(message) = done.values().find_map(write_failure) {
            return LoopStep::Finish(AgentEnd::Failed(Failure::Agent { message }));
        }
        let next = (0_u32..).zip(&self.script.steps).find(|(call, _)| !is_done(call));
        match next {
            None => LoopStep::Finish(AgentEnd::Done),
            Some((_, RehearsalStep::Fail(message))) => {
                LoopStep::Finish(AgentEnd::Failed(Failure::Agent { message: message.clone() }))
            }
            Some((call, step)) => LoopStep::Call(self.plan(call, step)),
        }
    }
}

/// Returns why a file could not be written, which ends a rehearsal. Three failures do not: a question answered with
/// no, a child run that failed like any agent's, and a call in doubt, which may have been done.
fn write_failure(call: &LoopCall) -> Option<String> {
    let (ok, output) = call.completed.as_ref()?;
    let counts = matches!(call.name.as_str(), "write" | "append");
    (counts && !ok && !call.in_doubt).then(|| format!("{} did not work: {}", call.name, output.trim_end()))
}

impl Rehearsed {
    fn plan(&self, call: u32, step: &RehearsalStep) -> PlannedCall {
        let fill = |text: &String| text.replace("{prompt}", &self.prompt);
        let (kind, class, name, action) = match step {
            RehearsalStep::Say(text) => {
                (CallKind::Model, CallClass::Pure, "say", CallAction::Say(fill(text)))
            }
            RehearsalStep::Sleep(ms) => {
                (CallKind::Tool, CallClass::Pure, "sleep", CallAction::Sleep { ms: *ms })
            }
            RehearsalStep::Write { path, text } => {
                let action = CallAction::Write { path: path.clone(), text: fill(text) };
                (CallKind::Tool, CallClass::Idempotent, "write", action)
            }
            RehearsalStep::Append { path, text } => {
                let action = CallAction::Append { path: path.clone(), text: fill(text) };
                (CallKind::Tool, CallClass::Effect, "append", action)
            }
            // The same question keeps its id, so asking again finds the existing answer.
            RehearsalStep::Ask(text) => (
                CallKind::Tool,
                CallClass::Idempotent,
                "ask",
                CallAction::PermissionRequest { text: fill(text) },
            ),
            // The child carries an idempotency key made of run and call, so asking again finds the same child.
            RehearsalStep::Delegate { agent, prompt } => {
                let action = CallAction::Delegate { agent: agent.to_string(), prompt: fill(prompt) };
                (CallKind::Tool, CallClass::Idempotent, "delegate", action)
            }
            RehearsalStep::Usage { input_tokens, output_tokens, cost_microusd } => {
                let cost = cost_microusd.map(|microusd| Cost { microusd, basis: CostBasis::Reported });
                let usage = Usage {
                    input_tokens: *input_tokens,
                    output_tokens: *output_tokens,
                    cost,
                    ..Usage::default()
                };
                (CallKind::Model, CallClass::Pure, "usage", CallAction::ReportUsage(usage))
            }
            RehearsalStep::Fail(_) => (CallKind::Model, CallClass::Pure, "fail", CallAction::Sleep { ms: 0 }),
        };
        let input = json!(step);
        PlannedCall { call, kind, class, name: name.to_owned(), input, action }
    }
}

#[cfg(test)]
mod tests;
