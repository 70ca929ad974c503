//! Reads one file of somebody's: bounded, and never through a link that leads out of its folder.

use std::io::Read as _;
use std::path::Path;

use backend::plain_file;
use domain::diagnostic::Diagnostic;

use super::file_state::{observe, observe_link_target};

/// What is said of a link that leads out of its folder.
pub(super) const LEAVES: &str = "the symbolic link leaves its folder, so it is not read";

/// What is said of a link to something that is not there.
pub(super) const NOWHERE: &str = "the symbolic link leads nowhere";

/// Tells whether a path leads out of a folder once its links are followed.
pub(super) fn leaves_folder(path: &Path, folder: &Path) -> bool {
    observe_link_target(path);
    observe_link_target(folder);
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(path), Ok(folder)) => !path.starts_with(folder),
        // What cannot be resolved cannot be read either, and reading says why.
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// Tells the same of a folder that need not be there yet: what is there of it counts.
pub fn would_leave(folder: &Path, within: &Path) -> bool {
    let there = folder.ancestors().find(|path| path.symlink_metadata().is_ok());
    there.is_some_and(|there| leaves_folder(there, within))
}

/// Returns the beginning of a file that may be no text as a whole, or too large for one.
pub(super) fn beginning(path: &Path, bytes_max: u64) -> String {
    observe(path);
    let mut bytes = Vec::new();
    // What can be read of it counts.
    let _ = plain_file::open(path).and_then(|file| file.take(bytes_max).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the text of a file; a file that is not there says nothing, anything else is reported.
pub(super) fn read_text(path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Option<String> {
    match String::from_utf8(read_bytes(path, diagnostics)?) {
        Ok(text) => Some(text),
        Err(error) => {
            let shown = path.display().to_string();
            diagnostics.push(Diagnostic::error(&shown, "it is not valid UTF-8").at(line_of(&error), 1));
            None
        }
    }
}

/// The same for a file that may have bytes which are not UTF-8: each becomes U+FFFD, with a warning.
pub(super) fn read_text_lossy(path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Option<String> {
    match String::from_utf8(read_bytes(path, diagnostics)?) {
        Ok(text) => Some(text),
        Err(error) => {
            let message = "it is not valid UTF-8; the bytes that are not are replaced by U+FFFD";
            let shown = path.display().to_string();
            diagnostics.push(Diagnostic::warning(&shown, message).at(line_of(&error), 1));
            Some(String::from_utf8_lossy(error.as_bytes()).into_owned())
        }
    }
}

fn read_bytes(path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Option<Vec<u8>> {
    observe(path);
    let shown = path.display().to_string();
    match plain_file::bytes(path, definition::FILE_BYTES_MAX as u64) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            diagnostics.extend(path.is_symlink().then(|| Diagnostic::error(&shown, NOWHERE)));
            None
        }
        Err(error) => {
            diagnostics.push(Diagnostic::error(&shown, format!("could not read it: {error}")));
            None
        }
    }
}

/// Returns the line of the first byte that is not UTF-8.
fn line_of(error: &std::string::FromUtf8Error) -> u32 {
    let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    u32::try_from(before.iter().filter(|byte| **byte == b'\n').count() + 1).unwrap_or(u32::MAX)
}
