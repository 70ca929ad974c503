//! Limits a page of events to the size of an answer.

use domain::size::head;
use serde_json::{Value, json};

/// Returns as many events as fit, and the number of the first one that does not.
pub(super) fn page(mut events: Vec<Value>, bytes_max: usize) -> (Vec<Value>, Option<u64>) {
    let mut used = 0;
    let fits = events.iter().take_while(|event| {
        used += event.to_string().len();
        used <= bytes_max
    });
    let mut count = fits.count();
    if let (0, Some(first)) = (count, events.first_mut()) {
        // At least one event, or a reader would never advance.
        *first = shortened(first, bytes_max);
        count = 1;
    }
    let cut_at = events.get(count).and_then(|event| event.get("seq")).and_then(Value::as_u64);
    events.truncate(count);
    (events, cut_at)
}

/// Shortens an event that is too large by itself.
fn shortened(event: &Value, bytes_max: usize) -> Value {
    let text = event.to_string();
    json!({
        "seq": event.get("seq"),
        "at": event.get("at"),
        "type": event.get("type"),
        // Escaped once more, it can be twice as long.
        "shortened": head(&text, bytes_max / 4),
        "bytes": text.len(),
    })
}
