//! One location per privilege: unsafe code, starting processes, names of environment variables, and each user
//! interface.

use std::collections::BTreeSet;

use crate::lexer::{self, lines_with};
use crate::source_tree::{SourceFile, SourceTree};

/// Where unsafe code is allowed.
const UNSAFE: [&str; 2] = ["crates/process/src/os/", "crates/testkit/src/bin/"];
/// Where processes are started. The second starts programs without a network for tests, and the third is where the
/// fake programs of vendors start theirs.
const SPAWN: [&str; 3] =
    ["crates/process/src/", "crates/testkit/src/offline.rs", "crates/testkit/src/bin/fake-cli/"];
/// The file that names every environment variable.
const ENV: &str = "crates/engine/src/env.rs";
/// The folders of the user interfaces.
const DOORS: [&str; 2] = ["cli", "mcp"];
const PROGRAM: &str = "crates/volery/src/";

/// Returns unsafe code outside the allowed locations.
pub fn unsafe_code(tree: &SourceTree) -> Vec<String> {
    let outside = |file: &&SourceFile| !UNSAFE.iter().any(|prefix| file.path.starts_with(prefix));
    let mut findings = Vec::new();
    for file in tree.rust().filter(outside) {
        for line in lines_with(&file.parts().code, "unsafe") {
            findings.push(format!("{}:{line}: unsafe code belongs into {}", file.path, UNSAFE[0]));
        }
    }
    findings
}

/// Returns code other than tests that starts processes outside the allowed locations.
pub fn spawning(tree: &SourceTree) -> Vec<String> {
    let outside =
        |file: &&SourceFile| !file.is_test() && !SPAWN.iter().any(|prefix| file.path.starts_with(prefix));
    let mut findings = Vec::new();
    for file in tree.rust().filter(outside) {
        for line in lines_with(&file.parts().code, "Command::new") {
            findings.push(format!("{}:{line}: processes are started in {} only", file.path, SPAWN[0]));
        }
    }
    findings
}

/// Returns names of our environment variables that `env.rs` does not list.
pub fn variables(tree: &SourceTree) -> Vec<String> {
    let listed_variables = tree.get(ENV).map(listed_variables).unwrap_or_default();
    let mut findings = Vec::new();
    let sources = tree.rust().filter(|file| {
        file.path.contains("/src/")
            && !file.is_test()
            && file.path != ENV
            && !file.path.starts_with("crates/tidy/")
    });
    for file in sources {
        for (line, text) in &file.parts().strings {
            for name in variables_in(text).filter(|name| !listed_variables.contains(*name)) {
                findings.push(format!("{}:{line}: {name} is not listed in {ENV}", file.path));
            }
        }
    }
    findings
}

/// Returns the names in `env.rs`: constants, and documented variables that other programs set.
fn listed_variables(env: &SourceFile) -> BTreeSet<String> {
    let lexer::SourceParts { comments, strings, .. } = env.parts();
    let documented =
        comments.lines().map(str::trim).filter(|line| line.starts_with("///") || line.starts_with("//!"));
    let strings = strings.iter().map(|(_, text)| text.as_str());
    documented.chain(strings).flat_map(variables_in).map(str::to_owned).collect()
}

fn variables_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !(letter.is_ascii_uppercase() || letter == '_'))
        .filter(|word| word.strip_prefix("VOLERY_").is_some_and(|rest| !rest.is_empty()))
}

/// Returns uses of one user interface by another.
pub fn doors(tree: &SourceTree) -> Vec<String> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let Some(inside) = file.path.strip_prefix(PROGRAM) else { continue };
        let Some(own) = DOORS.iter().find(|door| inside.starts_with(&format!("{door}/"))) else { continue };
        let code = &file.parts().code;
        for other in DOORS.iter().filter(|other| *other != own) {
            for line in lines_with(code, &format!("crate::{other}")) {
                findings.push(format!("{}:{line}: the {own} door must not use the {other} door", file.path));
            }
        }
    }
    findings
}
