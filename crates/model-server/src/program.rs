//! Where the agents of other vendors are that the tests run for real: `scripts/clis.txt`, installed by `scripts/setup-clis`.

use std::path::{Path, PathBuf};

const MANIFEST: &str = include_str!("../../../scripts/clis.txt");

/// An installed agent of another vendor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub name: String,
    pub version: String,
    /// The program, after the interpreter and its options where it has one. Never a shim.
    pub argv: Vec<String>,
}

/// The agent is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("{0} is not listed in scripts/clis.txt")]
    Unknown(String),
    #[error("{name} {version} is not installed; scripts/setup-clis says why")]
    NotInstalled { name: String, version: String },
}

impl Program {
    /// Finds an agent by its name in the manifest.
    pub fn find(name: &str) -> Result<Self, ProgramError> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/clis");
        // As long as nothing is installed, the folder need not exist.
        find_in(MANIFEST, &folder.canonicalize().unwrap_or(folder), name)
    }
}

pub(crate) fn find_in(manifest: &str, folder: &Path, name: &str) -> Result<Program, ProgramError> {
    let entry = entry(manifest, name).ok_or_else(|| ProgramError::Unknown(name.to_owned()))?;
    let not_installed =
        || ProgramError::NotInstalled { name: name.to_owned(), version: entry.version.to_owned() };
    let installed = |entry: &Entry<'_>| {
        let stamp = std::fs::read_to_string(folder.join(entry.name).join("stamp")).unwrap_or_default();
        let stamped = stamp.trim_end() == format!("{}@{} {}", entry.package, entry.version, entry.with);
        let program = entry.program(folder);
        (stamped && program.is_file()).then(|| program.display().to_string())
    };
    let program = installed(&entry).ok_or_else(not_installed)?;
    let mut argv = Vec::new();
    if let Some(options) = entry.runs.strip_prefix("node") {
        let node = self::entry(manifest, "node").and_then(|node| installed(&node));
        argv.push(node.ok_or_else(not_installed)?);
        argv.extend(options.split(',').filter(|option| !option.is_empty()).map(str::to_owned));
    }
    argv.push(program);
    Ok(Program { name: name.to_owned(), version: entry.version.to_owned(), argv })
}

/// One line of the manifest.
struct Entry<'a> {
    name: &'a str,
    package: &'a str,
    version: &'a str,
    with: &'a str,
    runs: &'a str,
    program: &'a str,
}

impl Entry<'_> {
    fn program(&self, folder: &Path) -> PathBuf {
        folder.join(self.name).join("node_modules").join(self.package).join(self.program)
    }
}

fn entry<'a>(manifest: &'a str, name: &str) -> Option<Entry<'a>> {
    let lines = manifest.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>()).find_map(|fields| match fields.as_slice() {
        [own, package, with, runs, program] if *own == name => {
            let (package, version) = package.rsplit_once('@')?;
            Some(Entry { name: own, package, version, with, runs, program })
        }
        _ => None,
    })
}
