//! Searches the text of files beneath a directory. Skips git's own directories, binary files, links, and everything
//! that the other tools refuse.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};
use regex::bytes::{Regex, RegexBuilder};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat};

use super::error::{ToolError, ToolOutput, shown};
use super::files::BINARY_PROBE_BYTES;
use super::list::entry_names;
use super::open::{check_file_system, kind_of, open_directory, open_file};
use super::paths::{EntryKind, FileRoots, ResolvedPath};

const PATTERN_BYTES_MAX: usize = 1000;
/// The memory of a compiled pattern: one such as `\w{500}` needs a megabyte.
const PATTERN_MEMORY_MAX: usize = 4 << 20;
const MATCHES_MAX: usize = 200;
const LINE_BYTES_SHOWN: usize = 300;
const ANSWER_BYTES_MAX: usize = 64 << 10;
const FILES_MAX: usize = 50_000;
/// Larger files are rarely text that somebody wrote.
const FILE_BYTES_MAX: u64 = 8 << 20;
const TOTAL_BYTES_MAX: u64 = 512 << 20;
const TIME_MAX: Duration = Duration::from_secs(20);
const DEPTH_MAX: usize = 64;

/// What to search for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SearchRequest<'a> {
    /// A regular expression, matched line by line.
    pub(crate) pattern: &'a str,
    /// The pattern is plain text.
    pub(crate) is_literal: bool,
    pub(crate) ignore_case: bool,
    /// Only in files whose path below the directory matches; a glob without `/` matches names at any depth.
    pub(crate) glob: Option<&'a str>,
}

/// Searches a file, or all files beneath a directory. Ends early when `cancelled` is set.
pub(crate) fn search(
    roots: &FileRoots,
    path: &ResolvedPath,
    request: &SearchRequest<'_>,
    cancelled: &AtomicBool,
) -> Result<ToolOutput, ToolError> {
    let mut search = Search {
        roots,
        path,
        pattern: compile(request)?,
        glob: request.glob.map(compile_glob).transpose()?,
        cancelled,
        deadline: Instant::now() + TIME_MAX,
        found: Found::default(),
        buffer: Vec::new(),
    };
    match kind_of(roots, path)? {
        FileType::Directory => {
            let directory = open_directory(roots, path)?;
            search.walk(&directory, &mut PathBuf::new(), 0)?;
        }
        _ if !roots.is_visible(path.absolute(), EntryKind::File) => {
            return Err(ToolError::Hidden { path: path.shown().to_owned() });
        }
        _ => {
            let (file, _) = open_file(roots, path)?;
            search.search_file(file, Path::new(path.shown()))?;
        }
    }
    Ok(ToolOutput::success(search.found.describe()))
}

fn compile(request: &SearchRequest<'_>) -> Result<Regex, ToolError> {
    if request.pattern.is_empty() {
        return Err(ToolError::Pattern { reason: "it is empty".to_owned() });
    }
    if request.pattern.len() > PATTERN_BYTES_MAX {
        return Err(ToolError::Pattern { reason: format!("it is longer than {PATTERN_BYTES_MAX} bytes") });
    }
    let literal;
    let pattern = match request.is_literal {
        true => {
            literal = regex::escape(request.pattern);
            &literal
        }
        false => request.pattern,
    };
    let mut builder = RegexBuilder::new(pattern);
    builder.case_insensitive(request.ignore_case).size_limit(PATTERN_MEMORY_MAX);
    builder.dfa_size_limit(PATTERN_MEMORY_MAX).nest_limit(100);
    builder.build().map_err(|error| ToolError::Pattern { reason: error.to_string() })
}

fn compile_glob(glob: &str) -> Result<GlobMatcher, ToolError> {
    if glob.len() > PATTERN_BYTES_MAX {
        return Err(ToolError::Pattern {
            reason: format!("the glob is longer than {PATTERN_BYTES_MAX} bytes"),
        });
    }
    let anywhere;
    let glob = match glob.contains('/') {
        true => glob.trim_start_matches("./"),
        false => {
            anywhere = format!("**/{glob}");
            &anywhere
        }
    };
    let built = GlobBuilder::new(glob).literal_separator(true).build();
    let built = built.map_err(|error| ToolError::Pattern { reason: format!("the glob: {error}") })?;
    Ok(built.compile_matcher())
}

struct Search<'a> {
    roots: &'a FileRoots,
    path: &'a ResolvedPath,
    pattern: Regex,
    glob: Option<GlobMatcher>,
    cancelled: &'a AtomicBool,
    deadline: Instant,
    found: Found,
    buffer: Vec<u8>,
}

/// The matches, and why there may be more.
#[derive(Default)]
struct Found {
    text: String,
    matches: usize,
    files_with_matches: usize,
    files: usize,
    bytes: u64,
    skipped_large: usize,
    skipped_links: usize,
    /// Which bound was reached.
    stopped: Option<&'static str>,
}

