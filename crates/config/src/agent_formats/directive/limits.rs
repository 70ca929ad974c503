//! Limits and costs, in all spellings. A limit only lowers that of the user, so of two the lower one counts.

use domain::directive::DirectiveLimits;

use super::draft::{DirectiveDraft, ElementFields};
use super::xml::Element;
use crate::text::{SourceLocation, quote};

/// The most of anything: a larger number is a mistake.
const COUNT_MAX: u64 = u32::MAX as u64;
/// A million dollars.
const USD_MAX: f64 = 1e6;

/// One limit as it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct WrittenLimit<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a str,
    pub(super) currency: Option<&'a str>,
    pub(super) location: SourceLocation,
}

/// Reads `<limits turns="6" tokens="4096"/>` and `<limits><turns>6</turns></limits>`.
pub(super) fn read_limits(element: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    let currency = element.attribute("currency").or(element.attribute("spend_currency"));
    let location = element.location;
    draft.reject_text(element);
    for (name, value) in &element.attributes {
        if !matches!(name.as_str(), "currency" | "spend_currency") {
            set_limit(WrittenLimit { name, value, currency, location }, draft);
        }
    }
    for child in &element.children {
        read_limit_element(child, draft);
    }
}

/// Reads `<spend currency="USD">0.50</spend>`.
fn read_limit_element(element: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    let mut fields = ElementFields::open(element);
    let currency = fields.take("currency");
    let value = fields.take_any(&["max", "value"]).unwrap_or(&element.text);
    set_limit(WrittenLimit { name: &element.name, value, currency, location: element.location }, draft);
    fields.close(draft);
    for child in &element.children {
        draft.warn(child.location, format!("<{}> in <{}> is ignored", child.name, element.name));
    }
}

/// Reads `<cost>`: limits together with an estimate of the context.
pub(super) fn read_cost(element: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    draft.reject_text(element);
    ElementFields::open(element).close(draft);
    for child in &element.children {
        if child.name != "context" {
            read_limit_element(child, draft);
            continue;
        }
        let mut fields = ElementFields::open(child);
        if let Some(value) = fields.take("turns") {
            set_limit(WrittenLimit { name: "turns", value, currency: None, location: child.location }, draft);
        }
        for name in ["estimated_usage", "spawn_threshold"] {
            draft.note(name, fields.take(name).unwrap_or_default());
        }
        draft.note("context_tokens", &child.text);
        fields.close(draft);
    }
}

/// Sets one limit, or reports why it cannot be.
pub(super) fn set_limit(limit: WrittenLimit<'_>, draft: &mut DirectiveDraft<'_, '_>) {
    let WrittenLimit { name, value, location, .. } = limit;
    let set = match name {
        "turns" | "max_turns" | "steps" | "max_steps" => count(&limit, 1, draft).map(Set::Steps),
        "tokens" | "max_tokens" => count(&limit, 1, draft).map(Set::Tokens),
        "output_tokens" | "max_output_tokens" => count(&limit, 1, draft).map(Set::OutputTokens),
        "tool_calls" | "max_tool_calls" => count(&limit, 0, draft).map(Set::ToolCalls),
        "spawns" | "max_spawns" | "children" => count(&limit, 0, draft).map(Set::Children),
        "depth" | "max_depth" => count(&limit, 0, draft).map(Set::Depth),
        "duration_seconds" | "duration" | "max_duration" | "timeout" | "timeout_seconds" => {
            milliseconds(&limit, draft).map(Set::Timeout)
        }
        "spend" | "spend_usd" | "max_spend" | "cost" | "cost_usd" => money(&limit, draft).map(Set::Cost),
        "provider_request_body_bytes" if value.trim() == "0" => return draft.note(name, value),
        _ => {
            let message = format!("the limit {}={} is unknown and ignored", name, quote(value.trim()));
            let hint = "known limits: turns, tokens, output_tokens, tool_calls, spawns, depth, duration_seconds, spend";
            return draft.diagnostics.warning_with_hint(location, message, hint);
        }
    };
    if let Some(set) = set {
        lower(&mut draft.directive.limits, set);
    }
}

enum Set {
    Steps(u32),
    Tokens(u32),
    OutputTokens(u32),
    ToolCalls(u32),
    Children(u32),
    Depth(u32),
    Timeout(u64),
    Cost(u64),
}

fn lower(limits: &mut DirectiveLimits, set: Set) {
    fn min<T: Ord + Copy>(slot: &mut Option<T>, value: T) {
        *slot = Some(slot.map_or(value, |known| known.min(value)));
    }
    match set {
        Set::Steps(count) => min(&mut limits.steps, count),
        Set::Tokens(count) => min(&mut limits.tokens, u64::from(count)),
        Set::OutputTokens(count) => min(&mut limits.output_tokens, count),
        Set::ToolCalls(count) => min(&mut limits.tool_calls, count),
        Set::Children(count) => min(&mut limits.children, count),
        Set::Depth(count) => min(&mut limits.depth, count),
        Set::Timeout(ms) => min(&mut limits.timeout_ms, ms),
        Set::Cost(microusd) => min(&mut limits.cost_microusd, microusd),
    }
}

/// Reads a whole number, also with `_` or `,` between its digits.
fn count(limit: &WrittenLimit<'_>, least: u64, draft: &mut DirectiveDraft<'_, '_>) -> Option<u32> {
    let digits = limit.value.trim().replace(['_', ','], "");
    let number = digits.parse::<u64>().ok().filter(|number| (least..=COUNT_MAX).contains(number));
    if number.is_none() {
        let (name, value) = (limit.name, quote(limit.value.trim()));
        let message = format!("the limit {name} must be a whole number of at least {least}, not {value}");
        draft.diagnostics.error(limit.location, message);
    }
    number.and_then(|number| u32::try_from(number).ok())
}

/// Reads a number of seconds, or a duration such as `5m`.
fn milliseconds(limit: &WrittenLimit<'_>, draft: &mut DirectiveDraft<'_, '_>) -> Option<u64> {
    let text = limit.value.trim();
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.001..=1e8).contains(seconds));
    let ms = match seconds {
        Some(seconds) => Some((seconds * 1_000.0).round() as u64),
        None => domain::duration::parse_ms(text).ok().filter(|ms| *ms > 0 && *ms <= 100_000_000_000),
    };
    if ms.is_none() {
        let message = format!("the limit {} must be a number of seconds, not {}", limit.name, quote(text));
        draft.diagnostics.error_with_hint(limit.location, message, "write for example 300");
    }
    ms
}

/// Reads dollars. A limit in another currency cannot be enforced.
fn money(limit: &WrittenLimit<'_>, draft: &mut DirectiveDraft<'_, '_>) -> Option<u64> {
    if let Some(currency) = limit.currency.filter(|currency| !currency.trim().eq_ignore_ascii_case("USD")) {
        let amount = limit.value.trim();
        draft.unsupported(limit.location, &format!("a limit of {amount} {}", currency.trim()));
        return None;
    }
    let text = limit.value.trim().trim_start_matches('$');
    let dollars = text.parse::<f64>().ok().filter(|dollars| (0.0..=USD_MAX).contains(dollars));
    if dollars.is_none() {
        let message = format!("the limit {} must be an amount of dollars, not {}", limit.name, quote(text));
        draft.diagnostics.error_with_hint(limit.location, message, "write for example 0.50");
    }
    dollars.map(|dollars| (dollars * 1e6).round() as u64)
}
