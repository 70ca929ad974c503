//! Directives: markdown with one `<directive>`, as in Kiwi. They are recognised, checked and listed with their
//! inputs, and not executed.

use std::collections::BTreeSet;

use domain::agent::{Agent, AgentFormat, AgentInput};
use domain::diagnostic::Diagnostic;

use super::AgentFile;
use super::shared_keys::{new_agent, parse_name};
use crate::FILE_BYTES_MAX;
use crate::frontmatter;
use crate::text::{Diagnostics, Element, SourceLocation, Vocabulary, quote, read_tags};

/// The backend that a directive needs.
const BACKEND: &str = "loop";

const VOCABULARY: Vocabulary<'_> = Vocabulary {
    names: &[
        "directive",
        "metadata",
        "description",
        "category",
        "author",
        "model",
        "model_class",
        "permissions",
        "read",
        "write",
        "execute",
        "deny",
        "relationships",
        "requires",
        "suggests",
        "extends",
        "related",
        "context_budget",
        "deviation_rules",
        "auto_fix",
        "ask_first",
        "escalate",
        "parallel_capable",
        "subagent_strategy",
        "tools",
        "filesystem",
        "shell",
        "command",
        "mcps",
        "mcp",
        "tool",
        "script",
        "limits",
        "tokens",
        "turns",
        "spawns",
        "spend",
        "hooks",
        "hook",
        "when",
        "context",
        "inputs",
        "input",
        "process",
        "step",
        "action",
        "tool_call",
        "tool_calls",
        "call",
        "param",
        "success_criteria",
        "criterion",
        "outputs",
        "success",
        "failure",
        "execution",
    ],
    raw: &["action", "context"],
};

/// Returns whether a text contains a directive.
pub fn is_directive(text: &str) -> bool {
    find_start(text).is_some()
}

/// Returns the name of a directive, also of one that cannot be read.
pub(super) fn declared_name(text: &str) -> Option<String> {
    let tag = text[find_start(text)?..].split('>').next()?;
    let (_, after) = tag.split_once(" name=")?;
    let mark = after.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
    after[1..].split(mark).next().map(ToOwned::to_owned)
}

/// Reads a directive. Returns `None` exactly if there is an error.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    let text = frontmatter::normalize(agent_file.text);
    let mut diagnostics = Diagnostics::new(agent_file.file, &text);
    let agent = read_directive(&text, agent_file, &mut diagnostics);
    let agent = agent.filter(|_| diagnostics.errors() == 0);
    (agent, diagnostics.finish())
}

fn find_start(text: &str) -> Option<usize> {
    let starts = text.match_indices("<directive").map(|(at, _)| at);
    starts.into_iter().find(|at| text[at + 10..].starts_with([' ', '\n', '\t', '>']))
}

