//! Tokens of one run from a program that counts over the whole session.

use domain::run::{RunSpec, Usage};

use crate::contract::{Place, Report};

/// Returns what the session of a run had used when it began; nothing if that is not known.
pub fn used_before(spec: &RunSpec, place: &Place<'_>) -> Option<Usage> {
    match &spec.session {
        None => Some(Usage::default()),
        Some(_) => place.session_used,
    }
}

/// Reports what this run used of the sum that a program tells, or that nobody knows it.
pub fn own_part(program: &str, sum: Usage, before: Option<Usage>) -> Report {
    match before.and_then(|before| sum.beyond(before)) {
        Some(usage) => Report::Used(usage),
        None => Report::Warned(format!(
            "{program} counts tokens over the whole session; those of this run are not known"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_told_only_where_the_beginning_is_known_and_fits() {
        let of = |input_tokens, output_tokens| Usage { input_tokens, output_tokens, ..Usage::default() };
        assert_eq!(own_part("x", of(200, 20), Some(of(100, 10))), Report::Used(of(100, 10)));
        for before in [None, Some(of(300, 10))] {
            assert!(matches!(own_part("x", of(200, 20), before), Report::Warned(_)));
        }
    }
}
