//! Known exceptions. The list may only shrink: new findings must be fixed, and an exception that is no longer needed
//! is itself a finding.

/// The list: one finding per line, without its line number; `#` begins a comment.
const LIST: &str = include_str!("exceptions.txt");

/// The maximum number of exceptions. Lower it with the list.
pub const EXCEPTIONS_MAX: usize = 1;

/// Returns the known exceptions.
pub fn read_known() -> Vec<&'static str> {
    LIST.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// Splits findings into new ones and exceptions that no finding needs any more.
pub fn compare(findings: &[String], known: &[&str]) -> (Vec<String>, Vec<String>) {
    let found: Vec<String> = findings.iter().map(|finding| without_line(finding)).collect();
    let new = findings.iter().zip(&found).filter(|(_, plain)| !known.contains(&plain.as_str()));
    let new = new.map(|(finding, _)| finding.clone()).collect();
    let stale = known.iter().filter(|exception| !found.iter().any(|plain| plain == *exception));
    (new, stale.map(|exception| (*exception).to_owned()).collect())
}

/// Removes the number from `path:12: message`, so that an exception survives edits above it.
fn without_line(finding: &str) -> String {
    match finding.split_once(':') {
        Some((path, rest)) => {
            let message = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
            format!("{path}:{}", message.strip_prefix(':').unwrap_or(message))
        }
        None => finding.to_owned(),
    }
}
