//! Our own format: markdown with YAML frontmatter. The body is the system prompt.

use domain::agent::{Agent, Callers, Delegates, Format, Layer, ScriptSource, Source};
use domain::budget::AskedLimits;
use domain::diagnostic::Diagnostic;
use domain::id::{AgentName, BackendName};
use domain::run::{ContainmentDemand, OnDisconnect, OnInterrupt};

use crate::frontmatter::{self, Missing, Parts};
use crate::text::{
    Bounds, Fields, Findings, Node, Place, Shape, YamlText, choice, duration_ms, environment_names, list,
    quoted, read_yaml, relative_path, text, text_or_list,
};
use crate::{FILE_BYTES_MAX, limits, script};

/// The grace after a disconnect when a file says `on_disconnect: cancel` and no `disconnect_grace`.
pub const DISCONNECT_GRACE_MS: u64 = 30_000;

const MINIMAL: &str =
    "begin the file with\n---\ndescription: What the agent is for.\nbackend: rehearsal\n---";

/// An agent's file, as the registry found it.
#[derive(Debug, Clone, Copy)]
pub struct AgentFile<'a> {
    pub text: &'a str,
    /// How messages name the file.
    pub file: &'a str,
    /// The file's name without its ending: the agent's name unless the file says another.
    pub stem: &'a str,
    pub layer: Layer,
}

/// Reads an agent. There is one exactly if no finding is an error.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    let AgentFile { text, file, stem, layer } = agent_file;
    let text = frontmatter::normalize(text);
    let mut findings = Findings::new(file, &text);
    let agent = read_parts(&text, stem, &mut findings).map(|(mut agent, parts)| {
        parts.body.trim().clone_into(&mut agent.system_prompt);
        agent.source = Source { file: file.to_owned(), format: Format::Volery, layer };
        agent
    });
    let agent = agent.filter(|_| findings.errors() == 0);
    (agent, findings.finish())
}