impl Search<'_> {
    /// Searches a directory. `below` is its path below the start, for messages and the glob.
    fn walk(&mut self, directory: &OwnedFd, below: &mut PathBuf, depth: usize) -> Result<(), ToolError> {
        for name in entry_names(directory, self.path)? {
            if !self.goes_on()? {
                return Ok(());
            }
            let Ok(stat) = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            below.push(&name);
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => EntryKind::Directory,
                _ => EntryKind::File,
            };
            let is_open = self.roots.is_visible(&self.path.absolute().join(&below), kind);
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if is_open && name != ".git" => {
                    self.enter(directory, &name, below, depth)?;
                }
                FileType::RegularFile if is_open && self.is_wanted(below) => {
                    self.search_entry(directory, &name, below)?;
                }
                _ => {}
            }
            below.pop();
        }
        Ok(())
    }

    fn enter(
        &mut self,
        directory: &OwnedFd,
        name: &OsString,
        below: &mut PathBuf,
        depth: usize,
    ) -> Result<(), ToolError> {
        if depth >= DEPTH_MAX {
            self.found.stopped = Some("directories are nested too deeply");
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // One that cannot be read, or is gone, has no matches.
        let Ok(inner) = openat(directory, name, flags, Mode::empty()) else { return Ok(()) };
        if check_file_system(inner.as_fd(), self.path).is_err() {
            return Ok(());
        }
        match self.walk(&inner, below, depth + 1) {
            Err(ToolError::Io { .. }) => Ok(()),
            walked => walked,
        }
    }

    fn is_wanted(&self, below: &Path) -> bool {
        self.glob.as_ref().is_none_or(|glob| glob.is_match(below))
    }

    fn search_entry(&mut self, directory: &OwnedFd, name: &OsString, below: &Path) -> Result<(), ToolError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(file) = openat(directory, name, flags, Mode::empty()) else { return Ok(()) };
        // Looked at again: it may be another file by now.
        let Ok(stat) = rustix::fs::fstat(&file) else { return Ok(()) };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        if stat.st_nlink > 1 {
            self.found.skipped_links += 1;
            return Ok(());
        }
        let shown_path = self.shown(below);
        self.search_file(File::from(file), &shown_path)
    }

    /// Returns the path by which the other tools find the file.
    fn shown(&self, below: &Path) -> PathBuf {
        match self.path.shown() {
            "." => below.to_owned(),
            start => Path::new(start).join(below),
        }
    }

    fn search_file(&mut self, file: File, shown_path: &Path) -> Result<(), ToolError> {
        self.found.files += 1;
        self.buffer.clear();
        // One that cannot be read has no matches.
        if file.take(FILE_BYTES_MAX + 1).read_to_end(&mut self.buffer).is_err() {
            return Ok(());
        }
        self.found.bytes += self.buffer.len() as u64;
        if self.buffer.len() as u64 > FILE_BYTES_MAX {
            self.found.skipped_large += 1;
            return Ok(());
        }
        if self.buffer.iter().take(BINARY_PROBE_BYTES).any(|byte| *byte == 0) {
            return Ok(());
        }
        let mut has_match = false;
        // After the last line feed there is no further line.
        let text = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let Some(found) = self.pattern.find(line) else { continue };
            if self.found.matches >= MATCHES_MAX || self.found.text.len() >= ANSWER_BYTES_MAX {
                self.found.stopped = Some("there are more matches");
                break;
            }
            self.found.matches += 1;
            has_match = true;
            let excerpt = excerpt(line, found.start());
            // Writing to a string cannot fail.
            let _ = writeln!(self.found.text, "{}:{}: {excerpt}", shown(shown_path), index + 1);
        }
        self.found.files_with_matches += usize::from(has_match);
        Ok(())
    }

    /// Returns whether there is time and room for more.
    fn goes_on(&mut self) -> Result<bool, ToolError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(ToolError::Cancelled);
        }
        if self.found.stopped.is_none() {
            self.found.stopped = match () {
                () if self.found.files >= FILES_MAX => Some("too many files"),
                () if self.found.bytes >= TOTAL_BYTES_MAX => Some("too much text"),
                () if Instant::now() >= self.deadline => Some("it took too long"),
                () => None,
            };
        }
        Ok(self.found.stopped.is_none())
    }
}

/// Returns a line, or the part of a long one around the match.
fn excerpt(line: &[u8], matched_at: usize) -> String {
    if line.len() <= LINE_BYTES_SHOWN {
        return String::from_utf8_lossy(line).into_owned();
    }
    let start = matched_at.saturating_sub(LINE_BYTES_SHOWN / 4);
    let end = (start + LINE_BYTES_SHOWN).min(line.len());
    let part = String::from_utf8_lossy(line.get(start..end).unwrap_or_default()).into_owned();
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" });
    format!("{before}{part}{after}")
}

impl Found {
    fn describe(self) -> String {
        let mut notes = vec![match self.matches {
            0 => format!("no match in {} files", self.files),
            matches => format!("{matches} matching lines in {} files", self.files_with_matches),
        }];
        if let Some(reason) = self.stopped {
            notes.push(format!("stopped early: {reason}; narrow the pattern, the directory or the glob"));
        }
        if self.skipped_large > 0 {
            let most = domain::size::display_bytes(FILE_BYTES_MAX);
            notes.push(format!("{} files larger than {most} were skipped", self.skipped_large));
        }
        if self.skipped_links > 0 {
            notes.push(format!("{} files with several hard links were skipped", self.skipped_links));
        }
        format!("{}[{}]", self.text, notes.join("; "))
    }
}
