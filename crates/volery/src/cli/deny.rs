//! `volery deny`: answers a run's question with no.

use super::answer;
use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::Out;
use engine::AnswerRequest;

/// Deny the request of a waiting run
///
/// The run continues, and the agent gets the reason.
///
/// Examples:
///   volery deny 3f9a
///   volery deny 3f9a --reason "not on a Friday"
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The id of the run, or at least its last four digits
    pub(crate) run: String,

    /// The question to answer, if the run has several
    #[arg(long, value_name = "QUESTION")]
    pub(crate) question: Option<String>,

    /// The reason for the agent
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let Args { run, question, reason } = args;
    let answer = AnswerRequest { run, question, allow: Some(false), text: reason, by: context.user_name() };
    answer::send_answer(answer, "denied", context, out).await
}
