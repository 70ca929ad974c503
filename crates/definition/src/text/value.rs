//! Single values: each function turns a node into what a reader wants, or says what was expected instead.

use std::collections::BTreeSet;

use domain::{duration, nearest::nearest, size};

use super::{Findings, Node, Shape, quoted};

/// No duration that anybody writes is longer than ten years.
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
pub(crate) fn text(node: &Node, name: &str, findings: &mut Findings<'_>) -> Option<String> {
    let wrong = match &node.shape {
        Shape::Text(text) if text.contains('\0') => {
            findings.error(node.place, format!("{name}: a NUL character is not allowed"));
            return None;
        }
        Shape::Text(text) if !text.trim().is_empty() => return Some(text.clone()),
        Shape::Text(_) => {
            findings.error(node.place, format!("{name}: expected text, found an empty one"));
            return None;
        }
        Shape::Truth(truth) => Some(truth.to_string()),
        Shape::Integer(number) => Some(number.to_string()),
        Shape::Number(number) => Some(number.to_string()),
        Shape::Nothing | Shape::Moment | Shape::List(_) | Shape::Map(_) => None,
    };
    let message = format!("{name}: expected text, found {}", node.describe());
    match wrong {
        Some(bare) => findings.error_with_hint(node.place, message, format!("put it in quotes: \"{bare}\"")),
        None => findings.error(node.place, message),
    }
    None
}

/// Returns `true` or `false`.
pub(crate) fn flag(node: &Node, name: &str, findings: &mut Findings<'_>) -> Option<bool> {
    match &node.shape {
        Shape::Truth(truth) => Some(*truth),
        Shape::Text(_)
        | Shape::Nothing
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Moment
        | Shape::List(_)
        | Shape::Map(_) => {
            findings.error(node.place, format!("{name}: expected true or false, found {}", node.describe()));
            None
        }
    }
}

/// Returns the items of a list.
pub(crate) fn list<'a>(node: &'a Node, name: &str, findings: &mut Findings<'_>) -> Option<&'a [Node]> {
    match &node.shape {
        Shape::List(items) => Some(items),
        Shape::Text(text) => {
            let message = format!("{name}: expected a list, found the text {}", quoted(text));
            findings.error_with_hint(node.place, message, format!("write [{}]", quoted(text)));
            None
        }
        Shape::Nothing
        | Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Moment
        | Shape::Map(_) => {
            findings.error(node.place, format!("{name}: expected a list, found {}", node.describe()));
            None
        }
    }
}

/// Returns the texts of a list, or of a single text.
pub(crate) fn text_or_list(node: &Node, name: &str, findings: &mut Findings<'_>) -> Vec<String> {
    match &node.shape {
        Shape::List(items) => items.iter().filter_map(|item| text(item, name, findings)).collect(),
        Shape::Text(_)
        | Shape::Nothing
        | Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Moment
        | Shape::Map(_) => text(node, name, findings).into_iter().collect(),
    }
}

