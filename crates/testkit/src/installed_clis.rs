//! Finds the vendors' agents that tests run for real: listed in `scripts/clis.txt`, installed by
//! `scripts/setup-clis`.

use std::path::{Path, PathBuf};

const MANIFEST: &str = include_str!("../../../scripts/clis.txt");

/// An installed agent of a vendor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledCli {
    pub name: String,
    pub version: String,
    /// The program, preceded by its interpreter and the interpreter's options, if it has one. Never a shim.
    pub argv: Vec<String>,
}

/// Why an agent is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstalledCliError {
    #[error("{0} is not listed in scripts/clis.txt")]
    Unknown(String),
    #[error("{name} {version} is not installed; scripts/setup-clis says why")]
    NotInstalled { name: String, version: String },
}

impl InstalledCli {
    /// Finds an agent by its name in the manifest.
    pub fn find(name: &str) -> Result<Self, InstalledCliError> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/clis");
        // The folder does not exist before anything is installed.
        find_in(MANIFEST, &folder.canonicalize().unwrap_or(folder), name)
    }
}

pub(crate) fn find_in(manifest: &str, folder: &Path, name: &str) -> Result<InstalledCli, InstalledCliError> {
    let entry = find_entry(manifest, name).ok_or_else(|| InstalledCliError::Unknown(name.to_owned()))?;
    let not_installed =
        || InstalledCliError::NotInstalled { name: name.to_owned(), version: entry.version.to_owned() };
    let installed = |entry: &ManifestEntry<'_>| {
        let stamp = std::fs::read_to_string(folder.join(entry.name).join("stamp")).unwrap_or_default();
        let stamped = stamp.trim_end() == format!("{}@{} {}", entry.package, entry.version, entry.with);
        let program = entry.program(folder);
        (stamped && program.is_file()).then(|| program.display().to_string())
    };
    let program = installed(&entry).ok_or_else(not_installed)?;
    let mut argv = Vec::new();
    if let Some(options) = entry.runs.strip_prefix("node") {
        let node = find_entry(manifest, "node").and_then(|node| installed(&node));
        argv.push(node.ok_or_else(not_installed)?);
        argv.extend(options.split(',').filter(|option| !option.is_empty()).map(str::to_owned));
    }
    argv.push(program);
    Ok(InstalledCli { name: name.to_owned(), version: entry.version.to_owned(), argv })
}

/// One line of the manifest.
struct ManifestEntry<'a> {
    name: &'a str,
    package: &'a str,
    version: &'a str,
    with: &'a str,
    runs: &'a str,
    program: &'a str,
}

impl ManifestEntry<'_> {
    fn program(&self, folder: &Path) -> PathBuf {
        folder.join(self.name).join("node_modules").join(self.package).join(self.program)
    }
}

fn find_entry<'a>(manifest: &'a str, name: &str) -> Option<ManifestEntry<'a>> {
    let lines = manifest.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>()).find_map(|fields| match fields.as_slice() {
        [entry_name, package, with, runs, program] if *entry_name == name => {
            let (package, version) = package.rsplit_once('@')?;
            Some(ManifestEntry { name: entry_name, package, version, with, runs, program })
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests;
