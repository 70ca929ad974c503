//! Our own format: markdown with YAML frontmatter. The body is the system prompt.

use domain::agent::Callers;
use domain::agent::{Agent, Delegates, Format, ScriptSource};
use domain::budget::AskedLimits;
use domain::diagnostic::Diagnostic;
use domain::id::BackendName;
use domain::run::{ContainmentDemand, OnDisconnect, OnInterrupt};

use super::AgentFile;
use super::inputs::take_inputs;
use super::markdown::{self, Frontmatter};
use super::setup::{take_setup, take_texts};
use super::values::{read_agent_name, read_backend, read_callers, read_model, take_description, take_name};
use crate::text::{
    Bounds, Fields, Findings, Node, Shape, choice, duration_ms, environment_names, list, relative_path,
};
use crate::{limits, script};

/// The grace after a disconnect when a file says `on_disconnect: cancel` and no `disconnect_grace`.
pub const DISCONNECT_GRACE_MS: u64 = 30_000;

const MINIMAL: &str =
    "begin the file with four lines: `---`, `description: TEXT`, `backend: rehearsal`, `---`";

/// Reads an agent. There is one exactly if no finding is an error.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, Format::Volery, Frontmatter::Required { hint: MINIMAL }, read_fields)
}

/// Returns what can be read of a file with errors, so that all that is wrong can be told at once. Not to be run.
pub fn draft(agent_file: AgentFile<'_>) -> Option<Agent> {
    markdown::draft(agent_file, Format::Volery, Frontmatter::Required { hint: MINIMAL }, read_fields).0
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    findings: &mut Findings<'_>,
) -> Option<Agent> {
    let name = take_name(&mut fields, agent_file.stem, findings);
    let description = take_description(&mut fields, findings);
    let backend = take_backend(&mut fields, findings);
    let model = fields.take("model").and_then(|node| read_model(node, findings));
    let use_when = take_texts(&mut fields, "use_when", findings);
    let avoid_when = take_texts(&mut fields, "avoid_when", findings);
    let capabilities = take_texts(&mut fields, "capabilities", findings);
    let tags = take_texts(&mut fields, "tags", findings);
    let inputs = take_inputs(&mut fields, findings);
    let env = fields.take("env").map(|node| environment_names(node, "env", findings)).unwrap_or_default();
    let limits = take_limits(&mut fields, findings);
    let callers = take_callers(&mut fields, findings);
    let delegates = fields.take("delegates").map(|node| read_delegates(node, findings)).unwrap_or_default();
    let on_disconnect = take_on_disconnect(&mut fields, findings);
    let interrupts = [("end", OnInterrupt::End), ("resume", OnInterrupt::Resume)];
    let on_interrupt =
        fields.take("on_interrupt").and_then(|node| choice(node, "on_interrupt", &interrupts, findings));
    let containment =
        fields.take("containment").and_then(|node| choice(node, "containment", &CONTAINMENT, findings));
    let script = take_script(&mut fields, findings);
    let setup = take_setup(&mut fields, findings);
    fields.close(findings);
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
        ..Agent::new(name?, backend?, agent_file.source(Format::Volery))
    })
}

/// The words for how strongly a run is contained.
pub(crate) const CONTAINMENT: [(&str, ContainmentDemand); 3] = [
    ("auto", ContainmentDemand::Auto),
    ("strict", ContainmentDemand::Strict),
    ("plain", ContainmentDemand::Plain),
];

fn take_backend(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> Option<BackendName> {
    let Some(node) = fields.take("backend") else {
        let hint = "add a line such as backend: rehearsal";
        findings.error_with_hint(fields.place, "the key backend is missing", hint);
        return None;
    };
    read_backend(node, "backend", findings)
}

fn take_limits(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> AskedLimits {
    let top = limits::take_times(fields, findings);
    let Some(node) = fields.take("limits") else { return top };
    let within = limits::read(node, "limits", findings);
    let mut one = |key: &str, top: Option<u64>, within: Option<u64>| {
        if top.is_some() && within.is_some() {
            let message = format!("{key} stands at the top level and in limits");
            findings.error_with_hint(node.place, message, "write it once");
        }
        top.or(within)
    };
    AskedLimits {
        timeout_ms: one("timeout", top.timeout_ms, within.timeout_ms),
        idle_timeout_ms: one("idle_timeout", top.idle_timeout_ms, within.idle_timeout_ms),
        grace_ms: one("grace", top.grace_ms, within.grace_ms),
        answer_timeout_ms: one("answer_timeout", top.answer_timeout_ms, within.answer_timeout_ms),
        ..within
    }
}

fn take_callers(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> Callers {
    let (key, node) = match (fields.take("callers"), fields.take("allowed_callers")) {
        (None, None) => return Callers::Anyone,
        (Some(node), None) => ("callers", node),
        (None, Some(node)) => ("allowed_callers", node),
        (Some(_), Some(node)) => {
            findings.error(node.place, "callers and allowed_callers mean the same; write one of them");
            return Callers::Anyone;
        }
    };
    read_callers(node, key, findings)
}

fn read_delegates(node: &Node, findings: &mut Findings<'_>) -> Delegates {
    match &node.shape {
        Shape::Text(word) if word == "anyone" => return Delegates::Anyone,
        Shape::Text(word) if word == "none" => return Delegates::Nobody,
        Shape::Text(_)
        | Shape::List(_)
        | Shape::Nothing
        | Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Moment
        | Shape::Map(_) => {}
    }
    let mut names = Vec::new();
    for item in list(node, "delegates", findings).unwrap_or_default() {
        names.extend(read_agent_name(item, "delegates", findings));
    }
    if names.is_empty() { Delegates::Nobody } else { Delegates::Only(names) }
}

fn take_on_disconnect(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> Option<OnDisconnect> {
    let policies = [
        ("cancel", OnDisconnect::Cancel { grace_ms: DISCONNECT_GRACE_MS }),
        ("continue", OnDisconnect::Continue),
    ];
    let policy =
        fields.take("on_disconnect").and_then(|node| choice(node, "on_disconnect", &policies, findings));
    let Some(node) = fields.take("disconnect_grace") else { return policy };
    let grace_ms = duration_ms(node, "disconnect_grace", Bounds::from(0), findings);
    match policy {
        Some(OnDisconnect::Cancel { .. }) => grace_ms.map(|grace_ms| OnDisconnect::Cancel { grace_ms }),
        Some(OnDisconnect::Continue) | None => {
            findings.warning(node.place, "disconnect_grace has no effect without on_disconnect: cancel");
            policy
        }
    }
}

fn take_script(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> Option<ScriptSource> {
    match (fields.take("script"), fields.take("steps")) {
        (None, None) => None,
        (Some(node), None) => relative_path(node, "script", findings).map(ScriptSource::File),
        (None, Some(node)) => Some(ScriptSource::Inline(script::read_steps(node, findings))),
        (Some(_), Some(node)) => {
            findings.error(node.place, "script and steps exclude each other; write one of them");
            None
        }
    }
}
