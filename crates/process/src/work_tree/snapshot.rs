//! The state of a work tree at some moment, by the metadata of its files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use domain::run::{Changes, Commits};
use rustix::fs::FileType;

use super::compare::{self, Comparison, FileStamp, FileState, TreeState};
use super::git::{Git, GitError, line, work_tree_root};

/// The most files that are tracked.
const FILES_MAX: usize = 200_000;
/// How often the clock is checked.
const FILES_BETWEEN_CHECKS: usize = 512;
/// The most files whose content is compared, and the most bytes of them.
const HASHED_MAX: usize = 5_000;
const HASHED_BYTES_MAX: u64 = 64 << 20;
/// The most files whose content is hashed before a run, which waits for it, and the most bytes of them.
const PREHASHED_MAX: usize = 500;
const PREHASHED_BYTES_MAX: u64 = 4 << 20;
/// The beginning of the stored form.
const HEADER: &str = "volery-tree-1";

/// A work tree as it was before a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    root: PathBuf,
    head: Option<String>,
    tree: TreeState,
}

impl Snapshot {
    /// Takes a snapshot of the work tree that a directory is in. `None` if it is in none.
    pub fn take(git: &Git, directory: &Path, deadline: Instant) -> Result<Option<Self>, GitError> {
        let Some(root) = work_tree_root(directory) else { return Ok(None) };
        let tree = match list(git, root, deadline) {
            Err(error) if error.is_no_repository() => return Ok(None),
            listed => listed?,
        };
        let mut snapshot = Self { root: root.to_owned(), head: git.head(root, deadline), tree };
        snapshot.hash_unknown_contents(git, deadline);
        Ok(Some(snapshot))
    }

    /// Hashes a few files whose content the index does not know, so that writing the same content again is not a
    /// change.
    fn hash_unknown_contents(&mut self, git: &Git, deadline: Instant) {
        let mut bytes = 0;
        let small = |(_, state): &(&Vec<u8>, &FileState)| {
            bytes += state.stamp.size;
            bytes <= PREHASHED_BYTES_MAX
        };
        // Reading a pipe waits for its writer.
        let is_file = |stamp: &FileStamp| FileType::from_raw_mode(stamp.mode) == FileType::RegularFile;
        let unknown =
            self.tree.files.iter().filter(|(_, state)| state.content.is_none() && is_file(&state.stamp));
        let unknown = unknown.take_while(small).take(PREHASHED_MAX).map(|(path, _)| path.clone());
        let unknown: Vec<Vec<u8>> = unknown.collect();
        for (path, content) in contents(git, &self.root, unknown.iter().collect(), deadline) {
            if let Some(state) = self.tree.files.get_mut(path) {
                state.content = Some(content);
            }
        }
    }

    /// Returns the changes since the snapshot.
    pub fn changes(&self, git: &Git, deadline: Instant) -> Result<Changes, GitError> {
        let mut after = list(git, &self.root, deadline)?;
        // Files that are ignored or no longer tracked now may still exist.
        for path in self
            .tree
            .files
            .keys()
            .filter(|path| !after.files.contains_key(*path))
            .cloned()
            .collect::<Vec<_>>()
        {
            if let Some(stamp) = read_stamp(&self.root, &path) {
                after.files.insert(path, FileState { stamp, content: None });
            }
        }
        let Comparison { mut files, doubtful } = compare::compare(&self.tree, &after);
        let same = self.same_content(git, &after, &doubtful, deadline);
        files.extend(doubtful.iter().filter(|path| !same.contains(path)).map(|path| compare::modified(path)));
        let head = git.head(&self.root, deadline);
        let commits = (head != self.head).then(|| Commits { before: self.head.clone(), after: head });
        Ok(Changes::bounded(self.root.display().to_string(), files, commits))
    }

