//! The keys that many formats share, each read by one function whatever the format.

use domain::agent::Callers;
use domain::id::{AgentName, BackendName, IdError};

use crate::text::{Fields, Findings, Node, Place, Shape, list, quoted, text};

/// Takes the name; a file that has none is named like its file.
pub(super) fn take_name(
    fields: &mut Fields<'_>,
    stem: &str,
    findings: &mut Findings<'_>,
) -> Option<AgentName> {
    let (name, place) = match fields.take("name") {
        Some(node) => (text(node, "name", findings)?, node.place),
        None => (stem.to_owned(), fields.place),
    };
    parse_name(&name, place, findings)
}

/// Parses the name of the agent itself.
pub(super) fn parse_name(name: &str, place: Place, findings: &mut Findings<'_>) -> Option<AgentName> {
    match name.parse() {
        Ok(name) => Some(name),
        Err(IdError { rule, .. }) => {
            let message = format!("name: {} is not the name of an agent", quoted(name));
            findings.error_with_hint(place, message, rule);
            None
        }
    }
}

/// Takes the description, and says what its absence means.
pub(super) fn take_description(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> String {
    let description = fields.take("description").and_then(|node| text(node, "description", findings));
    if description.is_none() {
        let hint = "callers choose an agent by its description";
        findings.warning_with_hint(fields.place, "the agent has no description", hint);
    }
    description.unwrap_or_default().trim().to_owned()
}

/// Reads the name of a backend.
pub(super) fn read_backend(node: &Node, key: &str, findings: &mut Findings<'_>) -> Option<BackendName> {
    let name = text(node, key, findings)?;
    match name.parse() {
        Ok(name) => Some(name),
        Err(IdError { rule, .. }) => {
            let message = format!("{key}: {} is not the name of a backend", quoted(&name));
            findings.error_with_hint(node.place, message, rule);
            None
        }
    }
}

/// Reads a word that becomes an argument of a program, so it must not be able to look like an option.
pub(super) fn read_word(node: &Node, key: &str, what: &str, findings: &mut Findings<'_>) -> Option<String> {
    let word = text(node, key, findings)?;
    let plain = !word.starts_with('-') && word.len() <= 200 && !word.chars().any(char::is_control);
    if plain {
        return Some(word);
    }
    findings.error(node.place, format!("{key}: {} is not {what}", quoted(&word)));
    None
}

/// Reads the name of a model.
pub(super) fn read_model(node: &Node, findings: &mut Findings<'_>) -> Option<String> {
    read_word(node, "model", "the name of a model", findings)
}

/// Reads who may ask for the agent.
pub(super) fn read_callers(node: &Node, key: &str, findings: &mut Findings<'_>) -> Callers {
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

/// Reads the name of another agent.
pub(crate) fn read_agent_name(node: &Node, name: &str, findings: &mut Findings<'_>) -> Option<AgentName> {
    let agent = text(node, name, findings)?;
    match agent.parse() {
        Ok(agent) => Some(agent),
        Err(IdError { rule, .. }) => {
            let message = format!("{name}: {} is not the name of an agent", quoted(&agent));
            findings.error_with_hint(node.place, message, rule);
            None
        }
    }
}
