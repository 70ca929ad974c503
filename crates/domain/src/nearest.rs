//! "Did you mean": finds the name that is nearest to a typed one.

/// Returns the candidate nearest to `typed`, if one is near enough to be a likely slip.
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let allowed = (typed.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&typed, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Counts the insertions, deletions, replacements and swaps of neighbours between two texts, of which only the beginning
/// counts: the effort grows with the product of their lengths, and one of them may come from anywhere.
fn distance(left: &str, right: &str) -> usize {
    let head = |text: &str| text.chars().take(128).collect::<String>();
    strsim::osa_distance(&head(left), &head(right))
}
