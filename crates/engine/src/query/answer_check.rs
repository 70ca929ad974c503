//! Decides whether an answer fits the open question of a run.

use domain::id::{QuestionId, RunId};

use crate::api::{AnswerRequest, EngineError};

/// The open question of a run, and the rules that an answer to it can grant.
pub(super) struct QuestionToAnswer<'a> {
    pub(super) run: RunId,
    pub(super) id: &'a QuestionId,
    pub(super) allow_rules: &'a [String],
}

impl QuestionToAnswer<'_> {
    /// Returns whether the answer allows what the run asks for, or why it is no answer.
    pub(super) fn check(&self, answer: &AnswerRequest) -> Result<bool, EngineError> {
        let short = self.run.short();
        if answer.question.as_deref().is_some_and(|id| id != self.id.as_str()) {
            return Err(EngineError::not_found(format!("the open question of this run is {}", self.id)));
        }
        if answer.granted_rules.iter().any(|rule| !self.allow_rules.contains(rule)) {
            return Err(EngineError::usage("an answer can grant only the rules that the question offers"));
        }
        let Some(allow) = answer.allow.or_else(|| (!self.id.is_permission()).then_some(true)) else {
            let message = format!("the run {short} asks whether it may do something");
            return Err(
                EngineError::usage(message).hint("words alone do not decide that: approve or deny it")
            );
        };
        let has_text = answer.text.as_ref().is_some_and(|text| !text.trim().is_empty());
        if allow && self.id.needs_text() && !has_text {
            return Err(EngineError::usage(format!("the run {short} needs a text answer"))
                .hint(format!("to answer: volery answer {short} \"…\"")));
        }
        Ok(allow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(id: &str, offered: &[&str], answer: AnswerRequest) -> Result<bool, String> {
        let run = RunId::from_parts(domain::Timestamp::UNIX_EPOCH, [7; 10]);
        let id = id.parse().expect("an id");
        let allow_rules: Vec<String> = offered.iter().map(ToString::to_string).collect();
        let question = QuestionToAnswer { run, id: &id, allow_rules: &allow_rules };
        question.check(&answer).map_err(|error| error.to_string())
    }

    fn granting(rules: &[&str]) -> AnswerRequest {
        let granted_rules = rules.iter().map(ToString::to_string).collect();
        AnswerRequest { allow: Some(true), granted_rules, ..AnswerRequest::default() }
    }

    #[test]
    fn an_answer_grants_only_rules_that_the_question_offers() {
        let offered = ["Bash(touch:*)", "Bash(ls)"];
        assert_eq!(check("a0", &offered, granting(&[])), Ok(true));
        assert_eq!(check("a0", &offered, granting(&["Bash(ls)", "Bash(touch:*)"])), Ok(true));
        for rules in [&["Bash"][..], &["Bash(ls)", "Bash(rm:*)"], &["Bash(touch:*) "], &[""]] {
            let refused = check("a0", &offered, granting(rules));
            insta::allow_duplicates! {
                insta::assert_snapshot!(refused.expect_err("not offered"), @"an answer can grant only the rules that the question offers");
            }
        }
        assert!(check("a0", &[], granting(&["Bash(ls)"])).is_err(), "nothing is offered");
        // A denial cannot carry a rule either.
        let denial = AnswerRequest { allow: Some(false), ..granting(&["Bash(rm:*)"]) };
        assert!(check("a0", &offered, denial).is_err());
    }

    #[test]
    fn words_approve_nothing_and_approval_is_no_text() {
        let words = || AnswerRequest { text: Some("yes".to_owned()), ..AnswerRequest::default() };
        assert!(check("a0", &[], words()).is_err(), "a permission needs a decision");
        assert_eq!((check("w0", &[], words()), check("q0", &[], words())), (Ok(true), Ok(true)));
        assert!(check("w0", &[], granting(&[])).is_err(), "a text is missing");
        let denial = || AnswerRequest { allow: Some(false), ..AnswerRequest::default() };
        assert_eq!((check("a0", &[], denial()), check("w0", &[], denial())), (Ok(false), Ok(false)));
        let other = AnswerRequest { question: Some("a1".to_owned()), ..granting(&[]) };
        assert!(check("a0", &[], other).is_err(), "it answers another question");
    }
}