    /// Returns the files whose content is unchanged. A file whose content is unknown counts as changed.
    fn same_content<'a>(
        &self,
        git: &Git,
        after: &TreeState,
        doubtful: &'a [Vec<u8>],
        deadline: Instant,
    ) -> Vec<&'a Vec<u8>> {
        let mut bytes = 0;
        let small = |path: &&Vec<u8>| {
            bytes += after.files.get(*path).map_or(0, |state| state.stamp.size);
            bytes <= HASHED_BYTES_MAX
        };
        let candidates = doubtful.iter().take_while(small).take(HASHED_MAX).collect();
        let before = |path: &[u8]| self.tree.files.get(path).and_then(|state| state.content.clone());
        let now = contents(git, &self.root, candidates, deadline).into_iter();
        now.filter(|(path, now)| before(path).as_ref() == Some(now)).map(|(path, _)| path).collect()
    }

    /// Returns the stored form, for a later worker.
    pub fn store(&self) -> Vec<u8> {
        let mut stored = Vec::new();
        let mut text = format!("{HEADER} {} {}", self.head.as_deref().unwrap_or("-"), self.tree.taken_ns);
        for (path, FileState { stamp, content }) in
            std::iter::once((self.root.as_os_str().as_bytes(), &FileState::default()))
                .chain(self.tree.files.iter().map(|(path, state)| (path.as_slice(), state)))
        {
            let FileStamp { mode, size, modified_ns, changed_ns, device, inode } = stamp;
            let content = content.as_deref().unwrap_or("-");
            // Writing to a text cannot fail.
            let _ = write!(text, " {mode} {size} {modified_ns} {changed_ns} {device} {inode} {content}\t");
            stored.extend_from_slice(text.as_bytes());
            stored.extend_from_slice(path);
            stored.push(0);
            text.clear();
        }
        stored
    }

    /// Parses the stored form. `None` if it is incomplete.
    pub fn load(stored: &[u8]) -> Option<Self> {
        let mut records = stored.strip_suffix(&[0])?.split(|byte| *byte == 0).map(|record| {
            let tab = record.iter().position(|byte| *byte == b'\t')?;
            Some((std::str::from_utf8(&record[..tab]).ok()?, &record[tab + 1..]))
        });
        let (heading, root) = records.next()??;
        let mut words = heading.split(' ');
        if words.next() != Some(HEADER) {
            return None;
        }
        let head = words.next().filter(|head| *head != "-").map(ToOwned::to_owned);
        let taken_ns = words.next()?.parse().ok()?;
        let mut files = BTreeMap::new();
        for record in records {
            let (fields, path) = record?;
            files.insert(path.to_vec(), parse_state(fields)?);
        }
        Some(Self { root: OsStr::from_bytes(root).into(), head, tree: TreeState { files, taken_ns } })
    }
}

/// Returns the hashes of the contents of files, as git has them in its index; none if git fails.
fn contents<'a>(
    git: &Git,
    root: &Path,
    paths: Vec<&'a Vec<u8>>,
    deadline: Instant,
) -> Vec<(&'a Vec<u8>, String)> {
    // Git reads one path per line, and treats a leading quotation mark as the beginning of an escaped path.
    let plain = |path: &&Vec<u8>| !path.contains(&b'\n') && !path.starts_with(b"\"");
    let plain_paths: Vec<&Vec<u8>> = paths.into_iter().filter(plain).collect();
    if plain_paths.is_empty() {
        return Vec::new();
    }
    let input = plain_paths.iter().flat_map(|path| path.iter().copied().chain([b'\n'])).collect::<Vec<u8>>();
    let words = ["hash-object", "--no-filters", "--stdin-paths"];
    let Ok(answer) = git.run_with_input(root, &words, &input, deadline) else { return Vec::new() };
    let answer = line(&answer);
    plain_paths.into_iter().zip(answer.lines().map(ToOwned::to_owned)).collect()
}

fn parse_state(fields: &str) -> Option<FileState> {
    let mut words = fields.trim_start().split(' ');
    let stamp = FileStamp {
        mode: words.next()?.parse().ok()?,
        size: words.next()?.parse().ok()?,
        modified_ns: words.next()?.parse().ok()?,
        changed_ns: words.next()?.parse().ok()?,
        device: words.next()?.parse().ok()?,
        inode: words.next()?.parse().ok()?,
    };
    let content = words.next().filter(|content| *content != "-").map(ToOwned::to_owned);
    Some(FileState { stamp, content })
}

