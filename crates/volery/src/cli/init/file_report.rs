//! Prints what was done to files.

use std::path::Path;

use super::super::error::CommandError;
use super::super::output::Out;
use super::file_changes::{FileOutcome, FileReport};
use crate::report::{TextStyle, one_line, sanitize_for_terminal, wrap};

/// Prints the diff and the outcome of every file, and what to do if it could not be changed.
pub(crate) fn print_files(files: &[FileReport], project: &Path, out: &mut Out) -> Result<(), CommandError> {
    for file in files {
        out.page(&sanitize_for_terminal(&file.diff))?;
        let text = line(file, project, &out.style());
        out.page(&text)?;
        if let Some(backup) = &file.backup {
            out.note(&format!("what it was is kept in {}", backup.display()));
        }
        if let Some(paste) = &file.paste {
            out.note("write this into it by hand, next to what it has:");
            out.page(&sanitize_for_terminal(paste))?;
        }
    }
    Ok(())
}

/// Returns whether any file was written.
pub(crate) fn any_written(files: &[FileReport]) -> bool {
    files.iter().any(|file| file.state == FileOutcome::Written)
}

/// Returns whether any file could not be changed.
pub(crate) fn any_left_alone(files: &[FileReport]) -> bool {
    files.iter().any(|file| file.state == FileOutcome::LeftAlone)
}

/// Describes the outcome of a file, wrapped to the terminal.
fn line(file: &FileReport, project: &Path, style: &TextStyle) -> String {
    let what = match file.state {
        FileOutcome::Unchanged => "unchanged",
        FileOutcome::WouldChange => "would change",
        FileOutcome::Written => "written",
        FileOutcome::Restored => "as it was without volery",
        FileOutcome::Removed => "removed",
        FileOutcome::Gone => "was removed already",
        FileOutcome::LeftAlone => "left alone",
    };
    let problem = file.problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
    let path = style.short_path(&file.path.to_string_lossy(), project.to_str());
    let text = one_line(&format!("{}: {path} {what}{problem}", file.client));
    match style.width {
        Some(width) => format!("{}\n", wrap(&text, width.saturating_sub(2).max(20)).join("\n  ")),
        None => format!("{text}\n"),
    }
}
