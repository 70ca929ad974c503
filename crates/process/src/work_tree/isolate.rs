//! A separate work tree for one run: made from the commit that is checked out, on a branch of its own, and removed
//! when the run ends. The branch stays, with everything that was done.
//!
//! Checking out and adding files runs filters. Those of the user's own settings run (a file store such as LFS needs
//! them); those that the repository itself names do not, and no hook does.

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use domain::run::Worktree;

use super::git::{Git, GitError, work_tree_root};
use super::worktree_record;

/// The author of the commit of what an agent left, if the user's settings name nobody.
const FALLBACK_NAME: &str = "Volery";
const FALLBACK_EMAIL: &str = "volery@localhost";

/// Why a run cannot have a work tree of its own, or cannot remove it.
#[derive(Debug, thiserror::Error)]
pub enum IsolationError {
    #[error("{0} is not in a git work tree")]
    NoWorkTree(String),
    #[error("{0} has no commit yet that a work tree could be made from")]
    NoCommit(String),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("{path}: {source}")]
    Io { path: String, source: std::io::Error },
    #[error("git does not know the work tree {0} any more")]
    Unknown(String),
    #[error("the agent made a repository of its own in it, which a branch cannot hold")]
    RepositoryWithin,
    #[error("submodules were checked out in it, and a branch cannot hold what was done there")]
    Submodules,
    #[error("{0} was changed, and git is told to ignore it, so no commit holds it")]
    InNoCommit(String),
    #[error("all names for a second branch beside {0} are taken")]
    Names(String),
    #[error(
        "its folder {0} is not there any more; if it was moved, `git worktree repair FOLDER` makes it known again"
    )]
    Lost(String),
    #[error("it was moved to {}: {source}", to.display())]
    Moved { to: PathBuf, source: Box<IsolationError> },
}

/// Plans the work tree of a run for a directory, below a folder for such trees.
pub fn plan_worktree(
    git: &Git,
    directory: &Path,
    folder: &Path,
    name: &str,
    deadline: Instant,
) -> Result<Worktree, IsolationError> {
    let shown = || directory.display().to_string();
    let root = work_tree_root(directory).ok_or_else(|| IsolationError::NoWorkTree(shown()))?;
    git.run(root, &["rev-parse", "--git-dir"], deadline)?;
    let base =
        git.head(root, deadline).ok_or_else(|| IsolationError::NoCommit(root.display().to_string()))?;
    // A branch cannot have every character of a name.
    let name = name.replace('.', "-");
    Ok(Worktree {
        path: folder.join(&name).display().to_string(),
        branch: format!("volery/{name}"),
        origin: root.display().to_string(),
        base,
    })
}

/// Makes a planned work tree, unless an earlier worker of the run did.
pub fn make_worktree(git: &Git, worktree: &Worktree, deadline: Instant) -> Result<(), IsolationError> {
    let Worktree { path, branch, origin, base } = worktree;
    match worktree_record::find(git, worktree, deadline) {
        Ok(Some(found)) if found.path == Path::new(path) && found.path.is_dir() => {
            return worktree_record::bring_back(git, &found, deadline);
        }
        Ok(Some(found)) => {
            let source = Box::new(IsolationError::Unknown(path.clone()));
            return Err(IsolationError::Moved { to: found.path, source });
        }
        // A folder that git does not know may be empty.
        Ok(None) | Err(IsolationError::Unknown(_)) => {}
        Err(error) => return Err(error),
    }
    if let Some(folder) = Path::new(path).parent() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|source| IsolationError::Io { path: folder.display().to_string(), source })?;
    }
    let origin = Path::new(origin);
    let quiet = git.without_repository_filters(origin, deadline)?;
    worktree_record::forget(git, worktree, deadline);
    quiet.run(origin, &["worktree", "add", "--quiet", "-b", branch, path, base], deadline)?;
    Ok(())
}

/// Returns the counterpart of a directory in a work tree. It is created if no commit has it.
pub fn inside_worktree(worktree: &Worktree, directory: &Path) -> Result<PathBuf, IsolationError> {
    let below = directory.strip_prefix(&worktree.origin).unwrap_or(Path::new("")).components();
    // Part by part, since joining nothing would add a slash.
    let inside = Path::new(&worktree.path).components().chain(below).collect::<PathBuf>();
    let made = std::fs::create_dir_all(&inside);
    made.map_err(|source| IsolationError::Io { path: inside.display().to_string(), source })?;
    Ok(inside)
}

impl Git {
    /// Returns a git that runs no filter and no hook of the repository's own settings.
    pub(super) fn without_repository_filters(
        &self,
        root: &Path,
        deadline: Instant,
    ) -> Result<Self, GitError> {
        let words = ["config", "--null", "--show-scope", "--includes", "--name-only", "--list"];
        let listed = self.run(root, &words, deadline)?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let mut fields = listed.split('\0');
        let mut settings: Vec<(String, &str)> = Vec::new();
        while let (Some(scope), Some(name)) = (fields.next(), fields.next()) {
            let Some((section, _)) = name.rsplit_once('.') else { continue };
            if !matches!(scope, "local" | "worktree") {
                continue;
            }
            if section.starts_with("filter.") {
                let keys = [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")];
                settings.extend(keys.map(|(key, value)| (format!("{section}.{key}"), value)));
            } else if section.starts_with("hook.") {
                settings.push((format!("{section}.enabled"), "false"));
            }
        }
        settings.sort();
        settings.dedup();
        let mut quiet = self.clone();
        // Passed by variables, since a name may have a character at which an argument would be split.
        quiet.env.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()));
        for (index, (name, value)) in settings.into_iter().enumerate() {
            quiet.env.push((OsString::from(format!("GIT_CONFIG_KEY_{index}")), name.into()));
            quiet.env.push((OsString::from(format!("GIT_CONFIG_VALUE_{index}")), value.into()));
        }
        Ok(quiet)
    }

    /// Returns a git that can commit: as the user, or under a fallback name if the settings name nobody.
    pub(super) fn with_author(&self, root: &Path, deadline: Instant) -> Self {
        let is_set = |key: &str| self.run(root, &["config", "--get", key], deadline).is_ok();
        let mut author = self.clone();
        if is_set("user.email") && is_set("user.name") {
            return author;
        }
        for role in ["AUTHOR", "COMMITTER"] {
            author.env.push((format!("GIT_{role}_NAME").into(), FALLBACK_NAME.into()));
            author.env.push((format!("GIT_{role}_EMAIL").into(), FALLBACK_EMAIL.into()));
        }
        author
    }
}
