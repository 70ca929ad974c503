//! Checks the tables of differences on the pages `docs/coming-from-*.md`: a row exists exactly if the doc comment of a test
//! states it.
//!
//! Each difference is one line in the doc comment of a test:
//!
//! ```text
//! /// Differs from sub-agents-mcp: what it is about | how it is there | how it is here
//! ```
//!
//! A longer row continues in lines that are indented by three more spaces. The table on the page is between two marks,
//! [`BEGIN`] and [`END`]; `scripts/differences` writes it.

use crate::source_tree::{SourceFile, SourceTree};

pub const BEGIN: &str = "<!-- differences: written by scripts/differences from the tests -->";
pub const END: &str = "<!-- end of differences -->";

const MARK: &str = "/// Differs from ";
const CONTINUATION: &str = "///    ";

/// One row of a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DifferenceRow {
    /// The system, as in the name of its page.
    pub system: String,
    pub cells: [String; 3],
}

/// Returns the rows that the tests state, in the order of files and lines, and findings about invalid ones.
pub fn rows(tree: &SourceTree) -> (Vec<DifferenceRow>, Vec<String>) {
    let (mut rows, mut findings) = (Vec::new(), Vec::new());
    let outside_tidy = |file: &&SourceFile| !file.path.starts_with("crates/tidy/");
    for file in tree.rust().filter(outside_tidy) {
        let lines: Vec<&str> = file.text.lines().map(str::trim_start).collect();
        for (index, line) in lines.iter().enumerate() {
            let Some(first) = line.strip_prefix(MARK) else { continue };
            let more = lines[index + 1..].iter().map_while(|line| line.strip_prefix(CONTINUATION));
            let text = std::iter::once(first).chain(more).map(str::trim).collect::<Vec<_>>().join(" ");
            let at = format!("{}:{}", file.path, index + 1);
            match parse(&text) {
                Some(row) if is_above_test(&lines[index..]) => rows.push(row),
                Some(_) => findings.push(format!("{at}: a difference that stands above no test")),
                None => {
                    findings.push(format!("{at}: a difference is written as SYSTEM: what | there | here"))
                }
            }
        }
    }
    (rows, findings)
}

fn parse(text: &str) -> Option<DifferenceRow> {
    let (system, cells) = text.split_once(": ")?;
    let cells: Vec<&str> = cells.split(" | ").map(str::trim).collect();
    let [what, there, here] = cells.try_into().ok()?;
    let cells = [what, there, here].map(ToOwned::to_owned);
    let is_whole = !system.contains(' ') && cells.iter().all(|cell| !cell.is_empty());
    is_whole.then(|| DifferenceRow { system: system.to_owned(), cells })
}

/// Returns whether the comment is followed by a test.
fn is_above_test(lines: &[&str]) -> bool {
    let after = lines.iter().find(|line| !line.starts_with("///"));
    after.is_some_and(|line| matches!(*line, "#[test]" | "#[tokio::test]"))
}

/// Returns the table of one system.
pub fn table(rows: &[DifferenceRow], system: &str) -> String {
    let mut table = "| what | there | here |\n|---|---|---|\n".to_owned();
    for DifferenceRow { cells: [what, there, here], .. } in rows.iter().filter(|row| row.system == system) {
        table.push_str(&format!("| {what} | {there} | {here} |\n"));
    }
    table
}

/// Returns a page with its table replaced; `None` if the page has no marks.
pub fn with_table(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
}

/// Returns the path of a system's page.
pub fn page(system: &str) -> String {
    format!("docs/coming-from-{system}.md")
}

/// Returns a finding for each page whose table differs from the one that the tests state.
pub fn check(tree: &SourceTree) -> Vec<String> {
    let (rows, mut findings) = rows(tree);
    let mut systems: Vec<&str> = rows.iter().map(|row| row.system.as_str()).collect();
    let pages = tree
        .files
        .iter()
        .filter(|file| file.text.contains(BEGIN))
        .filter_map(|file| file.path.strip_prefix("docs/coming-from-")?.strip_suffix(".md"));
    systems.extend(pages);
    systems.sort_unstable();
    systems.dedup();
    for system in systems {
        let path = page(system);
        let Some(file) = tree.get(&path) else {
            findings.push(format!("{path}: missing, and tests state differences from {system}"));
            continue;
        };
        match with_table(&file.text, &table(&rows, system)) {
            None => findings.push(format!("{path}: the marks of the table of differences are missing")),
            Some(expected) if expected != file.text => {
                findings.push(format!("{path}: the table of differences is old: run scripts/differences"));
            }
            Some(_) => {}
        }
    }
    findings
}
