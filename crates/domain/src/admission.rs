//! Admits an agent and a request as a run, or refuses them with a reason. Pure: the state of the disk, the time and
//! random numbers are parameters.

use std::collections::BTreeMap;

use crate::Timestamp;
use crate::agent::{Agent, Callers};
use crate::budget::{self, Limits, RequestedLimits};
use crate::id::{AgentName, RunId, SessionId};
use crate::inputs::{self, Inputs};
use crate::policy::Grant;
use crate::price::Price;
use crate::run::agent_loop::{self, DirectiveRefusal, LoopSpec, ResolvedDirective};
use crate::run::replay::Exchange;
use crate::run::{
    BackendSpec, Caller, Iac, Idempotency, LimitName, OnDisconnect, OnInterrupt, ResolvedFallback,
    ResumedRun, RunSpec, SPEC_VERSION,
};
use crate::setup::{OutputFormat, Setup};
use crate::size::display_bytes;

/// The longest prompt, with its context and inputs.
pub const PROMPT_BYTES_MAX: usize = 1 << 20;

/// A caller's request, parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmissionRequest {
    pub prompt: String,
    pub context: Option<String>,
    /// Values for the inputs that the agent declares.
    pub inputs: Inputs,
    pub session: Option<SessionId>,
    /// The session is copied and not continued.
    pub fork: bool,
    /// The exchanges of the session before its first run here.
    pub prior_exchanges: Vec<Exchange>,
    pub model: Option<String>,
    /// A JSON schema for the answer that replaces the agent's own.
    pub output_schema: Option<serde_json::Value>,
    /// The interrupted run that this one resumes.
    pub resumes: Option<ResumedRun>,
    pub limits: RequestedLimits,
    pub on_disconnect: Option<OnDisconnect>,
    /// The layers of the run's permission above the agent's file; the agent has the result.
    pub grants: Vec<Grant>,
    /// The reason why no person can answer questions. A child run inherits it from its parent.
    pub unattended: Option<String>,
    pub idempotency: Option<Idempotency>,
    /// The entry in `IAC.md`, if there is one.
    pub iac: Option<Iac>,
}

/// The facts about the caller and the machine that admission needs.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmissionContext {
    pub id: RunId,
    pub now: Timestamp,
    pub tag: u64,
    pub directory: String,
    pub project: String,
    pub caller: Caller,
    pub backend: BackendSpec,
    /// The agent's fallbacks, resolved.
    pub alternatives: Vec<ResolvedFallback>,
    /// The user's own prices for models.
    pub prices: BTreeMap<String, Price>,
    /// Limits from the configuration, the nearest layer last.
    pub configured_limits: Vec<RequestedLimits>,
    pub on_disconnect: OnDisconnect,
    pub parent: Option<ParentRun>,
}

/// The run that starts a child, and the rest of its allowance.
#[derive(Debug, Clone, PartialEq)]
pub struct ParentRun {
    pub spec: RunSpec,
    pub children: u32,
    pub tree_runs: u32,
    /// How long the parent itself may still run.
    pub remaining_ms: u64,
    /// Agent and prompt of the parent, its parent, and so on.
    pub ancestry: Vec<(AgentName, String)>,
}

/// Why a run was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionRefusal {
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
    #[error("no time is left for the run: its time-out must be more than 0")]
    NoTime,
    #[error("agent {agent} was already given this very prompt by a run above this one")]
    DelegationCycle { agent: AgentName },
    #[error("the directive {agent} cannot run: {refusal}")]
    Directive { agent: AgentName, refusal: DirectiveRefusal },
}

/// Decides whether the run is accepted, and with which limits.
pub fn admit(
    agent: &Agent,
    request: AdmissionRequest,
    admission: AdmissionContext,
) -> Result<RunSpec, AdmissionRefusal> {
    let AdmissionRequest {
        prompt,
        context,
        inputs,
        session,
        fork,
        prior_exchanges,
        model,
        output_schema,
        resumes,
        limits,
        on_disconnect,
        grants,
        unattended,
        idempotency,
        iac,
    } = request;
    let model = model.or_else(|| agent.model.clone());
    check_model(model.as_deref())?;
    let task = resolve_task(agent, (prompt, context), inputs)?;
    check_caller(agent, &admission.caller)?;
    let caller_set_timeout = limits.timeout_ms.is_some();
    if let Some(parent) = &admission.parent {
        check_parent(agent, &task.prompt, parent)?;
    }
    let (limits, mut warnings) = resolve_limits(agent, &limits, &admission)?;
    let (parent, root, depth) = lineage(&admission);
    let unattended = match &admission.parent {
        Some(parent) => parent.spec.unattended.clone(),
        None => unattended,
    };
    let mut setup = with_schema(agent.setup.clone(), output_schema);
    // What the file allows would count in addition to the permission that these layers leave.
    if let Some(file) = agent.limited_file.as_ref().filter(|_| !grants.is_empty()) {
        setup.replace_vendor_file(file.content.clone());
    }
    setup.accept.extend(task.accept);
    warnings.extend(task.warnings);
    Ok(RunSpec {
        version: SPEC_VERSION,
        id: admission.id,
        created_at: admission.now,
        agent: agent.name.clone(),
        source: agent.source.file.clone(),
        backend: admission.backend,
        prompt: task.prompt,
        system_prompt: task.system_prompt,
        model,
        resumed_run: resumes,
        session,
        fork,
        prior_exchanges,
        directory: admission.directory,
        project: admission.project,
        caller: admission.caller,
        parent,
        root,
        depth,
        limits,
        env: agent.env.clone(),
        delegates: agent.delegates.clone(),
        on_disconnect: on_disconnect.or(agent.on_disconnect).unwrap_or(admission.on_disconnect),
        on_interrupt: task.on_interrupt,
        timeout_covers_wait: caller_set_timeout && unattended.is_some(),
        unattended,
        containment: agent.containment,
        setup,
        agent_loop: task.agent_loop,
        inputs: task.inputs,
        grants,
        fallbacks: admission.alternatives,
        prices: admission.prices,
        tag: admission.tag,
        trusted_executables_digest: None,
        idempotency,
        iac,
        warnings,
    })
}

