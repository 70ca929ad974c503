//! Why a run failed, the same for every dialect: the run's explanation, which has one line of stderr, then the rest of
//! stderr. Each dialect puts its own words around it.

use domain::harmless::harmless;

use crate::app::RunView;

/// Returns the explanation of a run for a sentence that already says that it failed.
pub(super) fn reason(run: &RunView) -> &str {
    run.explanation.strip_prefix("failed: ").unwrap_or(&run.explanation)
}

/// Adds stderr below a sentence that has at most one line of it.
pub(super) fn with_stderr(sentence: String, stderr: &str) -> String {
    let stderr = harmless(stderr);
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
        let said = "exited with code 1: no such model".to_owned();
        for stderr in ["", " \n", "no such model\n", "\u{1b}[31mno such model\u{1b}[0m\n"] {
            assert_eq!(with_stderr(said.clone(), stderr), said);
        }
        assert_eq!(
            with_stderr(said.clone(), "warming up\nno such model\n"),
            format!("{said}\n\nstderr:\nwarming up\nno such model")
        );
    }
}
