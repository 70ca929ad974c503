//! Finds the runs that a door may see.

use domain::id::RunRef;
use domain::run::RunSpec;
use journal::RunDir;
use journal::run_lookup::FindError;

use crate::api::EngineError;
use crate::engine::{Engine, Visibility, store_error};

impl Engine {
    /// Finds the run with this id or ending, if this door may see it.
    pub(crate) fn find(&self, typed: &str) -> Result<RunDir, EngineError> {
        let reference: RunRef = typed.parse().map_err(|error: domain::id::IdError| {
            EngineError::usage(error.to_string())
                .hint("`volery ps --all` (over MCP: list_runs) lists the runs there are")
        })?;
        let found = self.home.find(&reference).map_err(|error| find_error(typed, error))?;
        if self.may_see(&found) { Ok(found) } else { Err(unknown_run(typed)) }
    }

    /// Returns whether this door may see a run.
    pub(crate) fn may_see(&self, dir: &RunDir) -> bool {
        match &self.visibility {
            Visibility::All => true,
            Visibility::Token(_) | Visibility::DescendantsOf(_) => {
                dir.read_spec().is_ok_and(|spec| self.may_see_spec(&spec))
            }
        }
    }

    /// Returns the same for a run whose spec was already read.
    pub(crate) fn may_see_spec(&self, spec: &RunSpec) -> bool {
        let own = match &self.visibility {
            Visibility::All => return true,
            Visibility::Token(name) => return spec.caller.token.as_ref() == Some(name),
            Visibility::DescendantsOf(own) => own,
        };
        let mut above = spec.parent;
        while let Some(id) = above {
            if id == own.id {
                return true;
            }
            above = self.home.run_dir(id).read_spec().ok().and_then(|spec| spec.parent);
        }
        false
    }
}

fn find_error(typed: &str, error: FindError) -> EngineError {
    match error {
        FindError::NotFound { .. } => unknown_run(typed),
        FindError::Ambiguous { runs, .. } => {
            let ids: Vec<String> = runs.iter().take(8).map(ToString::to_string).collect();
            EngineError::usage(format!("{typed} is the end of several run ids: {}", ids.join(", ")))
                .hint("give more digits of the end of the id")
        }
        FindError::Store(error) => store_error(error),
    }
}

pub(crate) fn unknown_run(typed: &str) -> EngineError {
    EngineError::not_found(format!("there is no run {typed}"))
        .hint("`volery ps --all` (over MCP: list_runs) lists the runs of the last 7 days; a short id is the end of an id, at least its last four digits")
}
