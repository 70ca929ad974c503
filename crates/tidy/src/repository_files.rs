//! Checks on files around the code: the size of the lock file, the changelog, and traces of a particular machine.

use crate::source_tree::{SourceFile, SourceTree};

/// The maximum number of packages in `Cargo.lock`. It may be raised deliberately: say in the commit what the new ones
/// replace.
pub const PACKAGES_MAX: usize = 280;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Home folders of a particular machine. In two pieces each, so that this file passes its own check.
const HOMES: [&str; 3] = [concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("/ho", "me/")];
/// Words in the host names of package registries.
const HOSTS: [&str; 6] = ["registry", "artifactory", "nexus", "npmjs", "pypi", "mirror"];

/// Returns a finding if there are too many dependencies.
pub fn dependencies(tree: &SourceTree) -> Vec<String> {
    let Some(lock) = tree.get("Cargo.lock") else { return vec!["Cargo.lock: missing".to_owned()] };
    let packages = lock.text.lines().filter(|line| line.trim() == "[[package]]").count();
    if packages > PACKAGES_MAX {
        return vec![format!("Cargo.lock: {packages} packages are more than {PACKAGES_MAX}")];
    }
    Vec::new()
}

/// Returns a finding if the changelog has no section for unreleased changes.
pub fn changelog(tree: &SourceTree) -> Vec<String> {
    let unreleased = |line: &str| matches!(line.trim(), "## Unreleased" | "## [Unreleased]");
    match tree.get("CHANGELOG.md") {
        Some(file) if file.text.lines().any(unreleased) => Vec::new(),
        Some(_) => vec!["CHANGELOG.md: has no section \"## Unreleased\"".to_owned()],
        None => vec!["CHANGELOG.md: missing".to_owned()],
    }
}

/// Returns paths of the machine on which the files were written. `root` is the path of the checkout.
pub fn machine_paths(tree: &SourceTree, root: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (line, text) in numbered_lines(file) {
            // The path of a checkout at the top of the filesystem is a single name that any text may contain.
            let own = root.matches('/').count() > 1 && text.contains(root);
            // Tests use invented home folders.
            let home = !file.is_test() && HOMES.iter().any(|home| text.contains(home));
            if own || home {
                findings.push(format!("{}:{line}: a path of somebody's machine", file.path));
            }
        }
    }
    findings
}

/// Returns addresses of package registries, which the machine chooses and not the project.
pub fn registries(tree: &SourceTree) -> Vec<String> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let lock = file.path == "Cargo.lock";
        for (line, text) in numbered_lines(file) {
            let text = if lock { text.replace(REGISTRY, "") } else { text.to_owned() };
            let named = hosts(&text).any(|host| HOSTS.iter().any(|word| host.contains(word)));
            let foreign = lock && text.starts_with("source = ") && text != "source = \"\"";
            if named || foreign {
                findings.push(format!("{}:{line}: the address of a package registry", file.path));
            }
        }
    }
    findings
}

fn numbered_lines(file: &SourceFile) -> impl Iterator<Item = (usize, &str)> {
    file.text.lines().enumerate().map(|(number, line)| (number + 1, line))
}

/// Returns the hosts of the URLs in a line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.split("://").skip(1).filter_map(|rest| rest.split(['/', '"', '\'', ' ', ')', '>']).next())
}
