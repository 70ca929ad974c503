//! The words of identifiers: few of the private dialect that this code was once written in, and no type name that means
//! three different things.

use std::collections::BTreeMap;

use crate::source_tree::SourceTree;

/// Words that say how something was communicated instead of what it is: `said` is an output, `asked` a request.
const DIALECT: [&str; 4] = ["told", "said", "kept", "asked"];
/// The most identifiers with such a word among 100,000. Lower it when the number falls.
pub const DIALECT_MAX: usize = 5;
/// How many files with the most such words a finding names.
const FILES_NAMED: usize = 5;
/// How often a type name may be defined in the workspace.
const TYPE_NAME_MAX: usize = 2;
/// Type names that every command, tool or operation has by convention.
const CONVENTIONAL: [&str; 5] = ["Args", "Input", "Output", "Options", "Error"];

/// Returns a finding if the dialect words are more than the limit.
pub fn dialect(tree: &SourceTree) -> Vec<String> {
    let (mut identifiers, mut found) = (0, 0);
    let mut by_file: Vec<(usize, &str)> = Vec::new();
    for file in tree.rust() {
        let code = &file.parts().code;
        let words = identifiers_in(code);
        let count = words.iter().filter(|word| has_dialect_word(word)).count();
        identifiers += words.len();
        found += count;
        by_file.push((count, &file.path));
    }
    let rate = (found * 100_000).checked_div(identifiers).unwrap_or(0);
    if rate <= DIALECT_MAX {
        return Vec::new();
    }
    by_file.sort_by(|one, other| other.cmp(one));
    let worst = by_file.iter().take_while(|(count, _)| *count > 0).take(FILES_NAMED);
    let worst: Vec<String> = worst.map(|(count, path)| format!("{path} ({count})")).collect();
    vec![format!(
        "crates: {rate} of 100,000 identifiers contain {}, at most {DIALECT_MAX} may; most are in {}",
        DIALECT.join(", "),
        worst.join(", ")
    )]
}

/// Returns the type names that are defined too often.
pub fn repeated_types(tree: &SourceTree) -> Vec<String> {
    let mut files: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for file in tree.rust() {
        for name in types_in(&file.parts().code) {
            files.entry(name).or_default().push(&file.path);
        }
    }
    let repeated = files
        .into_iter()
        .filter(|(name, files)| files.len() > TYPE_NAME_MAX && !CONVENTIONAL.contains(&name.as_str()));
    repeated
        .map(|(name, files)| {
            format!("{}: the type {name} is defined {} times: {}", files[0], files.len(), files.join(", "))
        })
        .collect()
}

fn identifiers_in(code: &str) -> Vec<&str> {
    let words = code.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')).collect()
}

/// Returns whether one of the words that an identifier is made of belongs to the dialect.
fn has_dialect_word(identifier: &str) -> bool {
    let spaced: String = identifier
        .chars()
        .flat_map(|letter| [letter.is_uppercase().then_some('_'), Some(letter.to_ascii_lowercase())])
        .flatten()
        .collect();
    let is_constant = identifier.chars().all(|letter| !letter.is_lowercase());
    let words = if is_constant { identifier.to_ascii_lowercase() } else { spaced };
    words.split('_').any(|word| DIALECT.contains(&word))
}

/// Returns the types that a file defines at any depth, without the associated types of traits and their implementations.
fn types_in(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in code.lines() {
        let trimmed = line.trim_start();
        let mut words = trimmed.split_whitespace().skip_while(|word| word.starts_with("pub"));
        let (Some(keyword), Some(name)) = (words.next(), words.next()) else { continue };
        let is_type = match keyword {
            "struct" | "enum" | "trait" | "union" => true,
            "type" => trimmed.len() == line.len(),
            _ => false,
        };
        if is_type {
            names
                .push(name.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect());
        }
    }
    names
}