/// What a run is to do.
struct Task {
    prompt: String,
    system_prompt: String,
    /// Those of a directive; other agents have theirs in the prompt.
    inputs: Inputs,
    agent_loop: Option<Box<LoopSpec>>,
    /// The commands of a directive's success criteria.
    accept: Vec<Vec<String>>,
    on_interrupt: OnInterrupt,
    warnings: Vec<String>,
}

/// Joins the prompt of a run, and resolves the directive of an agent that is one.
fn resolve_task(
    agent: &Agent,
    (prompt, context): (String, Option<String>),
    inputs: Inputs,
) -> Result<Task, AdmissionRefusal> {
    let filled = inputs::resolve_inputs(&agent.inputs, inputs);
    let inputs =
        filled.map_err(|problems| AdmissionRefusal::Inputs { agent: agent.name.clone(), problems })?;
    let Some(directive) = &agent.directive else {
        return Ok(Task {
            prompt: full_prompt(prompt, context, &inputs)?,
            system_prompt: agent.system_prompt.clone(),
            inputs: Inputs::new(),
            agent_loop: None,
            accept: Vec::new(),
            on_interrupt: agent.on_interrupt,
            warnings: Vec::new(),
        });
    };
    let resolved = agent_loop::resolve_directive(agent, directive, &inputs);
    let refused = |refusal| AdmissionRefusal::Directive { agent: agent.name.clone(), refusal };
    let ResolvedDirective { spec, system_prompt, accept, warnings } = resolved.map_err(refused)?;
    check_prompt(&system_prompt)?;
    Ok(Task {
        // A directive has its inputs in its system prompt, and needs no prompt of its caller.
        prompt: full_prompt(agent_loop::first_message(&prompt), context, &Inputs::new())?,
        system_prompt,
        inputs,
        agent_loop: Some(Box::new(spec)),
        accept,
        // Completed calls are never repeated, so another worker can always go on.
        on_interrupt: OnInterrupt::Resume,
        warnings,
    })
}

/// Combines the limits of the configuration, the agent, the caller and the parent run.
fn resolve_limits(
    agent: &Agent,
    requested: &RequestedLimits,
    admission: &AdmissionContext,
) -> Result<(Limits, Vec<String>), AdmissionRefusal> {
    let configured = || admission.configured_limits.iter();
    let mut warnings = Vec::new();
    let mut limits = match &agent.directive {
        None => budget::resolve(configured().chain([&agent.limits, requested])),
        Some(directive) => {
            // Only the user's own configuration raises the limits of a directive.
            let ceiling = budget::resolve(configured());
            let own = budget::resolve(configured().chain([&agent_loop::requested_limits(&directive.limits)]));
            let wanted = budget::resolve(configured().chain([&agent.limits, requested]));
            warnings.extend(limit_warnings("the directive", &own, &ceiling));
            warnings.extend(limit_warnings("the caller", &wanted, &ceiling));
            budget::narrow(&budget::narrow(&ceiling, &own), &wanted)
        }
    };
    if let Some(parent) = &admission.parent {
        limits = within_parent(parent, &limits);
    }
    match limits.timeout_ms {
        0 => Err(AdmissionRefusal::NoTime),
        _ => Ok((limits, warnings)),
    }
}

/// Names the limits that somebody wants higher than they are.
fn limit_warnings(who: &str, wanted: &Limits, ceiling: &Limits) -> Vec<String> {
    let counts = [
        ("steps", wanted.steps, ceiling.steps),
        ("tool_calls", wanted.tool_calls, ceiling.tool_calls),
        ("tokens", wanted.tokens, ceiling.tokens),
        ("answer_tokens", wanted.answer_tokens, ceiling.answer_tokens),
        ("timeout", Some(wanted.timeout_ms / 1_000), Some(ceiling.timeout_ms / 1_000)),
        ("depth", Some(wanted.depth.into()), Some(ceiling.depth.into())),
        ("children", Some(wanted.children.into()), Some(ceiling.children.into())),
    ];
    let exceeding = counts.into_iter().filter_map(|(name, wanted, ceiling)| {
        let (wanted, ceiling) = (wanted?, ceiling?);
        (wanted > ceiling).then(|| {
            let unit = if name == "timeout" { " s" } else { "" };
            format!("{who} asks for {name} = {wanted}{unit}, and {ceiling}{unit} are allowed; [limits] {name} in your configuration raises it")
        })
    });
    exceeding.collect()
}

