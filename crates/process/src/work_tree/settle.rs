//! Ends a run's own work tree: commits uncommitted files, then removes the tree. It stays if a branch does not hold
//! everything.
//!
//! Nothing is committed on a branch other than the run's own: an agent may have checked out a branch of the user.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use domain::run::{Branch, Worktree};

use super::git::{Git, GitError, line};
use super::isolate::IsolationError;
use super::worktree_record::{self, LocatedWorktree};
use system_files::regular_file;

/// The mode of an entry that is a repository within another.
const REPOSITORY_MODE: &str = " 160000 ";
/// The longest record of checkouts in a work tree that is read, and the most of its commits that are searched for.
const RECORD_BYTES_MAX: u64 = 4 << 20;
const MADE_MAX: usize = 200;
/// The most branches that are named.
const ELSEWHERE_MAX: usize = 20;

/// What is left of a run's own work tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    /// The branch with the result, if anything was done.
    pub branch: Option<Branch>,
    /// Other branches, with commits of the run that this one does not have.
    pub other_branches: Vec<String>,
    /// Branches that are checked out in work trees of their user, and have commits of the run.
    pub moved_user_branches: Vec<String>,
}

/// Commits uncommitted files, removes the work tree, and returns the branch with the result, if there is one. After
/// an error the work tree still exists.
pub fn settle_worktree(
    git: &Git,
    worktree: &Worktree,
    message: &str,
    deadline: Instant,
) -> Result<Settled, IsolationError> {
    let Some(found) = worktree_record::find(git, worktree, deadline)? else {
        // It was never made, or removed in an earlier attempt; the branch shows which.
        worktree_record::forget(git, worktree, deadline);
        let branch = finish_branch(git, worktree, deadline)?;
        return Ok(Settled { branch, ..Settled::default() });
    };
    let moved = found.path != Path::new(&worktree.path);
    settle_at(git, worktree, &found, message, deadline).map_err(|source| match moved {
        true => IsolationError::Moved { to: found.path.clone(), source: Box::new(source) },
        false => source,
    })
}

fn settle_at(
    git: &Git,
    worktree: &Worktree,
    found: &LocatedWorktree,
    message: &str,
    deadline: Instant,
) -> Result<Settled, IsolationError> {
    if found.admin.join("modules").exists() {
        return Err(IsolationError::Submodules);
    }
    let inner = git.with_git_dir(found.admin.clone());
    let inner = inner.without_repository_filters(&found.path, deadline)?;
    let tree = SettlingTree { git: &inner, worktree, located: found, deadline };
    let head = inner.head(&found.path, deadline);
    let rest = match worktree_record::is_settled(found) {
        // Missing files were taken away by a removal, and not by the agent.
        true => None,
        false => tree.commit_rest(head.as_deref(), message)?,
    };
    let ended = tree.name_branch(head, rest)?;
    let tip = ended.as_ref().map_or(&worktree.base, |branch| &branch.tip);
    tree.check(tip)?;
    let (elsewhere, moved) = (tree.elsewhere(ended.as_ref()), tree.moved());
    worktree_record::remove(git, worktree, found, deadline)?;
    // The run's own branch is deleted if nothing happened on it.
    let own = finish_branch(git, worktree, deadline)?;
    let branch = ended.filter(|ended| ended.name != worktree.branch).or(own);
    Ok(Settled { branch, other_branches: elsewhere, moved_user_branches: moved })
}

/// Returns the branch of a work tree that is gone, or removes it if nothing happened on it.
fn finish_branch(
    git: &Git,
    worktree: &Worktree,
    deadline: Instant,
) -> Result<Option<Branch>, IsolationError> {
    let origin = Path::new(&worktree.origin);
    let Some(tip) = branch_tip(git, origin, &worktree.branch, deadline) else { return Ok(None) };
    if tip == worktree.base {
        git.run(origin, &["update-ref", "-d", &reference(&worktree.branch), &tip], deadline)?;
        return Ok(None);
    }
    Ok(Some(Branch { name: worktree.branch.clone(), base: worktree.base.clone(), tip }))
}

