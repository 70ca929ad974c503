//! Tests the end of a run's own work tree: the branch of the result holds what was done, or the rest is reported.

use std::path::PathBuf;

use domain::run::{Branch, Worktree};

use super::*;

/// A run's own work tree, with the repository that it came from.
struct OwnWorktree {
    repository: Repository,
    trees: tempfile::TempDir,
    worktree: Worktree,
}

impl OwnWorktree {
    fn new() -> Self {
        Self::in_repository(Repository::new())
    }

    fn in_repository(repository: Repository) -> Self {
        let trees = tempfile::tempdir().unwrap();
        let worktree = plan_worktree(&git(), repository.root(), trees.path(), "worker-1a2b", soon()).unwrap();
        make_worktree(&git(), &worktree, soon()).unwrap();
        Self { repository, trees, worktree }
    }

    fn root(&self) -> PathBuf {
        self.worktree.path.clone().into()
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        fs::write(self.root().join(path), text).unwrap();
        self
    }

    /// Runs git as the agent would.
    fn git(&self, words: &[&str]) -> &Self {
        user_git(&self.root(), words);
        self
    }

    fn commit(&self, path: &str) -> &Self {
        self.write(path, path).git(&["add", "--all"]).git(&["commit", "--quiet", "--message", path])
    }

    fn settle(&self) -> Result<Settled, IsolationError> {
        settle_worktree(&git(), &self.worktree, "rest", soon())
    }

    /// Settles it and returns the branch of the result, which has everything.
    fn branch(&self) -> Branch {
        let Settled { branch, other_branches, moved_user_branches } = self.settle().unwrap();
        assert_eq!((other_branches, moved_user_branches), (Vec::new(), Vec::new()));
        assert!(!self.root().exists());
        branch.expect("a branch")
    }

    /// Returns the content of a file in a commit.
    fn shown(&self, commit: &str, path: &str) -> String {
        user_git(self.repository.root(), &["show", &format!("{commit}:{path}")])
    }

    fn branches(&self) -> Vec<String> {
        let words = ["for-each-ref", "--format=%(refname:short)", "refs/heads"];
        user_git(self.repository.root(), &words).lines().map(ToOwned::to_owned).collect()
    }

    /// Lists the work trees that git knows.
    fn list_worktrees(&self) -> String {
        user_git(self.repository.root(), &["worktree", "list", "--porcelain"])
    }
}

#[test]
fn files_that_git_was_configured_to_skip_are_on_the_branch() {
    for bit in ["--skip-worktree", "--assume-unchanged"] {
        let own = OwnWorktree::new();
        own.git(&["update-index", bit, "kept.txt"]).write("kept.txt", "changed\n");
        assert_eq!(own.shown(&own.branch().tip, "kept.txt"), "changed\n", "{bit}");
    }
}

#[test]
fn files_outside_a_sparse_checkout_are_not_deleted_on_the_branch() {
    let own = OwnWorktree::new();
    own.git(&["sparse-checkout", "set", "nothing"]).write("made.txt", "made\n");
    fs::create_dir(own.root().join("beyond")).unwrap();
    own.write("beyond/made.txt", "made too\n");
    let branch = own.branch();
    assert_eq!(own.shown(&branch.tip, "beyond/made.txt"), "made too\n");
    assert_eq!(own.shown(&branch.tip, "sub/changed.txt"), "before\n");
}

#[test]
fn skipped_files_outside_a_sparse_checkout_are_not_deleted_on_the_branch() {
    let own = OwnWorktree::new();
    own.git(&["sparse-checkout", "set", "nothing"]);
    own.git(&["update-index", "--assume-unchanged", "sub/changed.txt"]).write("made.txt", "made\n");
    let branch = own.branch();
    assert_eq!(own.shown(&branch.tip, "made.txt"), "made\n");
    assert_eq!(own.shown(&branch.tip, "sub/changed.txt"), "before\n");
}

#[test]
fn a_changed_file_that_is_untracked_and_ignored_keeps_the_work_tree() {
    let own = OwnWorktree::new();
    own.git(&["rm", "--quiet", "--cached", "kept.txt"]).write(".gitignore", "kept.txt\n");
    own.write("kept.txt", "changed\n");
    let error = own.settle().unwrap_err();
    assert!(error.to_string().contains("kept.txt"), "{error}");
    assert_eq!(fs::read_to_string(own.root().join("kept.txt")).unwrap(), "changed\n");
    // A file that a commit holds may be removed.
    own.write("kept.txt", "kept\n");
    own.branch();
}

