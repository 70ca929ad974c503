//! A work tree of a run's own: made from the commit that is checked out, on a branch of its own, and gone when the run
//! ends. The branch stays, with everything that was done.
//!
//! Checking out and adding files runs filters. Those of the user's own settings do run (a file store such as LFS needs
//! them); those that the repository itself names do not, and no hook does.

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use domain::run::{Branch, Worktree};

use super::git::{Git, GitError, line, root_of};
use crate::plain_file;

/// Who commits what an agent left, where the user's settings name nobody.
const FALLBACK_NAME: &str = "Volery";
const FALLBACK_EMAIL: &str = "volery@localhost";
/// The kind of an entry that is a repository within another.
const REPOSITORY_MODE: &str = " 160000 ";
/// The longest file that names a folder.
const PATH_BYTES_MAX: u64 = 64 << 10;

/// Why a run cannot have a work tree of its own, or not be rid of it.
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
    let root = root_of(directory).ok_or_else(|| IsolationError::NoWorkTree(shown()))?;
    git.ask(root, &["rev-parse", "--git-dir"], deadline)?;
    let base =
        git.head(root, deadline).ok_or_else(|| IsolationError::NoCommit(root.display().to_string()))?;
    // What a name may have and a branch may not.
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
    if admin_dir(git, worktree, deadline).is_ok() && Path::new(path).is_dir() {
        return Ok(());
    }
    if let Some(folder) = Path::new(path).parent() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|source| IsolationError::Io { path: folder.display().to_string(), source })?;
    }
    let origin = Path::new(origin);
    let quiet = git.without_filters_of(origin, deadline)?;
    forget(git, worktree, deadline);
    quiet.ask(origin, &["worktree", "add", "--quiet", "-b", branch, path, base], deadline)?;
    Ok(())
}

/// Returns where in a work tree the counterpart of a directory is. It is made if no commit holds it.
pub fn inside_worktree(worktree: &Worktree, directory: &Path) -> Result<PathBuf, IsolationError> {
    let below = directory.strip_prefix(&worktree.origin).unwrap_or(Path::new("")).components();
    // Part by part, since joining nothing would add a slash.
    let inside = Path::new(&worktree.path).components().chain(below).collect::<PathBuf>();
    let made = std::fs::create_dir_all(&inside);
    made.map_err(|source| IsolationError::Io { path: inside.display().to_string(), source })?;
    Ok(inside)
}

/// Commits what is not committed yet, removes the work tree, and returns the branch with what was done, if anything
/// was. After an error the work tree is still there.
pub fn settle_worktree(
    git: &Git,
    worktree: &Worktree,
    message: &str,
    deadline: Instant,
) -> Result<Option<Branch>, IsolationError> {
    let origin = Path::new(&worktree.origin);
    let path = Path::new(&worktree.path);
    if !path.exists() {
        // It was never made, or removed in an earlier try; the branch tells.
        forget(git, worktree, deadline);
        return rest_of_branch(git, worktree, deadline);
    }
    let admin = admin_dir(git, worktree, deadline)?;
    if admin.join("modules").exists() {
        return Err(IsolationError::Submodules);
    }
    let inner = git.with_git_dir(admin);
    let inner = inner.without_filters_of(path, deadline)?;
    let name = commit_rest(&inner, worktree, message, deadline)?;
    let tip = inner.head(path, deadline).unwrap_or_else(|| worktree.base.clone());
    let differences = inner.ask(path, &["diff-tree", "-r", "--raw", &worktree.base, &tip], deadline)?;
    let repository = |entry: &str| entry.contains(REPOSITORY_MODE) && !entry.starts_with(":160000");
    if String::from_utf8_lossy(&differences).lines().any(repository) {
        return Err(IsolationError::RepositoryWithin);
    }
    git.ask(origin, &["worktree", "remove", "--force", "--force", &worktree.path], deadline)?;
    let own = rest_of_branch(git, worktree, deadline)?;
    if name == worktree.branch || own.is_some() {
        return Ok(own);
    }
    // The agent left its branch for another one and worked there.
    Ok((tip != worktree.base).then(|| Branch { name, base: worktree.base.clone(), tip }))
}

/// Returns the branch of a work tree that is gone, or removes it if nothing happened on it.
fn rest_of_branch(
    git: &Git,
    worktree: &Worktree,
    deadline: Instant,
) -> Result<Option<Branch>, IsolationError> {
    let origin = Path::new(&worktree.origin);
    let reference = format!("refs/heads/{}", worktree.branch);
    let known = git.ask(origin, &["rev-parse", "--quiet", "--verify", &reference], deadline);
    let Ok(tip) = known.map(|bytes| line(&bytes)) else { return Ok(None) };
    if tip == worktree.base {
        git.ask(origin, &["update-ref", "-d", &reference, &tip], deadline)?;
        return Ok(None);
    }
    Ok(Some(Branch { name: worktree.branch.clone(), base: worktree.base.clone(), tip }))
}

