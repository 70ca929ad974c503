//! `volery logs`: prints a transcript of a run, or the raw output of its agent.

use std::time::Duration;

use domain::run::{Envelope, Event, StdStream};
use serde::Serialize;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::last_run;
use super::output::{Out, OutputFormat};
use crate::report::{Transcript, damage_warning};
use engine::{EngineError, EngineHandle, EventPage, GetRun, LogCursor, ReadEvents, ReadOutput, RunView};

/// Bytes per request.
const PAGE: usize = 64 << 10;
/// The time between two reads of an active run.
const POLL_INTERVAL: Duration = Duration::from_millis(150);

/// Print a transcript of a run
///
/// The transcript contains the task, the agent's text, its tool calls with
/// shortened results, denials, questions, child runs, warnings and the outcome.
/// With -f the command follows the run until it has ended. --raw prints what the
/// agent's program wrote: for most vendors that is a protocol. A terminal gets
/// control characters in a visible form; with --raw a pipe gets the output
/// unchanged. --json prints all events of the run.
///
/// Examples:
///   volery logs
///   volery logs 3f9a
///   volery logs -f 3f9a
///   volery logs --raw --stderr 3f9a | less
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The id of the run, or at least its last four digits [default: your last run here]
    pub(crate) run: Option<String>,

    /// Follow until the run has ended
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// Print what the agent's program wrote to standard output
    #[arg(long)]
    pub(crate) raw: bool,

    /// Print what the agent's program wrote to standard error
    #[arg(long)]
    pub(crate) stderr: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let app = context.open_existing()?;
    let run = last_run::run_or_last(&app, args.run, out).await?;
    let stream = if args.stderr { StdStream::Stderr } else { StdStream::Stdout };
    match (args.raw || args.stderr, out.format()) {
        (true, _) => print_raw(&app, RawLog::new(run, stream), args.follow, out).await?,
        (false, OutputFormat::Json) => print_events(&app, run, args.follow, out).await?,
        (false, OutputFormat::Text) => TranscriptPrinter::print(&app, run, args.follow, out).await?,
    }
    Ok(Exit::Done)
}

/// Prints the transcript of one run, page by page.
struct TranscriptPrinter<'a> {
    app: &'a EngineHandle,
    run: String,
    transcript: Transcript,
    /// The choice of the current attempt.
    choice: u32,
    /// How many bytes of the program's plain output the printer has read.
    output_offset: u64,
}

impl<'a> TranscriptPrinter<'a> {
    async fn print(
        app: &'a EngineHandle,
        run: String,
        follow: bool,
        out: &mut Out,
    ) -> Result<(), CommandError> {
        let shown = view(app, &run).await?;
        let transcript = Transcript::new(&shown, out.style());
        out.page(&transcript.header(&shown))?;
        let mut printer = Self { app, run, transcript, choice: 0, output_offset: 0 };
        let mut pages = EventPages::new(app, printer.run.clone(), follow);
        let mut last_page = None;
        while let Some(page) = pages.next(out).await? {
            for envelope in &page.events {
                printer.event(envelope, &page, out).await?;
            }
            if !page.complete {
                printer.plain_output(&page, out).await?;
            }
            last_page = Some(page);
        }
        let rest = printer.transcript.rest();
        out.page(&rest)?;
        out.flush()?;
        if let Some(page) = last_page {
            if page.damaged_lines > 0 {
                out.warning(&damage_warning(page.damaged_lines));
            }
            if !page.complete {
                out.hint("the run is still active; to follow it: volery logs -f");
            } else if let Some(advice) = view(printer.app, &printer.run).await?.after_interruption {
                out.hint(&advice.sentence());
            }
        }
        Ok(())
    }

    async fn event(
        &mut self,
        envelope: &Envelope,
        page: &EventPage,
        out: &mut Out,
    ) -> Result<(), CommandError> {
        match &envelope.event {
            Event::AttemptStarted { choice, .. } => (self.choice, self.output_offset) = (*choice, 0),
            // The output is complete now. The transcript shows it before the end of the run.
            Event::Ended { .. } => self.plain_output(page, out).await?,
            _ => {}
        }
        out.page(&self.transcript.event(envelope))
    }