fn read_directive(text: &str, agent_file: AgentFile<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<Agent> {
    if text.len() > FILE_BYTES_MAX {
        diagnostics.error(SourceLocation::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
        return None;
    }
    if text.contains('\0') {
        diagnostics.error(SourceLocation::START, "the file contains a NUL character");
        return None;
    }
    let Some(start) = find_start(text) else {
        let hint = "write <directive name=\"NAME\" version=\"1.0.0\">…</directive>";
        diagnostics.error_with_hint(SourceLocation::START, "the file has no <directive>", hint);
        return None;
    };
    let Some(end) =
        text.rfind("</directive>").map(|end| end + "</directive>".len()).filter(|end| *end > start)
    else {
        let location = diagnostics.location_of(start);
        diagnostics.error(location, "<directive> is not closed");
        return None;
    };
    check_rest(&text[end..], diagnostics.location_of(end), diagnostics);
    let directive = read_tags(text, start..end, VOCABULARY, diagnostics)?;
    let name = check_name(&directive, agent_file.stem, diagnostics);
    let mut agent = new_agent(name, BACKEND, AgentFormat::Directive, agent_file);
    text[start..end].clone_into(&mut agent.system_prompt);
    check_version(&directive, diagnostics);
    match directive.child("metadata") {
        Some(metadata) => read_metadata(metadata, &mut agent, diagnostics),
        None => diagnostics.error(directive.location, "the directive has no <metadata>"),
    }
    agent.inputs = read_inputs(&directive, diagnostics);
    Some(agent)
}

/// Reports text between the directive and the end of its fence.
fn check_rest(rest: &str, location: SourceLocation, diagnostics: &mut Diagnostics<'_>) {
    let before_fence = rest.split("```").next().unwrap_or_default();
    if rest.contains("```") && !before_fence.trim().is_empty() {
        diagnostics.error(location, "there is text between </directive> and the end of its fence");
    }
}

fn check_name(
    directive: &Element,
    stem: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<domain::id::AgentName> {
    let Some(name) = directive.attribute("name") else {
        let hint = format!("write name=\"{stem}\"");
        diagnostics.error_with_hint(directive.location, "the directive has no name", hint);
        return None;
    };
    if name != stem {
        let message = format!("the directive {} stands in a file of another name", quote(name));
        diagnostics.error_with_hint(directive.location, message, format!("name the file {name}.md"));
    }
    parse_name(name, directive.location, diagnostics)
}

fn check_version(directive: &Element, diagnostics: &mut Diagnostics<'_>) {
    match directive.attribute("version") {
        Some("0.0.0") => diagnostics.error(directive.location, "the version 0.0.0 is none"),
        Some(_) => {}
        None => {
            diagnostics.error_with_hint(
                directive.location,
                "the directive has no version",
                "write version=\"1.0.0\"",
            );
        }
    }
}

fn read_metadata(metadata: &Element, agent: &mut Agent, diagnostics: &mut Diagnostics<'_>) {
    match metadata.child("description").filter(|description| !description.text.is_empty()) {
        Some(description) => agent.description = one_line(&description.text),
        None => {
            let hint = "callers choose a directive by its description";
            diagnostics.warning_with_hint(metadata.location, "the directive has no <description>", hint);
        }
    }
    let category = metadata.child("category").map(|category| category.text.clone());
    agent.tags = category.filter(|category| !category.is_empty()).into_iter().collect();
    match (metadata.child("model"), metadata.child("model_class")) {
        (Some(model), _) => {
            agent.model = model.attribute("id").map(ToOwned::to_owned).filter(|id| !id.starts_with('-'));
            if model.attribute("tier").is_none() {
                diagnostics.error_with_hint(model.location, "<model> has no tier", "write tier=\"general\"");
            }
        }
        (None, Some(class)) => {
            diagnostics.warning(class.location, "<model_class> is the old word for <model>")
        }
        (None, None) => diagnostics.error(metadata.location, "<metadata> has no <model tier=\"…\">"),
    }
    match metadata.child("permissions") {
        None => diagnostics.error(metadata.location, "<metadata> has no <permissions>"),
        Some(permissions) if permissions.children.is_empty() => {
            diagnostics.error(permissions.location, "<permissions> is empty");
        }
        Some(permissions) => {
            for permission in permissions.children.iter().filter(|one| one.attributes.is_empty()) {
                diagnostics
                    .error(permission.location, format!("<{}> says nothing about what", permission.name));
            }
        }
    }
}

fn read_inputs(directive: &Element, diagnostics: &mut Diagnostics<'_>) -> Vec<AgentInput> {
    let mut inputs: Vec<AgentInput> = Vec::new();
    let mut known = BTreeSet::new();
    for element in directive.child("inputs").into_iter().flat_map(|inputs| inputs.children_named("input")) {
        let Some(name) = element.attribute("name") else {
            diagnostics.error(element.location, "an <input> has no name");
            continue;
        };
        if !known.insert(name) {
            diagnostics.error(element.location, format!("the input {} stands twice", quote(name)));
            continue;
        }
        let required = element.attribute("required").unwrap_or("false");
        let is_required = required.eq_ignore_ascii_case("true");
        if !is_required && !required.eq_ignore_ascii_case("false") {
            let message = format!("the input {name}: required={} is neither true nor false", quote(required));
            diagnostics.error_with_hint(element.location, message, "write required=\"true\"");
        }
        inputs.push(AgentInput {
            name: name.to_owned(),
            kind: element.attribute("type").unwrap_or("string").to_owned(),
            required: is_required,
            default: element.attribute("default").map(ToOwned::to_owned),
            description: one_line(&element.text),
        });
    }
    inputs
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}
