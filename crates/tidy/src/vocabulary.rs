//! The words of names: fewer and fewer of the private dialect that this code was once written in, and no type name that
//! means three different things.

use std::collections::BTreeMap;

use crate::source_tree::{SourceFile, SourceTree};

/// Words that a reader cannot guess: `told` is an output, `asked` a request, `beside` a sidecar file. A new name uses the word
/// that an engineer would type into a search box.
const PRIVATE_WORDS: [&str; 63] = [
    "adapt",
    "ask",
    "asked",
    "asking",
    "asks",
    "attend",
    "audience",
    "bans",
    "beside",
    "causes",
    "circumstances",
    "crew",
    "desk",
    "door",
    "doors",
    "drive",
    "driven",
    "drives",
    "ground",
    "habits",
    "harmless",
    "hear",
    "heard",
    "hearing",
    "hears",
    "herald",
    "honour",
    "honoured",
    "honours",
    "house",
    "inbound",
    "kept",
    "leash",
    "leashes",
    "leftovers",
    "letter",
    "letters",
    "listing",
    "loosen",
    "loosened",
    "nearer",
    "obstacle",
    "obstacles",
    "outward",
    "place",
    "places",
    "ruling",
    "rulings",
    "said",
    "saying",
    "seat",
    "seen",
    "stranger",
    "talk",
    "tell",
    "tells",
    "told",
    "unasked",
    "unfit",
    "unhonoured",
    "whoever",
    "wishes",
    "worded",
];
/// Names that say too little alone. Their words are ordinary within a longer name: `known` hides what is known, `known_keys`
/// does not.
const PRIVATE_WHOLE_NAMES: [&str; 36] = [
    "combined_prompt",
    "contained",
    "early",
    "expands_dollars",
    "facts",
    "front",
    "guarded",
    "is_followed",
    "known",
    "known_well",
    "leaves",
    "look",
    "look_through",
    "model_server",
    "named",
    "names_sessions",
    "of",
    "offered",
    "own_folders",
    "own_program",
    "past",
    "plain_words",
    "point",
    "product",
    "programs_of_projects",
    "project_program",
    "project_programs",
    "put_off",
    "shape",
    "skips_context",
    "stand_in",
    "surface",
    "temporary",
    "trusted_programs",
    "twice",
    "word",
];
/// How many declared names and files are such a name or contain such a word. The number may only fall: lower it with each name that goes.
pub const PRIVATE_NAMES: usize = 137;
/// How many files with the most such names a finding lists.
const FILES_NAMED: usize = 5;
/// How often a type name may be defined in the workspace.
const TYPE_NAME_MAX: usize = 2;
/// Type names that every command, tool or operation has by convention.
const CONVENTIONAL: [&str; 5] = ["Args", "Input", "Output", "Options", "Error"];

/// Returns a finding if the number of private names differs from `PRIVATE_NAMES`.
pub fn private_names(tree: &SourceTree) -> Vec<String> {
    compare_private_names(tree, PRIVATE_NAMES)
}

pub(crate) fn compare_private_names(tree: &SourceTree, committed: usize) -> Vec<String> {
    let mut by_file: Vec<(usize, &str, Vec<String>)> = Vec::new();
    for file in tree.rust() {
        let mut names = declared_names(&file.parts().code);
        names.extend(file_name(file));
        names.retain(|name| is_private(name));
        by_file.push((names.len(), &file.path, names));
    }
    let count = by_file.iter().map(|(count, ..)| count).sum::<usize>();
    if count == committed {
        return Vec::new();
    }
    if count < committed {
        return vec![format!(
            "crates/tidy/src/vocabulary.rs: lower PRIVATE_NAMES from {committed} to {count}"
        )];
    }
    by_file.sort_by(|one, other| other.cmp(one));
    let worst = by_file.iter().take_while(|(count, ..)| *count > 0).take(FILES_NAMED);
    let worst: Vec<String> = worst.map(|(_, path, names)| format!("{path} ({})", names.join(", "))).collect();
    vec![format!(
        "crates: {count} declared names are private by the lists in crates/tidy/src/vocabulary.rs, at most {committed} \
         may; most are in {}",
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

/// Returns the name of a file or, for `mod.rs` and the like, of its folder.
fn file_name(file: &SourceFile) -> Option<String> {
    let mut parts = file.path.rsplit('/');
    let stem = parts.next()?.strip_suffix(".rs")?;
    let stem = if stem == "mod" { parts.next()? } else { stem };
    Some(stem.replace('-', "_"))
}

/// Returns the names of the types, functions, constants and modules with a body, and of the fields of structs with names.
fn declared_names(code: &str) -> Vec<String> {
    const KEYWORDS: [&str; 9] = ["struct", "enum", "trait", "union", "type", "fn", "const", "static", "mod"];
    let mut names = Vec::new();
    // The indentation of the struct that is open: rustfmt closes it at the same one.
    let mut open_struct: Option<usize> = None;
    for line in code.lines() {
        let indentation = line.len() - line.trim_start().len();
        if let Some(struct_indentation) = open_struct {
            if line.trim() == "}" && indentation == struct_indentation {
                open_struct = None;
            } else if let Some((name, _)) = without_visibility(line.trim()).split_once(": ")
                && name.chars().all(is_identifier_char)
            {
                names.push(name.to_owned());
            }
            continue;
        }
        let mut words = line.split_whitespace();
        let Some(keyword) = words.find(|word| KEYWORDS.contains(word)) else { continue };
        // `const fn name`, `static mut NAME`.
        let Some(name) = words.find(|word| !matches!(*word, "fn" | "mut")) else { continue };
        let name: String = name.chars().take_while(|letter| is_identifier_char(*letter)).collect();
        // A module without a body is the file that it names.
        if name.is_empty() || (keyword == "mod" && line.trim_end().ends_with(';')) {
            continue;
        }
        names.push(name);
        if keyword == "struct" && line.trim_end().ends_with('{') {
            open_struct = Some(indentation);
        }
    }
    names
}

fn without_visibility(line: &str) -> &str {
    match line.strip_prefix("pub") {
        Some(rest) => rest.split_once(' ').map_or(rest, |(_, declaration)| declaration),
        None => line,
    }
}

fn is_identifier_char(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Returns whether a name is private, or one of the words that it is made of.
fn is_private(name: &str) -> bool {
    let spaced: String = name
        .chars()
        .flat_map(|letter| [letter.is_uppercase().then_some('_'), Some(letter.to_ascii_lowercase())])
        .flatten()
        .collect();
    let is_constant = name.chars().all(|letter| !letter.is_lowercase());
    let words = if is_constant { name.to_ascii_lowercase() } else { spaced };
    // `in_place` is what the standard library says too.
    let words = words.trim_start_matches('_').replace("in_place", "");
    PRIVATE_WHOLE_NAMES.contains(&words.as_str())
        || words.split('_').any(|word| PRIVATE_WORDS.contains(&word))
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
            names.push(name.chars().take_while(|letter| is_identifier_char(*letter)).collect());
        }
    }
    names
}
