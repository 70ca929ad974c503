//! Renders an event of the journal as one line.

use serde_json::Value;

use super::number_format::moment;
use super::text::{fit, one_line};
use super::text_style::{TextStyle, Tone};

/// Fields that every event has, shown apart from the rest.
const COMMON_FIELDS: [&str; 4] = ["seq", "epoch", "at", "type"];

/// Returns `seq  time  type  the rest`, whatever fields the event has.
pub(crate) fn event_line(event: &Value, style: &TextStyle) -> String {
    let seq = event.get("seq").and_then(Value::as_u64).unwrap_or(0);
    let at = event.get("at").and_then(Value::as_str).unwrap_or("?");
    let kind = event.get("type").and_then(Value::as_str).unwrap_or("?");
    let rest: Vec<String> = event
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !COMMON_FIELDS.contains(&key.as_str()))
        .map(|(key, value)| match value.as_str() {
            Some(text) => format!("{key}={}", one_line(text)),
            None => format!("{key}={}", one_line(&value.to_string())),
        })
        .collect();
    let (at, kind) = (one_line(&moment(at)), one_line(kind));
    let mut rest = rest.join(" ");
    if let Some(columns) = style.width {
        let used = 6 + at.chars().count() + 2 + kind.chars().count().max(16) + 2;
        rest = fit(&rest, columns.saturating_sub(used).max(20));
    }
    let kind = style.color.apply(Tone::Strong, &format!("{kind:<16}"));
    format!("{seq:>4}  {at}  {kind}  {rest}\n").trim_end().to_owned() + "\n"
}
