//! Renders the denials of a run, each with the option that would allow the use.

use domain::run::{Denial, DenialCause};
use domain::shell_script::quote;

use super::number_format::count;
use super::text::one_line;
use engine::RunView;

/// How many denials a command names at its end.
const DENIALS_SHOWN: usize = 5;

/// Returns one line for each of the first distinct denials, for the end of a command's output. `user` is the person at
/// this terminal.
pub(crate) fn denial_lines(run: &RunView, user: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        run.denials.iter().take(DENIALS_SHOWN).map(|denial| denial_line(denial, user)).collect();
    if run.denials.len() > DENIALS_SHOWN {
        let more = count((run.denials.len() - DENIALS_SHOWN) as u64);
        lines.push(format!("{more} more denials; to list them: volery show {}", run.short_id));
    }
    lines
}

/// Returns a denial in one line: `denied: Bash(touch a): the level safe-edit does not allow it; --allow 'Bash(touch:*)' does`.
pub(crate) fn denial_line(denial: &Denial, user: &str) -> String {
    let denied_use = one_line(&denial.denied_use());
    let reason = one_line(&denial.reason);
    let what = match (denial.cause, denial.by.as_deref()) {
        (DenialCause::Person, by) => {
            // A denial without words has the text "no".
            let words = if reason == "no" { String::new() } else { format!(": {reason}") };
            match by {
                Some(name) if name == user => format!("you denied: {denied_use}{words}"),
                Some(name) => format!("denied by {}: {denied_use}{words}", one_line(name)),
                None => format!("denied: {denied_use}{words}"),
            }
        }
        _ => format!("denied: {denied_use}: {reason}"),
    };
    match allow_options(denial) {
        Some(options) => format!("{what}; {options} allows it"),
        None => what,
    }
}

/// Returns the options of `volery run` that would have allowed the denied use.
fn allow_options(denial: &Denial) -> Option<String> {
    let options: Vec<String> =
        denial.allow_rules.iter().map(|rule| format!("--allow {}", quote(&one_line(rule)))).collect();
    (!options.is_empty()).then(|| options.join(" "))
}

/// Returns the status of a run with the number of denials: `succeeded, 2 denied`.
pub(crate) fn status_with_denials(status: &str, denials_count: u64) -> String {
    match denials_count {
        0 => status.to_owned(),
        denied => format!("{status}, {} denied", count(denied)),
    }
}

/// Returns a denial of `rm x` for tests.
#[cfg(test)]
pub(super) fn sample_denial(reason: &str) -> Denial {
    Denial {
        tool: "Bash".to_owned(),
        subject: Some("rm x".to_owned()),
        cause: DenialCause::Rule,
        reason: reason.to_owned(),
        by: None,
        allow_rules: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(cause: DenialCause, reason: &str, by: Option<&str>, rules: &[&str]) -> Denial {
        Denial {
            tool: "Bash".to_owned(),
            subject: Some("touch a".to_owned()),
            cause,
            reason: reason.to_owned(),
            by: by.map(ToOwned::to_owned),
            allow_rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        }
    }

    #[test]
    fn a_line_names_the_cause_and_what_allows_it() {
        let line = |denial: Denial| denial_line(&denial, "ada");
        insta::assert_snapshot!(
            [
                line(denial(DenialCause::Level, "the level safe-edit does not allow it", None, &["Bash(touch:*)"])),
                line(denial(DenialCause::Level, "the level safe-edit does not allow it", None, &["Bash(touch:*)", "Bash(echo 'a')"])),
                line(denial(DenialCause::Rule, "the rule deny Bash(touch:*)", None, &[])),
                line(denial(DenialCause::Person, "no", Some("ada"), &[])),
                line(denial(DenialCause::Person, "use make instead", Some("bo"), &[])),
            ]
            .join("\n"),
            @r"
        denied: Bash(touch a): the level safe-edit does not allow it; --allow 'Bash(touch:*)' allows it
        denied: Bash(touch a): the level safe-edit does not allow it; --allow 'Bash(touch:*)' --allow 'Bash(echo '\''a'\'')' allows it
        denied: Bash(touch a): the rule deny Bash(touch:*)
        you denied: Bash(touch a)
        denied by bo: Bash(touch a): use make instead
        "
        );
    }

    #[test]
    fn many_denials_are_counted() {
        let mut run =
            crate::sample_run::sample_run("01990000-0000-7000-8000-000000000001".parse().unwrap(), "scout");
        run.denials = (0..7)
            .map(|number| denial(DenialCause::Rule, &format!("the rule deny X{number}"), None, &[]))
            .collect();
        let lines = denial_lines(&run, "ada");
        assert_eq!(lines.len(), DENIALS_SHOWN + 1);
        assert_eq!(
            lines[DENIALS_SHOWN],
            format!("2 more denials; to list them: volery show {}", run.short_id)
        );
    }
}
