//! Edits a client's files and undoes it: plans the new content of every file, then writes. If one file of a client cannot
//! be changed, none is. Shared by `volery init` and `volery import`, which have separate records.

use std::fs;
use std::path::{Path, PathBuf};

use backends::client_setup::{DesiredFile, Syntax};
use serde::Serialize;

use super::change_records::{PreviousContent, Record, Records, digest};
use super::config_file::{self, FileError, FoundFile};
use super::edit::{self, AppliedEdit, SyntaxEdit};
use super::merge;
use super::secret_masking::mask_secrets;
use engine::failpoint;

/// The outcome of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileOutcome {
    /// The file already has all entries, or on undo none of them.
    Unchanged,
    WouldChange,
    Written,
    /// Volery's entries were removed.
    #[serde(rename = "taken_back")]
    Restored,
    /// The file had only Volery's entries and is deleted.
    Removed,
    /// Somebody else has deleted the file.
    Gone,
    LeftAlone,
}

/// The report about one file.
#[derive(Debug, Serialize)]
pub(crate) struct FileReport {
    pub(crate) client: String,
    pub(crate) path: PathBuf,
    pub(crate) state: FileOutcome,
    /// A unified diff; empty if nothing changes.
    pub(crate) diff: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backup: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// The text to add by hand if the file could not be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) paste: Option<String>,
}

/// The parameters of an edit.
#[derive(Debug)]
pub(crate) struct EditRequest<'a> {
    pub(crate) project: &'a Path,
    /// The project that the edit is made for; `None` for the user.
    pub(crate) owner: Option<PathBuf>,
    pub(crate) records: &'a Records,
    pub(crate) dry_run: bool,
    pub(crate) purpose: EditPurpose,
}

/// Why files are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditPurpose {
    /// To add the server. Each edit lists all entries that the file needs.
    SetUp,
    /// To change entries of other systems. A second edit adds to the first, and undoing restores the exact text or nothing.
    Import,
}

/// The planned content of a file.
struct PlannedEdit {
    found: FoundFile,
    syntax: Syntax,
    after: Option<String>,
    /// The record to store; `None` if there is nothing left to undo.
    record: Option<Record>,
    /// The current content must be backed up.
    needs_backup: bool,
    /// A backup that is no longer needed.
    obsolete_backup: Option<PathBuf>,
}

/// Adds entries to a client's files.
pub(crate) fn set_up(
    client: &'static str,
    desired_files: &[DesiredFile],
    request: &EditRequest<'_>,
) -> Vec<FileReport> {
    let planned: Vec<_> = desired_files.iter().map(|desired| plan(client, desired, request)).collect();
    let by_hand: Vec<bool> = planned.iter().map(Result::is_err).collect();
    let mut reports = carry_out(client, desired_files, request, planned);
    for ((report, desired), by_hand) in reports.iter_mut().zip(desired_files).zip(by_hand) {
        // The content of the file if it had no other entries.
        let fresh = edit::apply(desired.syntax, "", &desired.entries).ok().filter(|_| by_hand);
        report.paste = fresh.map(|(text, _)| text);
    }
    reports
}

/// Removes Volery's entries from a client's files.
pub(crate) fn undo_edits(
    client: &str,
    desired_files: &[DesiredFile],
    request: &EditRequest<'_>,
) -> Vec<FileReport> {
    let planned = desired_files.iter().map(|desired| plan_undo(desired, request)).collect();
    carry_out(client, desired_files, request, planned)
}

type PlanResult = Result<Option<PlannedEdit>, String>;

fn carry_out(
    client: &str,
    desired_files: &[DesiredFile],
    request: &EditRequest<'_>,
    planned: Vec<PlanResult>,
) -> Vec<FileReport> {
    let blocked = planned.iter().any(Result::is_err);
    let mut reports = Vec::new();
    for (desired, planned) in desired_files.iter().zip(planned) {
        let mut report = FileReport {
            client: client.to_owned(),
            path: desired.path.clone(),
            state: FileOutcome::Unchanged,
            diff: String::new(),
            backup: None,
            problem: None,
            paste: None,
        };
        match planned {
            Err(problem) => (report.state, report.problem) = (FileOutcome::LeftAlone, Some(problem)),
            Ok(None) => {}
            Ok(Some(_)) if blocked => {
                let problem = format!("the other files of {client} could not be changed");
                (report.state, report.problem) = (FileOutcome::LeftAlone, Some(problem));
            }
            Ok(Some(planned)) => write(planned, request, &mut report),
        }
        reports.push(report);
    }
    reports
}

