//! Makes the changes that a report describes, and takes them back: with the means of `volery init`, and records apart
//! from those.

use std::path::Path;

use super::super::init::{
    FileReport, Order, Purpose, Records, Scope, State, Wish, about_machine_paths, set_up, take_back,
};
use super::entry::ServerEntry;
use super::map::Mapping;

/// A set-up and the entry that starts it.
pub(super) type Mapped<'a> = (Mapping, Option<&'a ServerEntry>);

/// What was done.
#[derive(Default)]
pub(super) struct Applied {
    pub(super) files: Vec<FileReport>,
    pub(super) warnings: Vec<String>,
}

pub(super) fn order<'a>(project: &'a Path, records: &'a Records, dry_run: bool) -> Order<'a> {
    Order { project, asked_for: Some(project.to_owned()), records, dry_run, purpose: Purpose::Import }
}

/// Changes every entry that can be changed. All entries of one file are changed at once, or none.
pub(super) fn apply(found: &[Mapped<'_>], order: &Order<'_>) -> Applied {
    let mut applied = Applied::default();
    let mut files: Vec<(Wish, &ServerEntry, Vec<&Mapping>)> = Vec::new();
    for (mapping, entry) in found {
        let (Some(change), Some(entry)) = (&mapping.change, entry) else { continue };
        if !mapping.blockers.is_empty() {
            applied.files.push(blocked(entry, &mapping.blockers));
            continue;
        }
        let edit = change.edit(entry);
        match files.iter_mut().find(|(wish, _, _)| wish.path == entry.file) {
            Some((wish, _, mappings)) => {
                wish.entries.push(edit);
                mappings.push(mapping);
            }
            None => {
                let wish = Wish::new(entry.file.clone(), entry.scope, entry.syntax, vec![edit]);
                files.push((wish, entry, vec![mapping]));
            }
        }
    }
    for (wish, entry, mappings) in files {
        let reports = set_up(entry.client, std::slice::from_ref(&wish), order);
        let changed = reports.iter().any(|file| matches!(file.state, State::Written | State::WouldChange));
        if changed && wish.shared {
            applied.warnings.extend(mappings.iter().filter_map(|mapping| machine_paths(&wish.path, mapping)));
        }
        applied.files.extend(reports);
    }
    applied.warnings.dedup();
    applied
}

/// Takes back what was changed for this project.
pub(super) fn undo(order: &Order<'_>) -> Vec<FileReport> {
    let here = order.records.all().into_iter().filter(|record| record.project == order.asked_for);
    let reports = here.flat_map(|record| {
        let scope = if record.target.starts_with(order.project) { Scope::Project } else { Scope::User };
        let wish = Wish::new(record.target.clone(), scope, record.syntax, Vec::new());
        take_back(&record.client, &[wish], order)
    });
    reports.collect()
}

fn blocked(entry: &ServerEntry, blockers: &[String]) -> FileReport {
    FileReport {
        client: entry.client.to_owned(),
        path: entry.file.clone(),
        state: State::LeftAlone,
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
    about_machine_paths(&[file], &change.command, &variables)
}
