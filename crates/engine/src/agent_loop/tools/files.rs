//! Reads, writes and appends to text files.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Mode, OFlags, Stat, openat, unlinkat};
use rustix::io::Errno;

use super::error::{ToolError, ToolOutput};
use super::open::{Parent, check_links, explain, io_error, open_file, open_parent};
use super::paths::{FileRoots, ResolvedPath};

/// The most of a file's text in one answer.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 10;
/// How much of a file is looked through to count its lines.
const SCANNED_BYTES_MAX: u64 = 64 << 20;
/// The largest file that is written or edited.
pub(super) const FILE_BYTES_MAX: u64 = 4 << 20;
/// A NUL within this many bytes makes a file binary, as in git.
pub(super) const BINARY_PROBE_BYTES: usize = 8000;

/// The part of a file to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReadRequest {
    /// The number of the first line, from 1.
    pub(crate) first_line: Option<u64>,
    pub(crate) lines_max: Option<u64>,
}

/// Reads lines of a text file. The last line of the answer says what the answer leaves out.
pub(crate) fn read(
    roots: &FileRoots,
    path: &ResolvedPath,
    request: ReadRequest,
) -> Result<ToolOutput, ToolError> {
    let (file, stat) = open_file(roots, path)?;
    let bytes = u64::try_from(stat.st_size).unwrap_or(0);
    let first = request.first_line.unwrap_or(1).max(1);
    let excerpt = scan(file, path, first, request.lines_max.unwrap_or(u64::MAX))?;
    if first > 1 && first > excerpt.lines {
        return Err(ToolError::NoSuchLine {
            path: path.shown().to_owned(),
            lines: excerpt.lines,
            line: first,
        });
    }
    let text = match String::from_utf8(excerpt.text) {
        Ok(text) => text,
        Err(error) => {
            let offset = excerpt.start + error.utf8_error().valid_up_to() as u64;
            return Err(ToolError::NotText { path: path.shown().to_owned(), offset });
        }
    };
    if bytes == 0 && text.is_empty() {
        return Ok(ToolOutput::success("[the file is empty]".to_owned()));
    }
    let is_whole = first == 1 && excerpt.next_line.is_none() && !excerpt.has_cut_line;
    if is_whole {
        return Ok(ToolOutput::success(text));
    }
    let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let counted = if excerpt.is_counted { "" } else { "more than " };
    let total = format!("{counted}{} lines, {}", excerpt.lines, domain::size::display_bytes(bytes));
    let cut = if excerpt.has_cut_line { "; the last line shown is cut" } else { "" };
    let more = match excerpt.next_line {
        Some(line) => format!("; continue with line {line}"),
        None => String::new(),
    };
    let last = excerpt.last_line.max(first);
    Ok(ToolOutput::success(format!("{text}{separator}[lines {first} to {last} of {total}{cut}{more}]")))
}

/// What was found of a file.
#[derive(Default)]
struct ScannedLines {
    text: Vec<u8>,
    /// Where the text starts in the file.
    start: u64,
    last_line: u64,
    has_cut_line: bool,
    /// The first line after the text.
    next_line: Option<u64>,
    lines: u64,
    /// Whether all lines are counted.
    is_counted: bool,
}

fn scan(file: File, path: &ResolvedPath, first: u64, lines_max: u64) -> Result<ScannedLines, ToolError> {
    let end = first.saturating_add(lines_max);
    let mut excerpt = ScannedLines::default();
    let (mut line, mut offset, mut is_line_open) = (1_u64, 0_u64, false);
    let mut file = file.take(SCANNED_BYTES_MAX);
    let mut chunk = vec![0_u8; 256 << 10];
    loop {
        let count = match file.read(&mut chunk) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read.map_err(|source| io_error("read", path, source))?,
        };
        let Some(read) = chunk.get(..count).filter(|read| !read.is_empty()) else { break };
        if offset == 0 && read.iter().take(BINARY_PROBE_BYTES).any(|byte| *byte == 0) {
            return Err(ToolError::Binary { path: path.shown().to_owned() });
        }
        for piece in read.split_inclusive(|byte| *byte == b'\n') {
            if (first..end).contains(&line) {
                excerpt.take_piece(piece, line, offset);
            } else if line >= end && excerpt.next_line.is_none() {
                excerpt.next_line = Some(line);
            }
            offset += piece.len() as u64;
            is_line_open = piece.last() != Some(&b'\n');
            line += u64::from(!is_line_open);
        }
    }
    excerpt.lines = line - 1 + u64::from(is_line_open);
    excerpt.is_counted = offset < SCANNED_BYTES_MAX;
    Ok(excerpt)
}

impl ScannedLines {
    /// Takes a line or a part of one, as far as there is room.
    fn take_piece(&mut self, piece: &[u8], line: u64, offset: u64) {
        if self.next_line.is_some() || (self.has_cut_line && line == self.last_line) {
            return;
        }
        let room = ANSWER_BYTES_MAX.saturating_sub(self.text.len());
        // A line that does not fit belongs into the next answer, unless this one has nothing else.
        let is_first = self.text.is_empty() || line == self.last_line;
        if self.has_cut_line || (piece.len() > room && !is_first) {
            self.next_line = Some(line);
            return;
        }
        if self.text.is_empty() {
            self.start = offset;
        }
        let taken = piece.get(..room).unwrap_or(piece);
        self.has_cut_line = taken.len() < piece.len();
        self.text.extend_from_slice(taken);
        self.last_line = line;
        if self.has_cut_line {
            // Not in the middle of a character.
            let valid = std::str::from_utf8(&self.text).map_or_else(|error| error.valid_up_to(), str::len);
            if self.text.len() - valid < 4 {
                self.text.truncate(valid);
            }
        }
    }
}

