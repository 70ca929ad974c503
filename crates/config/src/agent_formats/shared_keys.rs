//! Readers for keys that many formats share.

use domain::agent::{Agent, AgentFormat, Callers};
use domain::id::{AgentName, BackendName, IdError};

use super::AgentFile;
use crate::text::{Diagnostics, Fields, Node, NodeValue, SourceLocation, quote, read_list, read_text};

/// Takes the name; defaults to that of the file.
pub(super) fn take_name(
    fields: &mut Fields<'_>,
    stem: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<AgentName> {
    let (name, location) = match fields.take("name") {
        Some(node) => (read_text(node, "name", diagnostics)?, node.location),
        None => (stem.to_owned(), fields.location),
    };
    parse_name(&name, location, diagnostics)
}

/// Parses the agent's own name, which is one word: only folders and plug-ins join several.
pub(super) fn parse_name(
    name: &str,
    location: SourceLocation,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<AgentName> {
    if let Some(name) = parse_plain_name(name) {
        return Some(name);
    }
    let message = format!("name: {} is not the name of an agent", quote(name));
    let rule = "1 to 100 letters, digits, '.', '_' or '-', beginning with a letter, digit or '_'";
    diagnostics.error_with_hint(location, message, rule);
    None
}

fn parse_plain_name(name: &str) -> Option<AgentName> {
    name.parse().ok().filter(AgentName::is_plain)
}

/// Takes the name in a vendor's file, which may be a display name: `Code Reviewer` becomes `code-reviewer`.
fn take_display_name(
    fields: &mut Fields<'_>,
    stem: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<AgentName> {
    let (name, location) = match fields.take("name") {
        Some(node) => (read_text(node, "name", diagnostics)?, node.location),
        None => (stem.to_owned(), fields.location),
    };
    name_from_display_name(&name, stem, location, diagnostics)
}

/// Converts a display name to an agent name, with a warning.
pub(super) fn name_from_display_name(
    name: &str,
    stem: &str,
    location: SourceLocation,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<AgentName> {
    if let Some(name) = parse_plain_name(name) {
        return Some(name);
    }
    let Some(word) = slug_name(name, stem) else { return parse_name(name, location, diagnostics) };
    diagnostics.warning(location, format!("name: {} is asked for as {word}", quote(name)));
    Some(word)
}

/// Returns the words of a display name joined by hyphens. Characters beyond ASCII would be lost, so a file name
/// without any has priority.
pub(super) fn slug_name(name: &str, stem: &str) -> Option<AgentName> {
    let mut candidates = [name, stem].into_iter().filter(|text| text.is_ascii()).chain([name, stem]);
    candidates.find_map(|text| parse_plain_name(&slug(text)))
}

/// Takes the name of an agent that its program names by its path, `folder/agent`, unless the file declares another.
pub(super) fn take_path_name(
    fields: &mut Fields<'_>,
    stem: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<AgentName> {
    let (name, location) = match fields.take("name") {
        Some(node) => (read_text(node, "name", diagnostics)?, node.location),
        None => (stem.to_owned(), fields.location),
    };
    name_from_path(&name, stem, location, diagnostics)
}

/// Converts a path to a name, word by word.
pub(super) fn name_from_path(
    name: &str,
    stem: &str,
    location: SourceLocation,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<AgentName> {
    if !name.contains('/') {
        return name_from_display_name(name, stem, location, diagnostics);
    }
    let words: Option<Vec<AgentName>> =
        name.split('/').map(|word| parse_plain_name(word).or_else(|| slug_name(word, word))).collect();
    let words = words.map(|words| words.iter().map(AgentName::as_str).collect::<Vec<&str>>().join("/"));
    let Some(path) = words.and_then(|words| words.parse::<AgentName>().ok()) else {
        return parse_name(name, location, diagnostics);
    };
    if path.as_str() != name {
        diagnostics.warning(location, format!("name: {} is asked for as {path}", quote(name)));
    }
    Some(path)
}

/// Returns the agent of a vendor's file with its declared name. An invalid name is reported, so that the agent is not
/// used; the rest of its file is read nevertheless.
pub(super) fn vendor_agent(
    backend: &str,
    format: AgentFormat,
    fields: &mut Fields<'_>,
    agent_file: AgentFile<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Agent {
    let name = take_display_name(fields, agent_file.stem, diagnostics);
    new_agent(name, backend, format, agent_file)
}

/// Returns an agent with defaults; a missing name was already reported.
pub(super) fn new_agent(
    name: Option<AgentName>,
    backend: &str,
    format: AgentFormat,
    agent_file: AgentFile<'_>,
) -> Agent {
    let name = name.unwrap_or_else(|| "unnamed".parse().expect("a valid name"));
    Agent::new(name, backend.parse().expect("a valid name"), agent_file.source(format))
}

pub(super) fn slug(name: &str) -> String {
    let letters = name.chars().map(|letter| {
        if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.') {
            letter.to_ascii_lowercase()
        } else {
            '-'
        }
    });
    let mut slug = String::new();
    for letter in letters.take(64) {
        if letter != '-' || !slug.ends_with('-') {
            slug.push(letter);
        }
    }
    slug.trim_matches(['-', '.', '_']).to_owned()
}

/// Takes the model of a vendor's file, in which `inherit` means the program's default.
pub(super) fn take_inherited_model(
    fields: &mut Fields<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<String> {
    fields.take("model").and_then(|node| read_model(node, diagnostics)).filter(|model| model != "inherit")
}

/// Takes keys that are documented and not supported, with a warning about the consequence.
pub(super) fn take_unsupported(
    fields: &mut Fields<'_>,
    keys: &[(&'static str, &str)],
    diagnostics: &mut Diagnostics<'_>,
) {
    for (key, instead) in keys {
        if let Some(node) = fields.take(key) {
            diagnostics.warning(node.location, format!("{key} is not honoured: {instead}"));
        }
    }
}

/// The warning for keys that only affect the appearance.
pub(super) const COSMETIC_ONLY: &str = "it only changes how a terminal shows the agent";

/// Takes the description; warns if it is missing.
pub(super) fn take_description(fields: &mut Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> String {
    let node = fields.take("description");
    let description = node.and_then(|node| read_text(node, "description", diagnostics));
    // A value of the wrong type is already reported.
    if node.is_none() {
        let hint = "callers choose an agent by its description";
        diagnostics.warning_with_hint(fields.location, "the agent has no description", hint);
    }
    description.unwrap_or_default().trim().to_owned()
}

/// Reads the name of a backend.
pub(crate) fn read_backend(node: &Node, key: &str, diagnostics: &mut Diagnostics<'_>) -> Option<BackendName> {
    let name = read_text(node, key, diagnostics)?;
    match name.parse() {
        Ok(name) => Some(name),
        Err(IdError { rule, .. }) => {
            let message = format!("{key}: {} is not the name of a backend", quote(&name));
            diagnostics.error_with_hint(node.location, message, rule);
            None
        }
    }
}

/// Reads a word that becomes an argument of a program, so it must not look like an option.
pub(crate) fn read_word(
    node: &Node,
    key: &str,
    what: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<String> {
    let word = read_text(node, key, diagnostics)?;
    if domain::admission::is_safe_argument(&word) {
        return Some(word);
    }
    diagnostics.error(node.location, format!("{key}: {} is not {what}", quote(&word)));
    None
}

/// Reads the name of a model.
pub(super) fn read_model(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Option<String> {
    read_word(node, "model", "the name of a model", diagnostics)
}

/// Reads the callers that may run the agent.
pub(super) fn read_callers(node: &Node, key: &str, diagnostics: &mut Diagnostics<'_>) -> Callers {
    match &node.value {
        NodeValue::String(word) if word == "anyone" => return Callers::Anyone,
        NodeValue::List(items) if items.is_empty() => {
            diagnostics
                .warning(node.location, format!("{key}: the list is empty, so nobody may ask for the agent"));
        }
        NodeValue::String(_)
        | NodeValue::List(_)
        | NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime
        | NodeValue::Map(_) => {}
    }
    let items = read_list(node, key, diagnostics).unwrap_or_default();
    Callers::Only(items.iter().filter_map(|item| read_text(item, key, diagnostics)).collect())
}

/// Reads the name of another agent.
pub(crate) fn read_agent_name(
    node: &Node,
    name: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<AgentName> {
    let agent = read_text(node, name, diagnostics)?;
    match agent.parse() {
        Ok(agent) => Some(agent),
        Err(IdError { rule, .. }) => {
            let message = format!("{name}: {} is not the name of an agent", quote(&agent));
            diagnostics.error_with_hint(node.location, message, rule);
            None
        }
    }
}