/// Lists all files that are tracked, or neither tracked nor ignored, with their metadata.
fn list(git: &Git, root: &Path, deadline: Instant) -> Result<TreeState, GitError> {
    let taken_ns = now_ns();
    let tracked = git.run(root, &["ls-files", "--stage", "--debug", "-z"], deadline)?;
    let others = git.run(root, &["ls-files", "--others", "--exclude-standard", "-z"], deadline)?;
    let mut files = BTreeMap::new();
    let others = others.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(|path| (path, None));
    for (index, (path, entry)) in tracked_files(&tracked).chain(others).enumerate() {
        if index >= FILES_MAX {
            return Err(GitError::TooManyFiles(FILES_MAX));
        }
        if index % FILES_BETWEEN_CHECKS == 0 && Instant::now() > deadline {
            return Err(GitError::TooLong);
        }
        let Some(stamp) = read_stamp(root, path) else { continue };
        let content = entry.filter(|entry| entry.matches(&stamp)).map(|entry| entry.content.to_owned());
        files.insert(path.to_vec(), FileState { stamp, content });
    }
    Ok(TreeState { files, taken_ns })
}

/// What the index knows about a tracked file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IndexEntry<'a> {
    content: &'a str,
    modified_ns: i128,
    size: u64,
}

impl IndexEntry<'_> {
    /// Returns whether the file is unchanged since the index recorded it, so that its content is known.
    fn matches(&self, stamp: &FileStamp) -> bool {
        self.size == stamp.size && self.modified_ns == stamp.modified_ns
    }
}

/// Parses `MODE CONTENT STAGE TAB PATH NUL` and the lines of metadata after it. Metadata that cannot be read only
/// means that the content is unknown.
fn tracked_files(listed: &[u8]) -> impl Iterator<Item = (&[u8], Option<IndexEntry<'_>>)> {
    let mut rest = listed;
    std::iter::from_fn(move || {
        let tab = rest.iter().position(|byte| *byte == b'\t')?;
        let head = std::str::from_utf8(&rest[..tab]).unwrap_or_default();
        let end = tab + 1 + rest[tab + 1..].iter().position(|byte| *byte == 0)?;
        let path = &rest[tab + 1..end];
        rest = &rest[end + 1..];
        let mut until = 0;
        while rest[until..].starts_with(b"  ") {
            until +=
                rest[until..].iter().position(|byte| *byte == b'\n').map_or(rest.len() - until, |at| at + 1);
        }
        let fields = std::str::from_utf8(&rest[..until]).unwrap_or_default();
        rest = &rest[until..];
        Some((path, parse_index_entry(head, fields)))
    })
}

fn parse_index_entry<'a>(head: &'a str, fields: &str) -> Option<IndexEntry<'a>> {
    let content = head.split(' ').nth(1)?;
    let word = |name: &str| fields.split_once(name)?.1.split_whitespace().next();
    let (seconds, nanos) = word("mtime:")?.split_once(':')?;
    let (seconds, nanos): (i128, i128) = (seconds.parse().ok()?, nanos.parse().ok()?);
    Some(IndexEntry {
        content,
        modified_ns: seconds * 1_000_000_000 + nanos,
        size: word("size:")?.parse().ok()?,
    })
}

/// Returns the metadata of a file; `None` for a folder, such as a repository within this one.
fn read_stamp(root: &Path, path: &[u8]) -> Option<FileStamp> {
    let found = std::fs::symlink_metadata(root.join(OsStr::from_bytes(path))).ok()?;
    let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    (!found.is_dir()).then(|| FileStamp {
        mode: found.mode(),
        size: found.size(),
        modified_ns: nanoseconds(found.mtime(), found.mtime_nsec()),
        changed_ns: nanoseconds(found.ctime(), found.ctime_nsec()),
        device: found.dev(),
        inode: found.ino(),
    })
}

/// The clock of file times, which is not the one of events.
fn now_ns() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}
