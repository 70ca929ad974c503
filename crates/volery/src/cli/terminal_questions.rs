//! Asks the user at this terminal a question of a run, and sends the answer as `volery approve`, `deny` and `answer` do.
//! Only if standard input and standard error are both terminals; otherwise the commands are printed.

use std::io::{BufRead, IsTerminal, stderr, stdin};

use domain::id::QuestionId;
use domain::run::AnswerOrigin;
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::mpsc;

use super::allow_rule;
use super::closed_question;
use super::output::Out;
use crate::report::{one_line, question_sentence};
use engine::{AnswerRequest, EngineHandle, GetRun, QuestionView, RunView, WaitingView};

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

/// An unanswered question of a run, or of a run below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenQuestion {
    question: QuestionView,
    /// The agent that asks. A granted rule applies to this agent.
    agent: String,
    answer_kind: AnswerKind,
    /// Where the agent works.
    directory: String,
}

/// The meaning of a typed line.
#[derive(Debug, PartialEq, Eq)]
enum TypedReply {
    Allow,
    /// Allow it now and from now on.
    AllowAlways,
    Deny,
    Text(String),
    /// Show the question with all details.
    View,
    /// Explain the answers.
    Help,
    /// Does not answer the question.
    Unclear,
}

/// The user at this terminal.
pub(super) struct TerminalUser {
    name: String,
    /// Lines typed since the first question; `None` before it.
    lines: Option<mpsc::UnboundedReceiver<String>>,
    open: Option<OpenQuestion>,
}

impl TerminalUser {
    /// Returns the user, if this process has a terminal to ask at.
    pub(super) fn attached(name: String) -> Option<Self> {
        let attached = stdin().is_terminal() && stderr().is_terminal();
        attached.then_some(Self { name, lines: None, open: None })
    }

    /// Returns whether a question waits for a line, so that nothing else may be drawn.
    pub(super) fn has_open_question(&self) -> bool {
        self.open.is_some()
    }

    /// Prints a question and starts to read the answer.
    pub(super) fn ask(&mut self, question: OpenQuestion, out: &mut Out) {
        // A line that the user typed before the question appeared does not answer it. The kernel stores such lines until
        // they are read, and nothing reads them before the first question. An error only means that there are none.
        let _ = tcflush(stdin(), QueueSelector::IFlush);
        let lines = self.lines.get_or_insert_with(read_lines);
        while lines.try_recv().is_ok() {}
        out.note(&question.sentence());
        if let Some(always) = question.always() {
            out.note(&always);
        }
        out.notes_page(&question.prompt());
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
        let reply = question.parse_reply(&line);
        let (allow, text) = match &reply {
            TypedReply::Allow | TypedReply::AllowAlways => (Some(true), None),
            TypedReply::Deny => (Some(false), None),
            TypedReply::Text(text) => (None, Some(text.clone())),
            TypedReply::View | TypedReply::Help | TypedReply::Unclear => {
                match reply {
                    TypedReply::View => question.details().iter().for_each(|line| out.note(line)),
                    TypedReply::Help => question.help().iter().for_each(|line| out.note(line)),
                    _ => {}
                }
                out.notes_page(&question.prompt());
                self.open = Some(question);
                return;
            }
        };
        let granted_rules = match reply {
            TypedReply::AllowAlways => question.allow_rules().to_vec(),
            _ => Vec::new(),
        };
        let (run, id) = (question.question.run_id.to_string(), Some(question.question.question.clone()));
        let (by, origin) = (self.name.clone(), AnswerOrigin::Terminal);
        let answer = AnswerRequest { run, question: id, allow, text, by, origin, granted_rules };
        // Fails if the question was answered elsewhere or has expired.
        match app.ask(answer).await {
            Ok(_) if reply == TypedReply::AllowAlways => {
                write_rules(&question.agent, question.allow_rules(), out);
            }
            Ok(_) => {}
            Err(error) => {
                out.error(&error);
                out.note(
                    &closed_question::explain(app, question.question.run_id, &question.question.question)
                        .await,
                );
            }
        }
    }

