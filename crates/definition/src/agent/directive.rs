//! Directives: markdown with one `<directive>` in it, as Kiwi has it. Recognised, checked and listed with what a
//! caller must give; executing one is another matter.

use std::collections::BTreeSet;

use domain::agent::{Agent, Format, Input};
use domain::diagnostic::Diagnostic;

use super::AgentFile;
use super::values::{new_agent, parse_name};
use crate::FILE_BYTES_MAX;
use crate::frontmatter;
use crate::text::{Element, Findings, Place, Vocabulary, quoted, read_tags};

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

/// Tells whether a text holds a directive.
pub fn is_directive(text: &str) -> bool {
    start_of(text).is_some()
}

/// Returns the name of a directive, also of one that cannot be read.
pub(super) fn name_in(text: &str) -> Option<String> {
    let tag = text[start_of(text)?..].split('>').next()?;
    let (_, after) = tag.split_once(" name=")?;
    let mark = after.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
    after[1..].split(mark).next().map(ToOwned::to_owned)
}

/// Reads a directive. There is one exactly if no finding is an error.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    let text = frontmatter::normalize(agent_file.text);
    let mut findings = Findings::new(agent_file.file, &text);
    let agent = read_directive(&text, agent_file, &mut findings);
    let agent = agent.filter(|_| findings.errors() == 0);
    (agent, findings.finish())
}

fn start_of(text: &str) -> Option<usize> {
    let starts = text.match_indices("<directive").map(|(at, _)| at);
    starts.into_iter().find(|at| text[at + 10..].starts_with([' ', '\n', '\t', '>']))
}

fn read_directive(text: &str, agent_file: AgentFile<'_>, findings: &mut Findings<'_>) -> Option<Agent> {
    if text.len() > FILE_BYTES_MAX {
        findings.error(Place::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
        return None;
    }
    if text.contains('\0') {
        findings.error(Place::START, "the file contains a NUL character");
        return None;
    }
    let Some(start) = start_of(text) else {
        let hint = "write <directive name=\"NAME\" version=\"1.0.0\">…</directive>";
        findings.error_with_hint(Place::START, "the file has no <directive>", hint);
        return None;
    };
    let Some(end) =
        text.rfind("</directive>").map(|end| end + "</directive>".len()).filter(|end| *end > start)
    else {
        let place = findings.place_of(start);
        findings.error(place, "<directive> is not closed");
        return None;
    };
    check_rest(&text[end..], findings.place_of(end), findings);
    let directive = read_tags(text, start..end, VOCABULARY, findings)?;
    let name = check_name(&directive, agent_file.stem, findings);
    let mut agent = new_agent(name, BACKEND, Format::Directive, agent_file);
    text[start..end].clone_into(&mut agent.system_prompt);
    check_version(&directive, findings);
    match directive.child("metadata") {
        Some(metadata) => read_metadata(metadata, &mut agent, findings),
        None => findings.error(directive.place, "the directive has no <metadata>"),
    }
    agent.inputs = read_inputs(&directive, findings);
    Some(agent)
}

/// Between the directive and the end of its fence there is nothing.
fn check_rest(rest: &str, place: Place, findings: &mut Findings<'_>) {
    let before_fence = rest.split("```").next().unwrap_or_default();
    if rest.contains("```") && !before_fence.trim().is_empty() {
        findings.error(place, "there is text between </directive> and the end of its fence");
    }
}

fn check_name(directive: &Element, stem: &str, findings: &mut Findings<'_>) -> Option<domain::id::AgentName> {
    let Some(name) = directive.attribute("name") else {
        let hint = format!("write name=\"{stem}\"");
        findings.error_with_hint(directive.place, "the directive has no name", hint);
        return None;
    };
    if name != stem {
        let message = format!("the directive {} stands in a file of another name", quoted(name));
        findings.error_with_hint(directive.place, message, format!("name the file {name}.md"));
    }
    parse_name(name, directive.place, findings)
}

fn check_version(directive: &Element, findings: &mut Findings<'_>) {
    match directive.attribute("version") {
        Some("0.0.0") => findings.error(directive.place, "the version 0.0.0 is none"),
        Some(_) => {}
        None => {
            findings.error_with_hint(
                directive.place,
                "the directive has no version",
                "write version=\"1.0.0\"",
            );
        }
    }
}

fn read_metadata(metadata: &Element, agent: &mut Agent, findings: &mut Findings<'_>) {
    match metadata.child("description").filter(|description| !description.text.is_empty()) {
        Some(description) => agent.description = one_line(&description.text),
        None => {
            let hint = "callers choose a directive by its description";
            findings.warning_with_hint(metadata.place, "the directive has no <description>", hint);
        }
    }
    let category = metadata.child("category").map(|category| category.text.clone());
    agent.tags = category.filter(|category| !category.is_empty()).into_iter().collect();
    match (metadata.child("model"), metadata.child("model_class")) {
        (Some(model), _) => {
            agent.model = model.attribute("id").map(ToOwned::to_owned).filter(|id| !id.starts_with('-'));
            if model.attribute("tier").is_none() {
                findings.error_with_hint(model.place, "<model> has no tier", "write tier=\"general\"");
            }
        }
        (None, Some(class)) => findings.warning(class.place, "<model_class> is the old word for <model>"),
        (None, None) => findings.error(metadata.place, "<metadata> has no <model tier=\"…\">"),
    }
    match metadata.child("permissions") {
        None => findings.error(metadata.place, "<metadata> has no <permissions>"),
        Some(permissions) if permissions.children.is_empty() => {
            findings.error(permissions.place, "<permissions> is empty");
        }
        Some(permissions) => {
            for permission in permissions.children.iter().filter(|one| one.attributes.is_empty()) {
                findings.error(permission.place, format!("<{}> says nothing about what", permission.name));
            }
        }
    }
}

fn read_inputs(directive: &Element, findings: &mut Findings<'_>) -> Vec<Input> {
    let mut inputs: Vec<Input> = Vec::new();
    let mut known = BTreeSet::new();
    for element in directive.child("inputs").into_iter().flat_map(|inputs| inputs.children_named("input")) {
        let Some(name) = element.attribute("name") else {
            findings.error(element.place, "an <input> has no name");
            continue;
        };
        if !known.insert(name) {
            findings.error(element.place, format!("the input {} stands twice", quoted(name)));
            continue;
        }
        let required = element.attribute("required").unwrap_or("false");
        let is_required = required.eq_ignore_ascii_case("true");
        if !is_required && !required.eq_ignore_ascii_case("false") {
            let message =
                format!("the input {name}: required={} is neither true nor false", quoted(required));
            findings.error_with_hint(element.place, message, "write required=\"true\"");
        }
        inputs.push(Input {
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
