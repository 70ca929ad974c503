//! Changes a client's files, and takes it back: plans what every file becomes, then writes. A client of which one file
//! cannot be changed is left alone as a whole. `volery init` and `volery import` share it, each with records of its own.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::client::Wish;
use super::edit::{self, Done, Syntax};
use super::file::{self, FileError, Found};
use super::masked::masked;
use super::merge;
use super::record::{Before, Record, Records, digest};
use crate::point;

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
    pub(crate) client: String,
    pub(crate) path: PathBuf,
    pub(crate) state: State,
    /// As a unified diff; empty where nothing changes.
    pub(crate) diff: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backup: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// What to write by hand, where the file could not be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) paste: Option<String>,
}

/// How to go about it.
#[derive(Debug)]
pub(crate) struct Order<'a> {
    pub(crate) project: &'a Path,
    /// For whom it is asked: a project, or the user.
    pub(crate) asked_for: Option<PathBuf>,
    pub(crate) records: &'a Records,
    pub(crate) dry_run: bool,
    pub(crate) purpose: Purpose,
}

/// Why files are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To add the server. Each time, the wishes are all that the file needs.
    SetUp,
    /// To change entries of others. A second time adds to the first, and undoing restores the text or nothing.
    Import,
}

/// What a file becomes.
struct Planned {
    found: Found,
    syntax: Syntax,
    after: Option<String>,
    /// What is kept about it; none when there is nothing to take back any more.
    record: Option<Record>,
    /// A copy of what is there now is needed.
    copy: bool,
    /// A copy that has served its purpose.
    spent: Option<PathBuf>,
}

/// Puts a client's wishes into its files.
pub(crate) fn set_up(client: &'static str, wishes: &[Wish], order: &Order<'_>) -> Vec<FileReport> {
    let planned: Vec<_> = wishes.iter().map(|wish| plan(client, wish, order)).collect();
    let by_hand: Vec<bool> = planned.iter().map(Result::is_err).collect();
    let mut reports = carry_out(client, wishes, order, planned);
    for ((report, wish), by_hand) in reports.iter_mut().zip(wishes).zip(by_hand) {
        // What the file would say if there were nothing else in it.
        let fresh = edit::apply(wish.syntax, "", &wish.entries).ok().filter(|_| by_hand);
        report.paste = fresh.map(|(text, _)| text);
    }
    reports
}

/// Takes back what was put into a client's files.
pub(crate) fn take_back(client: &str, wishes: &[Wish], order: &Order<'_>) -> Vec<FileReport> {
    let planned = wishes.iter().map(|wish| plan_back(wish, order)).collect();
    carry_out(client, wishes, order, planned)
}

type PlanResult = Result<Option<Planned>, String>;

fn carry_out(client: &str, wishes: &[Wish], order: &Order<'_>, planned: Vec<PlanResult>) -> Vec<FileReport> {
    let blocked = planned.iter().any(Result::is_err);
    let mut reports = Vec::new();
    for (wish, planned) in wishes.iter().zip(planned) {
        let mut report = FileReport {
            client: client.to_owned(),
            path: wish.path.clone(),
            state: State::Unchanged,
            diff: String::new(),
            backup: None,
            problem: None,
            paste: None,
        };
        match planned {
            Err(problem) => (report.state, report.problem) = (State::LeftAlone, Some(problem)),
            Ok(None) => {}
            Ok(Some(_)) if blocked => {
                let problem = format!("the other files of {client} could not be changed");
                (report.state, report.problem) = (State::LeftAlone, Some(problem));
            }
            Ok(Some(planned)) => write(planned, order, &mut report),
        }
        reports.push(report);
    }
    reports
}

