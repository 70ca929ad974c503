//! Finds the program of a vendor's agent: the real one and not the shim that a package manager puts before it, since
//! whoever kills a shim leaves the program running.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use domain::launch::Launch;
use serde::{Deserialize, Serialize};

use crate::process;

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
    /// The versions that were tried: older and newer ones run with a warning.
    pub tried: (&'static str, &'static str),
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
        let native = real.ancestors().find(|folder| folder.ends_with("node_modules")).and_then(|modules| {
            self.natives.iter().map(|native| modules.join(native)).find(|native| native.is_file())
        });
        let target = native.unwrap_or(real);
        let text = |path: &Path| path.display().to_string();
        let node = runs_in_node(&target).then(|| process::find_program(OsStr::new("node"), path)).flatten();
        let argv = node.iter().map(|node| text(node)).chain(std::iter::once(text(&target))).collect();
        Found { argv, version }
    }

    /// Returns what is worth saying about a version that nobody has tried.
    pub fn doubt(&self, version: Option<&str>) -> Option<String> {
        let version = version?;
        let (oldest, newest) = self.tried;
        let name = self.names.first().copied().unwrap_or_default();
        if is_before(version, oldest) {
            return Some(format!(
                "{name} {version} is older than {oldest}, the oldest that volery was tried with"
            ));
        }
        is_before(newest, version).then(|| {
            format!("{name} {version} is newer than {newest}, the newest that volery was tried with")
        })
    }
}

/// Tells whether a version comes before another, by its numbers.
pub fn is_before(version: &str, other: &str) -> bool {
    numbers(version) < numbers(other)
}

fn numbers(version: &str) -> Vec<u64> {
    let digits = version.split(|character: char| !character.is_ascii_digit()).filter(|part| !part.is_empty());
    digits.map(|part| part.parse().unwrap_or(u64::MAX)).take(3).collect()
}

/// Tells whether a file is a script for Node.
fn runs_in_node(path: &Path) -> bool {
    let mut first = [0; 64];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut first)).unwrap_or(0);
    let line = first[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.starts_with(b"#!") && line.windows(4).any(|word| word == b"node")
}

/// Returns the version that the package of a program names.
fn version_of(program: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Package {
        version: Option<String>,
    }
    let manifests =
        program.ancestors().skip(1).take(PACKAGE_LEVELS).map(|folder| folder.join("package.json"));
    let manifest: PathBuf = manifests.into_iter().find(|manifest| manifest.is_file())?;
    let mut text = String::new();
    std::fs::File::open(manifest).ok()?.take(PACKAGE_BYTES_MAX).read_to_string(&mut text).ok()?;
    serde_json::from_str::<Package>(&text).ok()?.version
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const CODEX: Program = Program {
        names: &["codex"],
        natives: &["@openai/native/bin/codex"],
        variable: None,
        tried: ("0.166.0", "0.166.0"),
    };

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_native_program_is_found_behind_a_shim_and_a_link() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let modules = root.join("lib/node_modules");
        write(&modules.join("@openai/codex/bin/codex.js"), "#!/usr/bin/env node\n");
        write(&modules.join("@openai/codex/package.json"), "{\"version\": \"0.166.0\"}");
        std::fs::create_dir(root.join("bin")).unwrap();
        symlink(modules.join("@openai/codex/bin/codex.js"), root.join("bin/codex")).unwrap();
        write(&root.join("bin/node"), "");
        let path = root.join("bin");
        let found = CODEX.find(path.as_os_str()).unwrap();
        let script = modules.join("@openai/codex/bin/codex.js");
        let node = root.join("bin/node");
        assert_eq!(found.argv, [node.display().to_string(), script.display().to_string()]);
        assert_eq!(found.version.as_deref(), Some("0.166.0"));
        write(&modules.join("@openai/native/bin/codex"), "\x7fELF");
        let native = modules.join("@openai/native/bin/codex").display().to_string();
        assert_eq!(CODEX.find(path.as_os_str()).unwrap().argv, std::slice::from_ref(&native));
        write(&modules.join("@openai/native/bin/codex"), "#!/usr/bin/env node\n");
        assert_eq!(CODEX.find(path.as_os_str()).unwrap().argv, [node.display().to_string(), native]);
        assert_eq!(CODEX.find(OsStr::new("/nowhere")), None);
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(is_before("2.1.97", "2.1.325"));
        assert!(!is_before("2.1.325", "2.1.325"));
        assert!(is_before("0.9.9", "0.10.0-alpha.1"));
        let told = CODEX.doubt(Some("0.170.0")).unwrap();
        assert_eq!(told, "codex 0.170.0 is newer than 0.166.0, the newest that volery was tried with");
        assert!(CODEX.doubt(Some("0.150.0")).unwrap().contains("is older than 0.166.0"));
        assert_eq!(CODEX.doubt(Some("0.166.0")), None);
        assert_eq!(CODEX.doubt(None), None);
    }
}
