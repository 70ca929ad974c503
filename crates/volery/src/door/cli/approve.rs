//! `volery approve`: yes to a run that asked.

use super::answer;
use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::out::Out;
use crate::app::Answer;

/// Say yes to a waiting run
///
/// `volery show RUN` shows what it asks. The first answer counts, and a cancel
/// beats it.
///
/// Examples:
///   volery approve 3f9a
///   volery approve 3f9a --question deploy
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The run: its id, or four or more digits from its end
    pub(crate) run: String,

    /// Which question, if it has several
    #[arg(long, value_name = "QUESTION")]
    pub(crate) question: Option<String>,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let Args { run, question } = args;
    let answer = Answer { run, question, allow: Some(true), text: None, by: context.person() };
    answer::give(answer, "approved", context, out).await
}
