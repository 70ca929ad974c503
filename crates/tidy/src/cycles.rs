//! No cycles between the folders of a crate: folders that depend on each other cannot be understood, moved or tested
//! apart.
//!
//! Reads paths that begin with `crate::`, outside of tests. Does not see calls of methods, nor macros.

use std::collections::{BTreeMap, BTreeSet};

use crate::source_tree::{SourceFile, SourceTree};

/// The modules at the top of one crate, each with those that it uses.
type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Returns the groups of folders that depend on each other.
pub fn check(tree: &SourceTree) -> Vec<String> {
    let mut crates: BTreeMap<&str, (Graph<'_>, BTreeSet<&str>)> = BTreeMap::new();
    for file in tree.rust().filter(|file| !file.is_test()) {
        let Some((crate_path, module, is_folder)) = module_at_top(file) else { continue };
        let (graph, folders) = crates.entry(crate_path).or_default();
        let used = graph.entry(module).or_default();
        used.extend(modules_used(&file.parts().code, &file.text).into_iter().filter(|used| *used != module));
        if is_folder {
            folders.insert(module);
        }
    }
    let mut findings = Vec::new();
    for (crate_path, (graph, folders)) in crates {
        for group in cyclic_groups(&graph) {
            let names: Vec<&str> = group.intersection(&folders).copied().collect();
            if names.len() > 1 {
                let names = names.join(", ");
                findings.push(format!("{crate_path}: the folders {names} depend on each other"));
            }
        }
    }
    findings
}

/// Returns the source folder of a file's crate, the module at its top that the file belongs to, and whether that
/// module is a folder.
fn module_at_top(file: &SourceFile) -> Option<(&str, &str, bool)> {
    let at = file.path.find("/src/").filter(|_| file.path.starts_with("crates/"))? + "/src".len();
    let (crate_path, inside) = (&file.path[..at], &file.path[at + 1..]);
    match inside.split_once('/') {
        Some(("bin", _)) => None,
        Some((folder, _)) => Some((crate_path, folder, true)),
        None if matches!(inside, "lib.rs" | "main.rs") => None,
        None => Some((crate_path, inside.strip_suffix(".rs")?, false)),
    }
}

/// Returns the modules that paths in the code begin with, after `crate::`. The names are those of `text`, which has
/// the same offsets as `code`, up to the tests at its end.
fn modules_used<'a>(code: &str, text: &'a str) -> BTreeSet<&'a str> {
    let end = code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len());
    let mut used = BTreeSet::new();
    for (at, prefix) in code[..end].match_indices("crate::") {
        let from = at + prefix.len();
        match code[from..].starts_with('{') {
            true => used.extend(names_in_group(code, text, from + 1)),
            false => used.extend(name_at(code, text, from)),
        }
    }
    used
}

/// Returns the first names of the paths in `{a, b::c, d::{e, f}}`, whose content begins at `from`.
fn names_in_group<'a>(code: &str, text: &'a str, from: usize) -> Vec<&'a str> {
    let mut names = Vec::new();
    let mut depth = 0_usize;
    let mut is_start = true;
    for (at, letter) in code[from..].char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            letter if letter.is_whitespace() => {}
            _ if is_start => {
                names.extend(name_at(code, text, from + at));
                is_start = false;
            }
            _ => {}
        }
    }
    names
}

fn name_at<'a>(code: &str, text: &'a str, from: usize) -> Option<&'a str> {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    let length = code[from..].find(|letter| !is_part(letter)).unwrap_or(code.len() - from);
    text.get(from..from + length).filter(|name| !name.is_empty())
}

/// Returns the groups of two or more modules of which each one reaches all others.
fn cyclic_groups<'a>(graph: &Graph<'a>) -> Vec<BTreeSet<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|module| (*module, reachable(graph, module))).collect();
    let mut groups: Vec<BTreeSet<&str>> = Vec::new();
    for (module, others) in &reached {
        let both_ways =
            others.iter().filter(|other| reached.get(*other).is_some_and(|back| back.contains(module)));
        let group: BTreeSet<&str> = both_ways.copied().chain([*module]).collect();
        if group.len() > 1 && !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

fn reachable<'a>(graph: &Graph<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for used in graph.get(module).into_iter().flatten() {
            if reached.insert(*used) {
                open.push(used);
            }
        }
    }
    reached
}
