//! Resolves a directive for a run: its tools, its rules and its system prompt, with the inputs of the caller. Pure.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::effective_tools::{EffectiveTools, effective_tools};
use super::template::fill_template;
use super::tools::{LoopTool, tool_specs};
use super::{CallLimits, LoopPlan, LoopPrompts};
use crate::access::AccessLayer;
use crate::agent::Agent;
use crate::budget::{Limits, RequestedLimits};
use crate::directive::{Directive, DirectiveLimits, DirectiveOutput};
use crate::inputs::Inputs;
use crate::placeholders::fill_placeholders;
use crate::price::Price;

/// What the seed of this format allows where nobody says anything else.
pub const STEPS_DEFAULT: u64 = 50;
pub const TOKENS_DEFAULT: u64 = 100_000;
pub const ANSWER_TOKENS_DEFAULT: u64 = 4_096;
pub const TIMEOUT_MS_DEFAULT: u64 = 300_000;

/// The part of a run's spec that only the loop reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopSpec {
    pub tools: Vec<LoopTool>,
    /// A use must be allowed by each of them.
    pub layers: Vec<AccessLayer>,
    /// The form of the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<DirectiveOutput>,
    /// The names of the steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
}

/// A directive with its inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedDirective {
    pub spec: LoopSpec,
    pub system_prompt: String,
    /// The commands of its success criteria.
    pub accept: Vec<Vec<String>>,
    pub warnings: Vec<String>,
}

/// Why a directive cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectiveRefusal {
    #[error("it needs what Volery does not offer: {}", features.join(", "))]
    Unsupported { features: Vec<String> },
    #[error("tools that it requires are missing: {}", tools.join("; "))]
    MissingTools { tools: Vec<String> },
    #[error("its text uses inputs that have no value: {}", names.join(", "))]
    UnfilledInputs { names: Vec<String> },
}

/// Returns the tools of a directive, or why it cannot run whatever its inputs are.
pub fn check_directive(agent: &Agent, directive: &Directive) -> Result<EffectiveTools, DirectiveRefusal> {
    if !directive.unsupported.is_empty() {
        let feature = |feature: &crate::directive::UnsupportedFeature| {
            format!("{} ({}:{})", feature.name, agent.source.file, feature.line)
        };
        let features = directive.unsupported.iter().map(feature).collect();
        return Err(DirectiveRefusal::Unsupported { features });
    }
    let effective = effective_tools(directive, &agent.source.file);
    if !effective.missing_required.is_empty() {
        let tools = effective.missing_required.iter().map(ToString::to_string).collect();
        return Err(DirectiveRefusal::MissingTools { tools });
    }
    Ok(effective)
}

/// Resolves a directive. The result does not depend on the model.
pub fn resolve_directive(
    agent: &Agent,
    directive: &Directive,
    inputs: &Inputs,
) -> Result<ResolvedDirective, DirectiveRefusal> {
    let EffectiveTools { tools, layers, missing_optional, unusable_rules, missing_required: _ } =
        check_directive(agent, directive)?;
    let (instructions, unfilled) = fill_placeholders(&directive.instructions, inputs);
    if !unfilled.is_empty() {
        return Err(DirectiveRefusal::UnfilledInputs { names: unfilled });
    }
    let missing = missing_optional.iter().map(|tool| format!("without an optional tool: {tool}"));
    let warnings = missing.chain(unusable_rules.iter().map(ToString::to_string)).collect();
    let accept = directive.criteria.iter().filter_map(|criterion| criterion.command.clone()).collect();
    let system_prompt =
        system_prompt(agent, directive, &instructions, &SystemPromptParts { inputs, tools: &tools });
    let steps = directive.steps.iter().map(|step| step.name.clone()).collect();
    let spec = LoopSpec { tools, layers, outputs: directive.outputs.clone(), steps };
    Ok(ResolvedDirective { spec, system_prompt, accept, warnings })
}

struct SystemPromptParts<'a> {
    inputs: &'a Inputs,
    tools: &'a [LoopTool],
}

fn system_prompt(
    agent: &Agent,
    directive: &Directive,
    instructions: &str,
    parts: &SystemPromptParts<'_>,
) -> String {
    let mut criteria = String::new();
    for criterion in &directive.criteria {
        // Writing to a text cannot fail.
        let _ = writeln!(criteria, "- {}", criterion.text.trim());
    }
    let criteria_clause = if criteria.is_empty() { "" } else { " and all of these hold" };
    let tools: String = tool_specs(parts.tools, &directive.outputs)
        .iter()
        .map(|tool| format!("- {}: {}\n", tool.name, tool.description))
        .collect();
    let values = [
        ("name", agent.name.as_str()),
        ("description", agent.description.as_str()),
        ("instructions", instructions.trim()),
        ("inputs", &shown_inputs(parts.inputs)),
        ("criteria_clause", criteria_clause),
        ("criteria", &criteria),
        ("tools", tools.trim_end()),
    ];
    fill_template(include_str!("prompts/system.md"), &values)
}

fn shown_inputs(inputs: &Inputs) -> String {
    let shown = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let lines: Vec<String> =
        inputs.iter().map(|(name, value)| format!("- {name}: {}", shown(value))).collect();
    if lines.is_empty() { "(no inputs)".to_owned() } else { lines.join("\n") }
}

/// Returns the message that starts a directive, with what its caller adds.
pub fn first_message(addition: &str) -> String {
    let start = include_str!("prompts/first_message.md").trim_end();
    match addition.trim() {
        "" => start.to_owned(),
        addition => format!("{start}\n\n{addition}"),
    }
}

/// Returns the limits of a directive as a layer of limits.
pub fn requested_limits(limits: &DirectiveLimits) -> RequestedLimits {
    RequestedLimits {
        timeout_ms: limits.timeout_ms,
        depth: limits.depth,
        children: limits.children,
        steps: limits.steps.map(u64::from),
        tool_calls: limits.tool_calls.map(u64::from),
        tokens: limits.tokens,
        answer_tokens: limits.output_tokens.map(u64::from),
        cost_microusd: limits.cost_microusd,
        ..RequestedLimits::default()
    }
}

/// Returns the plan of a loop.
pub fn loop_plan(spec: &LoopSpec, model: &LoopModel, limits: &Limits, prompts: (&str, &str)) -> LoopPlan {
    let (system, prompt) = prompts;
    LoopPlan {
        model: model.name.clone(),
        system: system.to_owned(),
        prompt: prompt.to_owned(),
        tools: tool_specs(&spec.tools, &spec.outputs),
        finish_tool: LoopTool::Finish.model_name(),
        limits: CallLimits {
            steps: limits.steps.unwrap_or(STEPS_DEFAULT),
            tool_calls: limits.tool_calls,
            tokens: limits.tokens,
            answer_tokens: limits.answer_tokens.unwrap_or(ANSWER_TOKENS_DEFAULT),
            cost_microusd: limits.cost_microusd,
        },
        price: model.price,
        prompts: LoopPrompts {
            reminder: include_str!("prompts/reminder.md").trim_end().to_owned(),
            answer_cut: include_str!("prompts/answer_cut.md").trim_end().to_owned(),
            last_answer: include_str!("prompts/last_answer.md").trim_end().to_owned(),
        },
        temperature: model.temperature,
    }
}

/// The model of a loop.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopModel {
    pub name: String,
    /// Its price, if it is known.
    pub price: Option<Price>,
    pub temperature: Option<f64>,
}
