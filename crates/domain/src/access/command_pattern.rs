//! Compares the words of a command with those of a rule, one by one. No words are joined.

use crate::policy::{argv_forms, matches_text_glob};

/// A last word of a rule that stands for any number of words.
const ANY_WORDS: &str = "**";

/// Returns whether a rule that allows matches a whole command.
pub(super) fn covers(rule: &[String], command: &[String]) -> bool {
    let (Some((program_pattern, patterns)), Some((program, arguments))) =
        (rule.split_first(), command.split_first())
    else {
        return false;
    };
    // A path names a file that the directive may have written itself, so no star stands for one.
    let is_program = match program.contains('/') {
        true => program_pattern == program,
        false => matches_text_glob(program_pattern, program),
    };
    is_program
        && match patterns.split_last() {
            None => true,
            Some((last, first)) if last == ANY_WORDS => {
                arguments.len() >= first.len() && matches_words(first, arguments)
            }
            Some(_) => arguments.len() == patterns.len() && matches_words(patterns, arguments),
        }
}

/// Returns whether a rule that restricts is about a command, also if further words follow, the program is written as a
/// path, or another program such as `env` starts it.
pub(super) fn restricts(rule: &[String], command: &[String]) -> bool {
    let rule = match rule {
        [first @ .., last] if last == ANY_WORDS => first,
        rule => rule,
    };
    let begins = |words: &[&str]| {
        words.len() >= rule.len()
            && rule.iter().zip(words).all(|(pattern, word)| matches_text_glob(pattern, word))
    };
    let forms = argv_forms(command);
    let lines = forms.lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>());
    forms.words.into_iter().chain(lines).any(|words| begins(&words))
}

/// Returns whether a rule determines every argument of its command.
pub(super) fn fixes_arguments(rule: &[String]) -> bool {
    rule.len() > 1 && rule.iter().all(|word| !word.contains(['*', '?']))
}

fn matches_words(patterns: &[String], words: &[String]) -> bool {
    patterns.iter().zip(words).all(|(pattern, word)| matches_text_glob(pattern, word))
}
