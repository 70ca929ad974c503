//! The default run of a command: the last one that its caller started in this project.

use std::collections::BTreeSet;

use domain::id::RunId;

use super::error::CommandError;
use super::output::{Out, OutputFormat};
use engine::{EngineError, EngineHandle, ListRuns, ListScope, RunSummary};

/// Runs per request.
const PAGE: usize = 50;
/// How many of the project's newest runs are searched.
const SEARCH_MAX: usize = 1_000;

/// Returns the run that the user typed, else the caller's last one, which it prints on standard error.
pub(super) async fn run_or_last(
    app: &EngineHandle,
    typed: Option<String>,
    out: &mut Out,
) -> Result<String, CommandError> {
    if let Some(typed) = typed {
        return Ok(typed);
    }
    let run = find(app).await?;
    if out.format() == OutputFormat::Text {
        out.note(&format!("the last run: {} {}: {}", run.short_id, run.agent, head(&run.prompt)));
    }
    Ok(run.run_id.to_string())
}

async fn find(app: &EngineHandle) -> Result<RunSummary, EngineError> {
    let caller = app.caller().map(|caller| caller.name);
    let mut before: Option<RunId> = None;
    let mut searched = 0;
    while searched < SEARCH_MAX {
        let request = ListRuns {
            scope: ListScope::Project,
            before: before.map(|id| id.to_string()),
            limit: PAGE,
            ..ListRuns::default()
        };
        let list = app.ask(request).await?;
        searched += list.runs.len();
        let ids: BTreeSet<RunId> = list.runs.iter().map(|run| run.run_id).collect();
        let own = list.runs.into_iter().find(|run| match &caller {
            Some(caller) => run.parent.is_none() && run.caller == *caller,
            // Inside a run, the list holds only its descendants. Those whose parent is listed belong to another run.
            None => run.parent.is_none_or(|parent| !ids.contains(&parent)),
        });
        match (own, list.before) {
            (Some(run), _) => return Ok(run),
            (None, Some(next)) => before = Some(next),
            (None, None) => break,
        }
    }
    Err(EngineError::not_found("you have not started a run in this project").hint(
        "name one: `volery ps` lists the runs of this project, `volery ps --all` those of every project",
    ))
}

fn head(prompt: &str) -> &str {
    domain::size::head(prompt, 60)
}
