//! The directory a run works in, and the project it belongs to.

use std::path::{Path, PathBuf};

/// A directory that no run can work in.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error("the directory {0:?} contains a NUL byte")]
    Nul(String),
    #[error("the directory {0:?} is not absolute")]
    Relative(String),
    #[error("the directory {0:?} does not exist")]
    Missing(String),
    #[error("{0:?} is a file, not a directory")]
    File(String),
    #[error("could not look at the directory {0:?}")]
    Unreadable(String, #[source] std::io::Error),
    #[error("the path {0:?} is not valid UTF-8")]
    NotText(PathBuf),
}

/// Returns the directory as the kernel knows it: absolute, existing, without symbolic links.
pub fn resolve_directory(directory: &str) -> Result<String, ProjectError> {
    let shown = || domain::size::head(directory, 300).to_owned();
    if directory.contains('\0') {
        return Err(ProjectError::Nul(shown()));
    }
    let path = Path::new(directory);
    if !path.is_absolute() {
        return Err(ProjectError::Relative(shown()));
    }
    let resolved = path.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ProjectError::Missing(shown()),
        std::io::ErrorKind::NotADirectory => ProjectError::File(shown()),
        _ => ProjectError::Unreadable(shown(), error),
    })?;
    if !resolved.is_dir() {
        return Err(ProjectError::File(shown()));
    }
    text(resolved)
}

/// Returns whether this is a git repository. Sandboxes of agents leave empty folders of that name behind.
fn is_repository(path: &Path) -> bool {
    let git = path.join(".git");
    git.is_file() || git.join("HEAD").exists()
}

/// Returns the nearest directory upward with `.volery` or `.git`; the directory itself if there is none.
///
/// The user's home is skipped unless it has `.volery`: many people have their home in git.
pub fn find_project(directory: &str) -> String {
    marked_project(directory).unwrap_or_else(|| directory.to_owned())
}

/// Returns the same, or `None` without such a directory.
pub fn marked_project(directory: &str) -> Option<String> {
    let home = crate::env::get("HOME").map(PathBuf::from);
    // The directory has no symbolic links, but the home may be one.
    let home = home.map(|home| home.canonicalize().unwrap_or(home));
    let is_marked =
        |path: &Path| path.join(".volery").is_dir() || (is_repository(path) && home.as_deref() != Some(path));
    let found = Path::new(directory).ancestors().find(|path| is_marked(path));
    found.and_then(Path::to_str).map(ToOwned::to_owned)
}

fn text(path: PathBuf) -> Result<String, ProjectError> {
    path.into_os_string().into_string().map_err(|path| ProjectError::NotText(path.into()))
}