#[test]
fn work_on_further_branches_is_on_the_result_branch_too() {
    let own = OwnWorktree::new();
    own.commit("one").git(&["checkout", "--quiet", "-b", "other"]).commit("two").write("three", "three");
    let branch = own.branch();
    assert_eq!(branch.name, own.worktree.branch);
    for path in ["one", "two", "three"] {
        assert_eq!(own.shown(&branch.name, path), path);
    }
    // The agent's own branch is as the agent left it.
    assert_eq!(user_git(own.repository.root(), &["diff", "--name-only", "other", &branch.name]), "three\n");
}

#[test]
fn branches_with_work_missing_from_the_result_branch_are_reported() {
    let own = OwnWorktree::new();
    own.commit("one")
        .git(&["checkout", "--quiet", "-b", "other", "HEAD~1"])
        .commit("two")
        .write("three", "three");
    let Settled { branch, other_branches, .. } = own.settle().unwrap();
    let branch = branch.unwrap();
    assert_eq!(branch.name, format!("{}-2", own.worktree.branch));
    assert_eq!(
        (own.shown(&branch.name, "two"), own.shown(&branch.name, "three")),
        ("two".into(), "three".into())
    );
    assert_eq!(other_branches, [own.worktree.branch.as_str()]);
    assert_eq!(own.shown(&own.worktree.branch, "one"), "one");

    let own = OwnWorktree::new();
    own.git(&["checkout", "--quiet", "-b", "other"]).commit("two");
    own.git(&["checkout", "--quiet", &own.worktree.branch]);
    let Settled { branch, other_branches, .. } = own.settle().unwrap();
    assert_eq!((branch, other_branches), (None, vec!["other".to_owned()]));
}

#[test]
fn a_user_branch_that_the_agent_moved_is_reported() {
    let own = OwnWorktree::new();
    own.commit("one").git(&["update-ref", "refs/heads/main", "HEAD"]);
    let Settled { branch, other_branches, moved_user_branches } = own.settle().unwrap();
    assert_eq!((branch.unwrap().name, other_branches), (own.worktree.branch.clone(), Vec::new()));
    assert_eq!(moved_user_branches, ["main"]);
}

#[test]
fn nothing_is_committed_on_a_branch_of_the_user() {
    let own = OwnWorktree::new();
    user_git(own.repository.root(), &["branch", "feature"]);
    own.git(&["checkout", "--quiet", "feature"]).write("made.txt", "made");
    let branch = own.branch();
    assert_eq!((branch.name.as_str(), branch.tip == branch.base), (own.worktree.branch.as_str(), false));
    assert_eq!(own.shown(&branch.tip, "made.txt"), "made");
    assert_eq!(user_git(own.repository.root(), &["rev-parse", "feature"]).trim(), own.worktree.base);
}

#[test]
fn a_branch_that_was_only_checked_out_is_not_work() {
    let repository = Repository::new();
    repository.git(&["checkout", "--quiet", "-b", "feature"]);
    repository.write("feature.txt", "x").commit().git(&["checkout", "--quiet", "main"]);
    let own = OwnWorktree::in_repository(repository);
    own.git(&["checkout", "--quiet", "feature"]);
    let Settled { branch, other_branches, .. } = own.settle().unwrap();
    assert_eq!((branch, other_branches), (None, Vec::new()));
    assert_eq!(own.branches(), ["feature", "main"]);
}

#[test]
fn a_work_tree_that_was_moved_is_settled_where_it_is() {
    for by_git in [true, false] {
        let own = OwnWorktree::new();
        let moved = own.trees.path().join("moved");
        match by_git {
            true => drop(own.git(&["worktree", "move", &own.worktree.path, moved.to_str().unwrap()])),
            false => fs::rename(own.root(), &moved).unwrap(),
        }
        fs::write(moved.join("made.txt"), "made").unwrap();
        assert!(make_worktree(&git(), &own.worktree, soon()).is_err());
        let branch = own.branch();
        assert_eq!(own.shown(&branch.name, "made.txt"), "made", "{by_git}");
        assert!(
            !moved.exists() && !own.list_worktrees().contains("moved"),
            "{by_git}: {}",
            own.list_worktrees()
        );
    }
}

