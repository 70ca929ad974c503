//! The sections of a directive in XML, whether they are in its `<metadata>` or beside it: each becomes fields, or stays
//! in the instructions.

use std::collections::BTreeSet;

use domain::agent::AgentInput;

use super::draft::{DirectiveDraft, ElementFields, one_line};
use super::limits::{read_cost, read_limits};
use super::model::read_model;
use super::permissions::read_permissions;
use super::procedure::{read_criteria, read_outputs, read_process};
use super::tools::read_tools;
use super::xml::{Content, Element, commented_text};
use crate::text::quote;

/// The sections beside `<metadata>`. Anything else there is text.
pub(super) const SECTIONS: &[&str] = &[
    "metadata",
    "description",
    "category",
    "author",
    "permissions",
    "tools",
    "mcps",
    "limits",
    "cost",
    "model",
    "model_class",
    "hooks",
    "inputs",
    "outputs",
    "process",
    "success_criteria",
    "context",
    "relationships",
    "execution",
    "context_budget",
    "deviation_rules",
    "parallel_capable",
    "subagent_strategy",
];
/// The sections that describe the procedure. In Rye they come after the fence.
pub(super) const PROCEDURE: &[&str] = &["process", "success_criteria"];
const IN_PROCESS: &[&str] = &["step", "wave", "phase", "checkpoint"];
const IN_STEP: &[&str] = &["description", "action", "instruction", "render", "verify", "verification"];

/// Says what is a tag inside of each element.
pub(super) fn content_rule(name: &str, parent: Content) -> Content {
    match name {
        "process" | "wave" | "phase" => Content::Only(IN_PROCESS),
        "step" => Content::Only(IN_STEP),
        "verify" | "verification" => Content::Only(&["command", "expect", "check"]),
        "success_criteria" => Content::Only(&["criterion", "check", "condition"]),
        "criterion" | "condition" => Content::Only(&["command"]),
        "inputs" => Content::Only(&["input"]),
        "outputs" => Content::Only(&["output", "success", "failure"]),
        "metadata" | "permissions" | "tools" | "mcps" | "limits" | "cost" | "hooks" | "relationships"
        | "execution" | "context_budget" => Content::Any,
        "description" | "category" | "author" | "deviation_rules" | "model" | "model_class" | "tool"
        | "directive" | "knowledge" | "script" | "cap" | "command" | "when" => Content::Text,
        _ if parent == Content::Any => Content::Any,
        _ => Content::Text,
    }
}

/// The part of a section that stays in the instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Remainder {
    /// Everything, as it is written.
    Whole,
    Text(String),
}

impl Remainder {
    fn nothing() -> Self {
        Self::Text(String::new())
    }
}

/// Reads a section.
pub(super) fn read_section(element: &Element, text: &str, draft: &mut DirectiveDraft<'_, '_>) -> Remainder {
    match element.name.as_str() {
        "metadata" => return read_metadata(element, text, draft),
        "description" => {
            draft.description = one_line(&element.text);
            ElementFields::open(element).close(draft);
            return Remainder::Text(element.text.clone());
        }
        "process" => {
            read_process(element, draft);
            return Remainder::Whole;
        }
        "success_criteria" => {
            read_criteria(element, draft);
            return Remainder::Whole;
        }
        "outputs" => {
            read_outputs(element, draft);
            return Remainder::Whole;
        }
        "context" | "deviation_rules" => return Remainder::Whole,
        "permissions" => read_permissions(element, draft),
        "tools" | "mcps" => read_tools(element, draft),
        "limits" => read_limits(element, draft),
        "cost" => read_cost(element, draft),
        "model" | "model_class" => read_model(element, draft),
        "hooks" => read_hooks(element, text, draft),
        "inputs" => read_inputs(element, draft),
        "relationships" => read_relationships(element, draft),
        "execution" => read_execution(element, draft),
        "context_budget" => read_context_budget(element, draft),
        name => {
            if name == "category" && !element.text.is_empty() {
                draft.tags.push(one_line(&element.text));
            }
            ElementFields::open(element).close(draft);
            draft.note(name, &element.text);
            for child in &element.children {
                draft.note(&child.name, &child.text);
            }
        }
    }
    Remainder::nothing()
}

