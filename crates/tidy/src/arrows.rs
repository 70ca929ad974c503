//! The allowed dependencies between the crates, and the libraries that only some crates may use: a manifest is a list
//! of privileges.

use crate::source_tree::{SourceFile, SourceTree};

/// Each crate, and the crates of this workspace that it may depend on.
const MAY_KNOW: [(&str, &[&str]); 11] = [
    ("domain", &[]),
    ("config", &["domain"]),
    ("journal", &["domain"]),
    ("system-files", &[]),
    ("process", &["domain", "system-files"]),
    ("backends", &["domain", "config", "system-files", "fake-llm"]),
    ("engine", &["domain", "config", "journal", "process", "backends", "system-files", "fake-llm"]),
    (
        "volery",
        &[
            "domain",
            "config",
            "journal",
            "process",
            "backends",
            "system-files",
            "fake-llm",
            "engine",
            "testkit",
        ],
    ),
    ("fake-llm", &[]),
    ("testkit", &["fake-llm"]),
    ("tidy", &[]),
];

/// Privileged libraries, and the only crates that may use them.
const ONLY_IN: [(&str, &[&str]); 18] = [
    ("libc", &["process", "testkit"]),
    ("rusqlite", &["journal"]),
    ("clap", &["volery"]),
    ("clap_complete", &["volery"]),
    ("rmcp", &["volery"]),
    ("hyper", &["volery"]),
    ("hyper-util", &["volery"]),
    ("schemars", &["volery"]),
    ("serde-saphyr", &["config"]),
    ("jsonschema", &["config"]),
    ("jsonc-parser", &["config"]),
    ("jsonrepair-rs", &["config"]),
    ("reqwest", &["backends"]),
    ("ureq", &["backends"]),
    ("rustls-native-certs", &["backends"]),
    ("tokio", &["engine", "volery"]),
    ("tokio-util", &["volery"]),
    ("futures", &["engine", "volery"]),
];

/// Returns every dependency that the map does not allow.
pub fn check(tree: &SourceTree) -> Vec<String> {
    let mut findings = Vec::new();
    for manifest in &tree.files {
        let Some(name) = crate_name(manifest) else { continue };
        let Some((_, may_know)) = MAY_KNOW.iter().find(|(known, _)| *known == name) else {
            findings.push(format!("{}: the crate {name} is not on the map in arrows.rs", manifest.path));
            continue;
        };
        for dependency in dependencies(&manifest.text) {
            let ours = MAY_KNOW.iter().any(|(known, _)| *known == dependency);
            if ours && !may_know.contains(&dependency.as_str()) {
                findings.push(format!("{}: {name} must not know {dependency}", manifest.path));
            }
            let owners = ONLY_IN.iter().find(|(library, _)| *library == dependency);
            if let Some((_, owners)) = owners
                && !owners.contains(&name)
            {
                let owners = owners.join(", ");
                findings.push(format!("{}: {dependency} belongs to {owners} only", manifest.path));
            }
            if name == "tidy" {
                findings.push(format!("{}: tidy has the standard library only", manifest.path));
            }
        }
    }
    findings
}

fn crate_name(manifest: &SourceFile) -> Option<&str> {
    manifest.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")
}

/// Returns the names of all dependencies of a manifest: normal, dev, build and target-specific ones.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            inside = header.ends_with("dependencies");
            // `[dependencies.name]` is a separate section.
            if let Some((before, name)) = header.rsplit_once('.')
                && before.ends_with("dependencies")
            {
                names.push(name.to_owned());
            }
        } else if inside && !line.starts_with('#') {
            let name: String = line
                .chars()
                .take_while(|letter| letter.is_alphanumeric() || "_-".contains(*letter))
                .collect();
            if !name.is_empty() {
                names.push(name);
            }
        }
    }
    names
}
