//! Typed values: each function reads a node as one type, or reports the expected one.

use std::collections::BTreeSet;

use domain::{duration, nearest::nearest, size};

use super::{Diagnostics, Node, NodeValue, quote};

/// Ten years, which no sensible duration exceeds.
const DURATION_MS_MAX: u64 = 3_660 * 86_400_000;

/// The least and the most that a number may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl Bounds {
    pub(crate) const fn from(min: u64) -> Self {
        Self { min, max: u64::MAX }
    }

    pub(crate) const fn up_to(self, max: u64) -> Self {
        Self { min: self.min, max }
    }
}

/// Returns a text that is not empty.
pub(crate) fn read_text(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Option<String> {
    let wrong = match &node.value {
        NodeValue::String(text) if text.contains('\0') => {
            diagnostics.error(node.location, format!("{name}: a NUL character is not allowed"));
            return None;
        }
        NodeValue::String(text) if !text.trim().is_empty() => return Some(text.clone()),
        NodeValue::String(_) => {
            diagnostics.error(node.location, format!("{name}: expected text, found an empty one"));
            return None;
        }
        NodeValue::Bool(truth) => Some(truth.to_string()),
        NodeValue::Integer(number) => Some(number.to_string()),
        NodeValue::Float(number) => Some(number.to_string()),
        NodeValue::Null | NodeValue::DateTime | NodeValue::List(_) | NodeValue::Map(_) => None,
    };
    let message = format!("{name}: expected text, found {}", node.describe());
    match wrong {
        Some(bare) => {
            diagnostics.error_with_hint(node.location, message, format!("put it in quotes: \"{bare}\""))
        }
        None => diagnostics.error(node.location, message),
    }
    None
}

/// Returns `true` or `false`.
pub(crate) fn read_bool(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Option<bool> {
    match &node.value {
        NodeValue::Bool(truth) => Some(*truth),
        NodeValue::String(_)
        | NodeValue::Null
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime
        | NodeValue::List(_)
        | NodeValue::Map(_) => {
            diagnostics
                .error(node.location, format!("{name}: expected true or false, found {}", node.describe()));
            None
        }
    }
}

/// Returns the items of a list.
pub(crate) fn read_list<'a>(
    node: &'a Node,
    name: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<&'a [Node]> {
    match &node.value {
        NodeValue::List(items) => Some(items),
        NodeValue::String(text) => {
            let message = format!("{name}: expected a list, found the text {}", quote(text));
            diagnostics.error_with_hint(node.location, message, format!("write [{}]", quote(text)));
            None
        }
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime
        | NodeValue::Map(_) => {
            diagnostics.error(node.location, format!("{name}: expected a list, found {}", node.describe()));
            None
        }
    }
}

/// Returns the texts of a list, or of a single text.
pub(crate) fn read_text_or_list(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Vec<String> {
    match &node.value {
        NodeValue::List(items) => {
            items.iter().filter_map(|item| read_text(item, name, diagnostics)).collect()
        }
        NodeValue::String(_)
        | NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime
        | NodeValue::Map(_) => read_text(node, name, diagnostics).into_iter().collect(),
    }
}

/// Returns names of environment variables: never values.
pub(crate) fn read_env_names(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut known = BTreeSet::new();
    for item in read_list(node, name, diagnostics).unwrap_or_default() {
        let Some(variable) = read_text(item, name, diagnostics) else { continue };
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if variable.contains('=') {
            let message = format!("{name}: expected the name of a variable, found an assignment");
            diagnostics.error_with_hint(item.location, message, "give only the name; the value is passed on");
        } else if variable.len() > 200
            || variable.as_bytes()[0].is_ascii_digit()
            || !variable.bytes().all(letters)
        {
            let message = format!("{name}: {} is not the name of a variable", quote(&variable));
            diagnostics.error_with_hint(
                item.location,
                message,
                "letters, digits and '_', not beginning with a digit",
            );
        } else if known.insert(variable.clone()) {
            names.push(variable);
        }
    }
    names
}

/// Returns milliseconds from `30s`, or from a number of seconds.
pub(crate) fn read_duration_ms(
    node: &Node,
    name: &str,
    bounds: Bounds,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<u64> {
    let parsed = match &node.value {
        NodeValue::String(text) => duration::parse_ms(text).ok(),
        NodeValue::Integer(seconds) => {
            u64::try_from(*seconds).ok().and_then(|seconds| seconds.checked_mul(1_000))
        }
        NodeValue::Float(seconds) if (0.0..=1e12).contains(seconds) => {
            Some((seconds * 1_000.0).round() as u64)
        }
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime
        | NodeValue::List(_)
        | NodeValue::Map(_) => None,
    };
    let max = bounds.max.min(DURATION_MS_MAX);
    let problem = match parsed {
        Some(ms) if ms < bounds.min => format!("must be at least {}", duration::display_ms(bounds.min)),
        Some(ms) if ms > max => format!("must be at most {}", duration::display_ms(max)),
        Some(ms) => return Some(ms),
        None => format!("expected a duration, found {}", node.describe()),
    };
    let hint = "write for example 250ms, 30s, 5m or 1h30m; a number counts seconds";
    diagnostics.error_with_hint(node.location, format!("{name}: {problem}"), hint);
    None
}

/// Returns bytes from `64MiB`, or from a number of bytes.
pub(crate) fn read_byte_size(
    node: &Node,
    name: &str,
    bounds: Bounds,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<u64> {
    let parsed = match &node.value {
        NodeValue::String(text) => size::parse_bytes(text).ok(),
        NodeValue::Integer(number) => u64::try_from(*number).ok(),
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime
        | NodeValue::List(_)
        | NodeValue::Map(_) => None,
    };
    let problem = match parsed {
        Some(bytes) if bytes < bounds.min => {
            format!("{bytes} bytes are too few; at least {}", size::display_bytes(bounds.min))
        }
        Some(bytes) if bytes > bounds.max => format!("at most {}", size::display_bytes(bounds.max)),
        Some(bytes) => return Some(bytes),
        None => format!("expected a size, found {}", node.describe()),
    };
    let hint = "write for example 512MiB or 2G; a number counts bytes";
    diagnostics.error_with_hint(node.location, format!("{name}: {problem}"), hint);
    None
}

/// Returns a whole number within bounds.
pub(crate) fn read_integer(
    node: &Node,
    name: &str,
    bounds: Bounds,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<u64> {
    let number = match &node.value {
        NodeValue::Integer(number) => u64::try_from(*number).ok(),
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Float(_)
        | NodeValue::String(_)
        | NodeValue::DateTime
        | NodeValue::List(_)
        | NodeValue::Map(_) => None,
    };
    if let Some(number) = number.filter(|number| (bounds.min..=bounds.max).contains(number)) {
        return Some(number);
    }
    let range = match bounds.max {
        u64::MAX => format!("of at least {}", bounds.min),
        max => format!("from {} to {max}", bounds.min),
    };
    diagnostics
        .error(node.location, format!("{name}: expected a whole number {range}, found {}", node.describe()));
    None
}

/// Returns an amount of money in millionths of a US dollar.
pub(crate) fn read_usd(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Option<u64> {
    let dollars = match &node.value {
        NodeValue::Integer(number) => *number as f64,
        NodeValue::Float(number) => *number,
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::String(_)
        | NodeValue::DateTime
        | NodeValue::List(_)
        | NodeValue::Map(_) => f64::NAN,
    };
    if (0.0..=1e9).contains(&dollars) {
        return Some((dollars * 1e6).round() as u64);
    }
    diagnostics
        .error(node.location, format!("{name}: expected an amount of dollars, found {}", node.describe()));
    None
}

/// Reads one of a few words.
pub(crate) fn read_choice<T: Copy>(
    node: &Node,
    name: &str,
    words: &[(&'static str, T)],
    diagnostics: &mut Diagnostics<'_>,
) -> Option<T> {
    let (message, near) = match known_word(node, name, words) {
        Ok(value) => return Some(value),
        Err(unknown) => unknown,
    };
    match near {
        Some(word) => diagnostics.error_with_hint(node.location, message, format!("did you mean {word}?")),
        None => diagnostics.error(node.location, message),
    }
    None
}

/// Does the same for a vendor whose program ignores unknown words: the warning names the consequence.
pub(crate) fn read_choice_or_warn<T: Copy>(
    node: &Node,
    name: &str,
    words: &[(&'static str, T)],
    instead: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<T> {
    let (message, near) = match known_word(node, name, words) {
        Ok(value) => return Some(value),
        Err(unknown) => unknown,
    };
    let message = format!("{message}; {instead}");
    match near {
        Some(word) => diagnostics.warning_with_hint(node.location, message, format!("did you mean {word}?")),
        None => diagnostics.warning(node.location, message),
    }
    None
}

/// Returns the value of a word, or a message and the nearest known word.
fn known_word<T: Copy>(
    node: &Node,
    name: &str,
    words: &[(&'static str, T)],
) -> Result<T, (String, Option<&'static str>)> {
    let spelling = match &node.value {
        NodeValue::String(text) => text.as_str(),
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime
        | NodeValue::List(_)
        | NodeValue::Map(_) => "",
    };
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == spelling) {
        return Ok(*value);
    }
    let all: Vec<&'static str> = words.iter().map(|(word, _)| *word).collect();
    let message = format!("{name}: expected {}, found {}", all.join(" or "), node.describe());
    Err((message, nearest(spelling, all.iter().copied())))
}

/// Returns a path that stays below the directory it is relative to.
pub(crate) fn read_relative_path(
    node: &Node,
    name: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<String> {
    let path = read_text(node, name, diagnostics)?;
    let leaves = path.split('/').any(|part| part == "..");
    if !path.starts_with('/') && !leaves && path.len() <= 1_024 {
        return Some(path);
    }
    let message = format!("{name}: {} is not a relative path without '..'", quote(&path));
    diagnostics.error(node.location, message);
    None
}
