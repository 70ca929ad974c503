//! Checks on every Rust file: its introduction, its length, and its name.

use crate::source_tree::SourceTree;

/// The maximum number of lines of a file that is not for tests.
pub const LINES_MAX: usize = 700;

/// Names that say nothing.
const BANNED: [&str; 12] = [
    "utils", "util", "common", "core", "helpers", "helper", "misc", "manager", "service", "imp", "base",
    "info",
];
/// Banned only as a whole name or after an underscore, because `metadata` is a word.
const BANNED_WHOLE: &str = "data";

/// Returns the files whose first line does not say what they are for.
pub fn introductions(tree: &SourceTree) -> Vec<String> {
    let silent = tree.rust().filter(|file| !file.text.starts_with("//! "));
    silent.map(|file| format!("{}: must begin with //! and what the file is for", file.path)).collect()
}

/// Returns the files that are too long.
pub fn lengths(tree: &SourceTree) -> Vec<String> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| !file.is_test()) {
        let lines = file.text.lines().count();
        if lines > LINES_MAX {
            findings
                .push(format!("{}: {lines} lines are more than {LINES_MAX}; split it by noun", file.path));
        }
    }
    findings
}

/// Returns files, modules and types whose names say nothing.
pub fn names(tree: &SourceTree) -> Vec<String> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        for part in file.path.split('/').filter(|part| *part != "src") {
            let stem = part.trim_end_matches(".rs");
            if says_nothing(stem) || is_numbered_part(stem) {
                findings.push(format!("{}: {stem:?} is not the name of anything", file.path));
            }
        }
        let code = &file.parts().code;
        for (line, name) in defined(code) {
            if says_nothing(&snake_case(name)) {
                findings.push(format!("{}:{line}: {name:?} is not the name of anything", file.path));
            }
        }
    }
    findings
}

fn says_nothing(name: &str) -> bool {
    let name = name.to_lowercase().replace('-', "_");
    let last = name.rsplit('_').next().unwrap_or(&name);
    BANNED.contains(&last) || last == BANNED_WHOLE
}

fn is_numbered_part(name: &str) -> bool {
    let digits = name.rsplit('_').next().and_then(|last| last.strip_prefix("part"));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the names of the types and modules that a file defines, with their lines.
fn defined(code: &str) -> Vec<(usize, &str)> {
    let mut names = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let words: Vec<&str> = line
            .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .filter(|word| !word.is_empty())
            .collect();
        for pair in words.windows(2) {
            if matches!(pair[0], "struct" | "enum" | "trait" | "type" | "union" | "mod") {
                names.push((number + 1, pair[1]));
            }
        }
    }
    names
}

/// Turns `RunManager` into `run_manager`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
