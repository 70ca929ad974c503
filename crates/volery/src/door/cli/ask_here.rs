//! Puts the question of a run to the person at this terminal, and gives the answer the way `volery approve`, `deny` and
//! `answer` do. Only where standard input and standard error are both terminals; elsewhere the commands are named.

use std::io::{BufRead, IsTerminal, stderr, stdin};

use domain::id::{QuestionId, RunId};
use tokio::sync::mpsc;

use super::out::Out;
use crate::app::{Answer, App, GetRun, RunView, WaitingView};

/// How a question can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Yes or no: whether the agent may do something.
    Permission,
    /// Words: the agent itself asks people.
    Words,
    /// Either.
    Either,
}

/// A question that is open, as its run shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    run: RunId,
    agent: String,
    id: String,
    text: String,
    wanted: Wanted,
}

/// What a typed line means.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Allow,
    Deny,
    Words(String),
    /// Nothing that answers the question.
    Unclear,
}

/// The person at this terminal.
pub(super) struct Person {
    name: String,
    /// Lines that were typed since the first question; nothing before it, and after the end of the input.
    lines: Option<mpsc::UnboundedReceiver<String>>,
    open: Option<Question>,
    /// The last question that was put here. Two may have the same text.
    last: Option<String>,
}

impl Person {
    /// Returns who can be asked here, if anybody.
    pub(super) fn here(name: String) -> Option<Self> {
        let here = stdin().is_terminal() && stderr().is_terminal();
        here.then_some(Self { name, lines: None, open: None, last: None })
    }

    /// Tells whether a question waits for a line, so that nothing else may be drawn.
    pub(super) fn is_asked(&self) -> bool {
        self.open.is_some()
    }

    /// Tells whether a question was put here already.
    pub(super) fn knows(&self, question: &Question) -> bool {
        self.last.as_ref() == Some(&question.id)
    }

    /// Puts a question.
    pub(super) fn ask(&mut self, question: Question, out: &mut Out) {
        self.last = Some(question.id.clone());
        out.note(&question.sentence());
        out.notes_page(question.prompt());
        self.lines.get_or_insert_with(read_lines);
        self.open = Some(question);
    }

    /// Waits for the next line that is typed; nothing when the input has ended.
    pub(super) async fn line(&mut self) -> Option<String> {
        match &mut self.lines {
            Some(lines) => lines.recv().await,
            None => std::future::pending().await,
        }
    }

    /// Takes a line as the answer to the open question.
    pub(super) async fn answer(&mut self, line: Option<String>, app: &App, out: &mut Out) {
        let Some(question) = self.open.take() else { return };
        let Some(line) = line else {
            // The input has ended: nobody types here any more.
            out.notes_page("\n");
            return out.note(&question.commands());
        };
        let (allow, text) = match question.wanted.understand(&line) {
            Reply::Allow => (Some(true), None),
            Reply::Deny => (Some(false), None),
            Reply::Words(text) => (None, Some(text)),
            Reply::Unclear => {
                out.notes_page(question.prompt());
                self.open = Some(question);
                return;
            }
        };
        let (run, id) = (question.run.to_string(), Some(question.id.clone()));
        let answer = Answer { run, question: id, allow, text, by: self.name.clone() };
        // Somebody else may have been faster, or the time is up: the run says how it went on.
        if let Err(error) = app.answer(answer).await {
            out.error(&error);
        }
    }

    /// Forgets the open question if it is not the one that the run asks now.
    pub(super) fn withdraw(&mut self, now: Option<&Question>, out: &mut Out) {
        if self.open.take_if(|question| now != Some(question)).is_some() {
            out.notes_page("\n");
            out.note("the question was answered elsewhere, or its time is up");
        }
    }
}

impl Question {
    /// Returns the open question of a run; nothing where none is open, as in a run that nobody attends.
    pub(super) async fn of_run(app: &App, run: RunId) -> Option<Self> {
        let ask = GetRun {
            run: run.to_string(),
            result_offset: 0,
            result_max: 0,
            events_from: None,
            events_max: 0,
        };
        Self::of_view(&app.get_run(ask).await.ok()?.run)
    }

