//! Explains why a question that was asked at this terminal is no longer open.

use domain::id::RunId;
use domain::run::Event;
use engine::{EngineHandle, LogCursor, ReadEvents};

use crate::report::one_line;

/// Returns who answered a question and how. If nobody answered in time, names the answer time-out.
pub(super) async fn explain(app: &EngineHandle, run: RunId, question: &str) -> String {
    let Some((allowed, by)) = find_answer(app, run, question).await else {
        return "the question is no longer open, because the run has ended".to_owned();
    };
    let verb = if allowed { "approved" } else { "denied" };
    format!("the question was {verb} by {}", one_line(&by))
}

/// Returns whether the answer to a question allows the use, and who gave it.
async fn find_answer(app: &EngineHandle, run: RunId, question: &str) -> Option<(bool, String)> {
    let mut after = LogCursor::default();
    loop {
        let page = app.ask(ReadEvents { run: run.to_string(), after }).await.ok()?;
        after = page.next;
        let is_empty = page.events.is_empty();
        for envelope in page.events {
            if let Event::QuestionAnswered { question: answered, allowed, by, .. } = envelope.event
                && answered.as_str() == question
            {
                return Some((allowed, by));
            }
        }
        if is_empty {
            return None;
        }
    }
}
