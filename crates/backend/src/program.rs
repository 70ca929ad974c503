//! Finds the program of a vendor's agent: the real one and not the shim that a package manager puts before it, since
//! whoever kills a shim leaves the program running.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use domain::launch::Launch;
use serde::{Deserialize, Serialize};

use crate::plain_file;
use crate::process;

mod asked;
#[cfg(test)]
mod tests;

pub use asked::ask_version;

/// How many folders above a program its package is looked for.
const PACKAGE_LEVELS: usize = 5;
/// The longest description of a package that is read.
const PACKAGE_BYTES_MAX: u64 = 256 << 10;

/// What a vendor calls its program, and where the real one stands.
#[derive(Debug)]
pub struct Program {
    /// The names on the search path; the first that is found counts.
    pub names: &'static [&'static str],
    /// Where the real program stands beside a script that only starts it, from the folder of packages: native, or a
    /// script itself. The first that exists counts.
    pub natives: &'static [&'static str],
    /// A variable by which a user says where the program is, instead of the search path.
    pub variable: Option<&'static str>,
    /// Others than these run with a warning.
    pub tried: Tried,
}

/// The versions that a backend is known to fit: the oldest and the newest.
#[derive(Debug, Clone, Copy)]
pub enum Tried {
    /// The real program was tried.
    Real(&'static str, &'static str),
    /// The same, where the package counts in another way than the program that is in it.
    Packaged { package: (&'static str, &'static str), own: (&'static str, &'static str) },
    /// The program could not be had; these are the versions that its documentation tells of.
    Documented(&'static str, &'static str),
    /// It could not be had, and its documentation names no version.
    Never,
}

/// What is known of a program's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    /// By its package.
    Package(String),
    /// By its own word.
    Own(String),
    /// It told none, and this is why.
    Untold(String),
}

impl Version {
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Package(text) | Self::Own(text) => Some(text),
            Self::Untold(_) => None,
        }
    }
}

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// What to start, before any argument: an interpreter and its script, or the program alone.
    pub argv: Vec<String>,
    /// By its package, where it has one.
    pub version: Option<String>,
}

impl Program {
    /// Finds the program on a search path.
    pub fn find(&self, path: &OsStr) -> Option<Found> {
        let named = self.names.iter().find_map(|name| process::find_program(OsStr::new(name), path))?;
        Some(self.resolve(&named, path))
    }

    /// Finds what a run starts: the program that it names or the vendor's own, or what makes its container.
    pub fn find_as(&self, launch: &Launch, path: &OsStr) -> Option<Found> {
        match (&launch.container, &launch.program) {
            (Some(container), _) => Some(Found { argv: vec![container.engine.clone()], version: None }),
            (None, Some(named)) => {
                process::find_program(OsStr::new(named), path).map(|found| self.resolve(&found, path))
            }
            (None, None) => self.find(path),
        }
    }

    /// Finds the program where its user says it is, else on a search path.
    pub fn find_for(&self, path: &OsStr, value: &dyn Fn(&str) -> Option<OsString>) -> Option<Found> {
        match self.variable.and_then(value) {
            // What was said and is not there is missing, whatever else there may be.
            Some(named) => process::find_program(&named, path).map(|named| self.resolve(&named, path)),
            None => self.find(path),
        }
    }

    /// Finds what a file on the search path really starts.
    fn resolve(&self, named: &Path, path: &OsStr) -> Found {
        let real = std::fs::canonicalize(named).unwrap_or_else(|_| named.to_owned());
        let version = version_of(&real);
        let native = module_folders(&real).into_iter().find_map(|modules| {
            self.natives.iter().map(|native| modules.join(native)).find(|native| native.is_file())
        });
        let target = native.unwrap_or(real);
        let text = |path: &Path| path.display().to_string();
        let node = runs_in_node(&target).then(|| process::find_program(OsStr::new("node"), path)).flatten();
        let argv = node.iter().map(|node| text(node)).chain(std::iter::once(text(&target))).collect();
        Found { argv, version }
    }

    /// Returns what is worth saying about a version that nobody has tried.
    pub fn doubt(&self, version: &Version) -> Option<String> {
        let name = self.names.first().copied().unwrap_or_default();
        let (oldest, newest, how) = match (self.tried, version) {
            (Tried::Real(oldest, newest), _) => (oldest, newest, "that volery was tried with"),
            (Tried::Packaged { package, .. }, Version::Package(_)) => {
                (package.0, package.1, "that volery was tried with")
            }
            (Tried::Packaged { own, .. }, Version::Own(_) | Version::Untold(_)) => {
                (own.0, own.1, "that volery was tried with")
            }
            (Tried::Documented(oldest, newest), _) => (oldest, newest, "whose documentation volery goes by"),
            (Tried::Never, version) => {
                let version = version.text().map(|version| format!(" {version}")).unwrap_or_default();
                return Some(format!(
                    "{name}{version} was not tried with volery, which goes by its documentation"
                ));
            }
        };
        let version = match version {
            Version::Package(version) | Version::Own(version) => version,
            Version::Untold(reason) => {
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

/// Tells whether a version comes before another, by its numbers.
pub fn is_before(version: &str, other: &str) -> bool {
    numbers(version) < numbers(other)
}

/// Tells whether a version comes after another and is none of it: 3.1 is a version of 3.
fn is_beyond(version: &str, other: &str) -> bool {
    let other = numbers(other);
    numbers(version).into_iter().take(other.len()).collect::<Vec<_>>() > other
}

fn numbers(version: &str) -> Vec<u64> {
    let digits = version.split(|character: char| !character.is_ascii_digit()).filter(|part| !part.is_empty());
    digits.map(|part| part.parse().unwrap_or(u64::MAX)).take(3).collect()
}

/// Tells whether a file is a script for Node.
fn runs_in_node(path: &Path) -> bool {
    let mut first = [0; 64];
    let read = plain_file::open(path).and_then(|mut file| file.read(&mut first)).unwrap_or(0);
    let line = first[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.starts_with(b"#!") && line.windows(4).any(|word| word == b"node")
}

/// Returns the folders of packages in which a script of a package finds others, the nearest first: those within its own
/// package, as a global installation nests them, and the one that it stands in.
fn module_folders(script: &Path) -> Vec<PathBuf> {
    let Some(outer) = modules_of(script) else { return Vec::new() };
    let within = script.ancestors().skip(1).take_while(|folder| *folder != outer);
    let nested = within.map(|folder| folder.join("node_modules"));
    nested.chain(std::iter::once(outer.to_owned())).collect()
}

/// Returns the folder of packages that a file is in.
fn modules_of(file: &Path) -> Option<&Path> {
    file.ancestors().find(|folder| folder.ends_with("node_modules"))
}

/// Returns the version that the package of a program names. What stands in no folder of packages has none: a description
/// somewhere above it is that of something else.
fn version_of(program: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Package {
        version: Option<String>,
    }
    let outer = modules_of(program)?;
    let folders = program.ancestors().skip(1).take(PACKAGE_LEVELS).take_while(|folder| *folder != outer);
    let manifests = folders.map(|folder| folder.join("package.json"));
    let manifest: PathBuf = manifests.into_iter().find(|manifest| manifest.is_file())?;
    let text = plain_file::text(&manifest, PACKAGE_BYTES_MAX).ok()?;
    serde_json::from_str::<Package>(&text).ok()?.version
}
