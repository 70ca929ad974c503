//! `volery answer`: answers a run's question with a text.

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat};
use super::prompt;
use engine::{AnswerRequest, AnswerResult};

/// Answer the question of a waiting run
///
/// `volery show RUN` prints the question. The first answer counts. If the run asks
/// for permission, use `volery approve` or `volery deny` instead.
///
/// Examples:
///   volery answer 3f9a "use the staging database"
///   volery answer 3f9a - < answer.md
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The id of the run, or at least its last four digits
    pub(crate) run: String,

    /// The answer; `-`, or a pipe without this argument, reads standard input
    pub(crate) text: Option<String>,

    /// The question to answer, if the run has several
    #[arg(long, value_name = "QUESTION")]
    pub(crate) question: Option<String>,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let text = prompt::read(args.text, "answer", out)?;
    let person = context.user_name();
    let answer =
        AnswerRequest { run: args.run, question: args.question, allow: None, text: Some(text), by: person };
    send_answer(answer, "answered", context, out).await
}

/// Sends an answer of any kind and prints the result.
pub(crate) async fn send_answer(
    answer: AnswerRequest,
    verb: &str,
    context: &Context,
    out: &mut Out,
) -> Result<Exit, CommandError> {
    let app = context.open()?;
    let answered: AnswerResult = app.ask(answer).await?;
    match out.format() {
        OutputFormat::Json => out.json(&answered)?,
        OutputFormat::Text => {
            out.line(&format!("{} {verb} {}", answered.run_id.short(), answered.question))?
        }
    }
    Ok(Exit::Done)
}
