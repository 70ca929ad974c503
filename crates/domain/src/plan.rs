//! From an agent and a request to a run, or to a refusal with its reason. Pure: what exists on disk, the time
//! and the random numbers come in as values.

use std::collections::BTreeMap;

use crate::Timestamp;
use crate::agent::{Agent, Callers, Format};
use crate::budget::{self, AskedLimits, Limits};
use crate::id::{AgentName, RunId, SessionId};
use crate::inputs::{self, Inputs};
use crate::permission::Grant;
use crate::price::Price;
use crate::run::replay::Exchange;
use crate::run::{
    Alternative, BackendSpec, Caller, Iac, Idempotency, LimitName, OnDisconnect, Resumes, RunSpec,
    SPEC_VERSION,
};
use crate::setup::{OutputFormat, Setup};
use crate::size::display_bytes;

/// The longest prompt, with its context and inputs.
pub const PROMPT_BYTES_MAX: usize = 1 << 20;

/// What a caller asks for, parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub prompt: String,
    pub context: Option<String>,
    /// Values that the agent's file asks for.
    pub inputs: Inputs,
    pub session: Option<SessionId>,
    /// The session is copied and not continued.
    pub fork: bool,
    /// What was said in the session before its first run here.
    pub told: Vec<Exchange>,
    pub model: Option<String>,
    /// A JSON schema for the answer, in place of the agent's own.
    pub output_schema: Option<serde_json::Value>,
    /// The interrupted run that is gone on with.
    pub resumes: Option<Resumes>,
    pub limits: AskedLimits,
    pub on_disconnect: Option<OnDisconnect>,
    /// The layers of the run's permission above the agent's file; the agent has the sum.
    pub grants: Vec<Grant>,
    /// Why no person can answer questions. A child run has what its parent has.
    pub unattended: Option<String>,
    pub idempotency: Option<Idempotency>,
    /// How the run is shown in `IAC.md`, if it is.
    pub iac: Option<Iac>,
}

/// What is known about the place and the asker.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    pub id: RunId,
    pub now: Timestamp,
    pub tag: u64,
    pub directory: String,
    pub project: String,
    pub caller: Caller,
    pub backend: BackendSpec,
    /// The agent's fallbacks, resolved.
    pub alternatives: Vec<Alternative>,
    /// What the user pays for models.
    pub prices: BTreeMap<String, Price>,
    /// Limits from the configuration, the nearest layer last.
    pub configured_limits: Vec<AskedLimits>,
    pub on_disconnect: OnDisconnect,
    pub parent: Option<Parent>,
}

/// The run that asks for a child, and what is left of its allowance.
#[derive(Debug, Clone, PartialEq)]
pub struct Parent {
    pub spec: RunSpec,
    pub children: u32,
    pub tree_runs: u32,
    /// How long the parent itself may still run.
    pub remaining_ms: u64,
    /// Agent and prompt of the parent, its parent, and so on.
    pub line: Vec<(AgentName, String)>,
}

/// Why a run was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("the prompt contains a NUL byte, which no agent can be given")]
    NulInPrompt,
    #[error(
        "the prompt has {bytes} bytes with its context and inputs, and {PROMPT_BYTES_MAX} ({}) are allowed",
        display_bytes(PROMPT_BYTES_MAX as u64)
    )]
    PromptTooLong { bytes: usize },
    #[error("{model:?} is not the name of a model")]
    Model { model: String },
    #[error("agent {agent} cannot be given these inputs: {}", problems.join("; "))]
    Inputs { agent: AgentName, problems: Vec<String> },
    #[error(
        "agent {agent} may not be called by {caller}; it allows {}",
        if allowed.is_empty() { "nobody".to_owned() } else { allowed.join(", ") }
    )]
    CallerNotAllowed { agent: AgentName, caller: String, allowed: Vec<String> },
    #[error("agent {parent} may not delegate to {agent}")]
    MayNotDelegate { parent: AgentName, agent: AgentName },
    #[error("the limit on {} is reached: {allowed} are allowed", .limit.as_str())]
    Limit { limit: LimitName, allowed: u32 },
    #[error("no time is left for it: the time-out is 0")]
    NoTime,
    #[error("agent {agent} was already given this very prompt by a run above this one")]
    Circle { agent: AgentName },
    #[error("{agent} is a directive, and directives cannot be executed yet")]
    Directive { agent: AgentName },
}

