//! `IAC.md`, the file in which PowerSpawn shows a project's agents: those that run, and what the last ones were asked and
//! said. Whoever begins or ends such a run writes it anew, from the journal alone, so it is right whoever else writes it and
//! whoever has died in between. `report::iac` puts it into words.

mod entry;
mod file;

use std::io::Write;
use std::path::Path;

use domain::run::RunSpec;
use journal::{Home, roster};

pub use entry::{Entry, entries, entry};

use crate::clock;
use crate::report::iac::{Board, render};

const NAME: &str = "IAC.md";

/// Shows a run that is about to begin. Says why the file is not written, if it is not: the run goes on all the same.
pub fn began(home: &Home, spec: &RunSpec) -> Result<(), String> {
    let mut roster = roster::hold(home, &spec.project).map_err(|error| told(&error.to_string()))?;
    roster.add(spec.id).map_err(|error| told(&error.to_string()))?;
    write(home, &mut roster, &spec.project)
}

/// Shows the end of a run, if it is shown at all. What goes wrong is in the log of the run.
pub fn ended(home: &Home, spec: &RunSpec) {
    if spec.iac.is_none() {
        return;
    }
    let written = roster::hold(home, &spec.project).map_err(|error| told(&error.to_string()));
    if let Err(reason) = written.and_then(|mut roster| write(home, &mut roster, &spec.project)) {
        // Nobody reads what cannot be written.
        let _ = writeln!(std::io::stderr(), "{reason}");
    }
}

/// Writes the file anew, with the roster held: nobody writes an older one over it.
fn write(home: &Home, roster: &mut roster::Roster, project: &str) -> Result<(), String> {
    let runs = roster.runs().map_err(|error| told(&error.to_string()))?;
    let entries: Vec<_> = runs.into_iter().filter_map(|run| entry(home, run)).collect();
    let shown: Vec<_> = entries.iter().map(|entry| entry.shown(home)).collect();
    let text = render(&Board { updated: clock::now(), entries: &shown });
    file::replace(Path::new(project), NAME, &text).map_err(|reason| told(&reason))
}

fn told(reason: &str) -> String {
    format!("{NAME} is not written: {reason}")
}
