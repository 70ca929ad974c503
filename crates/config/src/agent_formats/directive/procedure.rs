//! Steps, success criteria and outputs. Their text is part of the instructions as it is written; what is read here is
//! for people, and for the check at the end of a run.

use domain::directive::{Criterion, DirectiveOutput, DirectiveStep};
use domain::size;

use super::draft::{DirectiveDraft, ElementFields, one_line};
use super::words::command_words;
use super::xml::Element;
use crate::text::quote;

/// The names of types in the files of all systems, and ours.
const KINDS: [(&str, &str); 22] = [
    ("string", "string"),
    ("str", "string"),
    ("text", "string"),
    ("path", "string"),
    ("file", "string"),
    ("url", "string"),
    ("enum", "string"),
    ("markdown", "string"),
    ("integer", "integer"),
    ("int", "integer"),
    ("number", "number"),
    ("float", "number"),
    ("boolean", "boolean"),
    ("bool", "boolean"),
    ("array", "array"),
    ("list", "array"),
    ("object", "object"),
    ("dict", "object"),
    ("map", "object"),
    ("json", "any"),
    ("any", "any"),
    ("", "any"),
];
/// How much of a step's text becomes its description.
const DESCRIPTION_BYTES_MAX: usize = 200;

/// Adds the steps of a process, also those in waves, and the commands that verify them.
pub(super) fn read_process(element: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    for child in &element.children {
        match child.name.as_str() {
            "step" => read_step(child, draft),
            "wave" | "phase" => read_process(child, draft),
            _ => {}
        }
    }
}

fn read_step(element: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    let described = element.child("description").map(|child| &child.text).filter(|text| !text.is_empty());
    let own = Some(&element.text).filter(|text| !text.is_empty());
    let within = element.children.iter().map(|child| &child.text).find(|text| !text.is_empty());
    let text_of_step = described.or(own).or(within).map_or("", String::as_str);
    let line = one_line(size::head(text_of_step, 4 * DESCRIPTION_BYTES_MAX));
    let description = size::head(&line, DESCRIPTION_BYTES_MAX).to_owned();
    let number = draft.directive.steps.len() + 1;
    let name = element.attribute("name").or(element.attribute("id"));
    let name = name.map_or_else(|| format!("step_{number}"), ToOwned::to_owned);
    draft.directive.steps.push(DirectiveStep { name, description });
    for check in
        element.children.iter().filter(|child| matches!(child.name.as_str(), "verify" | "verification"))
    {
        let expected = check.child("expect").map(|expect| one_line(&expect.text));
        for command in check.children_named("command") {
            let text = expected.clone().filter(|text| !text.is_empty());
            add_check(text, command, draft);
        }
    }
}

/// Adds a command of a step. One that needs a shell is left to the model, which reads it.
fn add_check(text: Option<String>, command: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    let text = text.unwrap_or_else(|| one_line(&command.text));
    let words = match command_words(&command.text) {
        Ok(words) => Some(words),
        Err(shells) => {
            let message = format!(
                "the command {} needs a shell because of {}, so only the model checks it",
                quote(&command.text),
                quote(&shells)
            );
            draft.warn(command.location, message);
            None
        }
    };
    draft.directive.criteria.push(Criterion { text, command: words });
}

/// Adds `<criterion>`, `<criterion command="…">`, `<criterion><command>…</command></criterion>`, and lines of text.
pub(super) fn read_criteria(element: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    for line in element.text.lines() {
        let text = one_line(line.trim().trim_start_matches(['-', '*', '•']));
        if !text.is_empty() {
            draft.directive.criteria.push(Criterion { text, command: None });
        }
    }
    for child in &element.children {
        let mut fields = ElementFields::open(child);
        let attribute = fields.take_any(&["command", "cmd"]);
        draft.note("criterion", fields.take_any(&["name", "id"]).unwrap_or_default());
        fields.close(draft);
        let nested = child.children_named("command").map(|command| command.text.as_str());
        let commands: Vec<&str> = attribute.into_iter().chain(nested).collect();
        let text = one_line(&child.text);
        if commands.is_empty() && !text.is_empty() {
            draft.directive.criteria.push(Criterion { text: text.clone(), command: None });
        }
        for command in commands {
            let text = if text.is_empty() { one_line(command) } else { text.clone() };
            match command_words(command) {
                Ok(words) => draft.directive.criteria.push(Criterion { text, command: Some(words) }),
                Err(shells) => {
                    let message = format!(
                        "the command {} needs a shell because of {}, and there is none",
                        quote(command),
                        quote(&shells)
                    );
                    let hint = "write one program with plain arguments, or move the rest to a script";
                    draft.diagnostics.error_with_hint(child.location, message, hint);
                }
            }
        }
    }
}

/// Adds `<output name="…" type="…">description</output>`.
pub(super) fn read_outputs(element: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    for child in element.children_named("output") {
        let mut fields = ElementFields::open(child);
        let (name, kind) = (fields.take("name"), fields.take("type").unwrap_or_default());
        let required = fields.take("required").unwrap_or("true");
        let described = fields.take("description");
        fields.close(draft);
        let Some(name) = name else {
            draft.warn(child.location, "an <output> has no name, so only the model reads it");
            continue;
        };
        let kind = match output_kind(kind) {
            Some(kind) => kind.to_owned(),
            None => {
                draft.warn(child.location, format!("the type {} is unknown, so any value fits", quote(kind)));
                "any".to_owned()
            }
        };
        let description = match described {
            Some(described) if child.text.is_empty() => one_line(described),
            Some(described) => one_line(&format!("{described} {}", child.text)),
            None => one_line(&child.text),
        };
        let is_required = !required.eq_ignore_ascii_case("false");
        add_output(
            DirectiveOutput { name: name.to_owned(), kind, is_required, description, schema: None },
            child.location,
            draft,
        );
    }
}

/// Adds an output whose name is not yet taken.
pub(super) fn add_output(
    output: DirectiveOutput,
    location: crate::text::SourceLocation,
    draft: &mut DirectiveDraft<'_, '_>,
) {
    if draft.directive.outputs.iter().any(|known| known.name == output.name) {
        draft.warn(
            location,
            format!("the output {} is declared twice; the first one counts", quote(&output.name)),
        );
        return;
    }
    draft.directive.outputs.push(output);
}

/// Returns our name of a type.
pub(super) fn output_kind(kind: &str) -> Option<&'static str> {
    let kind = kind.trim().to_ascii_lowercase();
    KINDS.iter().find(|(name, _)| *name == kind).map(|(_, ours)| *ours)
}
