//! What is in a work tree at some moment, by the marks of its files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use domain::run::{Changes, Commits};
use rustix::fs::FileType;

use super::compare::{self, Compared, Mark, Seen, Tree};
use super::git::{Git, GitError, line, root_of};

/// The most files that are followed.
const FILES_MAX: usize = 200_000;
/// How often the clock is looked at.
const FILES_BETWEEN_LOOKS: usize = 512;
/// The most files whose content is compared, and the most bytes of them.
const HASHED_MAX: usize = 5_000;
const HASHED_BYTES_MAX: u64 = 64 << 20;
/// The most files whose content is learnt before a run, which waits for it, and the most bytes of them.
const LEARNT_MAX: usize = 500;
const LEARNT_BYTES_MAX: u64 = 4 << 20;
/// How the stored form begins.
const HEADING: &str = "volery-tree-1";

/// A work tree as it was before a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    root: PathBuf,
    head: Option<String>,
    tree: Tree,
}

impl Snapshot {
    /// Looks at the work tree that a directory is in. `None` if it is in none.
    pub fn take(git: &Git, directory: &Path, deadline: Instant) -> Result<Option<Self>, GitError> {
        let Some(root) = root_of(directory) else { return Ok(None) };
        let tree = match list(git, root, deadline) {
            Err(error) if error.is_no_repository() => return Ok(None),
            listed => listed?,
        };
        let mut snapshot = Self { root: root.to_owned(), head: git.head(root, deadline), tree };
        snapshot.learn_contents(git, deadline);
        Ok(Some(snapshot))
    }

    /// Learns the content of a few files that the index does not vouch for, so that who writes the same again has changed
    /// nothing.
    fn learn_contents(&mut self, git: &Git, deadline: Instant) {
        let mut bytes = 0;
        let small = |(_, seen): &(&Vec<u8>, &Seen)| {
            bytes += seen.mark.size;
            bytes <= LEARNT_BYTES_MAX
        };
        // Whoever reads a pipe waits for its writer.
        let is_file = |mark: &Mark| FileType::from_raw_mode(mark.mode) == FileType::RegularFile;
        let unknown =
            self.tree.files.iter().filter(|(_, seen)| seen.content.is_none() && is_file(&seen.mark));
        let unknown = unknown.take_while(small).take(LEARNT_MAX).map(|(path, _)| path.clone());
        let unknown: Vec<Vec<u8>> = unknown.collect();
        for (path, content) in contents(git, &self.root, unknown.iter().collect(), deadline) {
            if let Some(seen) = self.tree.files.get_mut(path) {
                seen.content = Some(content);
            }
        }
    }

    /// Returns what has changed since.
    pub fn changes(&self, git: &Git, deadline: Instant) -> Result<Changes, GitError> {
        let mut after = list(git, &self.root, deadline)?;
        // What is ignored or no longer tracked now may still be there.
        for path in self
            .tree
            .files
            .keys()
            .filter(|path| !after.files.contains_key(*path))
            .cloned()
            .collect::<Vec<_>>()
        {
            if let Some(mark) = mark(&self.root, &path) {
                after.files.insert(path, Seen { mark, content: None });
            }
        }
        let Compared { mut files, doubtful } = compare::compare(&self.tree, &after);
        let same = self.same_content(git, &after, &doubtful, deadline);
        files.extend(doubtful.iter().filter(|path| !same.contains(path)).map(|path| compare::modified(path)));
        let head = git.head(&self.root, deadline);
        let commits = (head != self.head).then(|| Commits { before: self.head.clone(), after: head });
        Ok(Changes::bounded(self.root.display().to_string(), files, commits))
    }

    /// Returns those of the files whose content is what it was. Whatever cannot be told counts as changed.
    fn same_content<'a>(
        &self,
        git: &Git,
        after: &Tree,
        doubtful: &'a [Vec<u8>],
        deadline: Instant,
    ) -> Vec<&'a Vec<u8>> {
        let mut bytes = 0;
        let small = |path: &&Vec<u8>| {
            bytes += after.files.get(*path).map_or(0, |seen| seen.mark.size);
            bytes <= HASHED_BYTES_MAX
        };
        let asked = doubtful.iter().take_while(small).take(HASHED_MAX).collect();
        let before = |path: &[u8]| self.tree.files.get(path).and_then(|seen| seen.content.clone());
        let now = contents(git, &self.root, asked, deadline).into_iter();
        now.filter(|(path, now)| before(path).as_ref() == Some(now)).map(|(path, _)| path).collect()
    }

    /// Returns the stored form, for a worker that comes after this one.
    pub fn store(&self) -> Vec<u8> {
        let mut stored = Vec::new();
        let mut text = format!("{HEADING} {} {}", self.head.as_deref().unwrap_or("-"), self.tree.taken_ns);
        for (path, Seen { mark, content }) in
            std::iter::once((self.root.as_os_str().as_bytes(), &Seen::default()))
                .chain(self.tree.files.iter().map(|(path, seen)| (path.as_slice(), seen)))
        {
            let Mark { mode, size, modified_ns, changed_ns, device, inode } = mark;
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

    /// Reads the stored form. `None` if it is not whole.
    pub fn load(stored: &[u8]) -> Option<Self> {
        let mut records = stored.strip_suffix(&[0])?.split(|byte| *byte == 0).map(|record| {
            let tab = record.iter().position(|byte| *byte == b'\t')?;
            Some((std::str::from_utf8(&record[..tab]).ok()?, &record[tab + 1..]))
        });
        let (heading, root) = records.next()??;
        let mut words = heading.split(' ');
        if words.next() != Some(HEADING) {
            return None;
        }
        let head = words.next().filter(|head| *head != "-").map(ToOwned::to_owned);
        let taken_ns = words.next()?.parse().ok()?;
        let mut files = BTreeMap::new();
        for record in records {
            let (marks, path) = record?;
            files.insert(path.to_vec(), seen_of(marks)?);
        }
        Some(Self { root: OsStr::from_bytes(root).into(), head, tree: Tree { files, taken_ns } })
    }
}

/// Returns the names of the contents of files, as git would have them in its index; of none where it cannot tell.
fn contents<'a>(
    git: &Git,
    root: &Path,
    paths: Vec<&'a Vec<u8>>,
    deadline: Instant,
) -> Vec<(&'a Vec<u8>, String)> {
    // Git reads a path per line, and takes a quotation mark for the beginning of an escaped one.
    let plain = |path: &&Vec<u8>| !path.contains(&b'\n') && !path.starts_with(b"\"");
    let asked: Vec<&Vec<u8>> = paths.into_iter().filter(plain).collect();
    if asked.is_empty() {
        return Vec::new();
    }
    let input = asked.iter().flat_map(|path| path.iter().copied().chain([b'\n'])).collect::<Vec<u8>>();
    let words = ["hash-object", "--no-filters", "--stdin-paths"];
    let Ok(answer) = git.ask_with(root, &words, &input, deadline) else { return Vec::new() };
    let answer = line(&answer);
    asked.into_iter().zip(answer.lines().map(ToOwned::to_owned)).collect()
}