/// Returns names of environment variables: never values.
pub(crate) fn environment_names(node: &Node, name: &str, findings: &mut Findings<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut known = BTreeSet::new();
    for item in list(node, name, findings).unwrap_or_default() {
        let Some(variable) = text(item, name, findings) else { continue };
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if variable.contains('=') {
            let message = format!("{name}: expected the name of a variable, found an assignment");
            findings.error_with_hint(item.place, message, "give only the name; the value is passed on");
        } else if variable.len() > 200
            || variable.as_bytes()[0].is_ascii_digit()
            || !variable.bytes().all(letters)
        {
            let message = format!("{name}: {} is not the name of a variable", quoted(&variable));
            findings.error_with_hint(
                item.place,
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
pub(crate) fn duration_ms(
    node: &Node,
    name: &str,
    bounds: Bounds,
    findings: &mut Findings<'_>,
) -> Option<u64> {
    let parsed = match &node.shape {
        Shape::Text(text) => duration::parse_ms(text).ok(),
        Shape::Integer(seconds) => {
            u64::try_from(*seconds).ok().and_then(|seconds| seconds.checked_mul(1_000))
        }
        Shape::Number(seconds) if (0.0..=1e12).contains(seconds) => Some((seconds * 1_000.0).round() as u64),
        Shape::Nothing
        | Shape::Truth(_)
        | Shape::Number(_)
        | Shape::Moment
        | Shape::List(_)
        | Shape::Map(_) => None,
    };
    let max = bounds.max.min(DURATION_MS_MAX);
    let problem = match parsed {
        Some(ms) if ms < bounds.min => format!("must be at least {}", duration::display_ms(bounds.min)),
        Some(ms) if ms > max => format!("must be at most {}", duration::display_ms(max)),
        Some(ms) => return Some(ms),
        None => format!("expected a duration, found {}", node.describe()),
    };
    let hint = "write for example 250ms, 30s, 5m or 1h30m; a number counts seconds";
    findings.error_with_hint(node.place, format!("{name}: {problem}"), hint);
    None
}

/// Returns bytes from `64MiB`, or from a number of bytes.
pub(crate) fn bytes(node: &Node, name: &str, bounds: Bounds, findings: &mut Findings<'_>) -> Option<u64> {
    let parsed = match &node.shape {
        Shape::Text(text) => size::parse_bytes(text).ok(),
        Shape::Integer(number) => u64::try_from(*number).ok(),
        Shape::Nothing
        | Shape::Truth(_)
        | Shape::Number(_)
        | Shape::Moment
        | Shape::List(_)
        | Shape::Map(_) => None,
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
    findings.error_with_hint(node.place, format!("{name}: {problem}"), hint);
    None
}

/// Returns a whole number within bounds.
pub(crate) fn amount(node: &Node, name: &str, bounds: Bounds, findings: &mut Findings<'_>) -> Option<u64> {
    let number = match &node.shape {
        Shape::Integer(number) => u64::try_from(*number).ok(),
        Shape::Nothing
        | Shape::Truth(_)
        | Shape::Number(_)
        | Shape::Text(_)
        | Shape::Moment
        | Shape::List(_)
        | Shape::Map(_) => None,
    };
    if let Some(number) = number.filter(|number| (bounds.min..=bounds.max).contains(number)) {
        return Some(number);
    }
    let range = match bounds.max {
        u64::MAX => format!("of at least {}", bounds.min),
        max => format!("from {} to {max}", bounds.min),
    };
    findings.error(node.place, format!("{name}: expected a whole number {range}, found {}", node.describe()));
    None
}

/// Returns an amount of money in millionths of a US dollar.
pub(crate) fn usd(node: &Node, name: &str, findings: &mut Findings<'_>) -> Option<u64> {
    let dollars = match &node.shape {
        Shape::Integer(number) => *number as f64,
        Shape::Number(number) => *number,
        Shape::Nothing
        | Shape::Truth(_)
        | Shape::Text(_)
        | Shape::Moment
        | Shape::List(_)
        | Shape::Map(_) => f64::NAN,
    };
    if (0.0..=1e9).contains(&dollars) {
        return Some((dollars * 1e6).round() as u64);
    }
    findings.error(node.place, format!("{name}: expected an amount of dollars, found {}", node.describe()));
    None
}

/// Returns what one of a few words stands for.
pub(crate) fn choice<T: Copy>(
    node: &Node,
    name: &str,
    words: &[(&'static str, T)],
    findings: &mut Findings<'_>,
) -> Option<T> {
    let (message, near) = match known_word(node, name, words) {
        Ok(value) => return Some(value),
        Err(unknown) => unknown,
    };
    match near {
        Some(word) => findings.error_with_hint(node.place, message, format!("did you mean {word}?")),
        None => findings.error(node.place, message),
    }
    None
}

/// Returns the same where the vendor's program passes over words that it does not know: the warning says what happens
/// instead.
pub(crate) fn choice_or_warning<T: Copy>(
    node: &Node,
    name: &str,
    words: &[(&'static str, T)],
    instead: &str,
    findings: &mut Findings<'_>,
) -> Option<T> {
    let (message, near) = match known_word(node, name, words) {
        Ok(value) => return Some(value),
        Err(unknown) => unknown,
    };
    let message = format!("{message}; {instead}");
    match near {
        Some(word) => findings.warning_with_hint(node.place, message, format!("did you mean {word}?")),
        None => findings.warning(node.place, message),
    }
    None
}

/// Returns what a word stands for, or a message and the nearest word that is known.
fn known_word<T: Copy>(
    node: &Node,
    name: &str,
    words: &[(&'static str, T)],
) -> Result<T, (String, Option<&'static str>)> {
    let spelling = match &node.shape {
        Shape::Text(text) => text.as_str(),
        Shape::Nothing
        | Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Moment
        | Shape::List(_)
        | Shape::Map(_) => "",
    };
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == spelling) {
        return Ok(*value);
    }
    let all: Vec<&'static str> = words.iter().map(|(word, _)| *word).collect();
    let message = format!("{name}: expected {}, found {}", all.join(" or "), node.describe());
    Err((message, nearest(spelling, all.iter().copied())))
}

/// Returns a path that stays below the directory it is relative to.
pub(crate) fn relative_path(node: &Node, name: &str, findings: &mut Findings<'_>) -> Option<String> {
    let path = text(node, name, findings)?;
    let leaves = path.split('/').any(|part| part == "..");
    if !path.starts_with('/') && !leaves && path.len() <= 1_024 {
        return Some(path);
    }
    let message = format!("{name}: {} is not a relative path without '..'", quoted(&path));
    findings.error(node.place, message);
    None
}