/// Decides whether the run is accepted, and with which limits.
pub fn plan(agent: &Agent, order: Order, place: Place) -> Result<RunSpec, Refusal> {
    let Order {
        prompt,
        context,
        inputs,
        session,
        fork,
        told,
        model,
        output_schema,
        resumes,
        limits,
        on_disconnect,
        grants,
        unattended,
        idempotency,
        iac,
    } = order;
    if agent.source.format == Format::Directive {
        return Err(Refusal::Directive { agent: agent.name.clone() });
    }
    let model = model.or_else(|| agent.model.clone());
    check_model(model.as_deref())?;
    let filled = inputs::fill(&agent.inputs, inputs);
    let inputs = filled.map_err(|problems| Refusal::Inputs { agent: agent.name.clone(), problems })?;
    let prompt = full_prompt(prompt, context, &inputs)?;
    check_caller(agent, &place.caller)?;
    let caller_set_timeout = limits.timeout_ms.is_some();
    let asked = place.configured_limits.iter().chain([&agent.limits, &limits]);
    let mut limits = budget::resolve(asked);
    if let Some(parent) = &place.parent {
        check_parent(agent, &prompt, parent)?;
        limits = within_parent(parent, &limits);
    }
    if limits.timeout_ms == 0 {
        return Err(Refusal::NoTime);
    }
    let (parent, root, depth) = lineage(&place);
    let unattended = match &place.parent {
        Some(parent) => parent.spec.unattended.clone(),
        None => unattended,
    };
    let setup = with_schema(agent.setup.clone(), output_schema);
    Ok(RunSpec {
        version: SPEC_VERSION,
        id: place.id,
        created_at: place.now,
        agent: agent.name.clone(),
        source: agent.source.file.clone(),
        backend: place.backend,
        prompt,
        system_prompt: agent.system_prompt.clone(),
        model,
        resumes,
        session,
        fork,
        told,
        directory: place.directory,
        project: place.project,
        caller: place.caller,
        parent,
        root,
        depth,
        limits,
        env: agent.env.clone(),
        delegates: agent.delegates.clone(),
        on_disconnect: on_disconnect.or(agent.on_disconnect).unwrap_or(place.on_disconnect),
        on_interrupt: agent.on_interrupt,
        timeout_covers_wait: caller_set_timeout && unattended.is_some(),
        unattended,
        containment: agent.containment,
        setup,
        grants,
        alternatives: place.alternatives,
        prices: place.prices,
        tag: place.tag,
        trusted_programs: None,
        idempotency,
        iac,
        warnings: Vec::new(),
    })
}

/// Returns the parent of a run, the root of its tree, and how far below that it is.
fn lineage(place: &Place) -> (Option<RunId>, RunId, u32) {
    match &place.parent {
        Some(parent) => (Some(parent.spec.id), parent.spec.root, parent.spec.depth + 1),
        None => (None, place.id, 0),
    }
}

/// A schema of the caller's takes the place of the agent's own.
fn with_schema(mut setup: Setup, schema: Option<serde_json::Value>) -> Setup {
    if schema.is_some() {
        setup.output_format = OutputFormat::Json;
        setup.output_schema = schema;
    }
    setup
}

/// The longest word that becomes an argument of a program.
const WORD_BYTES_MAX: usize = 200;

/// Tells whether a word can become an argument of a program, and never look like an option there.
pub fn is_plain_word(word: &str) -> bool {
    !word.starts_with('-') && word.len() <= WORD_BYTES_MAX && !word.chars().any(char::is_control)
}

/// Whoever asks for a model, it becomes an argument.
fn check_model(model: Option<&str>) -> Result<(), Refusal> {
    match model.filter(|model| !is_plain_word(model)) {
        Some(model) => Err(Refusal::Model { model: crate::size::head(model, WORD_BYTES_MAX).to_owned() }),
        None => Ok(()),
    }
}

/// Background comes first, then the inputs, and the task last.
fn full_prompt(prompt: String, context: Option<String>, inputs: &Inputs) -> Result<String, Refusal> {
    if prompt.trim().is_empty() {
        return Err(Refusal::EmptyPrompt);
    }
    let prompt = match serde_json::to_string_pretty(inputs) {
        Ok(values) if !inputs.is_empty() => format!("<inputs>\n{values}\n</inputs>\n\n{prompt}"),
        Ok(_) | Err(_) => prompt,
    };
    let prompt = match context.filter(|context| !context.trim().is_empty()) {
        Some(context) => format!("<context>\n{}\n</context>\n\n{prompt}", context.trim_end()),
        None => prompt,
    };
    if prompt.contains('\0') {
        return Err(Refusal::NulInPrompt);
    }
    if prompt.len() > PROMPT_BYTES_MAX {
        return Err(Refusal::PromptTooLong { bytes: prompt.len() });
    }
    Ok(prompt)
}

/// A root is always `main`, and also its client's name; a child is its parent's agent.
fn check_caller(agent: &Agent, caller: &Caller) -> Result<(), Refusal> {
    let Callers::Only(allowed) = &agent.callers else { return Ok(()) };
    if agent.callers.allow(caller) {
        return Ok(());
    }
    let refusal = Refusal::CallerNotAllowed {
        agent: agent.name.clone(),
        caller: caller.name.clone(),
        allowed: allowed.clone(),
    };
    Err(refusal)
}

fn check_parent(agent: &Agent, prompt: &str, parent: &Parent) -> Result<(), Refusal> {
    let spec = &parent.spec;
    if !spec.delegates.allows(&agent.name) {
        return Err(Refusal::MayNotDelegate { parent: spec.agent.clone(), agent: agent.name.clone() });
    }
    let caps = [
        (LimitName::Depth, spec.depth + 1 > spec.limits.depth, spec.limits.depth),
        (LimitName::Children, parent.children >= spec.limits.children, spec.limits.children),
        (LimitName::TreeRuns, parent.tree_runs >= spec.limits.tree_runs, spec.limits.tree_runs),
    ];
    if let Some((limit, _, allowed)) = caps.into_iter().find(|(_, reached, _)| *reached) {
        return Err(Refusal::Limit { limit, allowed });
    }
    if parent.line.iter().any(|(name, text)| *name == agent.name && text == prompt) {
        return Err(Refusal::Circle { agent: agent.name.clone() });
    }
    Ok(())
}

fn within_parent(parent: &Parent, asked: &Limits) -> Limits {
    let mut limits = budget::narrow(&parent.spec.limits, asked);
    limits.timeout_ms = limits.timeout_ms.min(parent.remaining_ms);
    limits
}

#[cfg(test)]
mod tests;