fn plan(client: &str, desired: &DesiredFile, request: &EditRequest<'_>) -> PlanResult {
    let found = find(desired, request)?;
    let now = found.text.clone().unwrap_or_default();
    let message = |error: edit::EditError| error.to_string();
    let entries =
        merge::keep_existing_arguments(&desired.syntax.value(&now).map_err(message)?, &desired.entries);
    let (after, done) = edit::apply(desired.syntax, &now, &entries).map_err(message)?;
    if done.is_empty() {
        return Ok(None);
    }
    found.check_writable().map_err(|error| error.to_string())?;
    // The program was killed after it recorded the edit and before it wrote the file.
    let known = request.records.find(&found.target);
    let never_made =
        known.as_ref().is_some_and(|known| found.text.is_some() && known.before.matches_text(&now));
    let untouched = known.as_ref().filter(|known| found.text.is_some() && known.after == digest(&now));
    let base = untouched.and_then(|known| known.before.text());
    let exact = edit::undo(desired.syntax, &after, &done).is_ok_and(|back| back.text == now);
    let exact = exact && known.as_ref().is_none_or(|known| known.exact || never_made);
    let (after, done, before) = match (&known, base) {
        (Some(known), _) if never_made => (after, done, known.before.clone()),
        (Some(known), Some(_)) if request.purpose == EditPurpose::Import => {
            (after, edit::join(&known.done, done), known.before.clone())
        }
        (Some(known), Some(base)) => {
            let (after, done) = edit::apply(desired.syntax, &base, &entries).map_err(message)?;
            (after, done, known.before.clone())
        }
        // Somebody has deleted the file since Volery's last edit.
        _ if found.text.is_none() => (after, done, PreviousContent::Nothing),
        (Some(known), None) => (
            after,
            edit::join(&known.done, done),
            PreviousContent::Mixed { path: None, made: known.before.was_created() },
        ),
        (None, _) => (after, done, PreviousContent::Copy { path: PathBuf::new(), digest: digest(&now) }),
    };
    let needs_backup = match &before {
        PreviousContent::Nothing => false,
        PreviousContent::Copy { path, .. } => path.as_os_str().is_empty(),
        PreviousContent::Mixed { .. } => true,
    };
    let mut folders = known.map(|known| known.folders).unwrap_or_default();
    folders.extend(found.missing_folders());
    folders.sort();
    folders.dedup();
    let record = new_record(
        client,
        desired,
        request,
        &found,
        RecordParts { done, after: &after, before, exact, folders },
    );
    Ok(Some(PlannedEdit {
        found,
        syntax: desired.syntax,
        after: Some(after),
        record: Some(record),
        needs_backup,
        obsolete_backup: None,
    }))
}

struct RecordParts<'a> {
    done: Vec<AppliedEdit>,
    after: &'a str,
    before: PreviousContent,
    exact: bool,
    folders: Vec<PathBuf>,
}

fn new_record(
    client: &str,
    desired: &DesiredFile,
    request: &EditRequest<'_>,
    found: &FoundFile,
    parts: RecordParts<'_>,
) -> Record {
    let RecordParts { done, after, before, exact, folders } = parts;
    Record {
        client: client.to_owned(),
        target: found.target.clone(),
        project: request.owner.clone(),
        syntax: desired.syntax,
        done,
        after: digest(after),
        before,
        exact,
        folders,
    }
}

fn plan_undo(desired: &DesiredFile, request: &EditRequest<'_>) -> PlanResult {
    let found = find(desired, request)?;
    let Some(known) = request.records.find(&found.target) else { return Ok(None) };
    let nothing_left = |found| PlannedEdit {
        found,
        syntax: known.syntax,
        after: None,
        record: None,
        needs_backup: false,
        obsolete_backup: None,
    };
    let Some(now) = found.text.clone() else { return Ok(Some(nothing_left(found))) };
    found.check_writable().map_err(|error| error.to_string())?;
    if known.after == digest(&now) {
        match &known.before {
            PreviousContent::Nothing => return Ok(Some(nothing_left(found))),
            PreviousContent::Copy { path, .. } => {
                if let Some(text) = known.before.text() {
                    let obsolete_backup = Some(path.clone());
                    return Ok(Some(PlannedEdit {
                        after: Some(text),
                        obsolete_backup,
                        ..nothing_left(found)
                    }));
                }
            }
            PreviousContent::Mixed { .. } => {}
        }
    }
    if let PreviousContent::Copy { path, .. } = &known.before
        && known.before.matches_text(&now)
    {
        // The edit was recorded but never written.
        return Ok(Some(PlannedEdit {
            after: Some(now),
            obsolete_backup: Some(path.clone()),
            ..nothing_left(found)
        }));
    }
    if request.purpose == EditPurpose::Import {
        check_exact(&known)?;
    }
    let undone = edit::undo(known.syntax, &now, &known.done).map_err(|error| error.to_string())?;
    if !undone.changed_since.is_empty() {
        let changed = undone.changed_since.join(", ");
        return Err(format!("{changed} was changed since: take it out by hand, and then undo the rest"));
    }
    let after = (!undone.empty || !known.before.was_created()).then_some(undone.text);
    Ok(Some(PlannedEdit { after, ..nothing_left(found) }))
}

