//! Directives in XML: Kiwi's, whose procedure is in the block, and Rye's, whose procedure comes after the fence.

use super::draft::{DirectiveDraft, one_line};
use super::instructions::Edits;
use super::locate::{Block, block, block_start, signatures, without_fences};
use super::procedure::{read_criteria, read_process};
use super::sections::{PROCEDURE, Remainder, SECTIONS, content_rule, read_section};
use super::xml::{Content, Element, read_elements};
use crate::text::{Diagnostics, SourceLocation, quote};

/// Reads the directive that begins at an offset. Returns whether it has an end.
pub(super) fn read_block(text: &str, start: usize, stem: &str, draft: &mut DirectiveDraft<'_, '_>) -> bool {
    let location = draft.diagnostics.location_of(start);
    let Some(block) = block(text, start) else {
        match super::xml::opening_tag(&text[start..]) {
            Some(_) => draft.diagnostics.error(location, "<directive> is not closed"),
            None => draft.diagnostics.error_with_hint(
                location,
                "the tag <directive …> is not whole, or has something else than attributes",
                "write <directive name=\"NAME\" version=\"1.0.0\">",
            ),
        }
        return false;
    };
    read_attributes(&block, stem, location, draft);
    let mut edits = Edits::default();
    read_surroundings(text, &block, &mut edits, draft);
    edits.replace(block.outer.start..block.inner.start, "");
    edits.replace(block.inner.end..block.outer.end, "");
    let content = (Content::Only(SECTIONS), content_rule as fn(&str, Content) -> Content);
    let sections = read_elements(text, block.inner.clone(), content, draft.diagnostics);
    // The procedure before the block comes before that in it.
    read_procedure(text, 0..block.before(), draft);
    for section in &sections.children {
        match read_section(section, text, draft) {
            Remainder::Whole => {}
            Remainder::Text(remaining) => edits.replace(section.outer.clone(), remaining),
        }
    }
    read_procedure(text, block.after()..text.len(), draft);
    draft.directive.instructions = edits.apply(text, &block.inner);
    true
}

fn read_attributes(block: &Block, stem: &str, location: SourceLocation, draft: &mut DirectiveDraft<'_, '_>) {
    let mut known: Vec<&str> = Vec::new();
    for (name, value) in &block.attributes {
        if known.contains(&name.as_str()) {
            draft.warn(
                location,
                format!("the attribute {name}={} is written twice; the first counts", quote(value)),
            );
            continue;
        }
        known.push(name);
        match name.as_str() {
            "name" => check_name(value, stem, location, draft),
            "version" if value == "0.0.0" => draft.warn(location, "the version 0.0.0 is none"),
            "version" => draft.directive.version = Some(value.clone()),
            "extends" => draft.unsupported(location, &format!("extends={}", one_line(value))),
            _ => draft
                .warn(location, format!("the attribute {name}={} of <directive> is ignored", quote(value))),
        }
    }
    if !known.contains(&"name") {
        let message = "the directive has no name; that of its file is used";
        draft.diagnostics.warning_with_hint(location, message, format!("write name=\"{stem}\""));
    }
}

/// Compares the declared name with that of the file, by which a directive is found.
pub(super) fn check_name(
    name: &str,
    stem: &str,
    location: SourceLocation,
    draft: &mut DirectiveDraft<'_, '_>,
) {
    let file_name = stem.rsplit('/').next().unwrap_or(stem);
    if name != stem && name.rsplit('/').next() != Some(file_name) {
        let message =
            format!("the directive {} stands in a file of another name, by which it is found", quote(name));
        draft.diagnostics.warning_with_hint(location, message, format!("name the file {name}.md"));
    }
}

/// Removes signatures and the fence, and reports what else is around the block.
fn read_surroundings(text: &str, block: &Block, edits: &mut Edits, draft: &mut DirectiveDraft<'_, '_>) {
    remove_signatures(text, edits, draft);
    if let Some(fence) = &block.fence {
        if fence.has_rest {
            let location = draft.diagnostics.location_of(block.outer.end);
            let message = "there is text between </directive> and the end of its fence";
            draft.diagnostics.error(location, message);
        }
        edits.replace(fence.opening.clone(), "");
        edits.replace(fence.closing.clone(), "");
    }
    let after = &text[block.outer.end..];
    if let Some(other) =
        block_start(after).filter(|at| super::xml::opening_tag(&after[*at..]).is_some_and(has_name))
    {
        let location = draft.diagnostics.location_of(block.outer.end + other);
        draft.warn(location, "another <directive> begins here; it is read as text of the first one");
    }
}

fn has_name((attributes, _): (Vec<(String, String)>, usize)) -> bool {
    attributes.iter().any(|(name, _)| name == "name")
}

/// Removes the signatures, which are not verified.
pub(super) fn remove_signatures(text: &str, edits: &mut Edits, draft: &mut DirectiveDraft<'_, '_>) {
    for signature in signatures(text) {
        let line = &text[signature.clone()];
        if line.contains(":signed") || line.contains(":validated") {
            let location = draft.diagnostics.location_of(signature.start);
            draft.warn(location, "the signature is not verified");
        }
        edits.replace(signature, "");
    }
}

/// Reads steps and criteria in prose. They are pseudo-XML, which the model reads as it is, so their form is not
/// checked.
pub(super) fn read_procedure(text: &str, range: std::ops::Range<usize>, draft: &mut DirectiveDraft<'_, '_>) {
    let mut masked = " ".repeat(range.start);
    masked.push_str(&without_fences(&text[range.clone()]));
    let content = (Content::Only(PROCEDURE), content_rule as fn(&str, Content) -> Content);
    let mut unchecked = Diagnostics::new("", &masked);
    let found = read_elements(&masked, range, content, &mut unchecked);
    for element in &found.children {
        let located = with_locations(element, draft.diagnostics);
        match located.name.as_str() {
            "process" => read_process(&located, draft),
            _ => read_criteria(&located, draft),
        }
    }
}

/// Returns an element with its locations in the file: blanks instead of fences change columns.
fn with_locations(element: &Element, diagnostics: &Diagnostics<'_>) -> Element {
    let children = element.children.iter().map(|child| with_locations(child, diagnostics)).collect();
    let location = diagnostics.location_of(element.outer.start);
    Element { location, children, ..element.clone() }
}
