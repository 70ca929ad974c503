//! `volery approve`: answers a run's question with yes.

use super::answer;
use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::Out;
use engine::AnswerRequest;

/// Approve the request of a waiting run
///
/// `volery show RUN` prints the request. The first answer counts; a cancelled
/// run ignores it.
///
/// Examples:
///   volery approve 3f9a
///   volery approve 3f9a --question deploy
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The id of the run, or at least its last four digits
    pub(crate) run: String,

    /// The question to answer, if the run has several
    #[arg(long, value_name = "QUESTION")]
    pub(crate) question: Option<String>,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let Args { run, question } = args;
    let answer = AnswerRequest { run, question, allow: Some(true), text: None, by: context.user_name() };
    answer::send_answer(answer, "approved", context, out).await
}
