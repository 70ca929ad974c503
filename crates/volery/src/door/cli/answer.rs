//! `volery answer`: a text for a run that asked.

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::out::{Format, Out};
use super::prompt;
use crate::app::{Answer, Answered};

/// Answer the question of a waiting run
///
/// `volery show RUN` shows what it asks. The first answer counts. A run that asks
/// whether it may do something is answered with `volery approve` or `volery deny`.
///
/// Examples:
///   volery answer 3f9a "use the staging database"
///   volery answer 3f9a - < answer.md
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The run: its id, or four or more digits from its end
    pub(crate) run: String,

    /// The answer; `-`, or nothing with text piped in, reads standard input
    pub(crate) text: Option<String>,

    /// Which question, if it has several
    #[arg(long, value_name = "QUESTION")]
    pub(crate) question: Option<String>,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let text = prompt::read(args.text, "answer", out)?;
    let person = context.person();
    let answer = Answer { run: args.run, question: args.question, allow: None, text: Some(text), by: person };
    give(answer, "answered", context, out).await
}

/// Gives an answer of any kind and says so.
pub(crate) async fn give(
    answer: Answer,
    done: &str,
    context: &Context,
    out: &mut Out,
) -> Result<Exit, CommandError> {
    let app = context.open()?;
    let answered: Answered = app.answer(answer).await?;
    match out.format() {
        Format::Json => out.json(&answered)?,
        Format::Text => out.line(&format!("{} {done} {}", answered.run_id.short(), answered.question))?,
    }
    Ok(Exit::Done)
}