fn seen_of(marks: &str) -> Option<Seen> {
    let mut words = marks.trim_start().split(' ');
    let mark = Mark {
        mode: words.next()?.parse().ok()?,
        size: words.next()?.parse().ok()?,
        modified_ns: words.next()?.parse().ok()?,
        changed_ns: words.next()?.parse().ok()?,
        device: words.next()?.parse().ok()?,
        inode: words.next()?.parse().ok()?,
    };
    let content = words.next().filter(|content| *content != "-").map(ToOwned::to_owned);
    Some(Seen { mark, content })
}

/// Lists all files that are tracked, or neither tracked nor ignored, with their marks.
fn list(git: &Git, root: &Path, deadline: Instant) -> Result<Tree, GitError> {
    let taken_ns = now_ns();
    let tracked = git.ask(root, &["ls-files", "--stage", "--debug", "-z"], deadline)?;
    let others = git.ask(root, &["ls-files", "--others", "--exclude-standard", "-z"], deadline)?;
    let mut files = BTreeMap::new();
    let others = others.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(|path| (path, None));
    for (index, (path, entry)) in tracked_files(&tracked).chain(others).enumerate() {
        if index >= FILES_MAX {
            return Err(GitError::TooManyFiles(FILES_MAX));
        }
        if index % FILES_BETWEEN_LOOKS == 0 && Instant::now() > deadline {
            return Err(GitError::TooLong);
        }
        let Some(mark) = mark(root, path) else { continue };
        let content = entry.filter(|entry| entry.is_of(&mark)).map(|entry| entry.content.to_owned());
        files.insert(path.to_vec(), Seen { mark, content });
    }
    Ok(Tree { files, taken_ns })
}

/// What the index knows about a tracked file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry<'a> {
    content: &'a str,
    modified_ns: i128,
    size: u64,
}

impl Entry<'_> {
    /// Tells whether the file is as it was when the index took it in, so that its content is known.
    fn is_of(&self, mark: &Mark) -> bool {
        self.size == mark.size && self.modified_ns == mark.modified_ns
    }
}

/// Reads `MODE CONTENT STAGE TAB PATH NUL` and the lines of marks behind it. Marks that cannot be read only mean that the
/// content is not known.
fn tracked_files(listed: &[u8]) -> impl Iterator<Item = (&[u8], Option<Entry<'_>>)> {
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
        let marks = std::str::from_utf8(&rest[..until]).unwrap_or_default();
        rest = &rest[until..];
        Some((path, entry_of(head, marks)))
    })
}

fn entry_of<'a>(head: &'a str, marks: &str) -> Option<Entry<'a>> {
    let content = head.split(' ').nth(1)?;
    let word = |name: &str| marks.split_once(name)?.1.split_whitespace().next();
    let (seconds, nanos) = word("mtime:")?.split_once(':')?;
    let (seconds, nanos): (i128, i128) = (seconds.parse().ok()?, nanos.parse().ok()?);
    Some(Entry { content, modified_ns: seconds * 1_000_000_000 + nanos, size: word("size:")?.parse().ok()? })
}

/// Returns the marks of a file; nothing for a folder, such as a repository within this one.
fn mark(root: &Path, path: &[u8]) -> Option<Mark> {
    let found = std::fs::symlink_metadata(root.join(OsStr::from_bytes(path))).ok()?;
    let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    (!found.is_dir()).then(|| Mark {
        mode: found.mode(),
        size: found.size(),
        modified_ns: nanoseconds(found.mtime(), found.mtime_nsec()),
        changed_ns: nanoseconds(found.ctime(), found.ctime_nsec()),
        device: found.dev(),
        inode: found.ino(),
    })
}

/// The clock that marks files, which is not the one of events.
fn now_ns() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}
