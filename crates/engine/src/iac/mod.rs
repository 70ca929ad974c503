//! `IAC.md`, the file in which PowerSpawn shows a project's agents: those that are running, and the tasks and answers
//! of the last ones. Each process that starts or ends such a run rewrites the file from the journal alone, so the
//! file is right even if several processes write it or one dies in between. `document` formats it.

mod document;
mod entry;
mod replace_file;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use domain::run::RunSpec;
use journal::project_runs::{self, ProjectRuns};
use journal::{Home, StoreError};

pub use document::Excerpt;
pub use entry::IacEntry;
pub(crate) use entry::{entries, entry};

use crate::clock;
use document::IacDocument;

const NAME: &str = "IAC.md";
/// How long to wait for the roster: a keeper tolerates a worker that takes this long to end. If the file is not
/// written now, the next start or end of a run writes it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);

/// Shows a run that is about to start. Returns a notice about the file, such as why it is not written: the run starts
/// all the same.
pub(crate) fn record_start(home: &Home, spec: &RunSpec) -> Option<String> {
    let added = project_runs::open(home, &spec.project, LOCK_TIMEOUT).and_then(|mut roster| {
        roster.add(spec.id)?;
        Ok(roster)
    });
    let written = added.map_err(not_written).and_then(|mut roster| write(home, &mut roster, &spec.project));
    written.unwrap_or_else(Some)
}

/// Shows the end of a run, or that it never started, if the run is shown at all. Errors go to the log of the run.
pub(crate) fn record_end(home: &Home, spec: &RunSpec) {
    if spec.iac.is_none() {
        return;
    }
    let roster = project_runs::open(home, &spec.project, LOCK_TIMEOUT).map_err(not_written);
    if let Err(reason) = roster.and_then(|mut roster| write(home, &mut roster, &spec.project)) {
        // An error here has no reader.
        let _ = writeln!(std::io::stderr(), "{reason}");
    }
}

/// Rewrites the file while the roster is held, so that nobody overwrites it with an older one. Returns a notice if an
/// existing file was moved.
fn write(home: &Home, roster: &mut ProjectRuns, project: &str) -> Result<Option<String>, String> {
    if !roster.is_held() {
        return Err(format!("{NAME} is not written: somebody holds it"));
    }
    let mut board = IacDocument::default();
    // One run at a time, since an answer may be long.
    for run in roster.runs().map_err(not_written)? {
        if let Some(entry) = entry(home, run) {
            board.add(&entry.board_line(home));
        }
    }
    let written = replace_file::replace(Path::new(project), NAME, &board.render(clock::now()));
    written.map_err(|reason| format!("{NAME} is not written: {reason}"))
}

fn not_written(error: StoreError) -> String {
    format!("{NAME} is not written: could not {error}")
}
