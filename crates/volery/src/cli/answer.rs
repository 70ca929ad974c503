//! `volery answer`: answers a run's question with a text.

use domain::id::RunRef;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat};
use super::prompt;
use super::waiting_run::{self, AnsweredQuestion, TypedQuestion};
use engine::{AnswerRequest, AnswerResult, EngineHandle, ErrorKind, GetRun};

/// Answer the question of a waiting run
///
/// `volery show RUN` prints the question. The first answer counts. If the run asks
/// for permission, use `volery approve` or `volery deny` instead. A single argument
/// is the id of the run if it has the form of one, otherwise the answer.
///
/// Examples:
///   volery answer "use the staging database"
///   volery answer 3f9a "use the staging database"
///   volery answer 3f9a - < answer.md
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The id of the run, or at least its last four digits [default: the only waiting run of this project]
    pub(crate) run: Option<String>,

    /// The answer; `-`, or a pipe without this argument, reads standard input
    pub(crate) text: Option<String>,

    /// The question to answer, if the run has several
    #[arg(long, value_name = "QUESTION")]
    pub(crate) question: Option<String>,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let Args { run, text, question } = args;
    let app = context.open_existing()?;
    let (run, text) = match (run, text) {
        (Some(only), None) => run_or_text(&app, only).await?,
        typed => typed,
    };
    let typed = TypedQuestion { run, question };
    let AnsweredQuestion { run, question } =
        waiting_run::typed_or_waiting(&app, typed, "answer", out).await?;
    let text = prompt::read(text, "answer", out)?;
    let answer = AnswerRequest {
        run,
        question,
        allow: None,
        text: Some(text),
        by: context.user_name(),
        ..AnswerRequest::default()
    };
    send_answer(answer, "answered", &app, out).await
}

/// Decides whether a single argument is the run or the answer. A text in the form of an id counts as an id, so that a
/// mistyped id does not become the answer.
async fn run_or_text(
    app: &EngineHandle,
    only: String,
) -> Result<(Option<String>, Option<String>), CommandError> {
    if only.parse::<RunRef>().is_err() {
        return Ok((None, Some(only)));
    }
    match app.ask(GetRun { run: only.clone(), ..GetRun::default() }).await {
        Err(error) if error.kind == ErrorKind::NotFound => Err(error
            .hint(format!("if {only} is the answer, give the run too: volery answer RUN {only}"))
            .into()),
        Ok(_) | Err(_) => Ok((Some(only), None)),
    }
}

/// Sends an answer of any kind and prints the result.
pub(crate) async fn send_answer(
    answer: AnswerRequest,
    verb: &str,
    app: &EngineHandle,
    out: &mut Out,
) -> Result<Exit, CommandError> {
    let answered: AnswerResult = app.ask(answer).await?;
    match out.format() {
        OutputFormat::Json => out.json(&answered)?,
        OutputFormat::Text => {
            out.line(&format!("{} {verb} {}", answered.run_id.short(), answered.question))?
        }
    }
    Ok(Exit::Done)
}