    /// Prints the new output of a program that writes plain text for people.
    async fn plain_output(&mut self, page: &EventPage, out: &mut Out) -> Result<(), CommandError> {
        let has_other_text = self.output_offset == 0 && self.transcript.has_text();
        if !page.plain_choices.contains(&self.choice) || has_other_text {
            return Ok(());
        }
        loop {
            let request = ReadOutput {
                run: self.run.clone(),
                stream: StdStream::Stdout,
                offset: self.output_offset,
                max: PAGE,
            };
            let output = self.app.ask(request).await?;
            if output.next_offset <= self.output_offset {
                return Ok(());
            }
            self.output_offset = output.next_offset;
            out.page(&self.transcript.plain_output(&output.text))?;
        }
    }
}

/// The pages of a log, up to its end or, with `--follow`, up to the end of the run.
struct EventPages<'a> {
    app: &'a EngineHandle,
    run: String,
    follow: bool,
    cursor: LogCursor,
    is_over: bool,
    /// The last page had events, so there may be more.
    had_events: bool,
}

impl<'a> EventPages<'a> {
    fn new(app: &'a EngineHandle, run: String, follow: bool) -> Self {
        Self { app, run, follow, cursor: LogCursor::default(), is_over: false, had_events: true }
    }

    async fn next(&mut self, out: &mut Out) -> Result<Option<EventPage>, CommandError> {
        if self.is_over || (!self.had_events && !self.follow) {
            return Ok(None);
        }
        if !self.had_events {
            out.flush()?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let page = self.app.ask(ReadEvents { run: self.run.clone(), after: self.cursor }).await?;
        (self.cursor, self.is_over, self.had_events) = (page.next, page.complete, !page.events.is_empty());
        Ok(Some(page))
    }
}

async fn view(app: &EngineHandle, run: &str) -> Result<RunView, EngineError> {
    Ok(app.ask(GetRun { run: run.to_owned(), ..GetRun::default() }).await?.run)
}

/// Prints one document with the events of a run. Writes each page before it reads the next, because a log can exceed the memory.
async fn print_events(
    app: &EngineHandle,
    run: String,
    follow: bool,
    out: &mut Out,
) -> Result<(), CommandError> {
    let view = view(app, &run).await?;
    let fields = serde_json::json!({"run": view.run_id, "agent": view.agent, "prompt": view.prompt});
    let fields = fields.to_string();
    out.page(&format!("{},\"events\":[", fields.trim_end_matches('}')))?;
    let mut pages = EventPages::new(app, run, follow);
    let mut separator = "\n";
    let (mut complete, mut damaged_lines) = (false, 0);
    while let Some(page) = pages.next(out).await? {
        for envelope in &page.events {
            out.page(&format!("{separator}{}", serde_json::json!(envelope)))?;
            separator = ",\n";
        }
        (complete, damaged_lines) = (page.complete, page.damaged_lines);
    }
    out.page(&format!("\n],\"complete\":{complete},\"damaged_lines\":{damaged_lines}}}\n"))?;
    out.flush()
}

/// The JSON document of `logs --raw`.
#[derive(Debug, Serialize)]
struct RawLog {
    run: String,
    stream: StdStream,
    text: String,
    /// The run has ended and this is its whole output.
    complete: bool,
}

impl RawLog {
    fn new(run: String, stream: StdStream) -> Self {
        Self { run, stream, text: String::new(), complete: false }
    }
}

async fn print_raw(
    app: &EngineHandle,
    mut log: RawLog,
    follow: bool,
    out: &mut Out,
) -> Result<(), CommandError> {
    let mut offset = 0;
    let mut last = None;
    loop {
        let page = read(app, &log, offset).await?;
        let ended_stream = page.next_offset <= offset;
        offset = page.next_offset.max(offset);
        last = page.text.chars().last().or(last);
        match out.format() {
            OutputFormat::Json => log.text.push_str(&page.text),
            OutputFormat::Text => out.agent_text(&page.text)?,
        }
        log.complete = page.complete;
        match (page.complete, ended_stream, follow) {
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
        out.hint("the run is still active; to follow it: volery logs --raw -f");
    } else if offset == 0 {
        out.hint("the program wrote nothing to this stream");
    }
    Ok(())
}

async fn read(app: &EngineHandle, log: &RawLog, offset: u64) -> Result<engine::OutputPage, EngineError> {
    app.ask(ReadOutput { run: log.run.clone(), stream: log.stream, offset, max: PAGE }).await
}
