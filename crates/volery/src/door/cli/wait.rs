//! `volery wait`: until runs have ended.

use domain::duration::{display_ms, parse_ms};

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::last_run;
use super::out::{Format, Out};
use super::result;
use super::signals::Signals;
use super::watch::{Watched, watch};
use crate::app::{App, Wait, WaitUntil, Waited};
use crate::report::{denials, summary, view_table};

/// Wait until runs have ended
///
/// One run: prints its whole result, as `volery run` does. Several: a table.
/// Exits like the first run that did not succeed, and with 4 if the time is
/// over first. Ctrl-C ends the wait, never a run.
///
/// Examples:
///   volery wait
///   volery wait 3f9a
///   volery wait 3f9a 77c0 --timeout 5m
///   volery wait --any 3f9a 77c0 --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The runs: their ids, or four or more digits from the ends of them [default: your last one here]
    pub(crate) runs: Vec<String>,

    /// Until one of them has ended [default: until all have]
    #[arg(long)]
    pub(crate) any: bool,

    /// Wait no longer than this, such as 90s or 5m
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    pub(crate) timeout: Option<u64>,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let app = context.open()?;
    let until = if args.any { WaitUntil::Any } else { WaitUntil::All };
    let runs = match args.runs.is_empty() {
        true => vec![last_run::or_last(&app, None, out).await?],
        false => args.runs,
    };
    let ask = Wait { runs, until, timeout_ms: args.timeout };
    let waited = match watch(&app, ask, None, &mut Signals::default_actions(), out).await? {
        Watched::Waited { waited, .. } => waited,
        Watched::Left(_) => return Ok(Exit::Interrupted),
    };
    match out.format() {
        Format::Json => {
            let waited = with_whole_results(&app, waited).await?;
            out.json(&waited)?;
            Ok(exit_of(&waited))
        }
        Format::Text => {
            print(&app, &waited, out).await?;
            if let (true, Some(timeout)) = (waited.timed_out, args.timeout) {
                out.note(&format!("not ended within {}", display_ms(timeout)));
                out.hint("the runs go on; wait again with the same ids");
            }
            Ok(exit_of(&waited))
        }
    }
}

async fn print(app: &App, waited: &Waited, out: &mut Out) -> Result<(), CommandError> {
    match waited.runs.as_slice() {
        [run] if run.ended => {
            let detail = result::print(app, &run.run_id.to_string(), out).await?;
            out.note(&summary(&detail.run));
            denials(&detail.run).iter().for_each(|denial| out.warning(denial));
        }
        [run] => out.note(&summary(run)),
        runs => {
            let table = view_table(runs, &out.look());
            out.page(&table)?;
            out.flush()?;
        }
    }
    Ok(())
}

async fn with_whole_results(app: &App, mut waited: Waited) -> Result<Waited, CommandError> {
    for run in waited.runs.iter_mut().filter(|run| run.ended) {
        *run = result::whole(app, &run.run_id.to_string()).await?.run;
    }
    Ok(waited)
}

/// A time that is over is told before what became of those that did end.
fn exit_of(waited: &Waited) -> Exit {
    if waited.timed_out { Exit::Limit } else { Exit::of_runs(waited.runs.iter().filter(|run| run.ended)) }
}
