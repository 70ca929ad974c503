//! `volery show`: everything that is known about one run.

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::last_run;
use super::out::{Format, Out};
use crate::app::{App, GetRun, RunDetail};
use crate::report::{event_line, run_page};

/// Bytes of the result on the page for people.
const RESULT_SHOWN: u64 = 16 << 10;
/// Bytes of the result in the JSON document.
const RESULT_JSON: u64 = 1 << 20;
/// Events asked for at once.
const EVENTS_PAGE: usize = 1_000;
/// Events shown at most.
const EVENTS_MAX: usize = 100_000;

/// Show everything that is known about a run
///
/// Who asked, where it stands and why, what it used, which processes and limits
/// were contained by what, its children, warnings and result. A run is named by
/// its id or by four or more digits from the end of it; without a name it is
/// the last one that you started in this project.
///
/// Examples:
///   volery show
///   volery show 3f9a
///   volery show 3f9a --events
///   volery show 3f9a --json | jq .usage
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The run: its id, or four or more digits from its end [default: your last one here]
    pub(crate) run: Option<String>,

    /// Also every event of its journal
    #[arg(long)]
    pub(crate) events: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let app = context.open()?;
    let result_max = match out.format() {
        Format::Json => RESULT_JSON,
        Format::Text => RESULT_SHOWN,
    };
    let ask = GetRun {
        run: last_run::or_last(&app, args.run, out).await?,
        result_offset: 0,
        result_max,
        events_from: args.events.then_some(0),
        events_max: if args.events { EVENTS_PAGE } else { 0 },
    };
    let detail = with_all_events(&app, ask).await?;
    match out.format() {
        Format::Json => out.json(&detail)?,
        Format::Text => print(&detail, out)?,
    }
    Ok(Exit::Done)
}

async fn with_all_events(app: &App, ask: GetRun) -> Result<RunDetail, CommandError> {
    let mut detail = app.get_run(ask.clone()).await?;
    let mut next = detail.next_event.filter(|_| ask.events_from.is_some());
    while let Some(from) = next.filter(|_| detail.events.len() < EVENTS_MAX) {
        let more = GetRun { result_max: 0, events_from: Some(from), ..ask.clone() };
        let more = app.get_run(more).await?;
        next = more.next_event.filter(|next| *next > from && !more.events.is_empty());
        detail.events.extend(more.events);
        detail.next_event = more.next_event;
    }
    Ok(detail)
}

fn print(detail: &RunDetail, out: &mut Out) -> Result<(), CommandError> {
    let look = out.look();
    let run = &detail.run;
    out.page(&run_page(run, &look))?;
    if !detail.events.is_empty() {
        out.page("\nevents\n")?;
        for event in &detail.events {
            out.page(&event_line(event, &look))?;
        }
    }
    out.flush()?;
    let short = &run.short_id;
    if run.result_next_offset.is_some() {
        out.hint(&format!("the result is longer: volery wait {short} prints all of it"));
    }
    if detail.events.is_empty() {
        out.hint(&format!("volery show {short} --events lists its events, volery logs {short} its output"));
    }
    if !run.ended {
        out.hint(&format!("volery wait {short} waits for its end, volery cancel {short} ends it"));
    }
    Ok(())
}