/// Commits what is in the work tree and in no commit. Returns the name of the branch that is checked out.
fn commit_rest(
    inner: &Git,
    worktree: &Worktree,
    message: &str,
    deadline: Instant,
) -> Result<String, IsolationError> {
    let path = Path::new(&worktree.path);
    // Its owner is dead: nothing of the run is left.
    if let Ok(lock) = inner.ask(path, &["rev-parse", "--git-path", "index.lock"], deadline) {
        let _ = std::fs::remove_file(path.join(line(&lock)));
    }
    inner.ask(path, &["add", "--all", "."], deadline)?;
    let tree = line(&inner.ask(path, &["write-tree"], deadline)?);
    let before = inner.ask(path, &["rev-parse", "HEAD^{tree}"], deadline).map(|bytes| line(&bytes));
    if before.ok().as_ref() != Some(&tree) {
        let author = inner.with_author(path, deadline);
        let parent = inner.head(path, deadline).unwrap_or_else(|| worktree.base.clone());
        let words = ["commit-tree", &tree, "-p", &parent, "-m", message];
        let commit = line(&author.ask(path, &words, deadline)?);
        author.ask(path, &["update-ref", "-m", "volery: rest of a run", "HEAD", &commit], deadline)?;
    }
    let current = inner.ask(path, &["symbolic-ref", "--quiet", "HEAD"], deadline).map(|bytes| line(&bytes));
    if let Ok(current) = current {
        return Ok(current.trim_start_matches("refs/heads/").to_owned());
    }
    name_detached(inner, worktree, deadline)
}

/// Gives commits that are on no branch a name: the run's own branch, unless that holds something else.
fn name_detached(inner: &Git, worktree: &Worktree, deadline: Instant) -> Result<String, IsolationError> {
    let path = Path::new(&worktree.path);
    let reference = format!("refs/heads/{}", worktree.branch);
    let own = inner.ask(path, &["rev-parse", "--quiet", "--verify", &reference], deadline);
    let moved = own.is_ok_and(|tip| line(&tip) != worktree.base);
    let name = if moved { format!("{}-detached", worktree.branch) } else { worktree.branch.clone() };
    inner.ask(path, &["update-ref", &format!("refs/heads/{name}"), "HEAD"], deadline)?;
    Ok(name)
}

/// Takes away git's record of a work tree whose folder is not there. Not by pruning, which would take the records of all
/// others whose folders are away, such as those on a disk that is not connected.
fn forget(git: &Git, worktree: &Worktree, deadline: Instant) {
    if let Ok(admin) = admin_dir(git, worktree, deadline) {
        // What stays is named by git when the branch is used again.
        let _ = std::fs::remove_dir_all(admin);
    }
}

/// Returns where git keeps what it knows about a work tree, by its own record and not by what the tree says.
fn admin_dir(git: &Git, worktree: &Worktree, deadline: Instant) -> Result<PathBuf, IsolationError> {
    let origin = Path::new(&worktree.origin);
    let common = line(&git.ask(origin, &["rev-parse", "--git-common-dir"], deadline)?);
    let unknown = || IsolationError::Unknown(worktree.path.clone());
    let entries = std::fs::read_dir(origin.join(common).join("worktrees")).map_err(|_| unknown())?;
    let wanted = Path::new(&worktree.path).join(".git");
    let is_wanted = |admin: &PathBuf| {
        let told = plain_file::text(&admin.join("gitdir"), PATH_BYTES_MAX).unwrap_or_default();
        Path::new(told.trim_end_matches('\n')) == wanted
    };
    entries.filter_map(Result::ok).map(|entry| entry.path()).find(is_wanted).ok_or_else(unknown)
}

impl Git {
    /// Returns git that runs no filter and no hook that the repository's own settings name.
    fn without_filters_of(&self, root: &Path, deadline: Instant) -> Result<Self, GitError> {
        let words = ["config", "--null", "--show-scope", "--includes", "--name-only", "--list"];
        let listed = self.ask(root, &words, deadline)?;
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
        // By variables, since a name may hold what an argument would be split at.
        quiet.env.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()));
        for (index, (name, value)) in settings.into_iter().enumerate() {
            quiet.env.push((OsString::from(format!("GIT_CONFIG_KEY_{index}")), name.into()));
            quiet.env.push((OsString::from(format!("GIT_CONFIG_VALUE_{index}")), value.into()));
        }
        Ok(quiet)
    }

    /// Returns git that can commit: as the user, or as somebody if the settings name nobody.
    fn with_author(&self, root: &Path, deadline: Instant) -> Self {
        let named = |key: &str| self.ask(root, &["config", "--get", key], deadline).is_ok();
        let mut author = self.clone();
        if named("user.email") && named("user.name") {
            return author;
        }
        for role in ["AUTHOR", "COMMITTER"] {
            author.env.push((format!("GIT_{role}_NAME").into(), FALLBACK_NAME.into()));
            author.env.push((format!("GIT_{role}_EMAIL").into(), FALLBACK_EMAIL.into()));
        }
        author
    }
}