/// Returns the parent of a run, the root of its tree, and its depth.
fn lineage(admission: &AdmissionContext) -> (Option<RunId>, RunId, u32) {
    match &admission.parent {
        Some(parent) => (Some(parent.spec.id), parent.spec.root, parent.spec.depth + 1),
        None => (None, admission.id, 0),
    }
}

/// Replaces the agent's schema with that of the caller.
fn with_schema(mut setup: Setup, schema: Option<serde_json::Value>) -> Setup {
    if schema.is_some() {
        setup.output_format = OutputFormat::Json;
        setup.output_schema = schema;
    }
    setup
}

/// The longest text that becomes an argument of a program.
const ARGUMENT_BYTES_MAX: usize = 200;

/// Returns whether a word can be an argument of a program without looking like an option.
pub fn is_safe_argument(word: &str) -> bool {
    !word.starts_with('-') && word.len() <= ARGUMENT_BYTES_MAX && !word.chars().any(char::is_control)
}

/// A model becomes an argument of a program, whether it comes from the agent or from the caller.
fn check_model(model: Option<&str>) -> Result<(), AdmissionRefusal> {
    match model.filter(|model| !is_safe_argument(model)) {
        Some(model) => {
            Err(AdmissionRefusal::Model { model: crate::size::head(model, ARGUMENT_BYTES_MAX).to_owned() })
        }
        None => Ok(()),
    }
}

/// Joins context, inputs and task, in this order.
fn full_prompt(prompt: String, context: Option<String>, inputs: &Inputs) -> Result<String, AdmissionRefusal> {
    if prompt.trim().is_empty() {
        return Err(AdmissionRefusal::EmptyPrompt);
    }
    let prompt = match serde_json::to_string_pretty(inputs) {
        Ok(values) if !inputs.is_empty() => format!("<inputs>\n{values}\n</inputs>\n\n{prompt}"),
        Ok(_) | Err(_) => prompt,
    };
    let prompt = match context.filter(|context| !context.trim().is_empty()) {
        Some(context) => format!("<context>\n{}\n</context>\n\n{prompt}", context.trim_end()),
        None => prompt,
    };
    check_prompt(&prompt)?;
    Ok(prompt)
}

fn check_prompt(prompt: &str) -> Result<(), AdmissionRefusal> {
    if prompt.contains('\0') {
        return Err(AdmissionRefusal::NulInPrompt);
    }
    match prompt.len() {
        bytes if bytes > PROMPT_BYTES_MAX => Err(AdmissionRefusal::PromptTooLong { bytes }),
        _ => Ok(()),
    }
}

/// The caller of a root run is `main`, and also its client's name; that of a child is its parent's agent.
fn check_caller(agent: &Agent, caller: &Caller) -> Result<(), AdmissionRefusal> {
    let Callers::Only(allowed) = &agent.callers else { return Ok(()) };
    if agent.callers.allow(caller) {
        return Ok(());
    }
    let refusal = AdmissionRefusal::CallerNotAllowed {
        agent: agent.name.clone(),
        caller: caller.name.clone(),
        allowed: allowed.clone(),
    };
    Err(refusal)
}

fn check_parent(agent: &Agent, prompt: &str, parent: &ParentRun) -> Result<(), AdmissionRefusal> {
    let spec = &parent.spec;
    if !spec.delegates.allows(&agent.name) {
        return Err(AdmissionRefusal::MayNotDelegate {
            parent: spec.agent.clone(),
            agent: agent.name.clone(),
        });
    }
    let caps = [
        (LimitName::Depth, spec.depth + 1 > spec.limits.depth, spec.limits.depth),
        (LimitName::Children, parent.children >= spec.limits.children, spec.limits.children),
        (LimitName::TreeRuns, parent.tree_runs >= spec.limits.tree_runs, spec.limits.tree_runs),
    ];
    if let Some((limit, _, allowed)) = caps.into_iter().find(|(_, reached, _)| *reached) {
        return Err(AdmissionRefusal::Limit { limit, allowed });
    }
    if parent.ancestry.iter().any(|(name, text)| *name == agent.name && text == prompt) {
        return Err(AdmissionRefusal::DelegationCycle { agent: agent.name.clone() });
    }
    Ok(())
}

fn within_parent(parent: &ParentRun, requested: &Limits) -> Limits {
    let mut limits = budget::narrow(&parent.spec.limits, requested);
    limits.timeout_ms = limits.timeout_ms.min(parent.remaining_ms);
    limits
}

#[cfg(test)]
mod tests;
