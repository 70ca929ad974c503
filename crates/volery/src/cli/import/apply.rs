//! Applies and undoes the changes of a report, with the code of `volery init` and separate records.

use std::path::Path;

use super::super::init::{
    EditPurpose, EditRequest, FileOutcome, FileReport, Records, machine_path_warning, set_up, undo_edits,
};
use super::mapping::Mapping;
use super::server_entry::ServerEntry;
use backends::client_setup::{ConfigScope, DesiredFile};

/// A set-up and the entry that starts it.
pub(super) type Mapped<'a> = (Mapping, Option<&'a ServerEntry>);

/// The edited files and warnings.
#[derive(Default)]
pub(super) struct Applied {
    pub(super) files: Vec<FileReport>,
    pub(super) warnings: Vec<String>,
}

pub(super) fn edit_request<'a>(project: &'a Path, records: &'a Records, dry_run: bool) -> EditRequest<'a> {
    EditRequest { project, owner: Some(project.to_owned()), records, dry_run, purpose: EditPurpose::Import }
}

/// Changes every entry that can be changed. The entries of one file are changed together, or not at all.
pub(super) fn apply(found: &[Mapped<'_>], request: &EditRequest<'_>) -> Applied {
    let mut applied = Applied::default();
    let mut files: Vec<(DesiredFile, &ServerEntry, Vec<&Mapping>)> = Vec::new();
    for (mapping, entry) in found {
        let (Some(change), Some(entry)) = (&mapping.change, entry) else { continue };
        if !mapping.blockers.is_empty() {
            applied.files.push(blocked(entry, &mapping.blockers));
            continue;
        }
        let edit = change.edit(entry);
        match files.iter_mut().find(|(desired, _, _)| desired.path == entry.file) {
            Some((desired, _, mappings)) => {
                desired.entries.push(edit);
                mappings.push(mapping);
            }
            None => {
                let desired = DesiredFile::new(entry.file.clone(), entry.scope, entry.syntax, vec![edit]);
                files.push((desired, entry, vec![mapping]));
            }
        }
    }
    for (desired, entry, mappings) in files {
        let reports = set_up(entry.client, std::slice::from_ref(&desired), request);
        let changed =
            reports.iter().any(|file| matches!(file.state, FileOutcome::Written | FileOutcome::WouldChange));
        if changed && desired.shared {
            applied
                .warnings
                .extend(mappings.iter().filter_map(|mapping| machine_paths(&desired.path, mapping)));
        }
        applied.files.extend(reports);
    }
    applied.warnings.dedup();
    applied
}

/// Undoes the changes for this project.
pub(super) fn undo(request: &EditRequest<'_>) -> Vec<FileReport> {
    let here = request.records.all().into_iter().filter(|record| record.project == request.owner);
    let reports = here.flat_map(|record| {
        let scope =
            if record.target.starts_with(request.project) { ConfigScope::Project } else { ConfigScope::User };
        let desired = DesiredFile::new(record.target.clone(), scope, record.syntax, Vec::new());
        undo_edits(&record.client, &[desired], request)
    });
    reports.collect()
}

fn blocked(entry: &ServerEntry, blockers: &[String]) -> FileReport {
    FileReport {
        client: entry.client.to_owned(),
        path: entry.file.clone(),
        state: FileOutcome::LeftAlone,
        diff: String::new(),
        backup: None,
        problem: Some(format!("{}: to mend first: {}", entry.name, blockers.join("; "))),
        paste: None,
    }
}

fn machine_paths(file: &Path, mapping: &Mapping) -> Option<String> {
    let change = mapping.change.as_ref()?;
    let is_path =
        |value: &serde_json::Value| value.as_str().is_some_and(|text| Path::new(text).is_absolute());
    let paths = change.env.iter().filter(|(_, value)| is_path(value));
    let variables: Vec<&str> = paths.map(|(name, _)| name.as_str()).collect();
    machine_path_warning(&[file], &change.command, &variables)
}
