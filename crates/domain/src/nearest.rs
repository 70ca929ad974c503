//! "Did you mean": the nearest of some names to what was typed.

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

/// Counts the insertions, deletions, replacements and swaps of neighbours between two texts.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().take(128).collect();
    let right: Vec<char> = right.chars().take(128).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, l) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, r) in right.iter().enumerate() {
            let replaced = above[column] + usize::from(l != r);
            let mut best = replaced.min(above[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *l == right[column - 1] && left[row - 1] == *r {
                best = best.min(before[column - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut above, current);
    }
    above[right.len()]
}
