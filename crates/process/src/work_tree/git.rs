//! Runs git so that it executes nothing that a repository names, and fetches and locks nothing.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::{CaptureError, CaptureRequest, capture};
use domain::run::Exit;

/// The most output that git may write: some 200,000 long paths with their metadata.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// The message of git outside a repository.
const NO_REPOSITORY: &str = "fatal: not a git repository";

/// Settings that override those of the repository.
const SETTINGS: &[&str] = &[
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.hooksPath=/dev/null",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    // Changes must not be overlooked.
    "core.ignoreStat=false",
    "core.trustctime=true",
    "core.checkStat=default",
    // Records of work trees are compared with whole paths.
    "worktree.useRelativePaths=false",
];

/// Variables with the same purpose, which also keep git from prompting.
const VARIABLES: &[(&str, &str)] = &[
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    // No transport has this name, and a repository cannot add one.
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("LC_ALL", "C"),
];

/// Git as it is used for one run.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    pub(super) env: Vec<(OsString, OsString)>,
    tag: u64,
    /// The repository, if it is not the one that git finds.
    git_dir: Option<PathBuf>,
}

/// Why git failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git {what}: {source}")]
    Run { what: String, source: CaptureError },
    #[error("git {what}: {reason}")]
    Refused { what: String, reason: String },
    #[error("{0}")]
    Unexpected(String),
    #[error("the work tree has more than {0} files")]
    TooManyFiles(usize),
    #[error("it took longer than it may")]
    TooLong,
}

impl GitError {
    /// Returns whether git finds no repository; otherwise there is one, and git refuses to read it.
    pub(super) fn is_no_repository(&self) -> bool {
        matches!(self, Self::Refused { reason, .. } if reason.starts_with(NO_REPOSITORY))
    }
}

impl Git {
    /// Finds git on a search path. `user_env` has the variables by which it finds its user's settings.
    pub fn find(path: &OsStr, user_env: Vec<(OsString, OsString)>, tag: u64) -> Option<Self> {
        Some(Self::at(Self::locate(path)?, path, user_env, tag))
    }

    /// Returns where git is on a search path.
    pub fn locate(path: &OsStr) -> Option<PathBuf> {
        system_files::find_program(OsStr::new("git"), path)
    }

    /// Uses this git, with a search path for what it starts and the variables by which it finds its user's settings.
    pub fn at(program: PathBuf, path: &OsStr, user_env: Vec<(OsString, OsString)>, tag: u64) -> Self {
        let mut env: Vec<(OsString, OsString)> = user_env;
        env.retain(|(name, _)| !name.to_string_lossy().starts_with("GIT_"));
        env.push(("PATH".into(), path.to_owned()));
        env.extend(VARIABLES.iter().map(|(name, value)| (name.into(), value.into())));
        Self { program, env, tag, git_dir: None }
    }

    /// Returns a git that uses this repository, whatever a work tree says.
    pub(super) fn with_git_dir(&self, git_dir: PathBuf) -> Self {
        Self { git_dir: Some(git_dir), ..self.clone() }
    }

    /// Runs git in a work tree, and returns its output.
    pub fn run(&self, root: &Path, words: &[&str], deadline: Instant) -> Result<Vec<u8>, GitError> {
        self.run_with_input(root, words, &[], deadline)
    }

    /// Runs git with input.
    pub fn run_with_input(
        &self,
        root: &Path,
        words: &[&str],
        input: &[u8],
        deadline: Instant,
    ) -> Result<Vec<u8>, GitError> {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        self.run_args(root, &words, input, deadline)
    }

    pub(super) fn run_args(
        &self,
        root: &Path,
        words: &[OsString],
        input: &[u8],
        deadline: Instant,
    ) -> Result<Vec<u8>, GitError> {
        let what = || words.iter().find(|word| !is_option(word)).map_or_else(String::new, lossy);
        // The work tree is named, since the repository's own settings may name another one.
        let mut args: Vec<OsString> = vec!["--work-tree".into(), root.into(), "--no-pager".into()];
        if let Some(git_dir) = &self.git_dir {
            args.extend(["--git-dir".into(), git_dir.into()]);
        }
        args.extend(SETTINGS.iter().flat_map(|setting| ["-c".into(), setting.into()]));
        args.extend_from_slice(words);
        let request = CaptureRequest {
            program: &self.program,
            args: &args,
            env: &self.env,
            directory: root,
            tag: self.tag,
            input,
            deadline,
            output_bytes_max: OUTPUT_BYTES_MAX,
        };
        let captured = capture(&request).map_err(|source| GitError::Run { what: what(), source })?;
        match captured.exit {
            Exit::Code(0) => Ok(captured.stdout),
            Exit::Code(_) | Exit::Signal(_) => {
                let message = captured.stderr.lines().find(|line| !line.trim().is_empty());
                let reason = message.unwrap_or("it failed without a word").trim().to_owned();
                Err(GitError::Refused { what: what(), reason })
            }
        }
    }

    /// Returns the commit that is checked out, if there is one.
    pub fn head(&self, root: &Path, deadline: Instant) -> Option<String> {
        self.run(root, &["rev-parse", "--quiet", "--verify", "HEAD^{commit}"], deadline)
            .ok()
            .map(|read_bytes| line(&read_bytes))
    }
}

fn is_option(word: &OsString) -> bool {
    word.to_string_lossy().starts_with('-') || word.to_string_lossy().contains('=')
}

fn lossy(word: &OsString) -> String {
    word.to_string_lossy().into_owned()
}

/// Returns output of one line.
pub(super) fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned()
}

/// Returns the root of the work tree that a directory is in, by its `.git`. An empty folder of that name does not
/// count: sandboxes of agents leave some behind.
pub fn work_tree_root(directory: &Path) -> Option<&Path> {
    directory.ancestors().find(|folder| {
        let git = folder.join(".git");
        git.is_file() || git.join("HEAD").symlink_metadata().is_ok()
    })
}
