//! Asks git, so that nothing a repository names is executed and nothing is fetched or locked.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::contract::Exit;
use crate::process::{CaptureError, CaptureRequest, capture};

/// The most that git may write: some 200,000 long paths with their marks.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// What git says where there is no repository.
const NO_REPOSITORY: &str = "fatal: not a git repository";

/// Settings that beat those of the repository.
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
    // A change is not to be overlooked.
    "core.ignoreStat=false",
    "core.trustctime=true",
    "core.checkStat=default",
    // Records of work trees are compared with whole paths.
    "worktree.useRelativePaths=false",
];

/// Variables that do the same, and keep git from asking anybody.
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
    /// The repository, where it is not the one that git finds.
    git_dir: Option<PathBuf>,
}

/// Why git gave no answer.
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
    /// Tells whether git finds no repository; else there is one, and git does not want to look at it.
    pub(super) fn is_no_repository(&self) -> bool {
        matches!(self, Self::Refused { reason, .. } if reason.starts_with(NO_REPOSITORY))
    }
}

impl Git {
    /// Takes git from a search path, with the variables by which it finds its user's settings.
    pub fn find(path: &OsStr, user_env: Vec<(OsString, OsString)>, tag: u64) -> Option<Self> {
        Some(Self::at(Self::locate(path)?, path, user_env, tag))
    }

    /// Returns where git is on a search path.
    pub fn locate(path: &OsStr) -> Option<PathBuf> {
        crate::process::find_program(OsStr::new("git"), path)
    }

    /// Takes this git, with a search path for what it starts and the variables by which it finds its user's settings.
    pub fn at(program: PathBuf, path: &OsStr, user_env: Vec<(OsString, OsString)>, tag: u64) -> Self {
        let mut env: Vec<(OsString, OsString)> = user_env;
        env.retain(|(name, _)| !name.to_string_lossy().starts_with("GIT_"));
        env.push(("PATH".into(), path.to_owned()));
        env.extend(VARIABLES.iter().map(|(name, value)| (name.into(), value.into())));
        Self { program, env, tag, git_dir: None }
    }

    /// Returns git that uses this repository, whatever a work tree says.
    pub(super) fn with_git_dir(&self, git_dir: PathBuf) -> Self {
        Self { git_dir: Some(git_dir), ..self.clone() }
    }

    /// Asks git in a work tree, and returns what it wrote.
    pub fn ask(&self, root: &Path, words: &[&str], deadline: Instant) -> Result<Vec<u8>, GitError> {
        self.ask_with(root, words, &[], deadline)
    }

    /// Asks git with something to read.
    pub fn ask_with(
        &self,
        root: &Path,
        words: &[&str],
        input: &[u8],
        deadline: Instant,
    ) -> Result<Vec<u8>, GitError> {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        self.ask_words(root, &words, input, deadline)
    }

    pub(super) fn ask_words(
        &self,
        root: &Path,
        words: &[OsString],
        input: &[u8],
        deadline: Instant,
    ) -> Result<Vec<u8>, GitError> {
        let what = || words.iter().find(|word| !is_option(word)).map_or_else(String::new, lossy);
        // The work tree is said, since the repository's own settings may name another place.
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
                let told = captured.stderr.lines().find(|line| !line.trim().is_empty());
                let reason = told.unwrap_or("it failed without a word").trim().to_owned();
                Err(GitError::Refused { what: what(), reason })
            }
        }
    }

    /// Returns the commit that is checked out, if there is one.
    pub fn head(&self, root: &Path, deadline: Instant) -> Option<String> {
        self.ask(root, &["rev-parse", "--quiet", "--verify", "HEAD^{commit}"], deadline)
            .ok()
            .map(|bytes| line(&bytes))
    }
}

fn is_option(word: &OsString) -> bool {
    word.to_string_lossy().starts_with('-') || word.to_string_lossy().contains('=')
}

fn lossy(word: &OsString) -> String {
    word.to_string_lossy().into_owned()
}

/// Returns an answer of one line.
pub(super) fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned()
}

/// Returns the root of the work tree that a directory is in, by the `.git` that every one has. Sandboxes of agents leave
/// empty folders of that name behind.
pub fn root_of(directory: &Path) -> Option<&Path> {
    directory.ancestors().find(|folder| {
        let git = folder.join(".git");
        git.is_file() || git.join("HEAD").symlink_metadata().is_ok()
    })
}
