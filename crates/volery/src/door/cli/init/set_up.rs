//! Sets a client up, and takes it back: plans what every file of it becomes, then writes. A client of which one file
//! cannot be changed is left alone as a whole.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::client::{Client, Wish};
use super::edit::{self, Done};
use super::file::{self, FileError, Found};
use super::merge;
use super::record::{Before, Record, Records, digest};

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// All that is needed stood there already, or nothing of ours does.
    Unchanged,
    WouldChange,
    Written,
    /// What was added is out of it.
    TakenBack,
    /// It was made for us, and is gone.
    Removed,
    /// Somebody else has removed it.
    Gone,
    LeftAlone,
}

/// What is told about a file.
#[derive(Debug, Serialize)]
pub(crate) struct FileReport {
    pub(crate) client: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) state: State,
    /// As a unified diff; empty where nothing changes.
    pub(crate) diff: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backup: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// How to go about it.
#[derive(Debug)]
pub(crate) struct Order<'a> {
    pub(crate) project: &'a Path,
    /// For whom it is asked: a project, or the user.
    pub(crate) asked_for: Option<PathBuf>,
    pub(crate) records: &'a Records,
    pub(crate) dry_run: bool,
}

/// What a file becomes.
struct Planned {
    found: Found,
    after: Option<String>,
    /// What is kept about it; none when there is nothing to take back any more.
    record: Option<Record>,
    /// A copy of what is there now is needed.
    copy: bool,
    /// A copy that has served its purpose.
    spent: Option<PathBuf>,
}

/// Puts a client's wishes into its files.
pub(crate) fn set_up(client: &'static Client, wishes: &[Wish], order: &Order<'_>) -> Vec<FileReport> {
    carry_out(client, wishes, order, plan)
}

/// Takes back what was put into a client's files.
pub(crate) fn take_back(client: &'static Client, wishes: &[Wish], order: &Order<'_>) -> Vec<FileReport> {
    carry_out(client, wishes, order, |_, wish, order| plan_back(wish, order))
}

type Plan = fn(&'static Client, &Wish, &Order<'_>) -> Result<Option<Planned>, String>;

fn carry_out(client: &'static Client, wishes: &[Wish], order: &Order<'_>, plan: Plan) -> Vec<FileReport> {
    let planned: Vec<_> = wishes.iter().map(|wish| plan(client, wish, order)).collect();
    let blocked = planned.iter().any(Result::is_err);
    let mut reports = Vec::new();
    for (wish, planned) in wishes.iter().zip(planned) {
        let mut report = FileReport {
            client: client.name,
            path: wish.path.clone(),
            state: State::Unchanged,
            diff: String::new(),
            backup: None,
            problem: None,
        };
        match planned {
            Err(problem) => (report.state, report.problem) = (State::LeftAlone, Some(problem)),
            Ok(None) => {}
            Ok(Some(_)) if blocked => {
                let problem = format!("the other files of {} could not be changed", client.name);
                (report.state, report.problem) = (State::LeftAlone, Some(problem));
            }
            Ok(Some(planned)) => write(planned, order, &mut report),
        }
        reports.push(report);
    }
    reports
}

fn plan(client: &'static Client, wish: &Wish, order: &Order<'_>) -> Result<Option<Planned>, String> {
    let found = find(wish, order)?;
    let now = found.text.clone().unwrap_or_default();
    let told = |error: edit::EditError| error.to_string();
    let entries = merge::with_arguments_of(&wish.syntax.value(&now).map_err(told)?, &wish.entries);
    let (after, done) = edit::apply(wish.syntax, &now, &entries).map_err(told)?;
    if done.is_empty() {
        return Ok(None);
    }
    found.check_writable().map_err(|error| error.to_string())?;
    let known = order.records.of(&found.target);
    let untouched = known.as_ref().filter(|known| found.text.is_some() && known.after == digest(&now));
    let base = untouched.and_then(|known| known.before.text());
    let (after, done, before) = match (&known, base) {
        (Some(known), Some(base)) => {
            let (after, done) = edit::apply(wish.syntax, &base, &entries).map_err(told)?;
            (after, done, known.before.clone())
        }
        // Whatever was there once, somebody has removed it.
        _ if found.text.is_none() => (after, done, Before::Nothing),
        (Some(known), None) => {
            (after, edit::join(&known.done, done), Before::Mixed { path: None, made: known.before.is_made() })
        }
        (None, _) => (after, done, Before::Copy { path: PathBuf::new(), digest: digest(&now) }),
    };
    let copy = match &before {
        Before::Nothing => false,
        Before::Copy { path, .. } => path.as_os_str().is_empty(),
        Before::Mixed { .. } => true,
    };
    let mut folders = known.map(|known| known.folders).unwrap_or_default();
    folders.extend(found.missing_folders());
    folders.sort();
    folders.dedup();
    let record =
        new_record(client, wish, order, &found, RecordParts { done, after: &after, before, folders });
    Ok(Some(Planned { found, after: Some(after), record: Some(record), copy, spent: None }))
}

