//! The command: sets the stage, talks to the server, shows what happens, and takes the stage down.

use std::time::{Duration, Instant};

use tokio::net::unix::pipe;

use super::super::error::CommandError;
use super::super::exit::Exit;
use super::super::live::{Live, REDRAW_EVERY};
use super::super::out::{Format, Out};
use super::super::signals::Signals;
use super::conversation::{Conversation, Heard};
use super::stage::{CAST, Stage};
use super::tally::Tally;
use crate::app::AppError;

/// The demo takes about three seconds; this ends one that does not.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the server may take to leave.
const FAREWELL: Duration = Duration::from_secs(2);

/// Watch three agents at work; needs nothing installed
///
/// Starts a real `volery serve`, speaks MCP to it as a client would, delegates
/// to three rehearsed agents in parallel, and shows their progress, their
/// results and what they took. Takes about three seconds and leaves nothing
/// behind.
///
/// Examples:
///   volery demo
///   volery demo --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

pub(crate) async fn run(_args: Args, out: &mut Out) -> Result<Exit, CommandError> {
    let stage = Stage::set()?;
    let server = stage.start_server()?;
    let broken = |error: std::io::Error| AppError::internal(format!("could not talk to the server: {error}"));
    let input = pipe::Sender::from_owned_fd(server.stdin).map_err(broken)?;
    let output = pipe::Receiver::from_owned_fd(server.stdout).map_err(broken)?;
    let mut conversation = Conversation::new(input, output);
    if out.format() == Format::Text {
        out.note("a client starts `volery serve` and delegates to three agents at once:");
    }
    let since = Instant::now();
    // Told to end, the demo still takes its stage down.
    let mut signals = Signals::listen()?;
    let told = tokio::select! {
        // A terminal's Ctrl-C may end the server as well; then its silence is no error.
        biased;
        _ = signals.next() => None,
        told = tokio::time::timeout(PATIENCE, perform(&mut conversation, &stage, out)) => Some(told),
    };
    let wall_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    // Nobody is waited for any longer than this, and the operating system ends what does not leave.
    let _ = tokio::time::timeout(FAREWELL, conversation.close()).await;
    let Some(told) = told else { return Ok(Exit::Interrupted) };
    let tally = told.map_err(|_| AppError::limit("the demo did not end in time"))??.finish(wall_ms);
    match out.format() {
        Format::Json => out.json(&tally)?,
        Format::Text => {
            let page = tally.page(&out.look());
            out.page(&page)?;
            out.flush()?;
            out.hint("write your own agents to .volery/agents/NAME.md, then volery run NAME \"…\"");
        }
    }
    Ok(if tally.all_succeeded() { Exit::Done } else { Exit::RunFailed })
}

async fn perform<W, R>(
    conversation: &mut Conversation<W, R>,
    stage: &Stage,
    out: &mut Out,
) -> Result<Tally, CommandError>
where
    W: tokio::io::AsyncWrite + Unpin,
    R: tokio::io::AsyncRead + Unpin,
{
    conversation.greet().await?;
    conversation.delegate(&stage.tasks()).await?;
    let mut tally = Tally::new(CAST.map(|member| member.agent));
    let mut live = Live::new();
    let mut redraw = tokio::time::interval(REDRAW_EVERY);
    loop {
        tokio::select! {
            heard = conversation.hear() => match heard? {
                Heard::Delegated(ids) => conversation.ask_for(&ids).await?,
                Heard::Listed(ids) => conversation.ask_for(&ids).await?,
                Heard::Run(run) => tally.take(&run),
                Heard::Progress(message) => tally.remark(message),
                Heard::Nothing => {}
            },
            _ = redraw.tick() => {
                live.draw(&tally.rows(), out);
                conversation.look_again().await?;
            }
        }
        if conversation.is_answered() && tally.is_complete() {
            break;
        }
    }
    live.erase(out);
    Ok(tally)
}
