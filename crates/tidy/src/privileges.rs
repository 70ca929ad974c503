//! One place per privilege: unsafe code, starting processes, names of environment variables, and each door.

use std::collections::BTreeSet;

use crate::code::{self, lines_with};
use crate::tree::{File, Tree};

/// Where unsafe code may be.
const UNSAFE: [&str; 2] = ["crates/backend/src/process/os/", "crates/fake-agent/"];
/// Where processes are started; what the tests run in a place without a network starts in the second, and
/// what the stand-ins of vendors' programs run in the third.
const SPAWN: [&str; 3] = [
    "crates/backend/src/process/",
    "crates/model-server/src/offline.rs",
    "crates/fake-agent/src/bin/stand-in/",
];
/// Where every environment variable is named.
const ENV: &str = "crates/volery/src/env.rs";
const DOORS: &str = "crates/volery/src/door/";

/// Returns unsafe code outside its two places.
pub fn unsafe_code(tree: &Tree) -> Vec<String> {
    let outside = |file: &&File| !UNSAFE.iter().any(|place| file.path.starts_with(place));
    let mut findings = Vec::new();
    for file in tree.rust().filter(outside) {
        for line in lines_with(&code::split(&file.text).code, "unsafe") {
            findings.push(format!("{}:{line}: unsafe code belongs into {}", file.path, UNSAFE[0]));
        }
    }
    findings
}

/// Returns places that start processes without the one module for it; tests may.
pub fn spawning(tree: &Tree) -> Vec<String> {
    let outside = |file: &&File| !file.is_test() && !SPAWN.iter().any(|place| file.path.starts_with(place));
    let mut findings = Vec::new();
    for file in tree.rust().filter(outside) {
        for line in lines_with(&code::split(&file.text).code, "Command::new") {
            findings.push(format!("{}:{line}: processes are started in {} only", file.path, SPAWN[0]));
        }
    }
    findings
}

/// Returns names of our environment variables that `env.rs` does not list.
pub fn variables(tree: &Tree) -> Vec<String> {
    let listed = tree.get(ENV).map(listed).unwrap_or_default();
    let strings = |file: &File| code::split(&file.text).strings;
    let mut findings = Vec::new();
    let sources = tree.rust().filter(|file| {
        file.path.contains("/src/")
            && !file.is_test()
            && file.path != ENV
            && !file.path.starts_with("crates/tidy/")
    });
    for file in sources {
        for (line, text) in strings(file) {
            for name in variables_in(&text).filter(|name| !listed.contains(*name)) {
                findings.push(format!("{}:{line}: {name} is not listed in {ENV}", file.path));
            }
        }
    }
    findings
}

/// Returns the names in `env.rs`: constants, and what its documentation says about variables that others set.
fn listed(env: &File) -> BTreeSet<String> {
    let code::Parts { comments, strings, .. } = code::split(&env.text);
    let documented =
        comments.lines().map(str::trim).filter(|line| line.starts_with("///") || line.starts_with("//!"));
    let strings = strings.iter().map(|(_, text)| text.as_str());
    documented.chain(strings).flat_map(variables_in).map(str::to_owned).collect()
}

fn variables_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !(letter.is_ascii_uppercase() || letter == '_'))
        .filter(|word| word.strip_prefix("VOLERY_").is_some_and(|rest| !rest.is_empty()))
}

/// Returns places where one door reaches into another.
pub fn doors(tree: &Tree) -> Vec<String> {
    let door_of = |file: &File| {
        let inside = file.path.strip_prefix(DOORS)?;
        let name = inside.split('/').next()?.trim_end_matches(".rs");
        (name != "mod").then(|| name.to_owned())
    };
    let all: BTreeSet<String> = tree.rust().filter_map(door_of).collect();
    let mut findings = Vec::new();
    for file in tree.rust() {
        let Some(own) = door_of(file) else { continue };
        let code = code::split(&file.text).code;
        for other in all.iter().filter(|other| **other != own) {
            let ways = [format!("door::{other}"), format!("super::super::{other}")];
            for line in ways.iter().flat_map(|way| lines_with(&code, way)) {
                findings.push(format!("{}:{line}: the {own} door must not use the {other} door", file.path));
            }
        }
    }
    findings
}
