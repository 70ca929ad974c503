//! The questions of the runs that a command watches. The user at this terminal answers those of the command's own run and
//! of the runs below it. The command prints other questions, and all questions without a terminal, with the commands that answer.

use std::collections::BTreeSet;

use domain::id::RunId;

use super::live_display::LiveDisplay;
use super::output::Out;
use super::terminal_questions::{OpenQuestion, TerminalUser};
use engine::{EngineHandle, QuestionView};

/// The run that a command started itself, and the user who answers its questions if the command has a terminal.
pub(crate) struct OwnRun {
    pub(crate) run: RunId,
    pub(crate) user_name: String,
}

pub(super) struct WatchedQuestions {
    own: Option<RunId>,
    user: Option<TerminalUser>,
    /// The questions that the command has shown. Two questions can have the same text.
    shown: BTreeSet<(RunId, String)>,
}

impl WatchedQuestions {
    pub(super) fn new(own: Option<OwnRun>) -> Self {
        let (own, name) = own.map(|own| (own.run, own.user_name)).unzip();
        Self { own, user: name.and_then(TerminalUser::attached), shown: BTreeSet::new() }
    }

    /// Returns the run that the command started itself.
    pub(super) fn own(&self) -> Option<RunId> {
        self.own
    }

    /// Returns whether a question waits for a line. The command draws nothing else meanwhile.
    pub(super) fn wait_for_line(&self) -> bool {
        self.user.as_ref().is_some_and(TerminalUser::has_open_question)
    }

    /// Withdraws the open question if somebody has answered it elsewhere.
    pub(super) async fn withdraw_closed(&mut self, app: &EngineHandle, out: &mut Out) {
        if let Some(user) = &mut self.user {
            user.withdraw_closed(app, out).await;
        }
    }

    /// Shows each new question once. Without this output, a run that waits for an answer would appear to hang.
    pub(super) async fn show_new(
        &mut self,
        questions: Vec<(RunId, QuestionView)>,
        app: &EngineHandle,
        live: &mut LiveDisplay,
        out: &mut Out,
    ) {
        for (watched, question) in questions {
            let key = (question.run_id, question.question.clone());
            if self.wait_for_line() || self.shown.contains(&key) {
                continue;
            }
            // The journal is newer than progress: the question may have an answer by now.
            let Some(open) = OpenQuestion::fetch(app, &question).await else { continue };
            self.shown.insert(key);
            live.erase(out);
            match &mut self.user {
                Some(user) if self.own == Some(watched) => user.ask(open, out),
                Some(_) | None => {
                    out.note(&open.sentence());
                    out.note(&open.commands());
                }
            }
        }
    }

    /// Waits for the line that answers the open question.
    pub(super) async fn next_line(&mut self) -> Option<String> {
        match self.user.as_mut().filter(|user| user.has_open_question()) {
            Some(user) => user.line().await,
            None => std::future::pending().await,
        }
    }

    /// Sends a line as the answer to the open question.
    pub(super) async fn answer(&mut self, line: Option<String>, app: &EngineHandle, out: &mut Out) {
        if let Some(user) = &mut self.user {
            user.answer(line, app, out).await;
        }
    }
}