#[test]
fn a_work_tree_that_is_not_found_keeps_its_branch_and_its_record() {
    let own = OwnWorktree::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("moved");
    fs::rename(own.root(), &moved).unwrap();
    fs::write(moved.join("made.txt"), "made").unwrap();
    assert!(make_worktree(&git(), &own.worktree, soon()).is_err());
    let error = own.settle().unwrap_err();
    assert!(error.to_string().contains("git worktree repair"), "{error}");
    assert!(own.branches().contains(&own.worktree.branch), "{:?}", own.branches());
    assert_eq!(user_git(&moved, &["status", "--short"]), "?? made.txt\n");
    // As the message says, it can be made known again.
    user_git(own.repository.root(), &["worktree", "repair", moved.to_str().unwrap()]);
    assert_eq!(own.shown(&own.branch().name, "made.txt"), "made");
    assert!(!moved.exists());
}

#[test]
fn a_record_that_names_a_foreign_folder_is_not_followed() {
    let own = OwnWorktree::new();
    let somebody = tempfile::tempdir().unwrap();
    fs::write(somebody.path().join("private.txt"), "x").unwrap();
    fs::write(somebody.path().join(".git"), "gitdir: /nowhere\n").unwrap();
    let record = own.repository.root().join(".git/worktrees/worker-1a2b/gitdir");
    fs::write(record, format!("{}\n", somebody.path().join(".git").display())).unwrap();
    fs::remove_dir_all(own.root()).unwrap();
    assert!(own.settle().is_err());
    assert!(somebody.path().join("private.txt").exists());
}

#[test]
fn a_work_tree_that_was_never_made_or_is_settled_already_is_settled() {
    let own = OwnWorktree::new();
    own.write("made.txt", "made");
    let branch = own.branch();
    assert_eq!(own.branch(), branch);
    let other = Worktree {
        path: own.trees.path().join("b").display().to_string(),
        branch: "volery/b".into(),
        ..own.worktree.clone()
    };
    let settled = settle_worktree(&git(), &other, "rest", soon()).unwrap();
    assert_eq!((settled.branch, settled.other_branches), (None, Vec::new()));
}

#[test]
fn a_work_tree_without_its_pointer_to_the_repository_is_removed_too() {
    let own = OwnWorktree::new();
    own.write("made.txt", "made");
    fs::remove_file(own.root().join(".git")).unwrap();
    assert_eq!(own.shown(&own.branch().tip, "made.txt"), "made");
}

#[test]
fn a_repository_that_an_agent_made_of_its_work_tree_stays() {
    let own = OwnWorktree::new();
    fs::remove_file(own.root().join(".git")).unwrap();
    own.git(&["init", "--quiet"]).commit("made.txt");
    assert!(own.settle().is_err());
    assert!(own.root().join(".git/HEAD").exists());
    assert_eq!(own.shown(&own.worktree.branch, "made.txt"), "made.txt");
    // Nothing of it was removed, so later changes count.
    fs::remove_dir_all(own.root().join(".git")).unwrap();
    own.write("later.txt", "later");
    assert_eq!(own.shown(&own.branch().tip, "later.txt"), "later");
}

