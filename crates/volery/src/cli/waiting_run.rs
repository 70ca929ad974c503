//! The default run of `volery approve`, `deny` and `answer`: the only one of this project that waits for an answer.

use super::error::CommandError;
use super::output::{Out, OutputFormat};
use super::ps::OPEN_STATES;
use crate::report::{distinct_questions, one_line};
use engine::{EngineError, EngineHandle, ListRuns, QuestionView};

/// Active runs that are examined at most.
const RUNS_MAX: usize = 1_000;
/// Runs that an error lists.
const RUNS_LISTED: usize = 8;

/// A run and the question to answer; without a question, the run's only open question.
pub(super) struct AnsweredQuestion {
    pub(super) run: String,
    pub(super) question: Option<String>,
}

/// What the user typed: a run, a question, both or neither.
pub(super) struct TypedQuestion {
    pub(super) run: Option<String>,
    pub(super) question: Option<String>,
}

/// Returns the run that the user typed, otherwise the project's only run that waits for an answer; prints its question.
pub(super) async fn typed_or_waiting(
    app: &EngineHandle,
    typed: TypedQuestion,
    command: &str,
    out: &mut Out,
) -> Result<AnsweredQuestion, CommandError> {
    let TypedQuestion { run, question } = typed;
    if let Some(run) = run {
        return Ok(AnsweredQuestion { run, question });
    }
    let waiting = open_questions(app).await?;
    let [only] = waiting.as_slice() else { return Err(not_exactly_one(&waiting, command).into()) };
    if out.format() == OutputFormat::Text {
        out.note(&sentence(only));
    }
    // The answer belongs to the question that was printed, not to a later question of the run.
    Ok(AnsweredQuestion {
        run: only.run_id.to_string(),
        question: Some(question.unwrap_or_else(|| only.question.clone())),
    })
}

/// Returns the open questions of this project's runs, and of the runs below them.
async fn open_questions(app: &EngineHandle) -> Result<Vec<QuestionView>, EngineError> {
    let states = OPEN_STATES.map(str::to_owned).to_vec();
    let list = app.ask(ListRuns { states, limit: RUNS_MAX, ..ListRuns::default() }).await?;
    Ok(distinct_questions(&list.runs).into_iter().cloned().collect())
}

fn sentence(question: &QuestionView) -> String {
    one_line(&format!("{} {} asks: {}", question.short_id, question.agent_path(), question.text))
}

fn not_exactly_one(waiting: &[QuestionView], command: &str) -> EngineError {
    let Some(first) = waiting.first() else {
        return EngineError::not_found("no run of this project waits for an answer")
            .hint("`volery ps --all --state waiting` lists the waiting runs of every project");
    };
    let mut lines = vec![format!("{} runs of this project wait for an answer:", waiting.len())];
    lines.extend(waiting.iter().take(RUNS_LISTED).map(sentence));
    let more = waiting.len().saturating_sub(RUNS_LISTED);
    lines.extend((more > 0).then(|| format!("and {more} more")));
    EngineError::usage(lines.join("\n")).hint(format!("name one: volery {command} {}", first.short_id))
}
