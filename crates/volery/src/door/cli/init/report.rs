//! What became of files, for people.

use std::path::Path;

use super::super::error::CommandError;
use super::super::out::Out;
use super::set_up::{FileReport, State};
use crate::report::{Look, neutralise, one_line, wrap};

/// Prints every file: what changes in it, what became of it, and what to do where it could not be changed.
pub(crate) fn tell_files(files: &[FileReport], project: &Path, out: &mut Out) -> Result<(), CommandError> {
    for file in files {
        out.page(&neutralise(&file.diff))?;
        let text = line(file, project, &out.look());
        out.page(&text)?;
        if let Some(backup) = &file.backup {
            out.note(&format!("what it was is kept in {}", backup.display()));
        }
        if let Some(paste) = &file.paste {
            out.note("write this into it by hand, next to what it has:");
            out.page(&neutralise(paste))?;
        }
    }
    Ok(())
}

/// Tells whether a file was written.
pub(crate) fn any_written(files: &[FileReport]) -> bool {
    files.iter().any(|file| file.state == State::Written)
}

/// Tells whether a file could not be changed.
pub(crate) fn any_left_alone(files: &[FileReport]) -> bool {
    files.iter().any(|file| file.state == State::LeftAlone)
}

/// Returns what became of a file; on a terminal not wider than that.
fn line(file: &FileReport, project: &Path, look: &Look) -> String {
    let what = match file.state {
        State::Unchanged => "unchanged",
        State::WouldChange => "would change",
        State::Written => "written",
        State::TakenBack => "as it was without volery",
        State::Removed => "removed",
        State::Gone => "was removed already",
        State::LeftAlone => "left alone",
    };
    let problem = file.problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
    let path = look.short_path(&file.path.to_string_lossy(), project.to_str());
    let text = one_line(&format!("{}: {path} {what}{problem}", file.client));
    match look.width {
        Some(width) => format!("{}\n", wrap(&text, width.saturating_sub(2).max(20)).join("\n  ")),
        None => format!("{text}\n"),
    }
}
