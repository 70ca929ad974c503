//! The keys that many formats share, each read by one function whatever the format.

use domain::agent::{Agent, Callers, Format};
use domain::id::{AgentName, BackendName, IdError};

use super::AgentFile;
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

/// Parses the name of the agent itself, which is one word: only folders and plug-ins put several together.
pub(super) fn parse_name(name: &str, place: Place, findings: &mut Findings<'_>) -> Option<AgentName> {
    if let Some(name) = plain_name(name) {
        return Some(name);
    }
    let message = format!("name: {} is not the name of an agent", quoted(name));
    let rule = "1 to 100 letters, digits, '.', '_' or '-', beginning with a letter, digit or '_'";
    findings.error_with_hint(place, message, rule);
    None
}

fn plain_name(name: &str) -> Option<AgentName> {
    name.parse().ok().filter(AgentName::is_plain)
}

/// Takes the name of a vendor's file, which may be written for people: `Code Reviewer` is asked for as
/// `code-reviewer`.
fn take_display_name(fields: &mut Fields<'_>, stem: &str, findings: &mut Findings<'_>) -> Option<AgentName> {
    let (name, place) = match fields.take("name") {
        Some(node) => (text(node, "name", findings)?, node.place),
        None => (stem.to_owned(), fields.place),
    };
    display_name(&name, stem, place, findings)
}

/// Turns a name for people into one for programs, and says so.
pub(super) fn display_name(
    name: &str,
    stem: &str,
    place: Place,
    findings: &mut Findings<'_>,
) -> Option<AgentName> {
    if let Some(name) = plain_name(name) {
        return Some(name);
    }
    let Some(word) = name_for_programs(name, stem) else { return parse_name(name, place, findings) };
    findings.warning(place, format!("name: {} is asked for as {word}", quoted(name)));
    Some(word)
}

/// Returns the name by which programs ask for an agent: the words of the name joined by hyphens. Letters beyond ASCII
/// would be lost, so the name of the file comes first where it has none.
pub(super) fn name_for_programs(name: &str, stem: &str) -> Option<AgentName> {
    let mut candidates = [name, stem].into_iter().filter(|text| text.is_ascii()).chain([name, stem]);
    candidates.find_map(|text| plain_name(&slug(text)))
}

/// Takes the name of an agent whose program names it by its path, `folder/agent`, unless the file says another.
pub(super) fn take_path_name(
    fields: &mut Fields<'_>,
    stem: &str,
    findings: &mut Findings<'_>,
) -> Option<AgentName> {
    let (name, place) = match fields.take("name") {
        Some(node) => (text(node, "name", findings)?, node.place),
        None => (stem.to_owned(), fields.place),
    };
    path_name(&name, stem, place, findings)
}

/// Turns a path into a name, word by word.
pub(super) fn path_name(
    name: &str,
    stem: &str,
    place: Place,
    findings: &mut Findings<'_>,
) -> Option<AgentName> {
    if !name.contains('/') {
        return display_name(name, stem, place, findings);
    }
    let words: Option<Vec<AgentName>> =
        name.split('/').map(|word| plain_name(word).or_else(|| name_for_programs(word, word))).collect();
    let words = words.map(|words| words.iter().map(AgentName::as_str).collect::<Vec<&str>>().join("/"));
    let Some(path) = words.and_then(|words| words.parse::<AgentName>().ok()) else {
        return parse_name(name, place, findings);
    };
    if path.as_str() != name {
        findings.warning(place, format!("name: {} is asked for as {path}", quoted(name)));
    }
    Some(path)
}

/// Returns the agent of a vendor's file, with the name that stands in it. A wrong name is reported, which keeps the
/// agent from being used; the rest of its file is read all the same.
pub(super) fn vendor_agent(
    backend: &str,
    format: Format,
    fields: &mut Fields<'_>,
    agent_file: AgentFile<'_>,
    findings: &mut Findings<'_>,
) -> Agent {
    let name = take_display_name(fields, agent_file.stem, findings);
    new_agent(name, backend, format, agent_file)
}

/// Returns an agent with nothing but its name; the name's absence was reported.
pub(super) fn new_agent(
    name: Option<AgentName>,
    backend: &str,
    format: Format,
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

/// Takes the model of a vendor's file, in which `inherit` stands for the program's default.
pub(super) fn take_inherited_model(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> Option<String> {
    fields.take("model").and_then(|node| read_model(node, findings)).filter(|model| model != "inherit")
}

/// Takes keys that are documented and not honoured, and says so with what happens instead.
pub(super) fn take_unhonoured(
    fields: &mut Fields<'_>,
    keys: &[(&'static str, &str)],
    findings: &mut Findings<'_>,
) {
    for (key, instead) in keys {
        if let Some(node) = fields.take(key) {
            findings.warning(node.place, format!("{key} is not honoured: {instead}"));
        }
    }
}

/// What is said of keys that only change how something looks.
pub(super) const ONLY_LOOKS: &str = "it only changes how a terminal shows the agent";

/// Takes the description, and says what its absence means.
pub(super) fn take_description(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> String {
    let node = fields.take("description");
    let description = node.and_then(|node| text(node, "description", findings));
    // One of the wrong type was reported.
    if node.is_none() {
        let hint = "callers choose an agent by its description";
        findings.warning_with_hint(fields.place, "the agent has no description", hint);
    }
    description.unwrap_or_default().trim().to_owned()
}

/// Reads the name of a backend.
pub(crate) fn read_backend(node: &Node, key: &str, findings: &mut Findings<'_>) -> Option<BackendName> {
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
pub(crate) fn read_word(node: &Node, key: &str, what: &str, findings: &mut Findings<'_>) -> Option<String> {
    let word = text(node, key, findings)?;
    if domain::plan::is_plain_word(&word) {
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