fn branch_tip(git: &Git, root: &Path, branch: &str, deadline: Instant) -> Option<String> {
    let words = ["rev-parse", "--quiet", "--verify", &reference(branch)];
    git.run(root, &words, deadline).ok().map(|read_bytes| line(&read_bytes))
}

/// Returns a path without symbolic links, if it exists.
fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn reference(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// A work tree that is being settled, with a git that uses its record.
struct SettlingTree<'a> {
    git: &'a Git,
    worktree: &'a Worktree,
    located: &'a LocatedWorktree,
    deadline: Instant,
}

impl SettlingTree<'_> {
    fn run_git(&self, words: &[&str]) -> Result<Vec<u8>, GitError> {
        self.git.run(&self.located.path, words, self.deadline)
    }

    /// Commits the files that are in no commit, on no branch yet. Returns the commit, if there was anything.
    fn commit_rest(&self, head: Option<&str>, message: &str) -> Result<Option<String>, IsolationError> {
        // The lock's owner is dead: no process of the run is left.
        if let Ok(lock) = self.run_git(&["rev-parse", "--git-path", "index.lock"]) {
            let _ = std::fs::remove_file(self.located.path.join(line(&lock)));
        }
        let sparse = self.run_git(&["config", "--type=bool", "--get", "core.sparseCheckout"]);
        let sparse = sparse.is_ok_and(|output| line(&output) == "true");
        self.unhide_files(sparse)?;
        let add: &[&str] = if sparse { &["add", "--all", "--sparse", "."] } else { &["add", "--all", "."] };
        self.run_git(add)?;
        let tree = line(&self.run_git(&["write-tree"])?);
        let before = self.run_git(&["rev-parse", "HEAD^{tree}"]).map(|bytes| line(&bytes));
        if before.is_ok_and(|before| before == tree) {
            return Ok(None);
        }
        let author = self.git.with_author(&self.located.path, self.deadline);
        let parent = head.unwrap_or(&self.worktree.base);
        let words = ["commit-tree", &tree, "-p", parent, "-m", message];
        Ok(Some(line(&author.run(&self.located.path, &words, self.deadline)?)))
    }

    /// Makes git look again at existing files that it was configured to skip. Files that a sparse work tree leaves
    /// out do not exist.
    fn unhide_files(&self, sparse: bool) -> Result<(), IsolationError> {
        let listed = self.run_git(&["ls-files", "-v", "-z"])?;
        let mut hidden = Vec::new();
        for entry in listed.split(|byte| *byte == 0) {
            let [tag, b' ', path @ ..] = entry else { continue };
            let left_out = || sparse && self.on_disk(path).is_none();
            if matches!(tag, b'S' | b's') && left_out() {
                continue;
            }
            if *tag == b'S' || tag.is_ascii_lowercase() {
                hidden.extend_from_slice(path);
                hidden.push(0);
            }
        }
        if hidden.is_empty() {
            return Ok(());
        }
        for bit in ["--no-skip-worktree", "--no-assume-unchanged"] {
            let words = ["update-index", bit, "-z", "--stdin"];
            self.git.run_with_input(&self.located.path, &words, &hidden, self.deadline)?;
        }
        Ok(())
    }

    fn on_disk(&self, path: &[u8]) -> Option<std::fs::Metadata> {
        self.located.path.join(OsStr::from_bytes(path)).symlink_metadata().ok()
    }

    /// Makes sure that a branch of the run has the last commit, and returns that branch, if anything was done.
    fn name_branch(
        &self,
        head: Option<String>,
        rest: Option<String>,
    ) -> Result<Option<Branch>, IsolationError> {
        let Worktree { branch: own, base, .. } = self.worktree;
        let current = self.run_git(&["symbolic-ref", "--quiet", "HEAD"]).map(|bytes| line(&bytes)).ok();
        let current = current.as_deref().and_then(|current| current.strip_prefix("refs/heads/"));
        // Also the branch of an earlier attempt.
        let is_ours =
            |name: &&str| name.strip_prefix(own).is_some_and(|end| end.is_empty() || end.starts_with('-'));
        let is_only_visited = |tip: &String| {
            self.recorded_commits().is_some_and(|made| !made.contains(tip)) && self.is_referenced(tip)
        };
        let is_rest = rest.is_some();
        let Some(tip) = rest.or_else(|| head.clone()) else { return Ok(None) };
        let branch = |name: &str, tip: String| Branch { name: name.to_owned(), base: base.clone(), tip };
        let own_tip = branch_tip(self.git, &self.located.path, own, self.deadline).filter(|tip| tip != base);
        let name = match (current.filter(is_ours), own_tip) {
            (Some(current), _) => current.to_owned(),
            // The agent checked out an existing branch, and did nothing there.
            (None, own_tip) if !is_rest && is_only_visited(&tip) => {
                return Ok(own_tip.map(|own_tip| branch(own, own_tip)));
            }
            (None, Some(own_tip)) if !self.is_within(&own_tip, head.as_deref()) => self.free_name()?,
            (None, _) => own.clone(),
        };
        self.run_git(&["update-ref", "-m", "volery: rest of a run", &reference(&name), &tip])?;
        // A second attempt finds everything committed.
        self.run_git(&["symbolic-ref", "HEAD", &reference(&name)])?;
        Ok((tip != *base).then(|| branch(&name, tip)))
    }

    /// Returns whether a commit stays without the work tree.
    fn is_referenced(&self, commit: &str) -> bool {
        let words =
            ["for-each-ref", "--count=1", "--contains", commit, "refs/heads", "refs/tags", "refs/remotes"];
        self.run_git(&words).is_ok_and(|output| !output.is_empty())
    }

    fn is_within(&self, commit: &str, head: Option<&str>) -> bool {
        head.is_some_and(|head| self.run_git(&["merge-base", "--is-ancestor", commit, head]).is_ok())
    }

    /// Returns the name of a branch that does not exist, for commits that the run's own does not hold.
    fn free_name(&self) -> Result<String, IsolationError> {
        let own = &self.worktree.branch;
        let names = (2..100).map(|number| format!("{own}-{number}"));
        let mut free =
            names.filter(|name| branch_tip(self.git, &self.located.path, name, self.deadline).is_none());
        free.next().ok_or_else(|| IsolationError::Names(own.clone()))
    }

    /// Checks that the last commit holds everything that is going to be removed.
    fn check(&self, tip: &str) -> Result<(), IsolationError> {
        let base = &self.worktree.base;
        let differences = self.run_git(&["diff-tree", "-r", "--raw", base, tip])?;
        let repository = |entry: &str| entry.contains(REPOSITORY_MODE) && !entry.starts_with(":160000");
        if String::from_utf8_lossy(&differences).lines().any(repository) {
            return Err(IsolationError::RepositoryWithin);
        }
        if self.has_module()? {
            return Err(IsolationError::Submodules);
        }
        // Files that are no longer tracked, and are ignored now, are not added. Only the comparison with the base
        // lists them.
        let words = ["diff-tree", "-r", "-z", "--no-renames", "--diff-filter=D", base, tip];
        let deleted = self.run_git(&words)?;
        let mut fields = deleted.split(|byte| *byte == 0);
        while let (Some(entry), Some(path)) = (fields.next(), fields.next()) {
            let Some(found) = self.on_disk(path).filter(|found| !found.is_dir()) else { continue };
            let before = String::from_utf8_lossy(entry);
            let content = found.is_file().then(|| self.content(path)).flatten();
            if content.as_deref() != before.split(' ').nth(2) {
                return Err(IsolationError::InNoCommit(String::from_utf8_lossy(path).into_owned()));
            }
        }
        Ok(())
    }

    /// Returns whether a repository is where a submodule belongs. One that was cloned by hand has its commits nowhere
    /// else.
    fn has_module(&self) -> Result<bool, IsolationError> {
        let listed = self.run_git(&["ls-files", "--stage", "-z"])?;
        let mut modules = listed.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"160000 "));
        Ok(modules.any(|entry| {
            let path = entry.splitn(2, |byte| *byte == b'\t').nth(1).unwrap_or_default();
            self.on_disk(&[path, b"/.git"].concat()).is_some()
        }))
    }

    fn content(&self, path: &[u8]) -> Option<String> {
        let words = ["hash-object", "--"].map(Into::into).into_iter().chain([OsStr::from_bytes(path).into()]);
        let words: Vec<_> = words.collect();
        self.git.run_args(&self.located.path, &words, &[], self.deadline).ok().map(|bytes| line(&bytes))
    }

    /// Returns the commits that were made in this work tree, as far as git recorded them.
    fn recorded_commits(&self) -> Option<Vec<String>> {
        let record =
            regular_file::read_bytes(&self.located.admin.join("logs/HEAD"), RECORD_BYTES_MAX).ok()?;
        let record = String::from_utf8_lossy(&record);
        let commit = |entry: &str| {
            let (marks, what) = entry.split_once('\t')?;
            let visits = ["checkout:", "reset:", "rebase (start)", "rebase (abort)"];
            let commit = marks.split(' ').nth(1)?;
            let is_name = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            (is_name && !visits.iter().any(|visits| what.starts_with(visits))).then(|| commit.to_owned())
        };
        // Git begins the record with the first checkout; without that it is incomplete.
        (!record.is_empty()).then(|| record.lines().filter_map(commit).collect())
    }

    /// Returns the branches with commits of the run that the branch of the result does not have. A commit that was
    /// replaced by an amended one is on no branch.
    fn elsewhere(&self, ended: Option<&Branch>) -> Vec<String> {
        let tip = ended.map_or(&self.worktree.base, |ended| &ended.tip);
        let made = self.commits();
        let mut words = vec!["rev-list", "--ignore-missing"];
        words.extend(made.iter().map(String::as_str));
        words.extend(["--not", tip]);
        let Ok(missing) = self.run_git(&words) else { return Vec::new() };
        let missing = String::from_utf8_lossy(&missing).into_owned();
        let missing: HashSet<&str> = missing.lines().collect();
        let missing = made.iter().filter(|commit| missing.contains(commit.as_str()));
        self.branches_with(missing, "%(refname:lstrip=2)")
    }

    /// Returns the branches that are checked out elsewhere and have commits of the run: an agent can move them from
    /// its work tree.
    fn moved(&self) -> Vec<String> {
        let listed = self.branches_with(self.commits().iter(), "%(worktreepath)%00%(refname:lstrip=2)");
        let elsewhere = listed.iter().filter_map(|line| line.split_once('\0'));
        // Git may know this work tree by another name, or by its earlier location.
        let own = [Path::new(&self.worktree.path), &self.located.path].map(canonical);
        let elsewhere = elsewhere.filter(|(path, name)| {
            !path.is_empty() && !own.contains(&canonical(Path::new(path))) && *name != self.worktree.branch
        });
        elsewhere.map(|(_, name)| name.to_owned()).collect()
    }

    /// Returns the commits of the run, as far as they are known.
    fn commits(&self) -> Vec<String> {
        let own = branch_tip(self.git, &self.located.path, &self.worktree.branch, self.deadline);
        let made = self.recorded_commits().unwrap_or_default().into_iter().rev().take(MADE_MAX).chain(own);
        made.filter(|commit| *commit != self.worktree.base).collect()
    }

    /// Returns a line for each branch that has one of these commits.
    fn branches_with<'c>(&self, commits: impl Iterator<Item = &'c String>, form: &str) -> Vec<String> {
        let contains: Vec<String> = commits.map(|commit| format!("--contains={commit}")).collect();
        if contains.is_empty() {
            return Vec::new();
        }
        let form = format!("--format={form}");
        let mut words = vec!["for-each-ref", form.as_str()];
        words.extend(contains.iter().map(String::as_str));
        words.push("refs/heads");
        let names = self.run_git(&words).unwrap_or_default();
        String::from_utf8_lossy(&names).lines().take(ELSEWHERE_MAX).map(ToOwned::to_owned).collect()
    }
}
