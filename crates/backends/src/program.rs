//! Finds the program of a vendor's agent: the real one, not the shim that a package manager puts before it, because
//! killing a shim leaves the program running.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use domain::launch::LaunchOverrides;
use serde::{Deserialize, Serialize};

use system_files::regular_file;

#[cfg(test)]
mod tests;

/// How many folders above a program are searched for its package.
const PACKAGE_LEVELS: usize = 5;
/// The longest package manifest that is read.
const PACKAGE_BYTES_MAX: u64 = 256 << 10;

/// The names of a vendor's program, and where the real executable is.
#[derive(Debug)]
pub struct ProgramSpec {
    /// The names on the search path; the first that is found wins.
    pub names: &'static [&'static str],
    /// Where the real program is, from the folder of packages, if the one on the search path is a script that only
    /// starts it: native, or a script itself. The first that exists wins.
    pub native_paths: &'static [&'static str],
    /// A variable with which a user names the program, instead of the search path.
    pub path_variable: Option<&'static str>,
    /// How a user installs it, in the words that follow "install it:".
    pub install: &'static str,
    /// Other versions run with a warning.
    pub tested_versions: TestedVersions,
}

/// The versions that a backend supports: the oldest and the newest.
#[derive(Debug, Clone, Copy)]
pub enum TestedVersions {
    /// The real program was tried.
    Real(&'static str, &'static str),
    /// As `Real`, for a package whose version numbers differ from those of the program in it.
    Packaged { package: (&'static str, &'static str), own: (&'static str, &'static str) },
    /// The program was not available; these versions come from its documentation.
    Documented(&'static str, &'static str),
    /// The program was not available, and its documentation names no version.
    Never,
}

/// What is known about a program's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramVersion {
    /// According to its package.
    Package(String),
    /// According to its own output.
    SelfReported(String),
    /// The program did not report one, for this reason.
    Unknown(String),
}

impl ProgramVersion {
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Package(text) | Self::SelfReported(text) => Some(text),
            Self::Unknown(_) => None,
        }
    }
}

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocatedProgram {
    /// What to start, before any argument: an interpreter and its script, or the program alone.
    pub argv: Vec<String>,
    /// According to its package, if it has one.
    pub version: Option<String>,
}

impl ProgramSpec {
    /// Finds the program on a search path.
    pub fn find(&self, path: &OsStr) -> Option<LocatedProgram> {
        let candidate =
            self.names.iter().find_map(|name| system_files::find_program(OsStr::new(name), path))?;
        Some(self.resolve(&candidate, path))
    }

    /// Finds what a run starts: the program that it names, the vendor's own, or the command that starts its
    /// container.
    pub fn find_for_launch(&self, launch: &LaunchOverrides, path: &OsStr) -> Option<LocatedProgram> {
        match (&launch.container, &launch.program) {
            (Some(container), _) => {
                Some(LocatedProgram { argv: vec![container.engine.clone()], version: None })
            }
            (None, Some(candidate)) => system_files::find_program(OsStr::new(candidate), path)
                .map(|found| self.resolve(&found, path)),
            (None, None) => self.find(path),
        }
    }

    /// Finds the program where its user says it is, otherwise on a search path.
    pub fn find_for_user(
        &self,
        path: &OsStr,
        value: &dyn Fn(&str) -> Option<OsString>,
    ) -> Option<LocatedProgram> {
        match self.path_variable.and_then(value) {
            // A program that the user names and that does not exist is missing, whatever else the PATH has.
            Some(candidate) => {
                system_files::find_program(&candidate, path).map(|candidate| self.resolve(&candidate, path))
            }
            None => self.find(path),
        }
    }

    /// Finds what a file on the search path really starts.
    fn resolve(&self, candidate: &Path, path: &OsStr) -> LocatedProgram {
        let real = std::fs::canonicalize(candidate).unwrap_or_else(|_| candidate.to_owned());
        let version = package_version(&real);
        let native = package_folders(&real).into_iter().find_map(|modules| {
            self.native_paths.iter().map(|native| modules.join(native)).find(|native| native.is_file())
        });
        let target = native.unwrap_or(real);
        let text = |path: &Path| path.display().to_string();
        let node =
            runs_in_node(&target).then(|| system_files::find_program(OsStr::new("node"), path)).flatten();
        let argv = node.iter().map(|node| text(node)).chain(std::iter::once(text(&target))).collect();
        LocatedProgram { argv, version }
    }

