//! Every Rust file is part of something: a `mod` line or a target leads to it. A test file that nobody names
//! would never run, and nobody would notice.

use std::collections::BTreeSet;

use crate::code;
use crate::tree::{File, Tree};

/// Returns the Rust files that no target leads to.
pub fn check(tree: &Tree) -> Vec<String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&File> = tree.rust().filter(|file| is_root(&file.path, tree)).collect();
    while let Some(file) = open.pop() {
        if !reached.insert(&file.path) {
            continue;
        }
        let folder = folder_of_children(&file.path, tree);
        for name in named(&code::split(&file.text).code) {
            let places = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
            open.extend(places.iter().filter_map(|path| tree.get(path)));
        }
    }
    let lost = tree.rust().filter(|file| !reached.contains(&file.path));
    lost.map(|file| format!("{}: no mod line leads to this file", file.path)).collect()
}

/// Tells whether cargo builds the file by itself.
fn is_root(path: &str, tree: &Tree) -> bool {
    let Some((of_crate, inside)) = path.strip_prefix("crates/").and_then(|path| path.split_once('/')) else {
        return false;
    };
    if matches!(inside, "build.rs" | "src/lib.rs" | "src/main.rs") {
        return true;
    }
    let parts: Vec<&str> = inside.split('/').collect();
    let found_by_cargo = matches!(
        parts.as_slice(),
        ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests" | "examples" | "benches", _]
            | ["tests" | "examples" | "benches", _, "main.rs"]
    );
    let manifest = tree.get(&format!("crates/{of_crate}/Cargo.toml"));
    found_by_cargo || manifest.is_some_and(|manifest| manifest.text.contains(&format!("path = {inside:?}")))
}

/// Returns the folder in which the modules of a file are.
fn folder_of_children(path: &str, tree: &Tree) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    if name == "mod.rs" || is_root(path, tree) {
        folder.to_owned()
    } else {
        path.trim_end_matches(".rs").to_owned()
    }
}

/// Returns the names in `mod name;`.
fn named(code: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for statement in code.split(['{', '}', ';']) {
        let words: Vec<&str> = statement.split_whitespace().collect();
        if let [.., "mod", name] = words.as_slice() {
            names.push(*name);
        }
    }
    names
}
