//! Detects literal secrets in texts that should refer to a variable. This is a guess by names and by the prefixes of
//! services' keys: a match deserves a warning and a mask, and no match proves nothing.

use std::ops::Range;

use super::Redactor;
use crate::mcp_server::{TextPiece, VariableText};

/// The prefixes of services' keys, and the least length of the rest.
const KEY_PREFIXES: [(&str, usize); 27] = [
    ("sk-", 16),
    ("sk_live_", 8),
    ("sk_test_", 8),
    ("rk_live_", 8),
    ("ghp_", 16),
    ("gho_", 16),
    ("ghu_", 16),
    ("ghs_", 16),
    ("ghr_", 16),
    ("github_pat_", 16),
    ("glpat-", 12),
    ("xoxa-", 8),
    ("xoxb-", 8),
    ("xoxp-", 8),
    ("xoxr-", 8),
    ("xoxs-", 8),
    ("xapp-", 8),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("ya29.", 16),
    ("hf_", 16),
    ("npm_", 16),
    ("pypi-", 16),
    ("gsk_", 16),
    ("xai-", 16),
    ("ntn_", 16),
];
/// Words at the end of a name that mark a secret.
const SECRET_LAST_WORDS: [&str; 13] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "apikey",
    "authkey",
    "accesskey",
    "credential",
    "credentials",
    "authorization",
    "cookie",
];
/// Words before "key" that mark a secret.
const SECRET_KEYS: [&str; 12] = [
    "api", "access", "secret", "auth", "account", "service", "private", "app", "license", "admin", "master",
    "signing",
];
/// The schemes before a credential.
const SCHEMES: [&str; 3] = ["bearer ", "basic ", "token "];

/// Returns the ranges of a text that look like a secret. The name is that of the header or variable that the text
/// belongs to, or the option before it.
pub fn find_literal_secrets(text: &VariableText, name: Option<&str>) -> Vec<Range<usize>> {
    let whole = text.as_str();
    let references = references(text);
    let mut found: Vec<Range<usize>> = Vec::new();
    if name.is_some_and(names_secret) {
        found.extend(secret_value_in(whole, 0..whole.len(), &references));
    }
    for (at, _) in whole.match_indices(['=', ':']) {
        let in_reference = references.iter().any(|reference| reference.whole.contains(&at));
        if !in_reference && names_secret(name_before(whole, at)) {
            found.extend(secret_value_in(whole, at + 1..value_end(whole, at + 1), &references));
        }
    }
    found.extend(password_in_url(whole).and_then(|range| secret_value_in(whole, range, &references)));
    let in_name = |range: &Range<usize>| {
        let reference = references.iter().find(|reference| reference.whole.contains(&range.start));
        reference.is_some_and(|found| found.default.as_ref().is_none_or(|it| !it.contains(&range.start)))
    };
    found.extend(find_service_keys(whole).into_iter().filter(|range| !in_name(range)));
    merged(found)
}

/// Returns a text with these ranges replaced.
pub fn mask_literal_secrets(text: &VariableText, name: Option<&str>, mask: &str) -> VariableText {
    let mut hidden = text.as_str().to_owned();
    for range in find_literal_secrets(text, name).into_iter().rev() {
        hidden.replace_range(range, mask);
    }
    hidden.into()
}

/// Returns whether a name marks its value as a secret. Any word of a variable's name counts; of options, headers and
/// parameters only the last word counts, because `--key-file` and `--max-tokens` are not secrets.
pub(super) fn names_secret(name: &str) -> bool {
    let name = name.trim_start_matches('-');
    let is_variable = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    if name.len() > 1 && name.bytes().all(is_variable) {
        return Redactor::names_secret(name);
    }
    let words = split_name(name);
    match words.as_slice() {
        [] => false,
        [only] if only == "key" => true,
        [.., before, last] if last == "key" => SECRET_KEYS.contains(&before.as_str()),
        [.., last] => SECRET_LAST_WORDS.contains(&last.as_str()),
    }
}

