//! Describes why a run failed, the same for every dialect: the run's explanation, which has one line of stderr, then the
//! rest of stderr. Each dialect adds its own text around it.

use domain::invisible_text::strip_invisible;

use engine::RunView;

/// Returns the explanation of a run without the leading "failed".
pub(super) fn failure_reason(run: &RunView) -> &str {
    run.explanation.strip_prefix("failed: ").unwrap_or(&run.explanation)
}

/// Appends stderr to a sentence, unless the sentence contains all of it.
pub(super) fn with_stderr(sentence: String, stderr: &str) -> String {
    let stderr = strip_invisible(stderr);
    let stderr = stderr.trim();
    match stderr.is_empty() || sentence.contains(stderr) {
        true => sentence,
        false => format!("{sentence}\n\nstderr:\n{stderr}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stderr_follows_the_sentence_unless_the_sentence_has_all_of_it() {
        let sentence = "exited with code 1: no such model".to_owned();
        for stderr in ["", " \n", "no such model\n", "\u{1b}[31mno such model\u{1b}[0m\n"] {
            assert_eq!(with_stderr(sentence.clone(), stderr), sentence);
        }
        assert_eq!(
            with_stderr(sentence.clone(), "warming up\nno such model\n"),
            format!("{sentence}\n\nstderr:\nwarming up\nno such model")
        );
    }
}
