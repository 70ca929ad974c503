//! Large files of parts that begin and never end. With a search for the end at each beginning they would take minutes.

use super::read_text;

const BYTES: usize = 300_000;

#[test]
fn parts_that_never_end_cost_no_more_than_text() {
    let pieces = [
        "<directive name=\"",
        "<directive name=\"a\">",
        "<action>",
        "<action><action></action>",
        "<a x=\"",
        "<!--",
        "<![CDATA[",
        "</",
        "<tool>",
        "{input:",
    ];
    let around = [
        ("<directive name=\"d\"><metadata><permissions>", "</permissions></metadata></directive>"),
        ("<directive name=\"d\"><process>", "</process></directive>"),
        ("<directive name=\"d\"></directive>\n", ""),
        ("---\ndescription: x\n---\n", ""),
    ];
    for piece in pieces {
        for (before, after) in around {
            let text = format!("{before}{}{after}", piece.repeat(BYTES / piece.len()));
            let (agent, diagnostics) = read_text(&text, "d");
            assert_ne!(agent.is_some(), diagnostics.iter().any(|found| found.is_error()), "{before}{piece}");
        }
    }
}