/// Checks that undoing the edits one by one restores the exact text, not only its meaning: comments within a replaced
/// value are only in the backup.
fn check_exact(known: &Record) -> Result<(), String> {
    let backup = match &known.before {
        PreviousContent::Copy { path, .. } | PreviousContent::Mixed { path: Some(path), .. } => Some(path),
        PreviousContent::Nothing | PreviousContent::Mixed { path: None, .. } => None,
    };
    let backup = backup.map(|path| format!("; the file as it was: {}", path.display())).unwrap_or_default();
    let problem = format!("it was changed since, and the entry cannot be put back exactly{backup}");
    if known.exact { Ok(()) } else { Err(problem) }
}

fn find(desired: &DesiredFile, request: &EditRequest<'_>) -> Result<FoundFile, String> {
    config_file::find_config_file(&desired.path, desired.scope, request.project)
        .map_err(|error| error.to_string())
}

fn write(planned: PlannedEdit, request: &EditRequest<'_>, report: &mut FileReport) {
    let now = planned.found.text.clone().unwrap_or_default();
    let after = planned.after.clone().unwrap_or_default();
    report.diff = mask_secrets(&diff(&report.path, &now, &after), planned.syntax, [&now, &after]);
    let back = planned.record.is_none();
    report.state = match (&planned.after, request.dry_run) {
        (_, true) if report.diff.is_empty() => FileOutcome::Unchanged,
        (_, true) => FileOutcome::WouldChange,
        (Some(_), false) if back => FileOutcome::Restored,
        (Some(_), false) => FileOutcome::Written,
        (None, false) if planned.found.text.is_none() => FileOutcome::Gone,
        (None, false) => FileOutcome::Removed,
    };
    if request.dry_run {
        return;
    }
    let done = if back { write_undo(planned, request) } else { write_edit(planned, request, report) };
    if let Err(problem) = done {
        report.state = FileOutcome::LeftAlone;
        report.problem = Some(problem);
    }
}

/// Writes a backup and the record, then the file.
fn write_edit(
    planned: PlannedEdit,
    request: &EditRequest<'_>,
    report: &mut FileReport,
) -> Result<(), String> {
    let PlannedEdit { found, after: Some(after), record: Some(mut record), needs_backup, .. } = planned
    else {
        return Ok(());
    };
    let message = |error: FileError| error.to_string();
    if needs_backup {
        report.backup = found.back_up().map_err(message)?;
        match (&mut record.before, &report.backup) {
            (PreviousContent::Copy { path, .. }, Some(backup)) => path.clone_from(backup),
            (PreviousContent::Mixed { path, .. }, backup) => path.clone_from(backup),
            (PreviousContent::Copy { .. }, None) | (PreviousContent::Nothing, _) => {}
        }
    }
    let earlier = request.records.find(&found.target);
    request.records.save(&record).map_err(|error| format!("could not record how to undo it: {error}"))?;
    failpoint::reach("client_file_recorded");
    found.replace(&after).map_err(|error| {
        // The file is unchanged, so its record must be too. If this fails, undoing finds nothing to do.
        let _ = match &earlier {
            Some(earlier) => request.records.save(earlier),
            None => request.records.remove(&found.target),
        };
        if let Some(backup) = report.backup.take() {
            let _ = fs::remove_file(backup);
        }
        message(error)
    })
}

fn write_undo(planned: PlannedEdit, request: &EditRequest<'_>) -> Result<(), String> {
    let PlannedEdit { found, after, obsolete_backup, .. } = planned;
    let known = request.records.find(&found.target);
    let folders = known.map(|known| known.folders).unwrap_or_default();
    let done = match (&found.text, &after) {
        (None, _) => {
            config_file::remove_folders(&folders);
            Ok(())
        }
        (Some(_), None) => found.remove(&folders),
        (Some(now), Some(after)) if now == after => Ok(()),
        (Some(_), Some(after)) => found.replace(after),
    };
    done.map_err(|error| error.to_string())?;
    if let Some(obsolete_backup) = obsolete_backup {
        // The file is restored; a leftover backup does no harm.
        let _ = fs::remove_file(obsolete_backup);
    }
    request.records.remove(&found.target).map_err(|error| format!("could not forget how to undo it: {error}"))
}

impl PreviousContent {
    /// Returns whether a text is the previous content.
    fn matches_text(&self, text: &str) -> bool {
        matches!(self, Self::Copy { digest: known, .. } if digest(text) == *known)
    }

    /// Returns the previous content, if it is known exactly.
    fn text(&self) -> Option<String> {
        match self {
            Self::Nothing => Some(String::new()),
            Self::Copy { path, digest: known } => {
                fs::read_to_string(path).ok().filter(|text| digest(text) == *known)
            }
            Self::Mixed { .. } => None,
        }
    }
}

fn diff(path: &Path, before: &str, after: &str) -> String {
    let name = path.display().to_string();
    let changes = similar::TextDiff::from_lines(before, after);
    changes.unified_diff().header(&name, &name).missing_newline_hint(false).to_string()
}
