//! What the model reads: the text of the file in its order, without the parts that became fields.

use std::ops::Range;

use super::xml::commented_text;

/// Replaces parts of a text.
#[derive(Debug, Default)]
pub(super) struct Edits {
    edits: Vec<(Range<usize>, String)>,
}

impl Edits {
    /// Replaces a part. Parts must not overlap; one that begins inside of another is left out.
    pub(super) fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.edits.push((range, text.into()));
    }

    /// Returns the text with all edits. `markup` is the part in which entities and CDATA are replaced.
    pub(super) fn apply(mut self, text: &str, markup: &Range<usize>) -> String {
        self.edits.sort_by_key(|(range, _)| (range.start, range.end));
        let mut result = String::with_capacity(text.len());
        let mut at = 0;
        for (range, replacement) in self.edits {
            if range.start < at {
                continue;
            }
            copy(text, at..range.start, markup, &mut result);
            if !replacement.trim().is_empty() {
                result.push_str(&replacement);
            }
            at = range.end;
        }
        copy(text, at..text.len(), markup, &mut result);
        tidy(&result.replace("{CDATA_OPEN}", "<![CDATA[").replace("{CDATA_CLOSE}", "]]>"))
    }
}

/// Copies a part of the text, whose markup is replaced only where the text is XML.
fn copy(text: &str, range: Range<usize>, markup: &Range<usize>, result: &mut String) {
    let start = range.start.max(markup.start).min(range.end);
    let end = range.end.min(markup.end).max(start);
    result.push_str(&text[range.start..start]);
    result.push_str(&commented_text(&text[start..end]));
    result.push_str(&text[end..range.end]);
}

/// Removes blanks at the ends of lines, and all but one of several empty lines.
pub(super) fn tidy(text: &str) -> String {
    let mut tidied = String::with_capacity(text.len());
    let mut is_gap = true;
    for line in text.lines().map(str::trim_end) {
        if line.is_empty() && is_gap {
            continue;
        }
        is_gap = line.is_empty();
        tidied.push_str(line);
        tidied.push('\n');
    }
    tidied.trim_end().to_owned()
}
