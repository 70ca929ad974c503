//! Words that must not be merged: promises to do it later, tests that do not run, suppressed lints.

use crate::code::{self, lines_with};
use crate::tree::Tree;

/// Written in two pieces, so that this file passes its own check.
const LATER: &str = concat!("FIX", "ME");
const SOME_DAY: &str = concat!("TO", "DO");

/// Attributes and macros that do not belong into the code, and what to do instead.
const NOT_IN_CODE: [(&str, &str); 6] = [
    ("#[ignore", "a test runs, or it is deleted"),
    ("#[should_panic", "assert on a value"),
    ("#[allow(", "use #[expect(lint, reason = ...)]"),
    ("#![allow(", "use #![expect(lint, reason = ...)]"),
    ("todo!", "finish it"),
    ("unimplemented!", "finish it"),
];

/// Returns every forbidden word with its place.
pub fn check(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if !file.is_rust() {
            let lines = lines_with(&file.text, LATER);
            findings
                .extend(lines.iter().map(|line| format!("{}:{line}: {LATER} cannot be merged", file.path)));
            continue;
        }
        let code::Parts { code, comments, .. } = code::split(&file.text);
        for (word, instead) in NOT_IN_CODE {
            let lines = lines_with(&code, word);
            findings.extend(lines.iter().map(|line| format!("{}:{line}: {word}: {instead}", file.path)));
        }
        for line in lines_with(&comments, LATER) {
            findings.push(format!("{}:{line}: {LATER} cannot be merged", file.path));
        }
        for line in lines_with(&comments, SOME_DAY) {
            let comment = comments.lines().nth(line - 1).unwrap_or_default();
            if !comment.contains("issue") && !comment.contains('#') {
                findings.push(format!("{}:{line}: a {SOME_DAY} needs the number of an issue", file.path));
            }
        }
    }
    findings
}
