//! `volery logs`: prints the output of an agent.

use std::time::Duration;

use domain::run::StdStream;
use serde::Serialize;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::last_run;
use super::output::{Out, OutputFormat};
use engine::{EngineError, EngineHandle, ReadOutput};

/// Bytes per request.
const PAGE: usize = 64 << 10;
/// The time between two reads of an active run.
const POLL_INTERVAL: Duration = Duration::from_millis(150);

/// Print the raw output of an agent
///
/// The output is what the agent's program wrote; `volery show` prints the result
/// that volery extracted from it. With -f the command follows the output until
/// the run has ended. A terminal gets control characters in a visible form; a
/// pipe gets the text unchanged.
///
/// Examples:
///   volery logs
///   volery logs 3f9a
///   volery logs -f 3f9a
///   volery logs --stderr 3f9a | less
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The id of the run, or at least its last four digits [default: your last run here]
    pub(crate) run: Option<String>,

    /// Follow until the run has ended; with --json, print the document at the end
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// Print standard error instead of standard output
    #[arg(long)]
    pub(crate) stderr: bool,
}

/// The JSON document of `logs`.
#[derive(Debug, Serialize)]
struct Log {
    run: String,
    stream: StdStream,
    text: String,
    /// The run has ended and this is its whole output.
    complete: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let app = context.open()?;
    let stream = if args.stderr { StdStream::Stderr } else { StdStream::Stdout };
    let run = last_run::run_or_last(&app, args.run, out).await?;
    let mut log = Log { run, stream, text: String::new(), complete: false };
    let mut offset = 0;
    let mut last = None;
    loop {
        let page = read(&app, &log, offset).await?;
        let ended_stream = page.next_offset <= offset;
        offset = page.next_offset.max(offset);
        last = page.text.chars().last().or(last);
        match out.format() {
            OutputFormat::Json => log.text.push_str(&page.text),
            OutputFormat::Text => out.agent_text(&page.text)?,
        }
        log.complete = page.complete;
        match (page.complete, ended_stream, args.follow) {
            (true, _, _) | (false, true, false) => break,
            (false, false, _) => {}
            (false, true, true) => {
                out.flush()?;
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    }
    match out.format() {
        OutputFormat::Json => out.json(&log)?,
        OutputFormat::Text => out.end_agent_text(last)?,
    }
    out.flush()?;
    if !log.complete {
        out.hint("the run goes on: volery logs -f follows it");
    } else if offset == 0 {
        out.hint("nothing was written to this stream; volery show tells what the run did");
    }
    Ok(Exit::Done)
}

async fn read(app: &EngineHandle, log: &Log, offset: u64) -> Result<engine::OutputPage, EngineError> {
    app.ask(ReadOutput { run: log.run.clone(), stream: log.stream, offset, max: PAGE }).await
}