/// Returns a git that is killed after it has removed a file of a work tree and its pointer to the record.
fn git_that_is_cut_short(folder: &Path) -> Git {
    let path = git().env.iter().find(|(name, _)| name == "PATH").unwrap().1.clone();
    let path = path.into_string().unwrap();
    let program = folder.join("git");
    let text = format!(
        "#!/bin/sh\nPATH='{path}'\ncase \"$*\" in\n*' worktree remove '*)\n  for last; do :; done\n  rm \"$last/kept.txt\" \"$last/.git\"\n  kill -9 $$ ;;\nesac\nexec git \"$@\"\n"
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    Git::find(format!("{}:{path}", folder.display()).as_ref(), Vec::new(), 7).unwrap()
}

#[test]
fn a_removal_that_is_cut_short_deletes_nothing_on_the_branch() {
    let folder = tempfile::tempdir().unwrap();
    let cut_short = git_that_is_cut_short(folder.path());
    for works_again in [false, true] {
        let own = OwnWorktree::new();
        own.commit("one").write("two", "two");
        assert!(settle_worktree(&cut_short, &own.worktree, "rest", soon()).is_err());
        assert!(own.root().join("two").exists() && !own.root().join("kept.txt").exists());
        if works_again {
            make_worktree(&git(), &own.worktree, soon()).unwrap();
            own.git(&["rm", "--quiet", "one"]).write("one", "three");
        }
        let branch = own.branch();
        assert_eq!(own.shown(&branch.tip, "kept.txt"), "kept\n");
        assert_eq!(own.shown(&branch.tip, "two"), "two");
        assert_eq!(own.shown(&branch.tip, "one"), if works_again { "three" } else { "one" });
    }
}

#[test]
fn a_repository_that_was_cloned_where_a_submodule_belongs_stays() {
    let repository = Repository::new();
    let commit = user_git(repository.root(), &["rev-parse", "HEAD"]);
    let module = format!("160000,{},module", commit.trim());
    repository.git(&["update-index", "--add", "--cacheinfo", &module]);
    repository.git(&["commit", "--quiet", "--message", "x"]);
    let own = OwnWorktree::in_repository(repository);
    let module = own.write("made.txt", "made").root().join("module");
    let origin = own.worktree.origin.as_str();
    user_git(&own.root(), &["clone", "--quiet", origin, "module"]);
    user_git(&module, &["commit", "--quiet", "--allow-empty", "--message", "x"]);
    assert!(matches!(own.settle(), Err(IsolationError::Submodules)));
    assert!(module.join(".git/HEAD").exists());
    // Git leaves the folder of a submodule empty.
    fs::remove_dir_all(&module).unwrap();
    fs::create_dir(&module).unwrap();
    assert_eq!(own.shown(&own.branch().tip, "made.txt"), "made");
}

#[test]
fn a_second_try_leaves_the_same_branch() {
    let own = OwnWorktree::new();
    own.commit("one").git(&["checkout", "--quiet", "--detach", "HEAD~1"]).write("two", "two");
    let within = own.root().join("within");
    fs::create_dir(&within).unwrap();
    user_git(&within, &["init", "--quiet"]);
    user_git(&within, &["commit", "--quiet", "--allow-empty", "--message", "x"]);
    assert!(matches!(own.settle(), Err(IsolationError::RepositoryWithin)));
    fs::remove_dir_all(&within).unwrap();
    let Settled { branch, other_branches, .. } = own.settle().unwrap();
    let branch = branch.unwrap();
    assert_eq!(own.shown(&branch.tip, "two"), "two");
    assert_eq!(other_branches, [own.worktree.branch.as_str()]);
    assert_eq!(own.branches(), ["main".to_owned(), own.worktree.branch.clone(), branch.name]);
}

#[test]
fn a_work_tree_below_a_link_is_found() {
    let mut own = OwnWorktree::new();
    let link = own.repository.root().join(".git/trees");
    std::os::unix::fs::symlink(own.trees.path(), &link).unwrap();
    own.worktree = plan_worktree(&git(), own.repository.root(), &link, "linked", soon()).unwrap();
    make_worktree(&git(), &own.worktree, soon()).unwrap();
    make_worktree(&git(), &own.worktree, soon()).unwrap();
    own.write("made.txt", "made");
    assert_eq!(own.shown(&own.branch().name, "made.txt"), "made");
}

#[test]
fn commits_that_git_did_not_note_as_made_are_not_lost() {
    let own = OwnWorktree::new();
    own.write("made.txt", "made").git(&["add", "--all"]);
    let tree = user_git(&own.root(), &["write-tree"]);
    let commit = user_git(&own.root(), &["commit-tree", tree.trim(), "-p", "HEAD", "-m", "x"]);
    own.git(&["checkout", "--quiet", "--force", "--detach", commit.trim()]);
    assert_eq!(own.branch().tip, commit.trim());

    let own = OwnWorktree::new();
    own.git(&["checkout", "--quiet", "-b", "other"]).commit("made.txt");
    own.git(&["reflog", "expire", "--expire=now", "--all"]);
    assert_eq!(own.shown(&own.branch().tip, "made.txt"), "made.txt");
}
