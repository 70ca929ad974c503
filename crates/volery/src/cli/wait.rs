//! `volery wait`: waits until runs have ended.

use domain::duration::{display_ms, parse_ms};
use domain::id::RunId;

use super::context::Context;
use super::error::CommandError;
use super::event_follower::{EventFollower, Verbosity};
use super::exit::Exit;
use super::last_run;
use super::output::{Out, OutputFormat};
use super::run_result;
use super::signals::Signals;
use super::watch::{WatchOutcome, watch};
use crate::report::{denial_lines, summary, view_table};
use engine::{EngineHandle, WaitRequest, WaitResult, WaitUntil};

/// Wait until runs have ended
///
/// Prints the whole result of one run, as `volery run` does, or a table of
/// several. Exits with the code of the first run that did not succeed, or with 4
/// if the time-out passes first. Ctrl-C ends the wait, never a run.
///
/// Examples:
///   volery wait
///   volery wait 3f9a
///   volery wait 3f9a 77c0 --timeout 5m
///   volery wait --any 3f9a 77c0 --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The ids of the runs, or at least their last four digits [default: your last run here]
    pub(crate) runs: Vec<String>,

    /// Return as soon as one of them has ended [default: wait for all]
    #[arg(long)]
    pub(crate) any: bool,

    /// Wait at most this long, such as 90s or 5m
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    pub(crate) timeout: Option<u64>,

    /// Print each step of the agents on standard error
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let app = context.open_existing()?;
    let until = if args.any { WaitUntil::Any } else { WaitUntil::All };
    let runs = match args.runs.is_empty() {
        true => vec![last_run::run_or_last(&app, None, out).await?],
        false => args.runs,
    };
    let mut follower = EventFollower::new(Verbosity::steps_if(args.verbose, Verbosity::Nothing), &runs);
    let request = WaitRequest { runs, until, timeout_ms: args.timeout };
    let short = |run: &String| run.parse().map_or_else(|_| run.clone(), |run: RunId| run.short());
    let ids = request.runs.iter().map(short).collect::<Vec<_>>().join(" ");
    let (subject, object) = match request.runs.len() {
        1 => ("the run continues", "it"),
        _ => ("the runs continue", "them"),
    };
    let mut signals = Signals::listen()?;
    let waited = match watch(&app, request, None, (&mut signals, &mut follower), out).await? {
        WatchOutcome::Waited { waited, .. } => waited,
        WatchOutcome::Left(_) => {
            out.note(&format!("stopped waiting; {subject}"));
            out.hint(&format!("volery wait {ids} waits again, volery cancel {ids} ends {object}"));
            return Ok(Exit::Interrupted);
        }
    };
    match out.format() {
        OutputFormat::Json => {
            let waited = with_whole_results(&app, waited).await?;
            out.json(&waited)?;
            Ok(exit_for(&waited))
        }
        OutputFormat::Text => {
            print(&app, &waited, &context.user_name(), out).await?;
            if let (true, Some(timeout)) = (waited.timed_out, args.timeout) {
                out.note(&format!("not ended within {}", display_ms(timeout)));
                out.hint("the runs go on; wait again with the same ids");
            }
            Ok(exit_for(&waited))
        }
    }
}

async fn print(
    app: &EngineHandle,
    waited: &WaitResult,
    user: &str,
    out: &mut Out,
) -> Result<(), CommandError> {
    match waited.runs.as_slice() {
        [run] if run.ended => {
            let detail = run_result::print(app, &run.run_id.to_string(), out).await?;
            out.note(&summary(&detail.run));
            denial_lines(&detail.run, user).iter().for_each(|line| out.warning(line));
            if let Some(advice) = &detail.run.after_interruption {
                out.hint(&advice.sentence());
            }
        }
        [run] => out.note(&summary(run)),
        runs => {
            let table = view_table(runs, &out.style());
            out.page(&table)?;
            out.flush()?;
            for run in runs {
                if let Some(advice) = &run.after_interruption {
                    out.hint(&format!("{} was interrupted: {}", run.short_id, advice.sentence()));
                }
            }
        }
    }
    Ok(())
}

async fn with_whole_results(app: &EngineHandle, mut waited: WaitResult) -> Result<WaitResult, CommandError> {
    for run in waited.runs.iter_mut().filter(|run| run.ended) {
        *run = run_result::fetch_whole(app, &run.run_id.to_string()).await?.run;
    }
    Ok(waited)
}

/// A timeout takes precedence over the outcomes of the runs that did end.
fn exit_for(waited: &WaitResult) -> Exit {
    if waited.timed_out { Exit::Limit } else { Exit::from_runs(waited.runs.iter().filter(|run| run.ended)) }
}
