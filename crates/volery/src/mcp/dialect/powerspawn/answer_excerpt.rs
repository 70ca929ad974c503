//! Limits answers of agents to the size that the client's model sees, over all answers together. A longer answer is cut in
//! the middle, with a note on how to get the rest.

use super::super::super::tools::{fit, fit_tail};
use engine::Excerpt;

/// The minimum share of an answer.
const LEAST_BYTES: usize = 500;

/// Returns the size of an answer in bytes.
pub(super) fn bytes(answer: &Excerpt) -> u64 {
    match answer {
        Excerpt::Whole(text) => text.len() as u64,
        Excerpt::Ends { bytes, .. } => *bytes,
    }
}

/// Returns the size limit of each of several answers for a total size: short ones leave their rest to the others.
pub(super) fn share(mut sizes: Vec<u64>, all: usize) -> usize {
    sizes.sort_unstable();
    let (mut left, mut count) = (all, sizes.len());
    for size in sizes {
        let each = left / count;
        match usize::try_from(size).ok().filter(|size| *size <= each) {
            Some(size) => left -= size,
            None => return each.max(LEAST_BYTES),
        }
        count -= 1;
    }
    all
}

/// Cuts an answer to at most this many bytes of escaped JSON.
pub(super) fn fit_answer(id: &str, answer: &Excerpt, bytes_max: usize) -> String {
    let (head, tail, bytes) = match answer {
        Excerpt::Whole(text) if fit(text, bytes_max).len() == text.len() => return text.clone(),
        Excerpt::Whole(text) => (text, text, text.len() as u64),
        Excerpt::Ends { head, tail, bytes } => (head, tail, *bytes),
    };
    let cut =
        format!("\n\n... [cut: the answer has {bytes} bytes; `volery wait {id}` prints all of it] ...\n\n");
    let half = bytes_max.saturating_sub(cut.len()) / 2;
    format!("{}{cut}{}", fit(head, half), fit_tail(tail, half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_answers_leave_their_rest_to_long_ones_and_all_get_a_minimum() {
        assert_eq!(share(vec![10, 20_000, 20], 10_000), 9_970);
        assert_eq!(share(vec![1_000, 9_000], 10_000), 10_000);
        assert_eq!(share(vec![20_000; 4], 10_000), 2_500);
        assert_eq!(share(vec![20_000; 100], 10_000), LEAST_BYTES);
        assert_eq!(share(Vec::new(), 10_000), 10_000);
    }

    #[test]
    fn a_long_answer_keeps_both_ends_and_names_its_size() {
        let long = format!("first{}last", "x".repeat(5_000));
        let ends = Excerpt::Ends { head: long.clone(), tail: long.clone(), bytes: 20_000_000 };
        for (answer, bytes) in [(Excerpt::Whole(long.clone()), 5_009), (ends, 20_000_000)] {
            let text = fit_answer("0a1b2c3d", &answer, 1_000);
            let cut = format!("[cut: the answer has {bytes} bytes; `volery wait 0a1b2c3d` prints all of it]");
            assert!(text.starts_with("firstx") && text.ends_with("xlast") && text.contains(&cut), "{text}");
            assert!(text.len() <= 1_000, "{}", text.len());
        }
        assert_eq!(fit_answer("0a1b2c3d", &Excerpt::Whole(long.clone()), 6_000), long);
    }
}
