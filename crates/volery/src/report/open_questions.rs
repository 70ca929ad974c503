//! Renders the questions that a person must answer, with the commands that answer them.

use super::number_format::moment;
use super::page::Page;
use super::text::one_line;
use engine::{QuestionView, RunSummary, RunView};

/// How many questions a page or list shows.
const QUESTIONS_SHOWN: usize = 5;

/// Lists the commands that answer a question of a run.
pub(crate) fn answer_commands(short_id: &str, question: &str) -> String {
    match question.as_bytes().first() {
        // A text never decides whether the agent may do something.
        Some(b'a') => format!("volery approve|deny {short_id}"),
        Some(b'w') => format!("volery answer {short_id} TEXT, or volery deny {short_id}"),
        Some(_) | None => format!("volery approve|deny {short_id}, or volery answer {short_id} TEXT"),
    }
}

/// Returns `asker asks: …`, or `needs you: chief › fixer asks: …` if a run below the shown run asks.
pub(crate) fn question_sentence(question: &QuestionView) -> String {
    let who = if question.is_own() { question.agent_path() } else { question.headline() };
    one_line(&format!("{who} asks: {}", question.text))
}

/// Returns each open question of these runs once, in the view of the highest run that shows it.
pub(crate) fn distinct_questions(runs: &[RunSummary]) -> Vec<&QuestionView> {
    let mut distinct: Vec<&QuestionView> = Vec::new();
    for question in runs.iter().flat_map(|run| &run.needs_answer) {
        match distinct.iter_mut().find(|known| known.is_same(question)) {
            Some(known) if known.agents.len() < question.agents.len() => *known = question,
            Some(_) => {}
            None => distinct.push(question),
        }
    }
    distinct
}

/// Returns the first open questions of these runs, each with its commands.
pub(crate) fn question_lines(runs: &[RunSummary]) -> Vec<(String, String)> {
    let questions = distinct_questions(runs).into_iter().take(QUESTIONS_SHOWN);
    let lines = |question: &QuestionView| {
        let who = one_line(&question.headline());
        let commands = answer_commands(&question.short_id, &question.question);
        (format!("{who}: {}", one_line(&question.text)), commands)
    };
    questions.map(lines).collect()
}

impl Page<'_> {
    /// Adds the questions of the runs below a run.
    pub(super) fn questions_below(&mut self, run: &RunView) {
        for question in run.needs_answer.iter().filter(|question| !question.is_own()).take(QUESTIONS_SHOWN) {
            let who = one_line(&question.agent_path());
            self.fact("needs you", &format!("{who}: {}", one_line(&question.text)));
            self.fact("", &format!("until {}, then it is denied", moment(&question.until)));
            self.fact("", &answer_commands(&question.short_id, &question.question));
        }
    }
}
