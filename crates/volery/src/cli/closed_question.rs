//! Explains why a question that was asked at this terminal is no longer open.

use domain::id::RunId;
use domain::run::{AnswerOrigin, Event};
use engine::{EngineHandle, LogCursor, ReadEvents};

use crate::report::one_line;

/// Returns who answered a question, how, and from where, or that nobody answered in time.
pub(super) async fn explain(app: &EngineHandle, run: RunId, question: &str) -> String {
    match find_answer(app, run, question).await {
        Some(answer) => answer.sentence(),
        None => "the question is no longer open, because the run has ended".to_owned(),
    }
}

/// The recorded answer to a question.
struct GivenAnswer {
    allowed: bool,
    by: String,
    origin: Option<AnswerOrigin>,
}

impl GivenAnswer {
    fn sentence(&self) -> String {
        let verb = if self.allowed { "approved" } else { "denied" };
        let by = one_line(&self.by);
        match self.origin {
            Some(AnswerOrigin::Terminal) => format!("the question was {verb} by {by} at another terminal"),
            Some(AnswerOrigin::Command) => {
                format!("the question was {verb} by {by} with another volery command")
            }
            Some(AnswerOrigin::McpClient) => format!("the question was {verb} by the MCP client {by}"),
            Some(AnswerOrigin::Expired) => {
                "the question has expired: nobody answered in time, so it was denied".to_owned()
            }
            Some(AnswerOrigin::Unattended) | None => format!("the question was {verb} by {by}"),
        }
    }
}

async fn find_answer(app: &EngineHandle, run: RunId, question: &str) -> Option<GivenAnswer> {
    let mut after = LogCursor::default();
    loop {
        let page = app.ask(ReadEvents { run: run.to_string(), after }).await.ok()?;
        after = page.next;
        let is_empty = page.events.is_empty();
        for envelope in page.events {
            if let Event::QuestionAnswered { question: answered, allowed, by, origin, .. } = envelope.event
                && answered.as_str() == question
            {
                return Some(GivenAnswer { allowed, by, origin });
            }
        }
        if is_empty {
            return None;
        }
    }
}
