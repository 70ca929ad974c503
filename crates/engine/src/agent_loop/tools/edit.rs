//! Replaces exact text in a file.

use std::io::Read;

use sha2::{Digest, Sha256};

use super::error::{ToolError, ToolOutput};
use super::files::{BINARY_PROBE_BYTES, FILE_BYTES_MAX, Replacement, refuse_git, replace};
use super::open::{check_links, io_error, open_file, open_parent};
use super::paths::{FileRoots, ResolvedPath};

/// How many lines an error names.
const LINES_NAMED: usize = 10;

/// Text to replace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EditRequest<'a> {
    /// Must occur once, unless all occurrences are replaced.
    pub(crate) old: &'a str,
    pub(crate) new: &'a str,
    pub(crate) replace_all: bool,
    /// What [`plan_edit`] has found: the edit is made only in that file, and once. `None`: in whatever is there.
    pub(crate) expected: Option<&'a EditDigests>,
    /// Names the call, the same after an interruption.
    pub(crate) call: &'a str,
}

/// SHA-256 of a file before and after an edit, in hexadecimal. To be recorded before the edit: a later try then knows
/// whether the edit was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EditDigests {
    pub(crate) before: String,
    pub(crate) after: String,
}

/// Computes what an edit would change, and changes nothing.
pub(crate) fn plan_edit(
    roots: &FileRoots,
    path: &ResolvedPath,
    request: &EditRequest<'_>,
) -> Result<EditDigests, ToolError> {
    refuse_git(path)?;
    let before = read_text(roots, path)?;
    let (after, _) = edited(&before, path, request)?;
    Ok(EditDigests { before: digest(&before), after: digest(&after) })
}

/// Makes an edit. An expected edit that was made before is a success and is not made again.
pub(crate) fn edit(
    roots: &FileRoots,
    path: &ResolvedPath,
    request: &EditRequest<'_>,
) -> Result<(ToolOutput, EditDigests), ToolError> {
    refuse_git(path)?;
    let before = read_text(roots, path)?;
    let found = digest(&before);
    if let Some(expected) = request.expected {
        if found == expected.after {
            let text = format!("the edit of {} was made already", path.shown());
            return Ok((ToolOutput::success(text), expected.clone()));
        }
        if found != expected.before {
            return Err(ToolError::Changed { path: path.shown().to_owned() });
        }
    }
    let (after, count) = edited(&before, path, request)?;
    let parent = open_parent(roots, path)?;
    let existing = parent.existing(roots, path)?;
    if let Some(existing) = &existing {
        check_links(existing, path)?;
    }
    // As late as possible: others may edit the same file, and nothing in the kernel compares and swaps files.
    if digest(&read_text(roots, path)?) != found {
        return Err(ToolError::Changed { path: path.shown().to_owned() });
    }
    replace(roots, path, &parent, &Replacement { content: &after, existing, call: request.call })?;
    let times = if count == 1 { "1 place".to_owned() } else { format!("{count} places") };
    let digests = EditDigests { before: found, after: digest(&after) };
    Ok((ToolOutput::success(format!("edited {} in {times}", path.shown())), digests))
}

fn read_text(roots: &FileRoots, path: &ResolvedPath) -> Result<String, ToolError> {
    let (file, stat) = open_file(roots, path)?;
    let shown = || path.shown().to_owned();
    let too_large = |bytes| ToolError::TooLarge { path: shown(), bytes, bytes_max: FILE_BYTES_MAX };
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if size > FILE_BYTES_MAX {
        return Err(too_large(size));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|source| io_error("read", path, source))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large(bytes.len() as u64));
    }
    if bytes.iter().take(BINARY_PROBE_BYTES).any(|byte| *byte == 0) {
        return Err(ToolError::Binary { path: shown() });
    }
    String::from_utf8(bytes).map_err(|error| ToolError::NotText {
        path: shown(),
        offset: error.utf8_error().valid_up_to() as u64,
    })
}

/// Returns the new content, and the number of places that differ.
fn edited(
    before: &str,
    path: &ResolvedPath,
    request: &EditRequest<'_>,
) -> Result<(String, usize), ToolError> {
    let EditRequest { old, new, replace_all, .. } = *request;
    if old.is_empty() {
        return Err(ToolError::EmptyOldText);
    }
    if old == new {
        return Err(ToolError::SameText);
    }
    let count = before.matches(old).count();
    match count {
        0 => return Err(ToolError::NoMatch { path: path.shown().to_owned() }),
        1 => {}
        _ if replace_all => {}
        _ => {
            let lines = lines_of(before, old);
            return Err(ToolError::SeveralMatches { path: path.shown().to_owned(), count, lines });
        }
    }
    let bytes = before.len() as u64 + (count as u64) * (new.len() as u64);
    let bytes = bytes.saturating_sub((count as u64) * (old.len() as u64));
    if bytes > FILE_BYTES_MAX {
        return Err(ToolError::TooLarge { path: path.shown().to_owned(), bytes, bytes_max: FILE_BYTES_MAX });
    }
    Ok((before.replace(old, new), count))
}

/// Returns the numbers of the lines in which the first occurrences start.
fn lines_of(text: &str, old: &str) -> String {
    let (mut line, mut counted) = (1, 0);
    let mut lines = Vec::new();
    for (start, _) in text.match_indices(old).take(LINES_NAMED) {
        line += text.get(counted..start).unwrap_or_default().matches('\n').count();
        counted = start;
        lines.push(line.to_string());
    }
    lines.join(", ")
}

fn digest(text: &str) -> String {
    domain::hex::hex(&Sha256::digest(text.as_bytes()))
}
