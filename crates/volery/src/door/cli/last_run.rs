//! Which run a command means when none is named: the last one that its caller started in this project.

use std::collections::BTreeSet;

use domain::id::RunId;

use super::error::CommandError;
use super::out::{Format, Out};
use crate::app::{App, AppError, ListRuns, ListScope, RunLine};

/// Runs that are read at once.
const PAGE: usize = 50;
/// The caller's last run is searched among so many of the newest runs of the project.
const SEARCHED_MAX: usize = 1_000;

/// Returns the typed run, or else the caller's last one, which is then named on standard error.
pub(super) async fn or_last(app: &App, typed: Option<String>, out: &mut Out) -> Result<String, CommandError> {
    if let Some(typed) = typed {
        return Ok(typed);
    }
    let run = find(app).await?;
    if out.format() == Format::Text {
        out.note(&format!("the last run: {} {}: {}", run.short_id, run.agent, head(&run.prompt)));
    }
    Ok(run.run_id.to_string())
}

async fn find(app: &App) -> Result<RunLine, AppError> {
    let caller = app.caller().map(|caller| caller.name);
    let mut before: Option<RunId> = None;
    let mut seen = 0;
    while seen < SEARCHED_MAX {
        let ask = ListRuns {
            scope: ListScope::Project,
            before: before.map(|id| id.to_string()),
            limit: PAGE,
            ..ListRuns::default()
        };
        let list = app.list_runs(ask).await?;
        seen += list.runs.len();
        let ids: BTreeSet<RunId> = list.runs.iter().map(|run| run.run_id).collect();
        let own = list.runs.into_iter().find(|run| match &caller {
            Some(caller) => run.parent.is_none() && run.caller == *caller,
            // Inside a run only its descendants are listed. A child of one of them is not this caller's run.
            None => run.parent.is_none_or(|parent| !ids.contains(&parent)),
        });
        match (own, list.before) {
            (Some(run), _) => return Ok(run),
            (None, Some(next)) => before = Some(next),
            (None, None) => break,
        }
    }
    Err(AppError::not_found("you have not started a run in this project").hint(
        "name one: `volery ps` lists the runs of this project, `volery ps --all` those of every project",
    ))
}

fn head(prompt: &str) -> &str {
    domain::size::head(prompt, 60)
}
