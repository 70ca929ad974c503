//! Volery's own format: markdown with YAML frontmatter. The body is the system prompt.

use domain::agent::Callers;
use domain::agent::{Agent, AgentFormat, Delegates, ScriptSource};
use domain::budget::RequestedLimits;
use domain::diagnostic::Diagnostic;
use domain::id::BackendName;
use domain::run::{ContainmentDemand, OnDisconnect, OnInterrupt};

use super::AgentFile;
use super::inputs::take_inputs;
use super::markdown::{self, Frontmatter};
use super::setup::{take_setup, take_texts};
use super::shared_keys::{
    read_agent_name, read_backend, read_callers, read_model, take_description, take_name,
};
use crate::text::{
    Bounds, Diagnostics, Fields, Node, NodeValue, read_choice, read_duration_ms, read_env_names, read_list,
    read_relative_path,
};
use crate::{limits, script};

/// The grace after a disconnect for `on_disconnect: cancel` without `disconnect_grace`.
pub const DISCONNECT_GRACE_MS: u64 = 30_000;

const MINIMAL: &str =
    "begin the file with four lines: `---`, `description: TEXT`, `backend: rehearsal`, `---`";

/// Reads an agent. Returns `None` exactly if there is an error.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, AgentFormat::Volery, Frontmatter::Required { hint: MINIMAL }, read_fields)
}

