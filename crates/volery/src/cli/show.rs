//! `volery show`: prints everything that is known about one run.

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::last_run;
use super::output::{Out, OutputFormat};
use crate::report::{event_line, run_page};
use engine::{EngineHandle, GetRun, RunDetail};

/// Bytes of the result in the text.
const RESULT_TEXT_BYTES: u64 = 16 << 10;
/// Bytes of the result in the JSON document.
const RESULT_JSON_BYTES: u64 = 1 << 20;
/// Events per request.
const EVENTS_PAGE: usize = 1_000;
/// Events shown at most.
const EVENTS_MAX: usize = 100_000;

/// Show the details of a run
///
/// Prints its caller, its state and the reason for it, usage and cost, the
/// mechanisms that contain its processes, child runs, warnings and the result.
/// RUN is the run's id, or at least the last four digits of it. Without RUN the
/// command shows the last run that you started in this project.
///
/// Examples:
///   volery show
///   volery show 3f9a
///   volery show 3f9a --events
///   volery show 3f9a --json | jq .usage
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The id of the run, or at least its last four digits [default: your last run here]
    pub(crate) run: Option<String>,

    /// Also print every event of the run
    #[arg(long)]
    pub(crate) events: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let app = context.open_existing()?;
    let result_max = match out.format() {
        OutputFormat::Json => RESULT_JSON_BYTES,
        OutputFormat::Text => RESULT_TEXT_BYTES,
    };
    let request = GetRun {
        run: last_run::run_or_last(&app, args.run, out).await?,
        result_offset: 0,
        result_max,
        events_from: args.events.then_some(0),
        events_max: if args.events { EVENTS_PAGE } else { 0 },
    };
    let detail = with_all_events(&app, request).await?;
    match out.format() {
        OutputFormat::Json => out.json(&detail)?,
        OutputFormat::Text => print(&detail, out)?,
    }
    Ok(Exit::Done)
}

async fn with_all_events(app: &EngineHandle, request: GetRun) -> Result<RunDetail, CommandError> {
    let mut detail = app.ask(request.clone()).await?;
    let mut next = detail.next_event.filter(|_| request.events_from.is_some());
    while let Some(from) = next.filter(|_| detail.events.len() < EVENTS_MAX) {
        let more = GetRun { result_max: 0, events_from: Some(from), ..request.clone() };
        let more = app.ask(more).await?;
        next = more.next_event.filter(|next| *next > from && !more.events.is_empty());
        detail.events.extend(more.events);
        detail.next_event = more.next_event;
    }
    Ok(detail)
}

fn print(detail: &RunDetail, out: &mut Out) -> Result<(), CommandError> {
    let style = out.style();
    let run = &detail.run;
    out.page(&run_page(run, &style))?;
    if !detail.events.is_empty() {
        out.page("\nevents\n")?;
        for event in &detail.events {
            out.page(&event_line(event, &style))?;
        }
    }
    out.flush()?;
    let short = &run.short_id;
    if run.result_next_offset.is_some() {
        out.hint(&format!("the result is longer: volery wait {short} prints all of it"));
    }
    if detail.events.is_empty() {
        out.hint(&format!(
            "volery show {short} --events lists its events, volery logs {short} prints its transcript"
        ));
    }
    if let Some(advice) = &run.after_interruption {
        out.hint(&advice.sentence());
    }
    if !run.ended {
        out.hint(&format!("volery wait {short} waits for its end, volery cancel {short} ends it"));
    }
    Ok(())
}
