//! `volery approve`: answers a run's question with yes.

use super::answer;
use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::Out;
use super::terminal_questions::write_rules;
use super::waiting_run::{self, AnsweredQuestion, TypedQuestion};
use engine::{AnswerRequest, EngineError, EngineHandle, GetRun, WaitingView};

/// Approve the request of a waiting run
///
/// `volery show RUN` prints the request. The first answer counts; a cancelled
/// run ignores it.
///
/// Examples:
///   volery approve
///   volery approve 3f9a
///   volery approve 3f9a --always
///   volery approve 3f9a --question deploy
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The id of the run, or at least its last four digits [default: the only waiting run of this project]
    pub(crate) run: Option<String>,

    /// Also write the narrowest rule that allows it into your configuration
    #[arg(long)]
    pub(crate) always: bool,

    /// The question to answer, if the run has several
    #[arg(long, value_name = "QUESTION")]
    pub(crate) question: Option<String>,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let Args { run, question, always } = args;
    let app = context.open_existing()?;
    let typed = TypedQuestion { run, question };
    let AnsweredQuestion { run, question } =
        waiting_run::typed_or_waiting(&app, typed, "approve", out).await?;
    let offered = match always {
        true => Some(offered_rules(&app, &run).await?),
        false => None,
    };
    let granted_rules = offered.as_ref().map(|offered| offered.rules.clone()).unwrap_or_default();
    // The rules belong to the question that was open, so the answer must not go to a later question.
    let question = question.or_else(|| offered.as_ref().map(|offered| offered.question.clone()));
    let by = context.user_name();
    let answer =
        AnswerRequest { run, question, allow: Some(true), by, granted_rules, ..AnswerRequest::default() };
    let exit = answer::send_answer(answer, "approved", &app, out).await?;
    if let Some(OfferedRules { agent, rules, .. }) = offered {
        write_rules(&agent, &rules, out);
    }
    Ok(exit)
}

/// The rules that would allow the use for which a waiting run asks.
struct OfferedRules {
    agent: String,
    question: String,
    rules: Vec<String>,
}

async fn offered_rules(app: &EngineHandle, run: &str) -> Result<OfferedRules, CommandError> {
    let run = app.ask(GetRun { run: run.to_owned(), ..GetRun::default() }).await?.run;
    match run.waiting {
        Some(WaitingView::Answer { question, allow_rules, .. }) if !allow_rules.is_empty() => {
            Ok(OfferedRules { agent: run.agent, question, rules: allow_rules })
        }
        Some(WaitingView::Answer { .. }) => {
            let message = format!("the run {} asks for something that no narrow rule allows", run.short_id);
            Err(EngineError::usage(message).hint("approve it without --always").into())
        }
        Some(WaitingView::Slot { .. } | WaitingView::Session { .. }) | None => {
            Err(EngineError::usage(format!("the run {} has no open question", run.short_id)).into())
        }
    }
}