/// Splits a name at its separators and case changes: `api-key`, `api_key` and `apiKey`.
fn split_name(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut lower = false;
    for character in name.chars() {
        if !character.is_ascii_alphanumeric() || (lower && character.is_ascii_uppercase()) {
            words.push(String::new());
        }
        lower = character.is_ascii_lowercase();
        if character.is_ascii_alphanumeric() {
            words.last_mut().expect("there is a word from the start").push(character.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the name that ends at this offset.
fn name_before(text: &str, at: usize) -> &str {
    let before = text[..at].trim_end_matches(['"', '\'', ' ']);
    let start = before.rfind(|letter: char| !letter.is_ascii_alphanumeric() && !"_-".contains(letter));
    start.map_or(before, |start| {
        let letter = before[start..].chars().next().map_or(0, char::len_utf8);
        &before[start + letter..]
    })
}

/// Returns the end of a value: a URL parameter ends before the next one.
fn value_end(text: &str, from: usize) -> usize {
    let within_address = text[..from].contains("://");
    let end =
        text[from..].find(|letter: char| within_address && (letter.is_whitespace() || "&#".contains(letter)));
    end.map_or(text.len(), |end| from + end)
}

/// Returns the part of a value that looks like a secret: all of it, or the default of a variable.
fn secret_value_in(
    text: &str,
    range: Range<usize>,
    references: &[VariableReference],
) -> Option<Range<usize>> {
    let range = trimmed(text, range);
    let touched = references
        .iter()
        .find(|reference| reference.whole.start < range.end && range.start < reference.whole.end);
    let value = match touched {
        None => range,
        Some(reference) => reference.default.clone()?,
    };
    is_plausible(&text[value.clone()]).then_some(value)
}

/// Returns a range without white space, quotes and scheme.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let around = |letter: char| letter.is_whitespace() || "\"'".contains(letter);
    let value = &text[range.clone()];
    let mut start = range.start + (value.len() - value.trim_start_matches(around).len());
    let end = start + text[start..range.end].trim_end_matches(around).len();
    let value = &text[start..end];
    let scheme = SCHEMES
        .iter()
        .find(|scheme| value.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme)));
    if let Some(scheme) = scheme {
        start += scheme.len();
        start += text[start..end].len() - text[start..end].trim_start().len();
    }
    start..end
}

/// Returns whether a value can be a secret: not a number, path, flag or placeholder.
fn is_plausible(value: &str) -> bool {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_word = ["true", "false", "none", "null", "bearer", "basic", "token"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word));
    let is_file = ["/", "./", "../", "~"].iter().any(|begin| value.starts_with(begin));
    let is_gap = value.starts_with(['<', '-', '[', '{', '$', '%']) || value.bytes().all(|byte| byte == b'*');
    !(value.is_empty() || is_number || is_word || is_file || is_gap)
}

/// Returns the range of the password in `scheme://user:password@host`.
fn password_in_url(text: &str) -> Option<Range<usize>> {
    let start = text.find("://")? + 3;
    let end = text[start..].find(['/', '?', '#']).map_or(text.len(), |end| start + end);
    let user = start + text[start..end].rfind('@')?;
    let colon = start + text[start..user].find(':')?;
    Some(colon + 1..user)
}

/// Returns the ranges of words with the prefix of a service's key.
pub(super) fn find_service_keys(text: &str) -> Vec<Range<usize>> {
    let part_of_key = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    let mut found = Vec::new();
    let mut at = 0;
    for word in text.split(|letter: char| !part_of_key(letter)) {
        let start = text[at..].find(word).map_or(at, |offset| at + offset);
        at = start + word.len();
        let begin = word.trim_start_matches(['-', '.']);
        let (start, word) = (at - begin.len(), begin);
        let fits = |(begin, more): &(&str, usize)| {
            word.strip_prefix(begin).is_some_and(|rest| rest.len() >= *more && rest.is_ascii())
        };
        // A JSON web token: three parts in base64, of which the first is a JSON object.
        let is_web_token = word.starts_with("eyJ") && word.len() > 40 && word.matches('.').count() == 2;
        if is_web_token || KEY_PREFIXES.iter().any(fits) {
            found.push(start..at);
        }
    }
    found
}

struct VariableReference {
    whole: Range<usize>,
    default: Option<Range<usize>>,
}

fn references(text: &VariableText) -> Vec<VariableReference> {
    let mut at = 0;
    let mut found = Vec::new();
    for piece in text.pieces() {
        match piece {
            TextPiece::Literal(literal) => at += literal.len(),
            TextPiece::Variable { name, default } => {
                // `${NAME}`, or `${NAME:-default}`.
                let start = at;
                at += 3 + name.len() + default.map_or(0, |default| 2 + default.len());
                let default = default.map(|default| at - 1 - default.len()..at - 1);
                found.push(VariableReference { whole: start..at, default });
            }
        }
    }
    found
}

/// Sorts the ranges and joins those that touch.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