fn read_parts<'a>(text: &'a str, stem: &str, findings: &mut Findings<'_>) -> Option<(Agent, Parts<'a>)> {
    if text.len() > FILE_BYTES_MAX {
        findings.error(Place::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
        return None;
    }
    let parts = match frontmatter::split(text) {
        Ok(parts) => parts,
        Err(Missing::Begin) => {
            findings.error_with_hint(Place::START, "the file has no frontmatter", MINIMAL);
            return None;
        }
        Err(Missing::End) => {
            let hint = "put a line with only --- between the frontmatter and the system prompt";
            findings.error_with_hint(Place::START, "the frontmatter has no end", hint);
            return None;
        }
    };
    if parts.body.contains('\0') {
        findings.error(Place::START, "the system prompt contains a NUL character");
    }
    let mut node = read_yaml(YamlText { text: parts.yaml, lines_before: parts.lines_before }, findings)?;
    if node.shape == Shape::Nothing {
        node = Node { place: Place { line: parts.lines_before, column: 1 }, shape: Shape::Map(Vec::new()) };
    }
    let fields = Fields::open(&node, "", findings)?;
    read_fields(fields, stem, findings).map(|agent| (agent, parts))
}

fn read_fields(mut fields: Fields<'_>, stem: &str, findings: &mut Findings<'_>) -> Option<Agent> {
    let name = take_name(&mut fields, stem, findings);
    let description = fields.take("description").and_then(|node| text(node, "description", findings));
    let backend = take_backend(&mut fields, findings);
    let model = fields.take("model").and_then(|node| read_model(node, findings));
    let mut texts = |key| fields.take(key).map(|node| text_or_list(node, key, findings)).unwrap_or_default();
    let use_when = texts("use_when");
    let avoid_when = texts("avoid_when");
    let env = fields.take("env").map(|node| environment_names(node, "env", findings)).unwrap_or_default();
    let limits = take_limits(&mut fields, findings);
    let callers = take_callers(&mut fields, findings);
    let delegates = fields.take("delegates").map(|node| read_delegates(node, findings)).unwrap_or_default();
    let on_disconnect = take_on_disconnect(&mut fields, findings);
    let interrupts = [("end", OnInterrupt::End), ("resume", OnInterrupt::Resume)];
    let on_interrupt =
        fields.take("on_interrupt").and_then(|node| choice(node, "on_interrupt", &interrupts, findings));
    let containment = fields
        .take("containment")
        .and_then(|node| choice(node, "containment", &CONTAINMENT, findings))
        .unwrap_or_default();
    let script = take_script(&mut fields, findings);
    if description.is_none() {
        let hint = "callers choose an agent by its description";
        findings.warning_with_hint(fields.place, "the agent has no description", hint);
    }
    fields.close(findings);
    Some(Agent {
        name: name?,
        description: description.unwrap_or_default().trim().to_owned(),
        backend: backend?,
        model,
        system_prompt: String::new(),
        use_when,
        avoid_when,
        env,
        limits,
        callers,
        delegates,
        on_disconnect,
        on_interrupt: on_interrupt.unwrap_or_default(),
        containment,
        script,
        source: Source { file: String::new(), format: Format::Volery, layer: Layer::Default },
    })
}

/// The words for how strongly a run is contained.
pub(crate) const CONTAINMENT: [(&str, ContainmentDemand); 3] = [
    ("auto", ContainmentDemand::Auto),
    ("strict", ContainmentDemand::Strict),
    ("plain", ContainmentDemand::Plain),
];

fn take_name(fields: &mut Fields<'_>, stem: &str, findings: &mut Findings<'_>) -> Option<AgentName> {
    let (name, place) = match fields.take("name") {
        Some(node) => (text(node, "name", findings)?, node.place),
        None => (stem.to_owned(), fields.place),
    };
    match name.parse() {
        Ok(name) => Some(name),
        Err(domain::id::IdError { rule, .. }) => {
            let message = format!("name: {} is not the name of an agent", quoted(&name));
            findings.error_with_hint(place, message, rule);
            None
        }
    }
}

fn take_backend(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> Option<BackendName> {
    let Some(node) = fields.take("backend") else {
        let hint = "add a line such as backend: rehearsal";
        findings.error_with_hint(fields.place, "the key backend is missing", hint);
        return None;
    };
    let name = text(node, "backend", findings)?;
    match name.parse() {
        Ok(name) => Some(name),
        Err(domain::id::IdError { rule, .. }) => {
            let message = format!("backend: {} is not the name of a backend", quoted(&name));
            findings.error_with_hint(node.place, message, rule);
            None
        }
    }
}

fn read_model(node: &Node, findings: &mut Findings<'_>) -> Option<String> {
    let model = text(node, "model", findings)?;
    // A model's name becomes an argument of a program: it must not be able to look like an option.
    let plain = !model.starts_with('-') && model.len() <= 200 && !model.chars().any(char::is_control);
    if plain {
        return Some(model);
    }
    findings.error(node.place, format!("model: {} is not the name of a model", quoted(&model)));
    None
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
    match &node.shape {
        Shape::Text(word) if word == "anyone" => return Callers::Anyone,
        Shape::List(items) if items.is_empty() => {
            findings
                .warning(node.place, format!("{key}: the list is empty, so nobody may ask for the agent"));
        }
        Shape::Text(_)
        | Shape::List(_)
        | Shape::Nothing
        | Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Moment
        | Shape::Map(_) => {}
    }
    let items = list(node, key, findings).unwrap_or_default();
    Callers::Only(items.iter().filter_map(|item| text(item, key, findings)).collect())
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

/// Reads the name of another agent.
pub(crate) fn read_agent_name(node: &Node, name: &str, findings: &mut Findings<'_>) -> Option<AgentName> {
    let agent = text(node, name, findings)?;
    match agent.parse() {
        Ok(agent) => Some(agent),
        Err(domain::id::IdError { rule, .. }) => {
            let message = format!("{name}: {} is not the name of an agent", quoted(&agent));
            findings.error_with_hint(node.place, message, rule);
            None
        }
    }
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
