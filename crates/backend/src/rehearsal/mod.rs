//! A scripted stand-in that needs nothing installed and spends nothing: for demos, tests and users' own CI.
//!
//! Each step is a call: journalled before and after, so that a run whose worker was lost goes on with the first
//! step that was not completed.

use std::collections::BTreeMap;

use domain::agent::{Script, Step};
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::run::{AgentEnd, Call, CallClass, CallKind, Cost, CostBasis, Failure, RunSpec, Usage};
use serde_json::json;

use crate::contract::{
    Action, Backend, Capabilities, Drive, Loop, Place, PlannedCall, PrepareError, Turn, inexpressible,
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
            resume: true,
            ask: true,
            // A script has no tools and no instructions but its own, and neither turns nor effort to spend.
            replaces_prompt: true,
            effort: true,
            tools: true,
            skips_context: true,
            max_turns: true,
            output_schema: true,
            ..Capabilities::default()
        }
    }

    /// A script has no tools but writing files in its directory, so everything else is denied anyway.
    fn unenforceable(&self, permission: &Permission, options: &serde_json::Value) -> Vec<String> {
        let writes = |step: &Step| matches!(step, Step::Write { .. } | Step::Append { .. });
        let script = serde_json::from_value::<Script>(options.clone());
        if script.is_ok_and(|script| !script.steps.iter().any(writes)) {
            return Vec::new();
        }
        let edits = |rules: &[Rule]| -> Vec<Rule> {
            let edits = |rule: &&Rule| matches!(rule.kind(), ToolKind::Edit | ToolKind::Everything);
            rules.iter().filter(edits).cloned().collect()
        };
        inexpressible(&Permission {
            level: permission.level.filter(|level| *level == Level::ReadOnly),
            allow: Vec::new(),
            ask: edits(&permission.ask),
            deny: edits(&permission.deny),
        })
    }

    fn prepare(&self, spec: &RunSpec, _place: &Place<'_>) -> Result<Drive, PrepareError> {
        let script: Script = serde_json::from_value(spec.backend.options.clone())
            .map_err(|error| PrepareError { kind: "rehearsal", reason: error.to_string() })?;
        Ok(Drive::Loop(Box::new(Rehearsed { script, prompt: spec.prompt.clone() })))
    }
}

struct Rehearsed {
    script: Script,
    prompt: String,
}

impl Loop for Rehearsed {
    fn next(&self, done: &BTreeMap<u32, Call>) -> Turn {
        let is_done = |call: &u32| done.get(call).is_some_and(|known| known.completed.is_some());
        if let Some(message) = done.values().find_map(failure_of) {
            return Turn::Finish(AgentEnd::Failed(Failure::Agent { message }));
        }
        let next = (0_u32..).zip(&self.script.steps).find(|(call, _)| !is_done(call));
        match next {
            None => Turn::Finish(AgentEnd::Done),
            Some((_, Step::Fail(message))) => {
                Turn::Finish(AgentEnd::Failed(Failure::Agent { message: message.clone() }))
            }
            Some((call, step)) => Turn::Call(self.plan(call, step)),
        }
    }
}

/// Returns why a file could not be written, which ends a rehearsal. A question may be answered with no, a child run
/// may fail like any agent's, and what is in doubt may have been done.
fn failure_of(call: &Call) -> Option<String> {
    let (ok, output) = call.completed.as_ref()?;
    let counts = matches!(call.name.as_str(), "write" | "append");
    (counts && !ok && !call.in_doubt).then(|| format!("{} did not work: {}", call.name, output.trim_end()))
}

impl Rehearsed {
    fn plan(&self, call: u32, step: &Step) -> PlannedCall {
        let fill = |text: &String| text.replace("{prompt}", &self.prompt);
        let (kind, class, name, action) = match step {
            Step::Say(text) => (CallKind::Model, CallClass::Pure, "say", Action::Say(fill(text))),
            Step::Sleep(ms) => (CallKind::Tool, CallClass::Pure, "sleep", Action::Sleep { ms: *ms }),
            Step::Write { path, text } => {
                let action = Action::Write { path: path.clone(), text: fill(text) };
                (CallKind::Tool, CallClass::Idempotent, "write", action)
            }
            Step::Append { path, text } => {
                let action = Action::Append { path: path.clone(), text: fill(text) };
                (CallKind::Tool, CallClass::Effect, "append", action)
            }
            // The same question keeps its id, so asking again finds the answer that was given.
            Step::Ask(text) => {
                (CallKind::Tool, CallClass::Idempotent, "ask", Action::Ask { text: fill(text) })
            }
            // The child carries an idempotency key made of run and call, so asking again finds the same child.
            Step::Delegate { agent, prompt } => {
                let action = Action::Delegate { agent: agent.to_string(), prompt: fill(prompt) };
                (CallKind::Tool, CallClass::Idempotent, "delegate", action)
            }
            Step::Usage { input_tokens, output_tokens, cost_microusd } => {
                let cost = cost_microusd.map(|microusd| Cost { microusd, basis: CostBasis::Reported });
                let usage = Usage {
                    input_tokens: *input_tokens,
                    output_tokens: *output_tokens,
                    cost,
                    ..Usage::default()
                };
                (CallKind::Model, CallClass::Pure, "usage", Action::Use(usage))
            }
            Step::Fail(_) => (CallKind::Model, CallClass::Pure, "fail", Action::Sleep { ms: 0 }),
        };
        let input = json!(step);
        PlannedCall { call, kind, class, name: name.to_owned(), input, action }
    }
}

#[cfg(test)]
mod tests;
