//! The default run of `volery approve`, `deny` and `answer`: the only one of this project that waits for an answer.

use super::error::CommandError;
use super::output::{Out, OutputFormat};
use engine::{EngineError, EngineHandle, GetRun, ListRuns, WaitingView};

/// Waiting runs that are examined at most.
const RUNS_MAX: usize = 200;
/// Runs that an error lists.
const RUNS_LISTED: usize = 8;

/// A run and the question of it that is answered; without one, its only open question.
pub(super) struct AnsweredQuestion {
    pub(super) run: String,
    pub(super) question: Option<String>,
}

/// What the user typed: a run, a question, both or neither.
pub(super) struct TypedQuestion {
    pub(super) run: Option<String>,
    pub(super) question: Option<String>,
}

/// A run that waits for an answer.
struct WaitingRun {
    run: String,
    short_id: String,
    agent: String,
    question: String,
    text: String,
}

/// Returns the run that the user typed, else the only one of this project that waits for an answer, and prints its question.
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
    let waiting = waiting_runs(app).await?;
    let [only] = waiting.as_slice() else { return Err(not_exactly_one(&waiting, command).into()) };
    if out.format() == OutputFormat::Text {
        out.note(&format!("{} {} asks: {}", only.short_id, only.agent, only.text));
    }
    // Answers the question that was printed, and no later one of the run.
    Ok(AnsweredQuestion {
        run: only.run.clone(),
        question: Some(question.unwrap_or_else(|| only.question.clone())),
    })
}

async fn waiting_runs(app: &EngineHandle) -> Result<Vec<WaitingRun>, EngineError> {
    let request = ListRuns { states: vec!["waiting".to_owned()], limit: RUNS_MAX, ..ListRuns::default() };
    let mut found = Vec::new();
    for summary in app.ask(request).await?.runs {
        let view = app.ask(GetRun { run: summary.run_id.to_string(), ..GetRun::default() }).await?.run;
        // Other waiting runs wait for a slot or a session.
        if let Some(WaitingView::Answer { question, text, .. }) = view.waiting {
            let (run, short_id, agent) = (view.run_id.to_string(), view.short_id, view.agent);
            found.push(WaitingRun { run, short_id, agent, question, text });
        }
    }
    Ok(found)
}

fn not_exactly_one(waiting: &[WaitingRun], command: &str) -> EngineError {
    if waiting.is_empty() {
        return EngineError::not_found("no run of this project waits for an answer")
            .hint("`volery ps --all --state waiting` lists the waiting runs of every project");
    }
    let mut lines = vec![format!("{} runs of this project wait for an answer:", waiting.len())];
    lines.extend(
        waiting
            .iter()
            .take(RUNS_LISTED)
            .map(|run| format!("{} {} asks: {}", run.short_id, run.agent, run.text.replace('\n', " "))),
    );
    let more = waiting.len().saturating_sub(RUNS_LISTED);
    lines.extend((more > 0).then(|| format!("and {more} more")));
    EngineError::usage(lines.join("\n")).hint(format!("name one: volery {command} {}", waiting[0].short_id))
}