struct RecordParts<'a> {
    done: Vec<Done>,
    after: &'a str,
    before: Before,
    folders: Vec<PathBuf>,
}

fn new_record(
    client: &Client,
    wish: &Wish,
    order: &Order<'_>,
    found: &Found,
    parts: RecordParts<'_>,
) -> Record {
    let RecordParts { done, after, before, folders } = parts;
    Record {
        client: client.name.to_owned(),
        target: found.target.clone(),
        project: order.asked_for.clone(),
        syntax: wish.syntax,
        done,
        after: digest(after),
        before,
        folders,
    }
}

fn plan_back(wish: &Wish, order: &Order<'_>) -> Result<Option<Planned>, String> {
    let found = find(wish, order)?;
    let Some(known) = order.records.of(&found.target) else { return Ok(None) };
    let nothing_left = |found| Planned { found, after: None, record: None, copy: false, spent: None };
    let Some(now) = found.text.clone() else { return Ok(Some(nothing_left(found))) };
    found.check_writable().map_err(|error| error.to_string())?;
    if known.after == digest(&now) {
        match &known.before {
            Before::Nothing => return Ok(Some(nothing_left(found))),
            Before::Copy { path, .. } => {
                if let Some(text) = known.before.text() {
                    let spent = Some(path.clone());
                    return Ok(Some(Planned { after: Some(text), spent, ..nothing_left(found) }));
                }
            }
            Before::Mixed { .. } => {}
        }
    }
    let taken = edit::take_back(known.syntax, &now, &known.done).map_err(|error| error.to_string())?;
    if !taken.kept.is_empty() {
        let kept = taken.kept.join(", ");
        return Err(format!("{kept} was changed since: take it out by hand, and then undo the rest"));
    }
    let after = (!taken.empty || !known.before.is_made()).then_some(taken.text);
    Ok(Some(Planned { after, ..nothing_left(found) }))
}

fn find(wish: &Wish, order: &Order<'_>) -> Result<Found, String> {
    file::find(&wish.path, wish.scope, order.project).map_err(|error| error.to_string())
}

fn write(planned: Planned, order: &Order<'_>, report: &mut FileReport) {
    let now = planned.found.text.clone().unwrap_or_default();
    report.diff = diff(&report.path, &now, planned.after.as_deref().unwrap_or_default());
    let back = planned.record.is_none();
    report.state = match (&planned.after, order.dry_run) {
        (_, true) if report.diff.is_empty() => State::Unchanged,
        (_, true) => State::WouldChange,
        (Some(_), false) if back => State::TakenBack,
        (Some(_), false) => State::Written,
        (None, false) if planned.found.text.is_none() => State::Gone,
        (None, false) => State::Removed,
    };
    if order.dry_run {
        return;
    }
    let done = if back { go_back(planned, order, report) } else { go_on(planned, order, report) };
    if let Err(problem) = done {
        report.state = State::LeftAlone;
        report.problem = Some(problem);
    }
}

/// Keeps a copy, records what will be done, and does it.
fn go_on(planned: Planned, order: &Order<'_>, report: &mut FileReport) -> Result<(), String> {
    let Planned { found, after: Some(after), record: Some(mut record), copy, .. } = planned else {
        return Ok(());
    };
    let told = |error: FileError| error.to_string();
    if copy {
        report.backup = found.back_up().map_err(told)?;
        match (&mut record.before, &report.backup) {
            (Before::Copy { path, .. }, Some(backup)) => path.clone_from(backup),
            (Before::Mixed { path, .. }, backup) => path.clone_from(backup),
            (Before::Copy { .. }, None) | (Before::Nothing, _) => {}
        }
    }
    let earlier = order.records.of(&found.target);
    order.records.keep(&record).map_err(|error| format!("could not record how to undo it: {error}"))?;
    found.replace(&after).map_err(|error| {
        // The file is as it was, so what is kept about it is too; should this fail, undoing finds nothing to do.
        let _ = match &earlier {
            Some(earlier) => order.records.keep(earlier),
            None => order.records.forget(&found.target),
        };
        if let Some(backup) = report.backup.take() {
            let _ = fs::remove_file(backup);
        }
        told(error)
    })
}

fn go_back(planned: Planned, order: &Order<'_>, report: &FileReport) -> Result<(), String> {
    let Planned { found, after, spent, .. } = planned;
    let known = order.records.of(&found.target);
    let folders = known.map(|known| known.folders).unwrap_or_default();
    let done = match (&found.text, &after) {
        (None, _) => {
            file::remove_folders(&folders);
            Ok(())
        }
        (Some(_), None) => found.remove(&folders),
        (Some(_), Some(_)) if report.diff.is_empty() => Ok(()),
        (Some(_), Some(after)) => found.replace(after),
    };
    done.map_err(|error| error.to_string())?;
    if let Some(spent) = spent {
        // The file is what it was; a copy more does no harm.
        let _ = fs::remove_file(spent);
    }
    order.records.forget(&found.target).map_err(|error| format!("could not forget how to undo it: {error}"))
}

impl Before {
    /// Returns what was there before, if that is known to the letter.
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
