//! `volery resume`: goes on with what was interrupted.

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::last_run;
use super::out::Out;
use super::run;
use crate::app::Attachment;
use crate::attendance::{self, PromptFrom};

/// Go on with a run that was interrupted
///
/// For a run whose processes were killed, or that ended with the machine. A new
/// run of the same agent, in the same directory, goes on with the conversation
/// and a note of what happened. Where nothing was begun, it begins. Where the
/// agent had begun and named no conversation, nobody knows what it did, and
/// nothing is started.
///
/// Examples:
///   volery resume
///   volery resume 3f9a
///   volery resume 3f9a --background
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The run: its id, or four or more digits from the end of it [default: your last one here]
    pub(crate) run: Option<String>,

    /// Print the new run's id and return at once
    #[arg(long, short)]
    pub(crate) background: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let app = context.open()?;
    let run = last_run::or_last(&app, args.run, out).await?;
    let mut start = app.resumption(run).await?;
    start.attachment = if args.background { Attachment::Detached } else { Attachment::Attached };
    start.unattended = attendance::of_command(false, PromptFrom::Arguments);
    run::carry_out(start, context, out).await
}
