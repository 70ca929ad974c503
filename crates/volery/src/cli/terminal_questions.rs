//! Asks the user at this terminal a question of a run, and sends the answer as `volery approve`, `deny` and `answer` do.
//! Only if standard input and standard error are both terminals; otherwise the commands are printed.

use std::io::{BufRead, IsTerminal, stderr, stdin};

use domain::id::{QuestionId, RunId};
use tokio::sync::mpsc;

use super::output::Out;
use engine::{AnswerRequest, EngineHandle, GetRun, RunView, WaitingView};

/// How a question can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerKind {
    /// Yes or no: may the agent do something?
    Permission,
    /// Text: the agent itself asks a question.
    Text,
    /// Either.
    Either,
}

/// An unanswered question of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenQuestion {
    run: RunId,
    agent: String,
    id: String,
    text: String,
    answer_kind: AnswerKind,
}

/// The meaning of a typed line.
#[derive(Debug, PartialEq, Eq)]
enum TypedReply {
    Allow,
    Deny,
    Text(String),
    /// Does not answer the question.
    Unclear,
}

/// The user at this terminal.
pub(super) struct TerminalUser {
    name: String,
    /// Lines typed since the first question; `None` before it.
    lines: Option<mpsc::UnboundedReceiver<String>>,
    open: Option<OpenQuestion>,
    /// The id of the last question that was asked here. Two questions may have the same text.
    last: Option<String>,
}

impl TerminalUser {
    /// Returns the user, if this process has a terminal to ask at.
    pub(super) fn attached(name: String) -> Option<Self> {
        let attached = stdin().is_terminal() && stderr().is_terminal();
        attached.then_some(Self { name, lines: None, open: None, last: None })
    }

    /// Returns whether a question waits for a line, so that nothing else may be drawn.
    pub(super) fn has_open_question(&self) -> bool {
        self.open.is_some()
    }

    /// Returns whether a question was already asked here.
    pub(super) fn has_seen(&self, question: &OpenQuestion) -> bool {
        self.last.as_ref() == Some(&question.id)
    }

    /// Prints a question and starts to read the answer.
    pub(super) fn ask(&mut self, question: OpenQuestion, out: &mut Out) {
        self.last = Some(question.id.clone());
        out.note(&question.sentence());
        out.notes_page(question.prompt());
        self.lines.get_or_insert_with(read_lines);
        self.open = Some(question);
    }

    /// Waits for the next typed line; `None` at the end of the input.
    pub(super) async fn line(&mut self) -> Option<String> {
        match &mut self.lines {
            Some(lines) => lines.recv().await,
            None => std::future::pending().await,
        }
    }

    /// Sends a line as the answer to the open question.
    pub(super) async fn answer(&mut self, line: Option<String>, app: &EngineHandle, out: &mut Out) {
        let Some(question) = self.open.take() else { return };
        let Some(line) = line else {
            // At the end of the input nobody can type an answer here.
            out.notes_page("\n");
            return out.note(&question.commands());
        };
        let (allow, text) = match question.answer_kind.parse_reply(&line) {
            TypedReply::Allow => (Some(true), None),
            TypedReply::Deny => (Some(false), None),
            TypedReply::Text(text) => (None, Some(text)),
            TypedReply::Unclear => {
                out.notes_page(question.prompt());
                self.open = Some(question);
                return;
            }
        };
        let (run, id) = (question.run.to_string(), Some(question.id.clone()));
        let answer = AnswerRequest { run, question: id, allow, text, by: self.name.clone() };
        // Fails if the question was answered elsewhere or has expired.
        if let Err(error) = app.ask(answer).await {
            out.error(&error);
        }
    }

    /// Drops the open question if the run no longer asks it.
    pub(super) fn withdraw(&mut self, now: Option<&OpenQuestion>, out: &mut Out) {
        if self.open.take_if(|question| now != Some(question)).is_some() {
            out.notes_page("\n");
            out.note("the question was answered elsewhere, or its time is up");
        }
    }
}

impl OpenQuestion {
    /// Returns the open question of a run; `None` if there is none, as in an unattended run.
    pub(super) async fn fetch(app: &EngineHandle, run: RunId) -> Option<Self> {
        let request = GetRun {
            run: run.to_string(),
            result_offset: 0,
            result_max: 0,
            events_from: None,
            events_max: 0,
        };
        Self::from_view(&app.ask(request).await.ok()?.run)
    }