    /// Drops the open question if the run no longer asks it.
    pub(super) async fn withdraw_closed(&mut self, app: &EngineHandle, out: &mut Out) {
        let Some(open) = &self.open else { return };
        if OpenQuestion::fetch(app, &open.question).await.is_some() {
            return;
        }
        out.notes_page("\n");
        out.note(&closed_question::explain(app, open.question.run_id, &open.question.question).await);
        self.open = None;
    }
}

/// Adds rules to the user's configuration and shows the new text. The answer itself has already been sent.
pub(super) fn write_rules(agent: &str, rules: &[String], out: &mut Out) {
    match allow_rule::allow_always(agent, rules) {
        Ok(written) => {
            let file = out.notes_style().short_path(&written.file.to_string_lossy(), None);
            out.note(&format!("{file} has now: {}", written.line));
        }
        Err(error) => out.error(&error),
    }
}

impl OpenQuestion {
    /// Returns the question with all details; `None` if it is no longer open.
    pub(super) async fn fetch(app: &EngineHandle, question: &QuestionView) -> Option<Self> {
        let request = GetRun {
            run: question.run_id.to_string(),
            result_offset: 0,
            result_max: 0,
            events_from: None,
            events_max: 0,
        };
        Self::from_view(&app.ask(request).await.ok()?.run, question)
    }

    fn from_view(view: &RunView, question: &QuestionView) -> Option<Self> {
        let Some(WaitingView::Answer { question: open, .. }) = &view.waiting else { return None };
        if *open != question.question {
            return None;
        }
        let id: QuestionId = open.parse().ok()?;
        let answer_kind = match id.as_str().as_bytes().first() {
            _ if id.is_permission() => AnswerKind::Permission,
            Some(b'w') => AnswerKind::Text,
            _ => AnswerKind::Either,
        };
        Some(Self {
            question: question.clone(),
            agent: view.agent.clone(),
            answer_kind,
            directory: view.directory.clone(),
        })
    }

    fn allow_rules(&self) -> &[String] {
        &self.question.allow_rules
    }

    pub(super) fn sentence(&self) -> String {
        question_sentence(&self.question)
    }

    /// Returns a sentence about what *always* would allow; `None` if the terminal does not offer it.
    fn always(&self) -> Option<String> {
        let rules = self.allow_rules().join(" ");
        let agent = one_line(&self.agent);
        (!rules.is_empty())
            .then(|| format!("always: allow {rules} for the agent {agent} in all your projects"))
    }

    fn prompt(&self) -> String {
        match self.answer_kind {
            AnswerKind::Permission => {
                let always = if self.allow_rules().is_empty() { "" } else { "[a]lways  " };
                format!("[y]es  [n]o  {always}[v]iew  [?] ")
            }
            AnswerKind::Text => "your answer: ".to_owned(),
            AnswerKind::Either => "[y]es, [n]o, or an answer in words: ".to_owned(),
        }
    }

    /// Explains the answers.
    fn help(&self) -> Vec<String> {
        let deny = format!("volery deny {} denies it from another terminal", self.question.short_id);
        match self.answer_kind {
            AnswerKind::Permission => vec![
                "y  allow it this time".to_owned(),
                self.always_help(),
                "n  deny it; the agent continues without it".to_owned(),
                "v  show the question again with all details".to_owned(),
            ],
            AnswerKind::Text => {
                vec!["type the answer on one line; Volery passes it to the agent unchanged".to_owned(), deny]
            }
            AnswerKind::Either => {
                vec![
                    "y allows it, n denies it; Volery sends any other line to the agent as text".to_owned(),
                    deny,
                ]
            }
        }
    }

    fn always_help(&self) -> String {
        match self.allow_rules().is_empty() {
            true => "a  is not available: no rule allows only this".to_owned(),
            false => {
                let rules = self.allow_rules().join(" ");
                let agent = one_line(&self.agent);
                format!(
                    "a  allow it now, and write {rules} into your configuration, for the agent {agent} in all your projects"
                )
            }
        }
    }

    fn details(&self) -> Vec<String> {
        let Self { question, agent: _, answer_kind: _, directory } = self;
        let QuestionView { short_id, text, until, allow_rules, run_id: _, agents: _, question: _ } = question;
        let mut lines = vec![
            format!("run: {short_id} of the agent {}", one_line(&question.agent_path())),
            format!("directory: {directory}"),
            format!("until: {until}, then it is denied"),
            format!("question: {text}"),
        ];
        if !allow_rules.is_empty() {
            lines.push(format!("always: {}", allow_rules.join(" ")));
        }
        lines
    }

