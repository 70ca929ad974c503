//! Explains why a question that was asked at this terminal is no longer open.

use domain::id::RunId;
use engine::{EngineHandle, GetRun};
use serde_json::Value;

/// Events per request.
const EVENTS_PAGE: usize = 1_000;

/// Returns who answered a question and how. The time limit for answers counts as an author.
pub(super) async fn explain(app: &EngineHandle, run: RunId, question: &str) -> String {
    let Some(answer) = find_answer(app, run, question).await else {
        return "the question is no longer open, because the run has ended".to_owned();
    };
    let verb = if answer["allowed"] == Value::Bool(true) { "approved" } else { "denied" };
    format!("the question was {verb} by {}", answer["by"].as_str().unwrap_or("somebody"))
}

/// Returns the event with the answer to a question.
async fn find_answer(app: &EngineHandle, run: RunId, question: &str) -> Option<Value> {
    let mut next = Some(0);
    while let Some(from) = next {
        let request = GetRun {
            run: run.to_string(),
            events_from: Some(from),
            events_max: EVENTS_PAGE,
            ..GetRun::default()
        };
        let page = app.ask(request).await.ok()?;
        next = page.next_event.filter(|next| *next > from);
        let is_answer = |event: &Value| event["type"] == "answered" && event["question"] == question;
        if let Some(answer) = page.events.into_iter().find(is_answer) {
            return Some(answer);
        }
    }
    None
}