    fn of_view(view: &RunView) -> Option<Self> {
        let Some(WaitingView::Answer { question, text, .. }) = &view.waiting else { return None };
        let id: QuestionId = question.parse().ok()?;
        let wanted = match id.as_str().as_bytes().first() {
            _ if id.is_permission() => Wanted::Permission,
            Some(b'w') => Wanted::Words,
            _ => Wanted::Either,
        };
        let (agent, text) = (view.agent.clone(), text.clone());
        Some(Self { run: view.run_id, agent, id: question.clone(), text, wanted })
    }

    pub(super) fn sentence(&self) -> String {
        format!("{} asks: {}", self.agent, self.text)
    }

    fn prompt(&self) -> &'static str {
        match self.wanted {
            Wanted::Permission => "[a]llow or [d]eny? ",
            Wanted::Words => "your answer: ",
            Wanted::Either => "[a]llow, [d]eny, or an answer in words: ",
        }
    }

    /// Names the commands that answer it from elsewhere.
    pub(super) fn commands(&self) -> String {
        let short = self.run.short();
        let commands = match self.wanted {
            Wanted::Permission => format!("volery approve {short} or volery deny {short}"),
            Wanted::Words => format!("volery answer {short} TEXT or volery deny {short}"),
            Wanted::Either => {
                format!("volery approve {short}, volery deny {short} or volery answer {short} TEXT")
            }
        };
        format!("to answer, from another terminal: {commands}")
    }
}

impl Wanted {
    fn understand(self, line: &str) -> Reply {
        let words = line.trim();
        let yes = matches!(words.to_ascii_lowercase().as_str(), "a" | "allow" | "y" | "yes");
        let no = matches!(words.to_ascii_lowercase().as_str(), "d" | "deny" | "n" | "no");
        match self {
            _ if words.is_empty() => Reply::Unclear,
            Self::Words => Reply::Words(words.to_owned()),
            Self::Permission | Self::Either if yes => Reply::Allow,
            Self::Permission | Self::Either if no => Reply::Deny,
            Self::Permission => Reply::Unclear,
            Self::Either => Reply::Words(words.to_owned()),
        }
    }
}

/// Reads standard input on a thread of its own: a read cannot be given up, and the end of the run must not wait for it.
fn read_lines() -> mpsc::UnboundedReceiver<String> {
    // A person types what comes through it.
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

    fn question(id: &str) -> Question {
        let run_id = RunId::from_parts(domain::Timestamp::UNIX_EPOCH, [7; 10]);
        let waiting = WaitingView::Answer {
            question: id.to_owned(),
            text: "May I?".to_owned(),
            until: "2026-11-15T10:00:00Z".to_owned(),
        };
        let view = RunView { waiting: Some(waiting), ..RunView::sample(run_id, "asker") };
        Question::of_view(&view).unwrap()
    }

    #[test]
    fn only_what_answers_the_question_is_offered() {
        let commands = |id: &str| question(id).commands();
        assert!(!commands("a0").contains("answer "), "{}", commands("a0"));
        assert!(!commands("w0").contains("approve"), "{}", commands("w0"));
        for word in ["approve", "deny", "answer"] {
            assert!(commands("q0").contains(&format!("volery {word} ")), "{}", commands("q0"));
        }
    }

    #[test]
    fn nothing_is_allowed_by_words_that_do_not_say_so() {
        let permission = |line: &str| Wanted::Permission.understand(line);
        assert_eq!((permission(" A\n"), permission("yes")), (Reply::Allow, Reply::Allow));
        assert_eq!((permission("d"), permission("No")), (Reply::Deny, Reply::Deny));
        assert_eq!((permission(""), permission("all of it")), (Reply::Unclear, Reply::Unclear));
        assert_eq!(Wanted::Words.understand("yes"), Reply::Words("yes".to_owned()));
        assert_eq!(Wanted::Either.understand("on Monday"), Reply::Words("on Monday".to_owned()));
        assert_eq!(Wanted::Either.understand("a"), Reply::Allow);
    }
}
