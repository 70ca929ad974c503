//! Looks where a tool shall be used: what the path in its input leads to, with every symbolic link followed. Decides
//! nothing.

use std::path::{Component, Path, PathBuf};

use domain::permission::{Ground, named_path};
use serde_json::Value;

/// Returns the ground for a use of a tool by an agent that works in this directory.
pub(super) fn of(input: &Value, directory: &str) -> Ground {
    let real_path = named_path(input).and_then(|named| real(&Path::new(directory).join(named)));
    Ground {
        directory: directory.to_owned(),
        real_directory: real(Path::new(directory)).unwrap_or_else(|| directory.to_owned()),
        real_path,
    }
}

/// Returns where a path leads to: the nearest of its folders that is there is followed, and the rest stays as it is.
/// Nothing where that cannot be told, as of a link to what is not there yet.
fn real(path: &Path) -> Option<String> {
    let mut absent: Vec<&std::ffi::OsStr> = Vec::new();
    let mut existing = path;
    while existing.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        // What stands behind `..` depends on what would be made before it.
        let Some(Component::Normal(name)) = existing.components().next_back() else { return None };
        absent.push(name);
        existing = existing.parent()?;
    }
    if backend::plain_file::differs_by_process(existing) {
        return None;
    }
    let mut real: PathBuf = existing.canonicalize().ok()?;
    real.extend(absent.iter().rev());
    real.into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    #[test]
    fn links_are_followed_also_before_what_is_not_there_yet() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
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
        let reached = |path: &str| of(&json!({ "file_path": path }), &directory).real_path;
        let at = |path: PathBuf| Some(path.display().to_string());
        assert_eq!(reached("src/new/x"), at(work.join("src/new/x")));
        assert_eq!(reached("link/new/x"), at(out.join("new/x")));
        assert_eq!(reached("inside/x"), at(work.join("src/x")));
        assert_eq!((reached("elsewhere"), reached("elsewhere/x")), (None, None), "each process is elsewhere");
        assert_eq!(reached("src/../link/x"), at(out.join("x")));
        assert_eq!(reached(&format!("{directory}/file")), at(work.join("file")));
        for unknown in ["dangling", "dangling/x", "absent/../x", "file/x"] {
            assert_eq!(reached(unknown), None, "{unknown}");
        }
        let ground = of(&json!({}), &directory);
        assert_eq!((ground.directory, ground.real_directory), (directory, work.display().to_string()));
        assert_eq!(ground.real_path, None);
    }
}