/// A file to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteRequest<'a> {
    pub(crate) content: &'a str,
    /// Names the call, the same after an interruption: the temporary file of the interrupted try is then replaced.
    pub(crate) call: &'a str,
}

/// Writes a file with this content, and creates the directories on the way. A second try has the same result.
pub(crate) fn write(
    roots: &FileRoots,
    path: &ResolvedPath,
    request: &WriteRequest<'_>,
) -> Result<ToolOutput, ToolError> {
    let bytes = request.content.len() as u64;
    if bytes > FILE_BYTES_MAX {
        return Err(ToolError::TooLarge { path: path.shown().to_owned(), bytes, bytes_max: FILE_BYTES_MAX });
    }
    refuse_git(path)?;
    let parent = open_parent(roots, path)?;
    let existing = parent.existing(roots, path)?;
    replace(roots, path, &parent, &Replacement { content: request.content, existing, call: request.call })?;
    let action = if existing.is_some() { "replaced" } else { "created" };
    Ok(ToolOutput::success(format!("{action} {}, {bytes} bytes", path.shown())))
}

/// Appends to a file, and creates it if it does not exist.
pub(crate) fn append(roots: &FileRoots, path: &ResolvedPath, text: &str) -> Result<ToolOutput, ToolError> {
    refuse_git(path)?;
    let parent = open_parent(roots, path)?;
    if let Some(existing) = parent.existing(roots, path)? {
        check_links(&existing, path)?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NONBLOCK;
    let flags = flags | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&parent.directory, &parent.name, flags, Mode::from_raw_mode(0o666));
    let mut file = File::from(file.map_err(|errno| explain(roots, path, errno))?);
    file.write_all(text.as_bytes()).map_err(|source| io_error("append to", path, source))?;
    Ok(ToolOutput::success(format!("appended {} bytes to {}", text.len(), path.shown())))
}

/// Git runs the programs that its settings and hooks name, for the next person who calls it.
pub(super) fn refuse_git(path: &ResolvedPath) -> Result<(), ToolError> {
    match domain::policy::is_in_git_dir(&path.absolute().to_string_lossy()) {
        true => Err(ToolError::InGitDirectory { path: path.shown().to_owned() }),
        false => Ok(()),
    }
}

/// The new content of a file, and the file that it replaces.
pub(super) struct Replacement<'a> {
    pub(super) content: &'a str,
    pub(super) existing: Option<Stat>,
    pub(super) call: &'a str,
}

/// Puts a new file at the place of the old one in one step: readers find the one or the other, and another name of the
/// old one keeps its content.
pub(super) fn replace(
    roots: &FileRoots,
    path: &ResolvedPath,
    parent: &Parent,
    replacement: &Replacement<'_>,
) -> Result<(), ToolError> {
    let temporary = temporary_name(replacement.call);
    let written = write_temporary(parent, &temporary, replacement).and_then(|()| {
        Ok(rustix::fs::renameat(&parent.directory, &temporary, &parent.directory, &parent.name)?)
    });
    written.map_err(|source| {
        // It may not exist.
        let _ = unlinkat(&parent.directory, &temporary, AtFlags::empty());
        match Errno::from_io_error(&source) {
            Some(errno @ (Errno::LOOP | Errno::NOTDIR | Errno::NAMETOOLONG)) => explain(roots, path, errno),
            _ => io_error("write", path, source),
        }
    })
}

fn write_temporary(parent: &Parent, name: &str, replacement: &Replacement<'_>) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = || openat(&parent.directory, name, flags, Mode::from_raw_mode(0o666));
    let file = match create() {
        Err(Errno::EXIST) => {
            unlinkat(&parent.directory, name, AtFlags::empty())?;
            create()?
        }
        created => created?,
    };
    if let Some(existing) = replacement.existing {
        use rustix::fs::{Gid, Uid, fchmod, fchown};
        let owner = (Uid::from_raw(existing.st_uid), Gid::from_raw(existing.st_gid));
        // Only root can, and then a file of the user should stay one.
        let _ = fchown(&file, Some(owner.0), Some(owner.1));
        // Not the set-id bits: the kernel drops them too when a file is written.
        fchmod(&file, Mode::from_raw_mode(existing.st_mode & 0o777))?;
    }
    let mut file = File::from(file);
    file.write_all(replacement.content.as_bytes())?;
    // Otherwise a loss of power could leave an empty file under the name.
    rustix::fs::fdatasync(file.as_fd())?;
    Ok(())
}

/// The name does not depend on that of the file, which may be as long as names can be.
fn temporary_name(call: &str) -> String {
    use sha2::{Digest, Sha256};
    let digest = domain::hex::hex(&Sha256::digest(call.as_bytes()));
    format!(".volery-{}.tmp", domain::size::head(&digest, 16))
}