    fn from_view(view: &RunView) -> Option<Self> {
        let Some(WaitingView::Answer { question, text, .. }) = &view.waiting else { return None };
        let id: QuestionId = question.parse().ok()?;
        let answer_kind = match id.as_str().as_bytes().first() {
            _ if id.is_permission() => AnswerKind::Permission,
            Some(b'w') => AnswerKind::Text,
            _ => AnswerKind::Either,
        };
        let (agent, text) = (view.agent.clone(), text.clone());
        Some(Self { run: view.run_id, agent, id: question.clone(), text, answer_kind })
    }

    pub(super) fn sentence(&self) -> String {
        format!("{} asks: {}", self.agent, self.text)
    }

    fn prompt(&self) -> &'static str {
        match self.answer_kind {
            AnswerKind::Permission => "[a]llow or [d]eny? ",
            AnswerKind::Text => "your answer: ",
            AnswerKind::Either => "[a]llow, [d]eny, or an answer in words: ",
        }
    }

    /// Lists the commands that answer the question from another terminal.
    pub(super) fn commands(&self) -> String {
        let short = self.run.short();
        let commands = match self.answer_kind {
            AnswerKind::Permission => format!("volery approve {short} or volery deny {short}"),
            AnswerKind::Text => format!("volery answer {short} TEXT or volery deny {short}"),
            AnswerKind::Either => {
                format!("volery approve {short}, volery deny {short} or volery answer {short} TEXT")
            }
        };
        format!("to answer, from another terminal: {commands}")
    }
}

impl AnswerKind {
    fn parse_reply(self, line: &str) -> TypedReply {
        let text = line.trim();
        let yes = matches!(text.to_ascii_lowercase().as_str(), "a" | "allow" | "y" | "yes");
        let no = matches!(text.to_ascii_lowercase().as_str(), "d" | "deny" | "n" | "no");
        match self {
            _ if text.is_empty() => TypedReply::Unclear,
            Self::Text => TypedReply::Text(text.to_owned()),
            Self::Permission | Self::Either if yes => TypedReply::Allow,
            Self::Permission | Self::Either if no => TypedReply::Deny,
            Self::Permission => TypedReply::Unclear,
            Self::Either => TypedReply::Text(text.to_owned()),
        }
    }
}

/// Reads standard input on a separate thread: a read cannot be cancelled, and the end of the run must not wait for it.
fn read_lines() -> mpsc::UnboundedReceiver<String> {
    // Unbounded, because people type slowly.
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(id: &str) -> OpenQuestion {
        let run_id = RunId::from_parts(domain::Timestamp::UNIX_EPOCH, [7; 10]);
        let waiting = WaitingView::Answer {
            question: id.to_owned(),
            text: "May I?".to_owned(),
            until: "2026-11-15T10:00:00Z".to_owned(),
        };
        let view = RunView { waiting: Some(waiting), ..crate::sample_run::sample_run(run_id, "asker") };
        OpenQuestion::from_view(&view).unwrap()
    }

    #[test]
    fn only_commands_that_answer_the_question_are_offered() {
        let commands = |id: &str| question(id).commands();
        assert!(!commands("a0").contains("answer "), "{}", commands("a0"));
        assert!(!commands("w0").contains("approve"), "{}", commands("w0"));
        for word in ["approve", "deny", "answer"] {
            assert!(commands("q0").contains(&format!("volery {word} ")), "{}", commands("q0"));
        }
    }

    #[test]
    fn only_a_clear_answer_allows_something() {
        let permission = |line: &str| AnswerKind::Permission.parse_reply(line);
        assert_eq!((permission(" A\n"), permission("yes")), (TypedReply::Allow, TypedReply::Allow));
        assert_eq!((permission("d"), permission("No")), (TypedReply::Deny, TypedReply::Deny));
        assert_eq!((permission(""), permission("all of it")), (TypedReply::Unclear, TypedReply::Unclear));
        assert_eq!(AnswerKind::Text.parse_reply("yes"), TypedReply::Text("yes".to_owned()));
        assert_eq!(AnswerKind::Either.parse_reply("on Monday"), TypedReply::Text("on Monday".to_owned()));
        assert_eq!(AnswerKind::Either.parse_reply("a"), TypedReply::Allow);
    }
}
