//! The arrows between the crates, and which crate alone may have which library: a manifest is a list of privileges.

use crate::tree::{File, Tree};

/// Each crate, and the crates of this workspace that it may know.
const MAY_KNOW: [(&str, &[&str]); 8] = [
    ("domain", &[]),
    ("definition", &["domain"]),
    ("journal", &["domain"]),
    ("backend", &["domain", "definition", "model-server"]),
    ("volery", &["domain", "definition", "journal", "backend", "model-server"]),
    ("fake-agent", &[]),
    ("model-server", &[]),
    ("tidy", &[]),
];

/// Libraries that are a privilege, and the only crates that have it.
const ONLY_IN: [(&str, &[&str]); 13] = [
    ("rusqlite", &["journal"]),
    ("clap", &["volery"]),
    ("clap_complete", &["volery"]),
    ("rmcp", &["volery"]),
    ("serde-saphyr", &["definition"]),
    ("jsonschema", &["definition"]),
    ("jsonrepair-rs", &["definition"]),
    ("reqwest", &["backend"]),
    ("ureq", &["backend"]),
    ("rustls-native-certs", &["backend"]),
    ("tokio", &["journal", "backend", "volery"]),
    ("tokio-util", &["journal", "backend", "volery"]),
    ("futures", &["journal", "backend", "volery"]),
];

/// Returns every dependency that the map does not allow.
pub fn check(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for manifest in &tree.files {
        let Some(name) = crate_of(manifest) else { continue };
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

fn crate_of(manifest: &File) -> Option<&str> {
    manifest.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")
}

/// Returns the names of all dependencies of a manifest: normal, of tests, of builds and of targets.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            inside = header.ends_with("dependencies");
            // `[dependencies.name]` is a section of its own.
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
