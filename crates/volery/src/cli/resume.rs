//! `volery resume`: continues an interrupted run.

use domain::duration::parse_ms;

use super::context::Context;
use super::error::CommandError;
use super::event_follower::Verbosity;
use super::exit::Exit;
use super::last_run;
use super::output::Out;
use super::run::{self, Following, OnDenied, check_timeout};
use engine::Attachment;
use engine::unattended::{self, PromptSource};

/// Continue an interrupted run
///
/// For a run whose processes were killed, for example by a reboot. A new run of
/// the same agent in the same directory continues the conversation, with a note
/// about the interruption. If the agent had not started, the run starts over. If
/// it had started but reported no session id, the run cannot be resumed safely
/// and the command fails.
///
/// Examples:
///   volery resume
///   volery resume 3f9a
///   volery resume 3f9a --background
///   volery resume 3f9a --timeout 30m
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The id of the run, or at least its last four digits [default: your last run here]
    pub(crate) run: Option<String>,

    /// Print the new run's id and return at once
    #[arg(long, short)]
    pub(crate) background: bool,

    /// End the new run after this time, such as 90s, 5m or 1h30m [default: the limit of the interrupted run]
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    pub(crate) timeout: Option<u64>,

    /// Print each step of the agent on standard error
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let timeout = check_timeout(args.timeout)?;
    let app = context.open_existing()?;
    let run = last_run::run_or_last(&app, args.run, out).await?;
    let mut start = app.ask(engine::PrepareResume { run }).await?;
    start.limits.timeout_ms = timeout.or(start.limits.timeout_ms);
    start.attachment = if args.background { Attachment::Detached } else { Attachment::Attached };
    start.unattended = unattended::unattended_command(false, PromptSource::Arguments);
    let following = Following {
        verbosity: Verbosity::steps_if(args.verbose, Verbosity::Warnings),
        on_denied: OnDenied::Report,
    };
    run::carry_out(start, following, context, out).await
}
