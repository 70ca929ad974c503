//! The command: creates the environment, calls the server, shows the progress, and cleans up.

use std::time::{Duration, Instant};

use tokio::net::unix::pipe;

use super::super::error::CommandError;
use super::super::exit::Exit;
use super::super::live_display::{LiveDisplay, REDRAW_EVERY};
use super::super::output::{Out, OutputFormat};
use super::super::signals::Signals;
use super::environment::{DEMO_AGENTS, DemoEnv};
use super::mcp_client::{DemoClient, ServerMessage};
use super::results::DemoReport;
use engine::EngineError;

/// The demo takes about three seconds; this ends one that does not.
const DEMO_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the server may take to leave.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Run three scripted agents; requires no installed program
///
/// Starts a real `volery serve`, speaks MCP to it as a client would, delegates
/// to three rehearsed agents in parallel, and shows their progress, results and
/// durations. It takes about three seconds and leaves no files behind.
///
/// Examples:
///   volery demo
///   volery demo --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

pub(crate) async fn run(_args: Args, out: &mut Out) -> Result<Exit, CommandError> {
    let env = DemoEnv::create()?;
    let server = env.start_server()?;
    let broken =
        |error: std::io::Error| EngineError::internal(format!("could not talk to the server: {error}"));
    let input = pipe::Sender::from_owned_fd(server.stdin).map_err(broken)?;
    let output = pipe::Receiver::from_owned_fd(server.stdout).map_err(broken)?;
    let mut client = DemoClient::new(input, output);
    if out.format() == OutputFormat::Text {
        out.note("a client starts `volery serve` and delegates to three agents at once:");
    }
    let since = Instant::now();
    // After a signal the demo still removes its environment.
    let mut signals = Signals::listen()?;
    let outcome = tokio::select! {
        // Ctrl-C may end the server as well; then its silence is not an error.
        biased;
        _ = signals.next() => None,
        outcome = tokio::time::timeout(DEMO_TIMEOUT, run_demo(&mut client, &env, out)) => Some(outcome),
    };
    let wall_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    // The demo waits no longer than this; the operating system ends a server that has not left.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, client.close()).await;
    let Some(outcome) = outcome else { return Ok(Exit::Interrupted) };
    let report = outcome.map_err(|_| EngineError::limit("the demo did not end in time"))??.finish(wall_ms);
    match out.format() {
        OutputFormat::Json => out.json(&report)?,
        OutputFormat::Text => {
            let page = report.page(&out.style());
            out.page(&page)?;
            out.flush()?;
            out.hint("write your own agents to .volery/agents/NAME.md, then volery run NAME \"…\"");
        }
    }
    Ok(if report.all_succeeded() { Exit::Done } else { Exit::RunFailed })
}

async fn run_demo<W, R>(
    client: &mut DemoClient<W, R>,
    env: &DemoEnv,
    out: &mut Out,
) -> Result<DemoReport, CommandError>
where
    W: tokio::io::AsyncWrite + Unpin,
    R: tokio::io::AsyncRead + Unpin,
{
    client.initialize().await?;
    client.delegate(&env.tasks()).await?;
    let mut report = DemoReport::new(DEMO_AGENTS.map(|agent| agent.name));
    let mut live = LiveDisplay::new();
    let mut redraw = tokio::time::interval(REDRAW_EVERY);
    loop {
        tokio::select! {
            message = client.receive() => match message? {
                ServerMessage::Delegated(ids) => client.request_runs(&ids).await?,
                ServerMessage::Listed(ids) => client.request_runs(&ids).await?,
                ServerMessage::Run(run) => report.update_run(&run),
                ServerMessage::Progress(text) => report.set_activity(text),
                ServerMessage::Nothing => {}
            },
            _ = redraw.tick() => {
                live.draw(&report.rows(), out);
                client.poll_runs().await?;
            }
        }
        if client.is_answered() && report.is_complete() {
            break;
        }
    }
    live.erase(out);
    Ok(report)
}
