//! `volery deny`: answers a run's question with no.

use super::answer;
use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::Out;
use super::waiting_run::{self, AnsweredQuestion, TypedQuestion};
use engine::AnswerRequest;

/// Deny the request of a waiting run
///
/// The run continues, and the agent gets the reason.
///
/// Examples:
///   volery deny
///   volery deny 3f9a
///   volery deny 3f9a --reason "not on a Friday"
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The id of the run, or at least its last four digits [default: the only waiting run of this project]
    pub(crate) run: Option<String>,

    /// The question to answer, if the run has several
    #[arg(long, value_name = "QUESTION")]
    pub(crate) question: Option<String>,

    /// The reason for the agent
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let Args { run, question, reason } = args;
    let app = context.open_existing()?;
    let typed = TypedQuestion { run, question };
    let AnsweredQuestion { run, question } = waiting_run::typed_or_waiting(&app, typed, "deny", out).await?;
    let answer = AnswerRequest {
        run,
        question,
        allow: Some(false),
        text: reason,
        by: context.user_name(),
        ..AnswerRequest::default()
    };
    answer::send_answer(answer, "denied", &app, out).await
}
