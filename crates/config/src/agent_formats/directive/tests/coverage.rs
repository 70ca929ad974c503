//! Nothing of a file disappears silently: whatever word of a sample is changed, the change shows in a field, in the
//! instructions, or in a diagnostic.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{SAMPLES, line_and_message, read_text};

/// A word that no sample contains.
const MARK: &str = "zqxmark";

/// Returns the words of a text, without those in comments of its metadata, which are for authors.
fn words(text: &str) -> Vec<Range<usize>> {
    let comments: Vec<Range<usize>> = match (text.find("<metadata>"), text.find("</metadata>")) {
        (Some(start), Some(end)) => text[start..end]
            .match_indices("<!--")
            .map(|(at, _)| start + at..start + at + text[start + at..].find("-->").expect("a whole comment"))
            .collect(),
        _ => Vec::new(),
    };
    let mut words = Vec::new();
    let mut start = None;
    for (at, letter) in text.char_indices().chain([(text.len(), ' ')]) {
        match (start, letter.is_alphanumeric() || letter == '_') {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                words.push(from..at);
                start = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }
    words.retain(|word| !comments.iter().any(|comment| comment.contains(&word.start)));
    words
}

/// Returns everything that a reader returns about a text.
fn evidence(text: &str, name: &str) -> (String, BTreeSet<String>, BTreeSet<u32>) {
    let (agent, diagnostics) = read_text(text, name);
    let lines = diagnostics.iter().filter_map(|diagnostic| diagnostic.line).collect();
    let messages = diagnostics.iter().map(line_and_message).collect();
    (format!("{agent:?} {diagnostics:?}"), messages, lines)
}

#[test]
fn every_word_of_every_sample_shows_somewhere() {
    let mut lost = Vec::new();
    for (name, text) in SAMPLES {
        let (_, messages, reported_lines) = evidence(text, name);
        for word in words(text) {
            let mut changed = text.to_owned();
            changed.replace_range(word.clone(), MARK);
            let (after, changed_messages, _) = evidence(&changed, name);
            let line = u32::try_from(text[..word.start].matches('\n').count() + 1).expect("a short text");
            let shows = after.contains(MARK)
                || !changed_messages.is_subset(&messages)
                || reported_lines.contains(&line);
            if !shows {
                lost.push(format!("{name}:{line}: {}", &text[word]));
            }
        }
    }
    // The word behind the marks of a fence names the language.
    lost.retain(|word| !word.ends_with(": xml"));
    assert_eq!(lost, Vec::<String>::new());
}

#[test]
fn every_line_of_every_sample_shows_somewhere() {
    for (name, text) in SAMPLES {
        let (before, ..) = evidence(text, name);
        let lines: Vec<&str> = text.lines().collect();
        for at in 0..lines.len() {
            let is_comment = lines[at].trim().starts_with("<!-- ") && lines[at].trim().ends_with("-->");
            let is_empty = matches!(lines[at].trim(), "" | "<inputs />");
            if is_empty || is_comment || lines[at].trim_start().starts_with("```") {
                continue;
            }
            let without: Vec<&str> =
                lines.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, line)| *line).collect();
            let after = evidence(&without.join("\n"), name).0;
            assert_ne!(before, after, "{name}:{}: {}", at + 1, lines[at]);
        }
    }
}
