//! `volery deny`: no to a run that asked.

use super::answer;
use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::out::Out;
use crate::app::Answer;

/// Say no to a waiting run
///
/// The run goes on and is told the reason.
///
/// Examples:
///   volery deny 3f9a
///   volery deny 3f9a --reason "not on a Friday"
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The run: its id, or four or more digits from its end
    pub(crate) run: String,

    /// Which question, if it has several
    #[arg(long, value_name = "QUESTION")]
    pub(crate) question: Option<String>,

    /// Why not; the agent is told
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let Args { run, question, reason } = args;
    let answer = Answer { run, question, allow: Some(false), text: reason, by: context.person() };
    answer::give(answer, "denied", context, out).await
}
