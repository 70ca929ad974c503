//! The end of a run's own work tree: what is in no commit is committed, then the tree is removed. It stays if a branch does
//! not hold everything.
//!
//! Nothing is committed on a branch that is not the run's own: what an agent checks out may be the user's.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use domain::run::{Branch, Worktree};

use super::git::{Git, GitError, line};
use super::isolate::IsolationError;
use super::place::{self, Place};
use crate::plain_file;

/// The kind of an entry that is a repository within another.
const REPOSITORY_MODE: &str = " 160000 ";
/// The longest record of what was checked out in a work tree that is read, and the most commits of it that are looked for.
const RECORD_BYTES_MAX: u64 = 4 << 20;
const MADE_MAX: usize = 200;
/// The most branches that are named.
const ELSEWHERE_MAX: usize = 20;

/// What is left of a run's own work tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    /// The branch with what was done, if anything was.
    pub branch: Option<Branch>,
    /// Other branches, with commits of the run that this one has not.
    pub elsewhere: Vec<String>,
    /// Branches that are checked out in work trees of their user's, and have commits of the run.
    pub moved: Vec<String>,
}

/// Commits what is not committed yet, removes the work tree, and returns the branch with what was done, if anything
/// was. After an error the work tree is still there.
pub fn settle_worktree(
    git: &Git,
    worktree: &Worktree,
    message: &str,
    deadline: Instant,
) -> Result<Settled, IsolationError> {
    let Some(found) = place::find(git, worktree, deadline)? else {
        // It was never made, or removed in an earlier try; the branch tells.
        place::forget(git, worktree, deadline);
        let branch = rest_of_branch(git, worktree, deadline)?;
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
    found: &Place,
    message: &str,
    deadline: Instant,
) -> Result<Settled, IsolationError> {
    if found.admin.join("modules").exists() {
        return Err(IsolationError::Submodules);
    }
    let inner = git.with_git_dir(found.admin.clone());
    let inner = inner.without_filters_of(&found.path, deadline)?;
    let tree = Tree { git: &inner, worktree, place: found, deadline };
    let head = inner.head(&found.path, deadline);
    let rest = match place::is_settled(found) {
        // What is not there was taken away by a removal, and not by the agent.
        true => None,
        false => tree.commit_rest(head.as_deref(), message)?,
    };
    let ended = tree.name(head, rest)?;
    let tip = ended.as_ref().map_or(&worktree.base, |branch| &branch.tip);
    tree.check(tip)?;
    let (elsewhere, moved) = (tree.elsewhere(ended.as_ref()), tree.moved());
    place::remove(git, worktree, found, deadline)?;
    // The run's own branch goes if nothing happened on it.
    let own = rest_of_branch(git, worktree, deadline)?;
    let branch = ended.filter(|ended| ended.name != worktree.branch).or(own);
    Ok(Settled { branch, elsewhere, moved })
}

/// Returns the branch of a work tree that is gone, or removes it if nothing happened on it.
fn rest_of_branch(
    git: &Git,
    worktree: &Worktree,
    deadline: Instant,
) -> Result<Option<Branch>, IsolationError> {
    let origin = Path::new(&worktree.origin);
    let Some(tip) = tip_of(git, origin, &worktree.branch, deadline) else { return Ok(None) };
    if tip == worktree.base {
        git.ask(origin, &["update-ref", "-d", &reference(&worktree.branch), &tip], deadline)?;
        return Ok(None);
    }
    Ok(Some(Branch { name: worktree.branch.clone(), base: worktree.base.clone(), tip }))
}

fn tip_of(git: &Git, root: &Path, branch: &str, deadline: Instant) -> Option<String> {
    let words = ["rev-parse", "--quiet", "--verify", &reference(branch)];
    git.ask(root, &words, deadline).ok().map(|bytes| line(&bytes))
}

/// Returns a path without symbolic links, as far as it is there.
fn really(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn reference(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// A work tree that is being settled, with the git that uses its record.
struct Tree<'a> {
    git: &'a Git,
    worktree: &'a Worktree,
    place: &'a Place,
    deadline: Instant,
}

impl Tree<'_> {
    fn ask(&self, words: &[&str]) -> Result<Vec<u8>, GitError> {
        self.git.ask(&self.place.path, words, self.deadline)
    }

    /// Commits what is in the work tree and in no commit, on no branch yet. Returns the commit, if there was anything.
    fn commit_rest(&self, head: Option<&str>, message: &str) -> Result<Option<String>, IsolationError> {
        // Its owner is dead: nothing of the run is left.
        if let Ok(lock) = self.ask(&["rev-parse", "--git-path", "index.lock"]) {
            let _ = std::fs::remove_file(self.place.path.join(line(&lock)));
        }
        let sparse = self.ask(&["config", "--type=bool", "--get", "core.sparseCheckout"]);
        let sparse = sparse.is_ok_and(|told| line(&told) == "true");
        self.look_at_everything(sparse)?;
        let add: &[&str] = if sparse { &["add", "--all", "--sparse", "."] } else { &["add", "--all", "."] };
        self.ask(add)?;
        let tree = line(&self.ask(&["write-tree"])?);
        let before = self.ask(&["rev-parse", "HEAD^{tree}"]).map(|bytes| line(&bytes));
        if before.is_ok_and(|before| before == tree) {
            return Ok(None);
        }
        let author = self.git.with_author(&self.place.path, self.deadline);
        let parent = head.unwrap_or(&self.worktree.base);
        let words = ["commit-tree", &tree, "-p", parent, "-m", message];
        Ok(Some(line(&author.ask(&self.place.path, &words, self.deadline)?)))
    }

    /// Takes back that git shall not look at files which are there. Those that a sparse work tree leaves out are not.
    fn look_at_everything(&self, sparse: bool) -> Result<(), IsolationError> {
        let listed = self.ask(&["ls-files", "-v", "-z"])?;
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
            self.git.ask_with(&self.place.path, &words, &hidden, self.deadline)?;
        }
        Ok(())
    }

    fn on_disk(&self, path: &[u8]) -> Option<std::fs::Metadata> {
        self.place.path.join(OsStr::from_bytes(path)).symlink_metadata().ok()
    }

    /// Sees to it that a branch of the run has the last commit, and returns that branch, if anything was done.
    fn name(&self, head: Option<String>, rest: Option<String>) -> Result<Option<Branch>, IsolationError> {
        let Worktree { branch: own, base, .. } = self.worktree;
        let current = self.ask(&["symbolic-ref", "--quiet", "HEAD"]).map(|bytes| line(&bytes)).ok();
        let current = current.as_deref().and_then(|current| current.strip_prefix("refs/heads/"));
        // Also that of an earlier try.
        let is_ours =
            |name: &&str| name.strip_prefix(own).is_some_and(|end| end.is_empty() || end.starts_with('-'));
        let looked_at =
            |tip: &String| self.made().is_some_and(|made| !made.contains(tip)) && self.is_held(tip);
        let is_rest = rest.is_some();
        let Some(tip) = rest.or_else(|| head.clone()) else { return Ok(None) };
        let branch = |name: &str, tip: String| Branch { name: name.to_owned(), base: base.clone(), tip };
        let own_tip = tip_of(self.git, &self.place.path, own, self.deadline).filter(|tip| tip != base);
        let name = match (current.filter(is_ours), own_tip) {
            (Some(current), _) => current.to_owned(),
            // The agent checked out something that was there before, and did nothing there.
            (None, own_tip) if !is_rest && looked_at(&tip) => {
                return Ok(own_tip.map(|own_tip| branch(own, own_tip)));
            }
            (None, Some(own_tip)) if !self.is_within(&own_tip, head.as_deref()) => self.free_name()?,
            (None, _) => own.clone(),
        };
        self.ask(&["update-ref", "-m", "volery: rest of a run", &reference(&name), &tip])?;
        // A second try finds everything committed.
        self.ask(&["symbolic-ref", "HEAD", &reference(&name)])?;
        Ok((tip != *base).then(|| branch(&name, tip)))
    }

    /// Tells whether a commit stays without the work tree.
    fn is_held(&self, commit: &str) -> bool {
        let words =
            ["for-each-ref", "--count=1", "--contains", commit, "refs/heads", "refs/tags", "refs/remotes"];
        self.ask(&words).is_ok_and(|told| !told.is_empty())
    }

    fn is_within(&self, commit: &str, head: Option<&str>) -> bool {
        head.is_some_and(|head| self.ask(&["merge-base", "--is-ancestor", commit, head]).is_ok())
    }

    /// Returns the name of a branch that does not exist, for what the run's own does not hold.
    fn free_name(&self) -> Result<String, IsolationError> {
        let own = &self.worktree.branch;
        let names = (2..100).map(|number| format!("{own}-{number}"));
        let mut free = names.filter(|name| tip_of(self.git, &self.place.path, name, self.deadline).is_none());
        free.next().ok_or_else(|| IsolationError::Names(own.clone()))
    }

    /// Sees that the last commit holds everything that is going to be removed.
    fn check(&self, tip: &str) -> Result<(), IsolationError> {
        let base = &self.worktree.base;
        let differences = self.ask(&["diff-tree", "-r", "--raw", base, tip])?;
        let repository = |entry: &str| entry.contains(REPOSITORY_MODE) && !entry.starts_with(":160000");
        if String::from_utf8_lossy(&differences).lines().any(repository) {
            return Err(IsolationError::RepositoryWithin);
        }
        if self.has_module()? {
            return Err(IsolationError::Submodules);
        }
        // What is no longer tracked and ignored now is not added. Nobody lists it but who saw it before.
        let words = ["diff-tree", "-r", "-z", "--no-renames", "--diff-filter=D", base, tip];
        let deleted = self.ask(&words)?;
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

    /// Tells whether a repository is where a submodule belongs. One that was cloned by hand has its
    /// commits nowhere else.
    fn has_module(&self) -> Result<bool, IsolationError> {
        let listed = self.ask(&["ls-files", "--stage", "-z"])?;
        let mut modules = listed.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"160000 "));
        Ok(modules.any(|entry| {
            let path = entry.splitn(2, |byte| *byte == b'\t').nth(1).unwrap_or_default();
            self.on_disk(&[path, b"/.git"].concat()).is_some()
        }))
    }

    fn content(&self, path: &[u8]) -> Option<String> {
        let words = ["hash-object", "--"].map(Into::into).into_iter().chain([OsStr::from_bytes(path).into()]);
        let words: Vec<_> = words.collect();
        self.git.ask_words(&self.place.path, &words, &[], self.deadline).ok().map(|bytes| line(&bytes))
    }

    /// Returns the commits that were made in this work tree, as far as git noted them.
    fn made(&self) -> Option<Vec<String>> {
        let record = plain_file::bytes(&self.place.admin.join("logs/HEAD"), RECORD_BYTES_MAX).ok()?;
        let record = String::from_utf8_lossy(&record);
        let commit = |entry: &str| {
            let (marks, what) = entry.split_once('\t')?;
            let seen = ["checkout:", "reset:", "rebase (start)", "rebase (abort)"];
            let commit = marks.split(' ').nth(1)?;
            let is_name = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            (is_name && !seen.iter().any(|seen| what.starts_with(seen))).then(|| commit.to_owned())
        };
        // Git begins it with the first checkout; without that it is not whole.
        (!record.is_empty()).then(|| record.lines().filter_map(commit).collect())
    }

    /// Returns the branches with commits of the run that the one of the result has not. What was replaced by an amended
    /// commit is on none.
    fn elsewhere(&self, ended: Option<&Branch>) -> Vec<String> {
        let tip = ended.map_or(&self.worktree.base, |ended| &ended.tip);
        let made = self.commits();
        let mut words = vec!["rev-list", "--ignore-missing"];
        words.extend(made.iter().map(String::as_str));
        words.extend(["--not", tip]);
        let Ok(missing) = self.ask(&words) else { return Vec::new() };
        let missing = String::from_utf8_lossy(&missing).into_owned();
        let missing: HashSet<&str> = missing.lines().collect();
        let missing = made.iter().filter(|commit| missing.contains(commit.as_str()));
        self.branches_with(missing, "%(refname:lstrip=2)")
    }

    /// Returns the branches that are checked out elsewhere and have commits of the run: an agent can move them from here.
    fn moved(&self) -> Vec<String> {
        let named = self.branches_with(self.commits().iter(), "%(worktreepath)%00%(refname:lstrip=2)");
        let elsewhere = named.iter().filter_map(|line| line.split_once('\0'));
        // Git may know this work tree by another name, or by where it was before.
        let own = [Path::new(&self.worktree.path), &self.place.path].map(really);
        let elsewhere = elsewhere.filter(|(path, name)| {
            !path.is_empty() && !own.contains(&really(Path::new(path))) && *name != self.worktree.branch
        });
        elsewhere.map(|(_, name)| name.to_owned()).collect()
    }

    /// Returns the commits of the run, as far as they are known.
    fn commits(&self) -> Vec<String> {
        let own = tip_of(self.git, &self.place.path, &self.worktree.branch, self.deadline);
        let made = self.made().unwrap_or_default().into_iter().rev().take(MADE_MAX).chain(own);
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
        let names = self.ask(&words).unwrap_or_default();
        String::from_utf8_lossy(&names).lines().take(ELSEWHERE_MAX).map(ToOwned::to_owned).collect()
    }
}