    fn parse_reply(&self, line: &str) -> TypedReply {
        match self.answer_kind.parse_reply(line) {
            TypedReply::AllowAlways if self.allow_rules().is_empty() => TypedReply::Help,
            reply => reply,
        }
    }

    /// Lists the commands that answer the question from another terminal.
    pub(super) fn commands(&self) -> String {
        let short = &self.question.short_id;
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
        let word = text.to_ascii_lowercase();
        let decision = match word.as_str() {
            "y" | "yes" => Some(TypedReply::Allow),
            "n" | "no" => Some(TypedReply::Deny),
            _ => None,
        };
        match (self, word.as_str(), decision) {
            (_, "", _) => TypedReply::Unclear,
            (_, "?", _) => TypedReply::Help,
            (Self::Text, _, _) => TypedReply::Text(text.to_owned()),
            (Self::Permission | Self::Either, _, Some(decision)) => decision,
            (Self::Permission, "a" | "always", _) => TypedReply::AllowAlways,
            (Self::Permission, "v" | "view", _) => TypedReply::View,
            (Self::Permission, "h" | "help", _) => TypedReply::Help,
            (Self::Permission, _, None) => TypedReply::Unclear,
            (Self::Either, _, None) => TypedReply::Text(text.to_owned()),
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
    use domain::id::RunId;

    use super::*;

    fn question(id: &str) -> OpenQuestion {
        let run_id = RunId::from_parts(domain::Timestamp::UNIX_EPOCH, [7; 10]);
        let (text, until) = ("May I?".to_owned(), "2026-11-15T10:00:00Z".to_owned());
        let question = QuestionView {
            run_id,
            short_id: run_id.short(),
            agents: vec!["asker".to_owned()],
            question: id.to_owned(),
            text: text.clone(),
            until: until.clone(),
            allow_rules: Vec::new(),
        };
        let waiting = WaitingView::Answer { question: id.to_owned(), text, until, allow_rules: Vec::new() };
        let view = RunView { waiting: Some(waiting), ..crate::sample_run::sample_run(run_id, "asker") };
        OpenQuestion::from_view(&view, &question).unwrap()
    }

    #[test]
    fn a_question_that_was_answered_is_no_longer_open() {
        let open = question("a0");
        let view = crate::sample_run::sample_run(open.question.run_id, "asker");
        assert_eq!(OpenQuestion::from_view(&view, &open.question), None);
        let waiting = WaitingView::Answer {
            question: "a1".to_owned(),
            text: "May I?".to_owned(),
            until: String::new(),
            allow_rules: Vec::new(),
        };
        let view = RunView { waiting: Some(waiting), ..view };
        assert_eq!(
            OpenQuestion::from_view(&view, &open.question),
            None,
            "another question with the same text"
        );
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
        let mut asks = question("a0");
        asks.question.allow_rules = vec!["Bash(touch:*)".to_owned()];
        let reply = |line: &str| asks.parse_reply(line);
        assert_eq!((reply(" Y\n"), reply("yes")), (TypedReply::Allow, TypedReply::Allow));
        assert_eq!((reply("n"), reply("No")), (TypedReply::Deny, TypedReply::Deny));
        assert_eq!((reply("A"), reply("always")), (TypedReply::AllowAlways, TypedReply::AllowAlways));
        assert_eq!((reply("v"), reply("?")), (TypedReply::View, TypedReply::Help));
        assert_eq!((reply(""), reply("all of it")), (TypedReply::Unclear, TypedReply::Unclear));
        // No rule is offered, so the terminal does not accept *always*.
        assert_eq!(question("a0").parse_reply("a"), TypedReply::Help);
        assert_eq!(AnswerKind::Text.parse_reply("yes"), TypedReply::Text("yes".to_owned()));
        assert_eq!(AnswerKind::Either.parse_reply("on Monday"), TypedReply::Text("on Monday".to_owned()));
        assert_eq!(AnswerKind::Either.parse_reply("y"), TypedReply::Allow);
    }
}
