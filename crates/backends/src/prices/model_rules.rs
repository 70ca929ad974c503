//! The rules that find a model by a name.
//!
//! A list of rules is a text: alternatives separated by spaces, each of terms joined by `&` that all must hold. A term is
//! `=name`, `^prefix`, `$suffix` or `~part`, or one of these after a `!`, which negates it. `#` is any digit, in names and
//! prefixes. Names are in lower case.

/// Returns whether one of the rules fits the name.
pub(super) fn fits(rules: &str, name: &str) -> bool {
    rules.split(' ').any(|rule| !rule.is_empty() && rule.split('&').all(|term| holds(term, name)))
}

fn holds(term: &str, name: &str) -> bool {
    let Some((operation, text)) = term.split_at_checked(1) else { return false };
    match operation {
        "=" => name.len() == text.len() && has_prefix(name, text),
        "^" => has_prefix(name, text),
        "$" => name.ends_with(text),
        "~" => name.contains(text),
        "!" => !holds(text, name),
        _ => false,
    }
}

fn has_prefix(name: &str, pattern: &str) -> bool {
    let same = |(byte, expected): (u8, u8)| match expected {
        b'#' => byte.is_ascii_digit(),
        _ => byte == expected,
    };
    name.len() >= pattern.len() && name.bytes().zip(pattern.bytes()).all(same)
}

/// Returns the name with `-20251211` written as `-2025-12-11`; `None` if it has no such date. Some routers write dates in
/// the short form, which the list does not have.
pub(super) fn with_dashed_date(name: &str) -> Option<String> {
    let mut dashed = String::with_capacity(name.len() + 2);
    let mut rest = name;
    while let Some(dash) = rest.find('-') {
        let (before, from_dash) = rest.split_at(dash + 1);
        dashed.push_str(before);
        rest = from_dash;
        if let Some((year, month, day)) = short_date(from_dash) {
            dashed.push_str(&format!("{year}-{month}-{day}"));
            rest = &from_dash[8..];
        }
    }
    dashed.push_str(rest);
    (dashed != name).then_some(dashed)
}

/// Reads the eight digits of a date that the text begins with, if they end a part of the name.
fn short_date(text: &str) -> Option<(&str, &str, &str)> {
    let digits = text.get(..8).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let (year, month, day) = (&digits[..4], &digits[4..6], &digits[6..]);
    let ends = matches!(text.as_bytes().get(8), None | Some(b'-' | b':'));
    let exists = format!("{year}-{month}-{day}T00:00:00Z").parse::<domain::Timestamp>().is_ok();
    (year.starts_with("20") && ends && exists).then_some((year, month, day))
}
