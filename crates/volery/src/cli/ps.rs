//! `volery ps`: lists the active runs and those that ended last.

use std::path::{Path, PathBuf};

use domain::run::OutcomeKind;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat};
use crate::report::{question_lines, run_table, runs_in_order};
use engine::{EngineError, EngineHandle, GetRun, ListRuns, ListScope, RunList};

/// The states of a run that has not ended.
pub(super) const OPEN_STATES: [&str; 4] = ["accepted", "running", "waiting", "stopping"];
/// Ended runs shown by default.
const ENDED_SHOWN: usize = 10;
/// Active runs shown at most.
const OPEN_SHOWN: usize = 1_000;
/// Denials of each run in the JSON document.
const DENIALS_PER_RUN: usize = 10;
/// Runs shown for a filter.
const FILTERED_SHOWN: usize = 50;

/// List active runs and the last ones that ended
///
/// Covers the project of the working directory, or every project with --all.
/// Without a filter it lists all active runs and the last 10 that ended. STATE
/// is accepted, running, waiting or stopping, or an outcome:
/// succeeded, partial, failed, timed_out, cancelled, over_budget, refused,
/// interrupted.
///
/// Examples:
///   volery ps
///   volery ps --all --state running
///   volery ps --agent reviewer --limit 100
///   volery ps --json | jq -r '.runs[] | select(.status == "failed") | .run_id'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Runs of every project
    #[arg(long, short)]
    pub(crate) all: bool,

    /// Only runs of this agent
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,

    /// Only runs in this state; can be repeated
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub(crate) state: Vec<String>,

    /// Only runs of this session
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// List at most N runs [default: 50 with a filter, otherwise 10 ended ones]
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// The project of this directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with = "all")]
    pub(crate) dir: Option<PathBuf>,
}

/// Returns every state that `--state` accepts.
pub(super) fn states() -> impl Iterator<Item = &'static str> {
    OPEN_STATES.into_iter().chain(OutcomeKind::ALL.into_iter().map(OutcomeKind::as_str))
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    check_states(&args.state)?;
    let scope = if args.all { ListScope::All } else { ListScope::Project };
    let directory = context.absolute(args.dir.as_ref())?;
    if let Some(home) = context.missing_state_home() {
        return report_missing_home(&home, out);
    }
    let app = context.open()?;
    let request = ListRuns {
        directory,
        scope,
        agent: args.agent,
        session: args.session,
        states: args.state,
        // The table has only their number.
        denials_per_run: if out.format() == OutputFormat::Json { DENIALS_PER_RUN } else { 0 },
        ..ListRuns::default()
    };
    let filtered = request.agent.is_some() || request.session.is_some() || !request.states.is_empty();
    let list = match filtered {
        true => app.ask(ListRuns { limit: args.limit.unwrap_or(FILTERED_SHOWN), ..request }).await?,
        false => open_and_recent(&app, request, args.limit.unwrap_or(ENDED_SHOWN)).await?,
    };
    match out.format() {
        OutputFormat::Json => out.json(&list)?,
        OutputFormat::Text if list.runs.is_empty() => explain_nothing(scope, filtered, out),
        OutputFormat::Text => {
            let table = run_table(&list.runs, scope, &out.style());
            out.page(&table)?;
            for (question, commands) in question_lines(&list.runs) {
                out.note(&question);
                out.hint(&commands);
            }
            if list.before.is_some() {
                out.note("… and more: `-n NUMBER` shows so many of those that have ended");
            }
            if let Some(hint) = interruption_hint(&app, &list).await? {
                out.hint(&hint);
            }
        }
    }
    Ok(Exit::Done)
}

/// Returns advice about the run that ended last, if it was interrupted. After a resumption, the last run is the one that
/// continues the interrupted run.
async fn interruption_hint(app: &EngineHandle, list: &RunList) -> Result<Option<String>, EngineError> {
    // An interrupted run with usable output has the status `partial`. Other runs can have this status too.
    let statuses = [OutcomeKind::Interrupted.as_str(), OutcomeKind::Partial.as_str()];
    let last = list.runs.iter().find(|run| run.ended);
    let Some(run) = last.filter(|run| statuses.contains(&run.status.as_str())) else { return Ok(None) };
    let shown = app.ask(GetRun { run: run.run_id.to_string(), ..GetRun::default() }).await?.run;
    let advice = shown.after_interruption.map(|advice| advice.sentence());
    Ok(advice.map(|advice| format!("{} was interrupted: {advice}", run.short_id)))
}

/// Reports that there are no runs, without creating the directory that `VOLERY_HOME` names.
fn report_missing_home(home: &Path, out: &mut Out) -> Result<Exit, CommandError> {
    match out.format() {
        OutputFormat::Json => out.json(&RunList { runs: Vec::new(), before: None })?,
        OutputFormat::Text => {
            out.note(&format!("{} does not exist, so there are no runs", home.display()));
            out.hint("VOLERY_HOME is set to this directory; correct it if the path is wrong");
        }
    }
    Ok(Exit::Done)
}

async fn open_and_recent(
    app: &EngineHandle,
    request: ListRuns,
    ended: usize,
) -> Result<RunList, EngineError> {
    let open = OPEN_STATES.map(str::to_owned).to_vec();
    let open = app.ask(ListRuns { states: open, limit: OPEN_SHOWN, ..request.clone() }).await?;
    let outcomes = OutcomeKind::ALL.map(|kind| kind.to_string()).to_vec();
    let recent = app.ask(ListRuns { states: outcomes, limit: ended, ..request }).await?;
    // A run that ended between the two requests is in both lists.
    let runs = runs_in_order(recent.runs.into_iter().chain(open.runs).collect());
    Ok(RunList { runs, before: recent.before })
}

fn check_states(states: &[String]) -> Result<(), CommandError> {
    let outcomes = OutcomeKind::ALL.map(OutcomeKind::as_str);
    let known = || OPEN_STATES.into_iter().chain(outcomes);
    for state in states {
        if !known().any(|name| name == state) {
            let near = domain::nearest::nearest(state, known());
            let hint = match near {
                Some(near) => format!("did you mean {near}?"),
                None => format!("states are {}", known().collect::<Vec<_>>().join(", ")),
            };
            return Err(EngineError::usage(format!("there is no state {state:?}")).hint(hint).into());
        }
    }
    Ok(())
}

fn explain_nothing(scope: ListScope, filtered: bool, out: &mut Out) {
    match (filtered, scope) {
        (true, _) => out.note("no run is like that"),
        (false, ListScope::All) => out.note("there are no runs"),
        (false, ListScope::Project) => {
            out.note("this project has no runs");
            out.hint("volery ps --all lists those of every project");
        }
    }
}
