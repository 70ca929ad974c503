//! Replaces values that differ between recordings by constant ones.

use std::collections::BTreeMap;
use std::path::Path;

use fake_llm::AgentDirs;
use serde_json::Value;

/// Replaces the same id by the same replacement, throughout one case.
pub(crate) struct Scrub {
    literals: Vec<(String, &'static str)>,
    ids: BTreeMap<String, String>,
}

const TIME: &str = "2026-01-01T00:00:00.000Z";
const MILLISECONDS: u64 = 1_767_225_600_000;
/// Prefixes of the ids of agents that do not use UUIDs.
const PREFIXES: [&str; 4] = ["ses_", "prt_", "msg_", "call_"];

impl Scrub {
    pub(crate) fn new(folders: &AgentDirs, url: &str) -> Self {
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let checkout = checkout.canonicalize().unwrap_or(checkout).display().to_string();
        let literals = vec![
            (folders.home.display().to_string(), "/place/home"),
            (folders.work.display().to_string(), "/place/work"),
            (folders.temp_dir.display().to_string(), "/place/temporary"),
            (folders.work.display().to_string().replace('/', "-"), "-place-work"),
            (checkout, "/checkout"),
            (url.to_owned(), "http://127.0.0.1:8080"),
            (url.trim_start_matches("http://").to_owned(), "127.0.0.1:8080"),
        ];
        Self { literals, ids: BTreeMap::new() }
    }

    /// Scrubs a line of a stream, which normally is JSON.
    pub(crate) fn line(&mut self, line: &str) -> String {
        match serde_json::from_str::<Value>(line) {
            Ok(value) => self.value("", value).to_string(),
            Err(_) => self.text(line),
        }
    }

    fn value(&mut self, name: &str, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(name, item)).collect(),
            Value::Object(members) => {
                let scrubbed = members.into_iter().map(|(name, value)| {
                    let value = self.value(&name, value);
                    (self.text(&name), value)
                });
                Value::Object(scrubbed.collect())
            }
            Value::Number(number) => scrub_number(name, &number),
            Value::Null | Value::Bool(_) => value,
        }
    }

    /// Scrubs a text that is not JSON.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.literals {
            text = text.replace(from, to);
        }
        let mut scrubbed = String::new();
        let mut rest = text.as_str();
        while let Some(character) = rest.chars().next() {
            let inside_word = scrubbed.ends_with(|character: char| character.is_ascii_alphanumeric());
            if let Some(length) = Self::id_length(rest).filter(|_| !inside_word) {
                scrubbed.push_str(&self.replacement_id(&rest[..length]));
                rest = &rest[length..];
            } else if let Some(length) = time_length(rest).filter(|_| !inside_word) {
                scrubbed.push_str(TIME);
                rest = &rest[length..];
            } else if let Some(after) = rest.strip_prefix("cc-socks/") {
                scrubbed.push_str("cc-socks/1");
                rest = after.trim_start_matches(|character: char| character.is_ascii_digit());
            } else {
                scrubbed.push(character);
                rest = &rest[character.len_utf8()..];
            }
        }
        scrubbed
    }

    fn id_length(text: &str) -> Option<usize> {
        if let Some(candidate) = text.as_bytes().get(..36) {
            let uuid = candidate.iter().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => *byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            });
            if uuid {
                return Some(36);
            }
        }
        let prefix = PREFIXES.iter().find(|prefix| text.starts_with(**prefix))?;
        let rest = text[prefix.len()..].bytes().take_while(u8::is_ascii_alphanumeric).count();
        (rest >= 20).then_some(prefix.len() + rest)
    }

    fn replacement_id(&mut self, id: &str) -> String {
        let number = self.ids.len() + 1;
        let new_id = || match PREFIXES.iter().find(|prefix| id.starts_with(**prefix)) {
            Some(prefix) => format!("{prefix}{number:026}"),
            None => format!("00000000-0000-4000-8000-{number:012}"),
        };
        self.ids.entry(id.to_owned()).or_insert_with(new_id).clone()
    }
}

fn scrub_number(name: &str, number: &serde_json::Number) -> Value {
    let lower = name.to_ascii_lowercase();
    if lower.ends_with("_ms") || name.ends_with("Ms") || lower.contains("duration") {
        return 1.into();
    }
    match number.as_u64() {
        // Timestamps, in milliseconds and in seconds.
        Some(1_600_000_000_000..2_600_000_000_000) => MILLISECONDS.into(),
        Some(1_600_000_000..2_600_000_000) => (MILLISECONDS / 1000).into(),
        _ => Value::Number(number.clone()),
    }
}

/// Returns the length of a timestamp at the beginning of a text: `2026-01-01T00:00:00`, with fraction and zone.
fn time_length(text: &str) -> Option<usize> {
    let shape = b"0000-00-00T00:00:00";
    let bytes = text.as_bytes();
    let matches = bytes.get(..shape.len())?.iter().zip(shape).all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        other => byte == other,
    });
    let rest = &bytes[if matches { shape.len() } else { return None }..];
    let fraction = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let zone = match rest.get(fraction) {
        Some(b'Z') => 1,
        Some(b'+') => 6,
        _ => 0,
    };
    Some(shape.len() + fraction + zone).filter(|length| text.is_char_boundary(*length))
}