    /// Returns a warning about a version that has not been tried.
    pub fn version_warning(&self, version: &ProgramVersion) -> Option<String> {
        let name = self.names.first().copied().unwrap_or_default();
        let (oldest, newest, how) = match (self.tested_versions, version) {
            (TestedVersions::Real(oldest, newest), _) => (oldest, newest, "that volery was tried with"),
            (TestedVersions::Packaged { package, .. }, ProgramVersion::Package(_)) => {
                (package.0, package.1, "that volery was tried with")
            }
            (
                TestedVersions::Packaged { own, .. },
                ProgramVersion::SelfReported(_) | ProgramVersion::Unknown(_),
            ) => (own.0, own.1, "that volery was tried with"),
            (TestedVersions::Documented(oldest, newest), _) => {
                (oldest, newest, "whose documentation volery goes by")
            }
            (TestedVersions::Never, version) => {
                let version = version.text().map(|version| format!(" {version}")).unwrap_or_default();
                return Some(format!(
                    "{name}{version} was not tried with volery, which goes by its documentation"
                ));
            }
        };
        let version = match version {
            ProgramVersion::Package(version) | ProgramVersion::SelfReported(version) => version,
            ProgramVersion::Unknown(reason) => {
                let known =
                    if oldest == newest { oldest.to_owned() } else { format!("{oldest} to {newest}") };
                return Some(format!(
                    "{name} does not tell its version ({reason}); {known} is what volery fits"
                ));
            }
        };
        if is_before(version, oldest) {
            return Some(format!("{name} {version} is older than {oldest}, the oldest {how}"));
        }
        is_beyond(version, newest)
            .then(|| format!("{name} {version} is newer than {newest}, the newest {how}"))
    }
}

/// Returns whether a version comes before another, by its numbers.
pub fn is_before(version: &str, other: &str) -> bool {
    numbers(version) < numbers(other)
}

/// Returns whether a version comes after another and is not a part of it: 3.1 is a version of 3.
fn is_beyond(version: &str, other: &str) -> bool {
    let other = numbers(other);
    numbers(version).into_iter().take(other.len()).collect::<Vec<_>>() > other
}

fn numbers(version: &str) -> Vec<u64> {
    let digits = version.split(|character: char| !character.is_ascii_digit()).filter(|part| !part.is_empty());
    digits.map(|part| part.parse().unwrap_or(u64::MAX)).take(3).collect()
}

/// Returns whether a file is a script for Node.
fn runs_in_node(path: &Path) -> bool {
    let mut first = [0; 64];
    let read = regular_file::open(path).and_then(|mut file| file.read(&mut first)).unwrap_or(0);
    let line = first[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.starts_with(b"#!") && line.windows(4).any(|word| word == b"node")
}

/// Returns the package folders in which a script of a package finds other packages, the nearest first: those within
/// its own package, where a global installation nests them, and the one that contains it.
fn package_folders(script: &Path) -> Vec<PathBuf> {
    let Some(outer) = package_folder(script) else { return Vec::new() };
    let within = script.ancestors().skip(1).take_while(|folder| *folder != outer);
    let nested = within.map(|folder| folder.join("node_modules"));
    nested.chain(std::iter::once(outer.to_owned())).collect()
}

/// Returns the package folder that a file is in.
fn package_folder(file: &Path) -> Option<&Path> {
    file.ancestors().find(|folder| folder.ends_with("node_modules"))
}

/// Returns the version that the package of a program names. A program outside a package folder has none: a manifest
/// somewhere above it belongs to something else.
fn package_version(program: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Package {
        version: Option<String>,
    }
    let outer = package_folder(program)?;
    let folders = program.ancestors().skip(1).take(PACKAGE_LEVELS).take_while(|folder| *folder != outer);
    let manifests = folders.map(|folder| folder.join("package.json"));
    let manifest: PathBuf = manifests.into_iter().find(|manifest| manifest.is_file())?;
    let text = regular_file::read_text(&manifest, PACKAGE_BYTES_MAX).ok()?;
    serde_json::from_str::<Package>(&text).ok()?.version
}
