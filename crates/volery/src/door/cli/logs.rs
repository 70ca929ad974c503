//! `volery logs`: what an agent wrote.

use std::time::Duration;

use domain::run::Stream;
use serde::Serialize;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::last_run;
use super::out::{Format, Out};
use crate::app::{App, AppError, ReadOutput};

/// Bytes asked for at once.
const PAGE: usize = 64 << 10;
/// Between two looks at a run that goes on.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// Print what an agent wrote
///
/// That is the raw output of the agent's program, not the result that was made
/// of it. With -f it follows until the run has ended. On a terminal control
/// characters are made visible; into a pipe the text goes as it is.
///
/// Examples:
///   volery logs
///   volery logs 3f9a
///   volery logs -f 3f9a
///   volery logs --stderr 3f9a | less
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The run: its id, or four or more digits from its end [default: your last one here]
    pub(crate) run: Option<String>,

    /// Follow until the run has ended; with --json the document comes at the end
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// The error stream instead of the output
    #[arg(long)]
    pub(crate) stderr: bool,
}

/// The JSON document of `logs`.
#[derive(Debug, Serialize)]
struct Log {
    run: String,
    stream: Stream,
    text: String,
    /// The run has ended and this is all.
    complete: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let app = context.open()?;
    let stream = if args.stderr { Stream::Stderr } else { Stream::Stdout };
    let run = last_run::or_last(&app, args.run, out).await?;
    let mut log = Log { run, stream, text: String::new(), complete: false };
    let mut offset = 0;
    let mut last = None;
    loop {
        let page = read(&app, &log, offset).await?;
        let ended_stream = page.next_offset <= offset;
        offset = page.next_offset.max(offset);
        last = page.text.chars().last().or(last);
        match out.format() {
            Format::Json => log.text.push_str(&page.text),
            Format::Text => out.agent_text(&page.text)?,
        }
        log.complete = page.complete;
        match (page.complete, ended_stream, args.follow) {
            (true, _, _) | (false, true, false) => break,
            (false, false, _) => {}
            (false, true, true) => {
                out.flush()?;
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }
    match out.format() {
        Format::Json => out.json(&log)?,
        Format::Text => out.end_agent_text(last)?,
    }
    out.flush()?;
    if !log.complete {
        out.hint("the run goes on: volery logs -f follows it");
    } else if offset == 0 {
        out.hint("nothing was written to this stream; volery show tells what the run did");
    }
    Ok(Exit::Done)
}

async fn read(app: &App, log: &Log, offset: u64) -> Result<crate::app::OutputPage, AppError> {
    app.read_output(ReadOutput { run: log.run.clone(), stream: log.stream, offset, max: PAGE }).await
}
