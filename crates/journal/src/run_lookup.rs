//! Finds runs by the names of their directories alone.

use std::fs;
use std::io;
use std::path::Path;

use domain::id::{RunId, RunRef};

use crate::home::Home;
use crate::run_dir::RunDir;
use crate::store_error::{StoreError, failed};

/// How many runs an ambiguous reference lists.
const AMBIGUOUS_MAX: usize = 10;

/// Why a reference does not identify a run.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("find a run {reference}")]
    NotFound { reference: RunRef },
    #[error("tell which run {reference} means: {}", list(runs))]
    Ambiguous { reference: RunRef, runs: Vec<RunId> },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Home {
    /// Returns the runs that have a marker in `open/`, newest first. The index may not have recorded their end.
    pub fn open_runs(&self) -> Result<Vec<RunId>, StoreError> {
        run_ids(&self.markers_dir())
    }

    /// Returns all runs, newest first, reading one day at a time.
    pub fn all_runs(&self) -> Result<impl Iterator<Item = Result<RunDir, StoreError>> + use<>, StoreError> {
        let home = self.clone();
        let runs = self.runs_dir();
        Ok(self.days()?.into_iter().flat_map(move |day| {
            let home = home.clone();
            let (ids, error) = match run_ids(&runs.join(day)) {
                Ok(ids) => (ids, None),
                Err(error) => (Vec::new(), Some(Err(error))),
            };
            ids.into_iter().map(move |id| Ok(home.run_dir(id))).chain(error)
        }))
    }

    /// Returns the run that the reference identifies.
    pub fn find(&self, reference: &RunRef) -> Result<RunDir, FindError> {
        let mut found = match reference {
            RunRef::Whole(id) if self.run_dir(*id).exists() => vec![*id],
            RunRef::Whole(_) => Vec::new(),
            RunRef::Ending(_) => self.matching_runs(reference)?,
        };
        match found.len() {
            0 => Err(FindError::NotFound { reference: reference.clone() }),
            1 => Ok(self.run_dir(found[0])),
            _ => {
                found.truncate(AMBIGUOUS_MAX);
                Err(FindError::Ambiguous { reference: reference.clone(), runs: found })
            }
        }
    }

    fn matching_runs(&self, reference: &RunRef) -> Result<Vec<RunId>, StoreError> {
        let mut found = Vec::new();
        for run in self.all_runs()? {
            let id = run?.id();
            if reference.matches(id) {
                found.push(id);
            }
            if found.len() > AMBIGUOUS_MAX {
                break;
            }
        }
        Ok(found)
    }

    fn days(&self) -> Result<Vec<String>, StoreError> {
        let mut days = names(&self.runs_dir())?;
        days.retain(|day| is_day(day));
        days.sort_unstable_by(|one, two| two.cmp(one));
        Ok(days)
    }
}

fn run_ids(directory: &Path) -> Result<Vec<RunId>, StoreError> {
    // Another spelling of an id would be the name of a directory that `run_dir` does not find.
    let parse = |name: &String| name.parse::<RunId>().ok().filter(|id| id.to_string() == *name);
    let mut ids: Vec<RunId> = names(directory)?.iter().filter_map(parse).collect();
    ids.sort_unstable_by(|one, two| two.cmp(one));
    Ok(ids)
}

/// Returns the names in a directory; none if it was removed in the meantime.
fn names(directory: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("list", directory)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed("list", directory))?.file_name();
        names.extend(name.into_string());
    }
    Ok(names)
}

fn is_day(name: &str) -> bool {
    name.len() == 10
        && name.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

fn list(runs: &[RunId]) -> String {
    runs.iter().map(RunId::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
