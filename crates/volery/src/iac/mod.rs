//! `IAC.md`, the file in which PowerSpawn shows a project's agents: those that run, and what the last ones were asked and
//! said. Whoever begins or ends such a run writes it anew, from the journal alone, so it is right whoever else writes it and
//! whoever has died in between. `report::iac` puts it into words.

mod entry;
mod file;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use domain::run::RunSpec;
use journal::roster::{self, Roster};
use journal::{Home, StoreError};

pub use entry::{Entry, entries, entry};

use crate::clock;
use crate::report::iac::Board;

const NAME: &str = "IAC.md";
/// How long whoever holds the roster is waited for: a keeper bears with a worker that takes this long to end. What is not
/// written then is written with the next beginning or end.
const PATIENCE: Duration = Duration::from_secs(3);

/// Shows a run that is about to begin. Returns what is worth saying about the file, such as why it is not written: the run
/// goes on all the same.
pub fn began(home: &Home, spec: &RunSpec) -> Option<String> {
    let added = roster::open(home, &spec.project, PATIENCE).and_then(|mut roster| {
        roster.add(spec.id)?;
        Ok(roster)
    });
    let written = added.map_err(told).and_then(|mut roster| write(home, &mut roster, &spec.project));
    written.unwrap_or_else(Some)
}

/// Shows the end of a run, or that it never began, if it is shown at all. What goes wrong is in the log of the run.
pub fn ended(home: &Home, spec: &RunSpec) {
    if spec.iac.is_none() {
        return;
    }
    let roster = roster::open(home, &spec.project, PATIENCE).map_err(told);
    if let Err(reason) = roster.and_then(|mut roster| write(home, &mut roster, &spec.project)) {
        // Nobody reads what cannot be written.
        let _ = writeln!(std::io::stderr(), "{reason}");
    }
}

/// Writes the file anew, with the roster held: nobody writes an older one over it. Returns what was done beside that.
fn write(home: &Home, roster: &mut Roster, project: &str) -> Result<Option<String>, String> {
    if !roster.is_held() {
        return Err(format!("{NAME} is not written: somebody holds it"));
    }
    let mut board = Board::default();
    // One at a time, since an answer may be long.
    for run in roster.runs().map_err(told)? {
        if let Some(entry) = entry(home, run) {
            board.add(&entry.shown(home));
        }
    }
    let written = file::replace(Path::new(project), NAME, &board.text(clock::now()));
    written.map_err(|reason| format!("{NAME} is not written: {reason}"))
}

fn told(error: StoreError) -> String {
    format!("{NAME} is not written: could not {error}")
}