fn plan(client: &str, wish: &Wish, order: &Order<'_>) -> PlanResult {
    let found = find(wish, order)?;
    let now = found.text.clone().unwrap_or_default();
    let told = |error: edit::EditError| error.to_string();
    let entries = merge::with_arguments_of(&wish.syntax.value(&now).map_err(told)?, &wish.entries);
    let (after, done) = edit::apply(wish.syntax, &now, &entries).map_err(told)?;
    if done.is_empty() {
        return Ok(None);
    }
    found.check_writable().map_err(|error| error.to_string())?;
    // Somebody ended the program after it had recorded a change and before it made it.
    let known = order.records.of(&found.target);
    let never_made = known.as_ref().is_some_and(|known| found.text.is_some() && known.before.says(&now));
    let untouched = known.as_ref().filter(|known| found.text.is_some() && known.after == digest(&now));
    let base = untouched.and_then(|known| known.before.text());
    let exact = edit::take_back(wish.syntax, &after, &done).is_ok_and(|back| back.text == now);
    let exact = exact && known.as_ref().is_none_or(|known| known.exact || never_made);
    let (after, done, before) = match (&known, base) {
        (Some(known), _) if never_made => (after, done, known.before.clone()),
        (Some(known), Some(_)) if order.purpose == Purpose::Import => {
            (after, edit::join(&known.done, done), known.before.clone())
        }
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
        new_record(client, wish, order, &found, RecordParts { done, after: &after, before, exact, folders });
    Ok(Some(Planned {
        found,
        syntax: wish.syntax,
        after: Some(after),
        record: Some(record),
        copy,
        spent: None,
    }))
}

struct RecordParts<'a> {
    done: Vec<Done>,
    after: &'a str,
    before: Before,
    exact: bool,
    folders: Vec<PathBuf>,
}

fn new_record(client: &str, wish: &Wish, order: &Order<'_>, found: &Found, parts: RecordParts<'_>) -> Record {
    let RecordParts { done, after, before, exact, folders } = parts;
    Record {
        client: client.to_owned(),
        target: found.target.clone(),
        project: order.asked_for.clone(),
        syntax: wish.syntax,
        done,
        after: digest(after),
        before,
        exact,
        folders,
    }
}

fn plan_back(wish: &Wish, order: &Order<'_>) -> PlanResult {
    let found = find(wish, order)?;
    let Some(known) = order.records.of(&found.target) else { return Ok(None) };
    let nothing_left =
        |found| Planned { found, syntax: known.syntax, after: None, record: None, copy: false, spent: None };
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
    if let Before::Copy { path, .. } = &known.before
        && known.before.says(&now)
    {
        // Recorded, and never made.
        return Ok(Some(Planned { after: Some(now), spent: Some(path.clone()), ..nothing_left(found) }));
    }
    if order.purpose == Purpose::Import {
        check_exact(&known)?;
    }
    let taken = edit::take_back(known.syntax, &now, &known.done).map_err(|error| error.to_string())?;
    if !taken.kept.is_empty() {
        let kept = taken.kept.join(", ");
        return Err(format!("{kept} was changed since: take it out by hand, and then undo the rest"));
    }
    let after = (!taken.empty || !known.before.is_made()).then_some(taken.text);
    Ok(Some(Planned { after, ..nothing_left(found) }))
}

/// Checks that taking a change back piece by piece restores the text as it was, and not only what it said: what somebody
/// wrote within a value, such as a comment, is only in the copy.
fn check_exact(known: &Record) -> Result<(), String> {
    let copy = match &known.before {
        Before::Copy { path, .. } | Before::Mixed { path: Some(path), .. } => Some(path),
        Before::Nothing | Before::Mixed { path: None, .. } => None,
    };
    let copy = copy.map(|path| format!("; the file as it was: {}", path.display())).unwrap_or_default();
    let problem = format!("it was changed since, and the entry cannot be put back exactly{copy}");
    if known.exact { Ok(()) } else { Err(problem) }
}

fn find(wish: &Wish, order: &Order<'_>) -> Result<Found, String> {
    file::find(&wish.path, wish.scope, order.project).map_err(|error| error.to_string())
}

fn write(planned: Planned, order: &Order<'_>, report: &mut FileReport) {
    let now = planned.found.text.clone().unwrap_or_default();
    let after = planned.after.clone().unwrap_or_default();
    report.diff = masked(&diff(&report.path, &now, &after), planned.syntax, [&now, &after]);
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
    let done = if back { go_back(planned, order) } else { go_on(planned, order, report) };
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
    point::reach("client_file_recorded");
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

fn go_back(planned: Planned, order: &Order<'_>) -> Result<(), String> {
    let Planned { found, after, spent, .. } = planned;
    let known = order.records.of(&found.target);
    let folders = known.map(|known| known.folders).unwrap_or_default();
    let done = match (&found.text, &after) {
        (None, _) => {
            file::remove_folders(&folders);
            Ok(())
        }
        (Some(_), None) => found.remove(&folders),
        (Some(now), Some(after)) if now == after => Ok(()),
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
    /// Tells whether this is what was there before.
    fn says(&self, text: &str) -> bool {
        matches!(self, Self::Copy { digest: known, .. } if digest(text) == *known)
    }

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
