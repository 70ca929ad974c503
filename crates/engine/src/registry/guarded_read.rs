//! Reads a file that somebody else wrote: with a size limit, and never through a link that leads out of its folder.

use std::io::Read as _;
use std::path::Path;

use domain::diagnostic::Diagnostic;
use system_files::regular_file;

use super::file_state::{observe, observe_link_target};

/// The error for a link that leads out of its folder.
pub(super) const ESCAPES_FOLDER: &str = "the symbolic link leaves its folder, so it is not read";

/// The error for a link to a missing file.
pub(super) const DANGLING_LINK: &str = "the symbolic link leads nowhere";

/// Returns whether a path leads out of a folder once its links are followed.
pub(super) fn escapes_folder(path: &Path, folder: &Path) -> bool {
    observe_link_target(path);
    observe_link_target(folder);
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(path), Ok(folder)) => !path.starts_with(folder),
        // A path that cannot be resolved cannot be read either, and reading reports why.
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// Returns the same for a folder that may not exist yet, by its existing part.
pub fn would_escape(folder: &Path, within: &Path) -> bool {
    let there = folder.ancestors().find(|path| path.symlink_metadata().is_ok());
    there.is_some_and(|there| escapes_folder(there, within))
}

/// Returns the beginning of a file that may not be valid text, or too large.
pub(super) fn read_head(path: &Path, bytes_max: u64) -> String {
    observe(path);
    let mut bytes = Vec::new();
    // On an error, the bytes read so far count.
    let _ = regular_file::open(path).and_then(|file| file.take(bytes_max).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the text of a file; `None` if it does not exist. Reports all other errors.
pub(super) fn read_text(path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Option<String> {
    match String::from_utf8(read_bytes(path, diagnostics)?) {
        Ok(text) => Some(text),
        Err(error) => {
            let shown = path.display().to_string();
            diagnostics
                .push(Diagnostic::error(&shown, "it is not valid UTF-8").at(invalid_utf8_line(&error), 1));
            None
        }
    }
}

/// The same for a file with bytes that are not UTF-8: each becomes U+FFFD, with a warning.
pub(super) fn read_text_lossy(path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Option<String> {
    match String::from_utf8(read_bytes(path, diagnostics)?) {
        Ok(text) => Some(text),
        Err(error) => {
            let message = "it is not valid UTF-8; the bytes that are not are replaced by U+FFFD";
            let shown = path.display().to_string();
            diagnostics.push(Diagnostic::warning(&shown, message).at(invalid_utf8_line(&error), 1));
            Some(String::from_utf8_lossy(error.as_bytes()).into_owned())
        }
    }
}

fn read_bytes(path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Option<Vec<u8>> {
    observe(path);
    let shown = path.display().to_string();
    match regular_file::read_bytes(path, config::FILE_BYTES_MAX as u64) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            diagnostics.extend(path.is_symlink().then(|| Diagnostic::error(&shown, DANGLING_LINK)));
            None
        }
        Err(error) => {
            diagnostics.push(Diagnostic::error(&shown, format!("could not read it: {error}")));
            None
        }
    }
}

/// Returns the line of the first byte that is not UTF-8.
fn invalid_utf8_line(error: &std::string::FromUtf8Error) -> u32 {
    let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    u32::try_from(before.iter().filter(|byte| **byte == b'\n').count() + 1).unwrap_or(u32::MAX)
}
