//! Finds a command's default run, which is the caller's last run in this project, and the caller's last conversation.

use std::collections::BTreeSet;

use domain::id::RunId;

use super::error::CommandError;
use super::output::{Out, OutputFormat};
use super::ps::OPEN_STATES;
use engine::{EngineError, EngineHandle, GetRun, ListRuns, ListScope, RunSummary};

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

/// Returns the caller's last run that has not ended, and prints which one it is.
pub(super) async fn last_active(app: &EngineHandle, out: &mut Out) -> Result<String, CommandError> {
    let filter = ListRuns { states: OPEN_STATES.map(str::to_owned).to_vec(), ..ListRuns::default() };
    let Some(run) = find_own(app, filter, async |run| Ok(Some(run))).await? else {
        return Err(EngineError::not_found("none of your runs in this project is active")
            .hint("name one: `volery ps --all` lists the active runs of every project")
            .into());
    };
    if out.format() == OutputFormat::Text {
        out.note(&format!("the last active run: {} {}: {}", run.short_id, run.agent, head(&run.prompt)));
    }
    Ok(run.run_id.to_string())
}

async fn find(app: &EngineHandle) -> Result<RunSummary, EngineError> {
    let found = find_own(app, ListRuns::default(), async |run| Ok(Some(run))).await?;
    found.ok_or_else(|| {
        EngineError::not_found("you have not started a run in this project").hint(
            "name one: `volery ps` lists the runs of this project, `volery ps --all` those of every project",
        )
    })
}

/// The conversation that `volery run --continue` continues.
pub(super) struct LastConversation {
    pub(super) agent: String,
    pub(super) session: String,
    pub(super) directory: String,
}

/// Returns the caller's last conversation in a directory, with this agent or with any agent, and prints which one it is.
pub(super) async fn last_conversation(
    app: &EngineHandle,
    directory: String,
    agent: Option<String>,
    out: &mut Out,
) -> Result<LastConversation, CommandError> {
    let request =
        ListRuns { directory: Some(directory.clone()), agent: agent.clone(), ..ListRuns::default() };
    let found = find_own(app, request, async |summary| {
        let view = app.ask(GetRun { run: summary.run_id.to_string(), ..GetRun::default() }).await?.run;
        // A run that ended before its agent started has no conversation.
        let began = view.attempts > 0 || !view.ended;
        let conversation = view.session.filter(|_| began && view.directory == directory);
        Ok(conversation.map(|session| (summary, session)))
    });
    let Some((run, session)) = found.await? else {
        let (message, name) = match &agent {
            Some(agent) => (format!("you have no conversation with {agent} in {directory}"), agent.as_str()),
            None => (format!("you have no conversation in {directory}"), "AGENT"),
        };
        let hint = format!(
            "start one: volery run {name} \"…\"; to continue one of another directory: \
             volery run --continue --dir DIR \"…\""
        );
        return Err(EngineError::not_found(message).hint(hint).into());
    };
    if out.format() == OutputFormat::Text {
        out.note(&format!(
            "continues the conversation of {} {}: {}",
            run.short_id,
            run.agent,
            head(&run.prompt)
        ));
    }
    Ok(LastConversation { agent: run.agent, session, directory })
}

/// Passes the runs that the caller started to `pick`, the newest first, until `pick` returns a value.
async fn find_own<T>(
    app: &EngineHandle,
    filter: ListRuns,
    mut pick: impl AsyncFnMut(RunSummary) -> Result<Option<T>, EngineError>,
) -> Result<Option<T>, EngineError> {
    let caller = app.caller().map(|caller| caller.name);
    let mut before: Option<RunId> = None;
    let mut searched = 0;
    while searched < SEARCH_MAX {
        let request = ListRuns {
            scope: ListScope::Project,
            before: before.map(|id| id.to_string()),
            limit: PAGE,
            ..filter.clone()
        };
        let list = app.ask(request).await?;
        searched += list.runs.len();
        let ids: BTreeSet<RunId> = list.runs.iter().map(|run| run.run_id).collect();
        let own = list.runs.into_iter().filter(|run| match &caller {
            Some(caller) => run.parent.is_none() && run.caller == *caller,
            // Inside a run, the list holds only its descendants. Those whose parent is listed belong to another run.
            None => run.parent.is_none_or(|parent| !ids.contains(&parent)),
        });
        for run in own {
            if let Some(found) = pick(run).await? {
                return Ok(Some(found));
            }
        }
        match list.before {
            Some(next) => before = Some(next),
            None => break,
        }
    }
    Ok(None)
}

fn head(prompt: &str) -> &str {
    domain::size::head(prompt, 60)
}