/// Returns the readable part of a file with errors, so that all problems can be reported at once. Not to be run.
pub fn draft(agent_file: AgentFile<'_>) -> Option<Agent> {
    markdown::draft(agent_file, AgentFormat::Volery, Frontmatter::Required { hint: MINIMAL }, read_fields).0
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Agent> {
    let name = take_name(&mut fields, agent_file.stem, diagnostics);
    let description = take_description(&mut fields, diagnostics);
    let backend = take_backend(&mut fields, diagnostics);
    let model = fields.take("model").and_then(|node| read_model(node, diagnostics));
    let use_when = take_texts(&mut fields, "use_when", diagnostics);
    let avoid_when = take_texts(&mut fields, "avoid_when", diagnostics);
    let capabilities = take_texts(&mut fields, "capabilities", diagnostics);
    let tags = take_texts(&mut fields, "tags", diagnostics);
    let inputs = take_inputs(&mut fields, diagnostics);
    let env = fields.take("env").map(|node| read_env_names(node, "env", diagnostics)).unwrap_or_default();
    let limits = take_limits(&mut fields, diagnostics);
    let callers = take_callers(&mut fields, diagnostics);
    let delegates =
        fields.take("delegates").map(|node| read_delegates(node, diagnostics)).unwrap_or_default();
    let on_disconnect = take_on_disconnect(&mut fields, diagnostics);
    let interrupts = [("end", OnInterrupt::End), ("resume", OnInterrupt::Resume)];
    let on_interrupt = fields
        .take("on_interrupt")
        .and_then(|node| read_choice(node, "on_interrupt", &interrupts, diagnostics));
    let containment = fields
        .take("containment")
        .and_then(|node| read_choice(node, "containment", &CONTAINMENT, diagnostics));
    let script = take_script(&mut fields, diagnostics);
    let setup = take_setup(&mut fields, diagnostics);
    fields.close(diagnostics);
    Some(Agent {
        description,
        model,
        use_when,
        avoid_when,
        capabilities,
        tags,
        inputs,
        env,
        limits,
        callers,
        delegates,
        on_disconnect,
        on_interrupt: on_interrupt.unwrap_or_default(),
        containment: containment.unwrap_or_default(),
        script,
        setup,
        ..Agent::new(name?, backend?, agent_file.source(AgentFormat::Volery))
    })
}

/// The names of the containment levels.
pub(crate) const CONTAINMENT: [(&str, ContainmentDemand); 3] = [
    ("auto", ContainmentDemand::Auto),
    ("strict", ContainmentDemand::Strict),
    ("plain", ContainmentDemand::Plain),
];

fn take_backend(fields: &mut Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<BackendName> {
    let Some(node) = fields.take("backend") else {
        let hint = "add a line such as backend: rehearsal";
        diagnostics.error_with_hint(fields.location, "the key backend is missing", hint);
        return None;
    };
    read_backend(node, "backend", diagnostics)
}

fn take_limits(fields: &mut Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> RequestedLimits {
    let top = limits::take_times(fields, diagnostics);
    let Some(node) = fields.take("limits") else { return top };
    let within = limits::read(node, "limits", diagnostics);
    let mut one = |key: &str, top: Option<u64>, within: Option<u64>| {
        if top.is_some() && within.is_some() {
            let message = format!("{key} stands at the top level and in limits");
            diagnostics.error_with_hint(node.location, message, "write it once");
        }
        top.or(within)
    };
    RequestedLimits {
        timeout_ms: one("timeout", top.timeout_ms, within.timeout_ms),
        idle_timeout_ms: one("idle_timeout", top.idle_timeout_ms, within.idle_timeout_ms),
        grace_ms: one("grace", top.grace_ms, within.grace_ms),
        answer_timeout_ms: one("answer_timeout", top.answer_timeout_ms, within.answer_timeout_ms),
        ..within
    }
}

fn take_callers(fields: &mut Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> Callers {
    let (key, node) = match (fields.take("callers"), fields.take("allowed_callers")) {
        (None, None) => return Callers::Anyone,
        (Some(node), None) => ("callers", node),
        (None, Some(node)) => ("allowed_callers", node),
        (Some(_), Some(node)) => {
            diagnostics.error(node.location, "callers and allowed_callers mean the same; write one of them");
            return Callers::Anyone;
        }
    };
    read_callers(node, key, diagnostics)
}

fn read_delegates(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Delegates {
    match &node.value {
        NodeValue::String(word) if word == "anyone" => return Delegates::Anyone,
        NodeValue::String(word) if word == "none" => return Delegates::Nobody,
        NodeValue::String(_)
        | NodeValue::List(_)
        | NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime
        | NodeValue::Map(_) => {}
    }
    let mut names = Vec::new();
    for item in read_list(node, "delegates", diagnostics).unwrap_or_default() {
        names.extend(read_agent_name(item, "delegates", diagnostics));
    }
    if names.is_empty() { Delegates::Nobody } else { Delegates::Only(names) }
}

fn take_on_disconnect(fields: &mut Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<OnDisconnect> {
    let policies = [
        ("cancel", OnDisconnect::Cancel { grace_ms: DISCONNECT_GRACE_MS }),
        ("continue", OnDisconnect::Continue),
    ];
    let policy = fields
        .take("on_disconnect")
        .and_then(|node| read_choice(node, "on_disconnect", &policies, diagnostics));
    let Some(node) = fields.take("disconnect_grace") else { return policy };
    let grace_ms = read_duration_ms(node, "disconnect_grace", Bounds::from(0), diagnostics);
    match policy {
        Some(OnDisconnect::Cancel { .. }) => grace_ms.map(|grace_ms| OnDisconnect::Cancel { grace_ms }),
        Some(OnDisconnect::Continue) | None => {
            diagnostics
                .warning(node.location, "disconnect_grace has no effect without on_disconnect: cancel");
            policy
        }
    }
}

fn take_script(fields: &mut Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<ScriptSource> {
    match (fields.take("script"), fields.take("steps")) {
        (None, None) => None,
        (Some(node), None) => read_relative_path(node, "script", diagnostics).map(ScriptSource::File),
        (None, Some(node)) => Some(ScriptSource::Inline(script::read_steps(node, diagnostics))),
        (Some(_), Some(node)) => {
            diagnostics.error(node.location, "script and steps exclude each other; write one of them");
            None
        }
    }
}
