//! Words that must not be merged: postponed work, tests that do not run, suppressed lints.

use crate::lexer::{self, lines_with};
use crate::source_tree::SourceTree;

/// Written in two pieces, so that this file passes its own check.
const LATER: &str = concat!("FIX", "ME");
const SOME_DAY: &str = concat!("TO", "DO");

/// Forbidden attributes and macros, and their replacements.
const NOT_IN_CODE: [(&str, &str); 6] = [
    ("#[ignore", "a test runs, or it is deleted"),
    ("#[should_panic", "assert on a value"),
    ("#[allow(", "use #[expect(lint, reason = ...)]"),
    ("#![allow(", "use #![expect(lint, reason = ...)]"),
    ("todo!", "finish it"),
    ("unimplemented!", "finish it"),
];

/// Returns every forbidden word with its location.
pub fn check(tree: &SourceTree) -> Vec<String> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if !file.is_rust() {
            let lines = lines_with(&file.text, LATER);
            findings
                .extend(lines.iter().map(|line| format!("{}:{line}: {LATER} cannot be merged", file.path)));
            continue;
        }
        let lexer::SourceParts { code, comments, .. } = file.parts();
        for (word, instead) in NOT_IN_CODE {
            let lines = lines_with(code, word);
            findings.extend(lines.iter().map(|line| format!("{}:{line}: {word}: {instead}", file.path)));
        }
        for line in lines_with(comments, LATER) {
            findings.push(format!("{}:{line}: {LATER} cannot be merged", file.path));
        }
        for line in lines_with(comments, SOME_DAY) {
            let comment = comments.lines().nth(line - 1).unwrap_or_default();
            if !comment.contains("issue") && !comment.contains('#') {
                findings.push(format!("{}:{line}: a {SOME_DAY} needs the number of an issue", file.path));
            }
        }
    }
    findings
}