/// Reads `<metadata>`. Elements that are unknown there are reported, and the model reads them.
fn read_metadata(element: &Element, text: &str, draft: &mut DirectiveDraft<'_, '_>) -> Remainder {
    ElementFields::open(element).close(draft);
    let mut remaining: Vec<String> = element.text.lines().map(|line| line.trim().to_owned()).collect();
    for child in &element.children {
        let is_known = SECTIONS.contains(&child.name.as_str()) && child.name != "metadata";
        let remainder = match child.name.as_str() {
            "context" => read_metadata_context(child, text, draft),
            "name" | "version" | "title" | "tags" | "id" => {
                ElementFields::open(child).close(draft);
                draft.note(&child.name, &child.text);
                Remainder::nothing()
            }
            _ if is_known => read_section(child, text, draft),
            name => {
                let message = format!("<{name}> in <metadata> is unknown, so only the model reads it");
                draft.warn(child.location, message);
                Remainder::Whole
            }
        };
        remaining.push(match remainder {
            Remainder::Whole => commented_text(&text[child.outer.clone()]),
            Remainder::Text(text) => text,
        });
    }
    remaining.retain(|part| !part.trim().is_empty());
    Remainder::Text(remaining.join("\n\n"))
}

/// Reads the `<context>` of Rye's metadata: references to knowledge, which does not exist here, or notes.
fn read_metadata_context(element: &Element, text: &str, draft: &mut DirectiveDraft<'_, '_>) -> Remainder {
    let mut has_other = !element.text.is_empty();
    for child in &element.children {
        match child.name.as_str() {
            "system" | "before" | "after" => {
                draft.unsupported(child.location, &format!("the knowledge {}", one_line(&child.text)));
            }
            "suppress" => {
                let message = format!("there is no knowledge {} to suppress", quote(&one_line(&child.text)));
                draft.warn(child.location, message);
            }
            _ => has_other = true,
        }
    }
    ElementFields::open(element).close(draft);
    if !has_other || !text.is_char_boundary(element.outer.start) {
        return Remainder::nothing();
    }
    Remainder::Whole
}

/// Reads hooks, which do not exist here.
fn read_hooks(element: &Element, text: &str, draft: &mut DirectiveDraft<'_, '_>) {
    ElementFields::open(element).close(draft);
    draft.reject_text(element);
    for hook in &element.children {
        draft.unsupported(hook.location, "hooks");
        draft.note("hook", text.get(hook.inner.clone()).unwrap_or_default());
        ElementFields::open(hook).close(draft);
    }
}

fn read_relationships(element: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    ElementFields::open(element).close(draft);
    draft.reject_text(element);
    for child in &element.children {
        let mut fields = ElementFields::open(child);
        let target = fields.take_any(&["directive", "name", "id"]).unwrap_or(&child.text).to_owned();
        if !child.text.is_empty() && child.text != target {
            draft.note(&child.name, &child.text);
        }
        draft.note(&child.name, &target);
        fields.close(draft);
        if matches!(child.name.as_str(), "requires" | "depends_on") {
            let message = format!("the directive {} is not run first; it is only noted", quote(&target));
            draft.warn(child.location, message);
        }
    }
}

fn read_execution(element: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    let mut fields = ElementFields::open(element);
    match fields.take("mode") {
        Some("async") => draft.directive.is_async = true,
        Some("sync") | None => {}
        Some(mode) => draft.warn(element.location, format!("the mode {} is unknown", quote(mode))),
    }
    fields.close(draft);
    draft.reject_text(element);
    for child in &element.children {
        draft.warn(child.location, format!("<{}> in <execution> is ignored", child.name));
        draft.note(&child.name, &child.text);
    }
}

/// Reads estimates. The number of steps counts those of the process, not calls of a model, so it is no limit.
fn read_context_budget(element: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    draft.reject_text(element);
    for (name, value) in &element.attributes {
        draft.note(name, value);
    }
    for child in &element.children {
        ElementFields::open(child).close(draft);
        draft.note(&child.name, &child.text);
    }
}

fn read_inputs(element: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    let mut known = BTreeSet::new();
    draft.reject_text(element);
    ElementFields::open(element).close(draft);
    for child in element.children_named("input") {
        let mut fields = ElementFields::open(child);
        let Some(name) = fields.take("name") else {
            draft.diagnostics.error(child.location, "an <input> has no name");
            continue;
        };
        if !known.insert(name) {
            draft.diagnostics.error(child.location, format!("the input {} stands twice", quote(name)));
            continue;
        }
        let required = fields.take("required").unwrap_or("false");
        let required_word = required.to_ascii_lowercase();
        if !matches!(required_word.as_str(), "true" | "false") {
            let message = format!("the input {name}: required={} is neither true nor false", quote(required));
            draft.diagnostics.error_with_hint(child.location, message, "write required=\"true\"");
        }
        let described = fields.take("description").unwrap_or_default();
        draft.inputs.push(AgentInput {
            name: name.to_owned(),
            kind: fields.take("type").unwrap_or("string").to_owned(),
            required: required_word == "true",
            default: fields.take("default").map(ToOwned::to_owned),
            description: one_line(&format!("{described} {}", child.text)),
        });
        fields.close(draft);
    }
}
