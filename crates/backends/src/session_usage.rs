//! Computes the tokens of one run from a program that counts over the whole session.

use domain::run::{RunSpec, Usage};

use crate::contract::{AgentReport, LaunchContext};

/// Returns what the session of a run had used when the run began; `None` if that is unknown.
pub fn usage_before_run(spec: &RunSpec, context: &LaunchContext<'_>) -> Option<Usage> {
    match &spec.session {
        None => Some(Usage::default()),
        Some(_) => context.prior_session_usage,
    }
}

/// Reports this run's share of the sum that a program counts, or warns that it is unknown.
pub fn report_run_usage(program: &str, sum: Usage, before: Option<Usage>) -> AgentReport {
    match before.and_then(|before| sum.since(before)) {
        Some(usage) => AgentReport::Used(usage),
        None => AgentReport::Warned(format!(
            "{program} counts tokens over the whole session; those of this run are not known"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_of_a_run_is_reported_only_if_the_usage_before_is_known_and_fits() {
        let usage = |input_tokens, output_tokens| Usage { input_tokens, output_tokens, ..Usage::default() };
        assert_eq!(
            report_run_usage("x", usage(200, 20), Some(usage(100, 10))),
            AgentReport::Used(usage(100, 10))
        );
        for before in [None, Some(usage(300, 10))] {
            assert!(matches!(report_run_usage("x", usage(200, 20), before), AgentReport::Warned(_)));
        }
    }
}
