//! Resolves the path in a tool's input, with all symbolic links followed. Decides nothing.

use std::path::{Component, Path, PathBuf};

use domain::policy::{Directory, Use, path_argument};
use serde_json::Value;

/// Returns the use that a tool call of an agent in this directory makes.
pub(super) fn resolved_use(tool: &str, input: &Value, directory: &str) -> Use {
    let target = path_argument(input).and_then(|path| resolve(&Path::new(directory).join(path)));
    Use::from_tool_call(tool, input, target)
}

/// Returns a directory with its target.
pub(super) fn resolved_directory(directory: &str) -> Directory {
    let target = resolve(Path::new(directory)).unwrap_or_else(|| directory.to_owned());
    Directory { name: directory.to_owned(), target }
}

/// Resolves a path: follows the links of its existing part, and appends the rest unchanged. Returns `None` if the
/// target is uncertain, as for a link to a missing file.
fn resolve(path: &Path) -> Option<String> {
    let mut absent: Vec<&std::ffi::OsStr> = Vec::new();
    let mut existing = path;
    while existing.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        // The meaning of `..` after a missing folder depends on what that folder becomes.
        let Some(Component::Normal(name)) = existing.components().next_back() else { return None };
        absent.push(name);
        existing = existing.parent()?;
    }
    if system_files::regular_file::resolves_per_process(existing) {
        return None;
    }
    let mut resolved: PathBuf = existing.canonicalize().ok()?;
    resolved.extend(absent.iter().rev());
    resolved.into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use domain::policy::UsePath;
    use serde_json::json;

    use super::*;

    #[test]
    fn links_before_a_missing_file_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (work, out) = (root.join("work"), root.join("out"));
        std::fs::create_dir_all(work.join("src")).unwrap();
        std::fs::create_dir(&out).unwrap();
        symlink(&out, work.join("link")).unwrap();
        symlink("src", work.join("inside")).unwrap();
        symlink(out.join("absent"), work.join("dangling")).unwrap();
        symlink(&work, root.join("alias")).unwrap();
        symlink("/proc/self/cwd", work.join("elsewhere")).unwrap();
        std::fs::write(work.join("file"), "x").unwrap();
        let directory = root.join("alias").display().to_string();
        let resolved = |path: &str| match resolved_use("Read", &json!({ "file_path": path }), &directory) {
            Use::Read(path) => path.target,
            other => panic!("{other:?}"),
        };
        let at = |path: PathBuf| Some(path.display().to_string());
        assert_eq!(resolved("src/new/x"), at(work.join("src/new/x")));
        assert_eq!(resolved("link/new/x"), at(out.join("new/x")));
        assert_eq!(resolved("inside/x"), at(work.join("src/x")));
        assert_eq!(
            (resolved("elsewhere"), resolved("elsewhere/x")),
            (None, None),
            "each process is elsewhere"
        );
        assert_eq!(resolved("src/../link/x"), at(out.join("x")));
        assert_eq!(resolved(&format!("{directory}/file")), at(work.join("file")));
        for unknown in ["dangling", "dangling/x", "absent/../x", "file/x"] {
            assert_eq!(resolved(unknown), None, "{unknown}");
        }
        let named = resolved_directory(&directory);
        assert_eq!(named, Directory { name: directory.clone(), target: work.display().to_string() });
        assert_eq!(resolved_use("Read", &json!({}), &directory), Use::Read(UsePath::default()));
    }
}
