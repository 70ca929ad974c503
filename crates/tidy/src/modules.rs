//! Checks that a `mod` line or a target leads to every Rust file. A forgotten test file would never run, and nobody
//! would notice.

use std::collections::BTreeSet;

use crate::source_tree::{SourceFile, SourceTree};

/// Returns the Rust files that no target leads to.
pub fn check(tree: &SourceTree) -> Vec<String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&SourceFile> = tree.rust().filter(|file| is_root(&file.path, tree)).collect();
    while let Some(file) = open.pop() {
        if !reached.insert(&file.path) {
            continue;
        }
        let folder = children_folder(&file.path, tree);
        for name in module_names(&file.parts().code) {
            let candidates = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
            open.extend(candidates.iter().filter_map(|path| tree.get(path)));
        }
    }
    let unreached = tree.rust().filter(|file| !reached.contains(&file.path));
    unreached.map(|file| format!("{}: no mod line leads to this file", file.path)).collect()
}

/// Returns whether cargo builds the file as a target.
fn is_root(path: &str, tree: &SourceTree) -> bool {
    let Some((crate_name, inside)) = path.strip_prefix("crates/").and_then(|path| path.split_once('/'))
    else {
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
    let manifest = tree.get(&format!("crates/{crate_name}/Cargo.toml"));
    found_by_cargo || manifest.is_some_and(|manifest| manifest.text.contains(&format!("path = {inside:?}")))
}

/// Returns the folder that contains the modules of a file.
fn children_folder(path: &str, tree: &SourceTree) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    if name == "mod.rs" || is_root(path, tree) {
        folder.to_owned()
    } else {
        path.trim_end_matches(".rs").to_owned()
    }
}

/// Returns the names in `mod name;`.
fn module_names(code: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for statement in code.split(['{', '}', ';']) {
        let words: Vec<&str> = statement.split_whitespace().collect();
        if let [.., "mod", name] = words.as_slice() {
            names.push(*name);
        }
    }
    names
}
