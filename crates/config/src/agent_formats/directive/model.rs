//! `<model>`: a tier, a model, or both.

use super::draft::{DirectiveDraft, ElementFields};
use super::xml::Element;
use crate::text::{SourceLocation, quote};

/// Reads `<model tier="fast" id="…" provider="…" fallback="…">reason</model>`.
pub(super) fn read_model(element: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    let location = element.location;
    if element.name == "model_class" {
        draft.warn(location, "<model_class> is the old word for <model>");
    }
    let mut fields = ElementFields::open(element);
    let tier = fields.take("tier").and_then(|tier| checked_word(tier, location, draft));
    let id = fields.take_any(&["id", "name"]).and_then(|id| checked_word(id, location, draft));
    let provider = fields.take("provider").and_then(|provider| checked_word(provider, location, draft));
    for name in ["fallback", "fallback_id"] {
        let fallback = fields.take(name).unwrap_or_default();
        for word in fallback.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let word = checked_word(word, location, draft);
            draft.directive.model.fallback.extend(word);
        }
    }
    draft.note("model_parallel", fields.take("parallel").unwrap_or_default());
    fields.close(draft);
    draft.note("model", &element.text);
    let model = &mut draft.directive.model;
    (model.tier, model.id, model.provider) = (tier, id, provider);
}

/// Returns a word that may become an argument of a program. A word with a placeholder is none.
pub(super) fn checked_word(
    word: &str,
    location: SourceLocation,
    draft: &mut DirectiveDraft<'_, '_>,
) -> Option<String> {
    let word = word.trim();
    if !word.is_empty() && domain::admission::is_safe_argument(word) && !word.contains(['{', '}']) {
        return Some(word.to_owned());
    }
    draft.warn(location, format!("{} is not the name of a model or tier, so it is ignored", quote(word)));
    None
}
