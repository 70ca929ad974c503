//! Finds what may be JSON in a text: blocks of code, and whatever stands between brackets that belong together. Reads
//! the text a bounded number of times, whatever is in it.

use std::collections::VecDeque;
use std::ops::Range;

/// How many pieces of each kind are looked at; the last ones of a text are the answer more often than the first.
const PIECES_MAX: usize = 8;
/// How often a text may be read in the search for brackets that belong together.
const READINGS_MAX: usize = 8;
/// What stands between thoughts and the answer, with models that think aloud.
const THOUGHTS_END: [&str; 2] = ["</think>", "</thinking>"];

/// Returns what of a text comes after the thoughts of its model.
pub(super) fn without_thoughts(text: &str) -> &str {
    let ends = THOUGHTS_END.iter().filter_map(|mark| text.rfind(mark).map(|at| at + mark.len()));
    &text[ends.max().unwrap_or(0)..]
}

/// Returns the pieces of a text that may be JSON, the most likely first.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    let text = text.trim_start_matches('\u{feff}').trim();
    let (values, unfinished) = between_brackets(text);
    let ranges = std::iter::once(0..text.len())
        .chain(code_blocks(text).into_iter().rev())
        .chain(values.into_iter().rev())
        .chain(unfinished.map(|start| start..text.len()));
    let mut pieces: Vec<&str> = Vec::new();
    for range in ranges {
        let piece = text[range].trim();
        if !piece.is_empty() && !pieces.contains(&piece) {
            pieces.push(piece);
        }
    }
    pieces
}

/// Returns the insides of the last blocks of code; one that is not closed reaches to the end.
fn code_blocks(text: &str) -> VecDeque<Range<usize>> {
    let mut blocks = VecDeque::new();
    let mut open: Option<(&str, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let (start, end) = (at, at + line.len());
        at = end;
        let fence = fence(line);
        match (open, fence) {
            (None, Some(fence)) => open = Some((fence, end)),
            (Some((opened, begin)), Some(fence)) if closes(line, fence, opened) => {
                push(&mut blocks, begin..start);
                open = None;
            }
            (Some(_), _) | (None, None) => {}
        }
    }
    if let Some((_, begin)) = open {
        push(&mut blocks, begin..text.len());
    }
    blocks
}

/// Returns the marks with which a line begins or ends a block of code.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(mark).len();
    (length >= 3).then(|| &line[..length])
}

fn closes(line: &str, fence: &str, opened: &str) -> bool {
    fence.starts_with(opened) && line.trim() == fence
}

/// Returns the last values that begin and end with brackets and are in no other one, and where one begins that has no
/// end.
fn between_brackets(text: &str) -> (VecDeque<Range<usize>>, Option<usize>) {
    let bytes = text.as_bytes();
    let mut budget = bytes.len().saturating_mul(READINGS_MAX);
    let (mut values, mut unfinished) = (VecDeque::new(), None);
    let mut at = 0;
    while let Some(start) = bytes[at..].iter().position(|byte| matches!(byte, b'{' | b'[')) {
        let start = at + start;
        match end_of_value(bytes, start, &mut budget) {
            Some(end) => {
                push(&mut values, start..end);
                // What came before it was not the beginning of something that was cut off.
                unfinished = None;
                at = end;
            }
            None => {
                unfinished.get_or_insert(start);
                at = start + 1;
            }
        }
        if budget == 0 {
            break;
        }
    }
    (values, unfinished)
}

/// Returns where the value that begins here ends, if its brackets fit together.
fn end_of_value(bytes: &[u8], start: usize, budget: &mut usize) -> Option<usize> {
    let mut open = Vec::new();
    let (mut in_text, mut escaped) = (false, false);
    for (at, byte) in bytes.iter().enumerate().skip(start) {
        *budget = budget.checked_sub(1)?;
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b'}' | b']' => {
                if open.pop() != Some(*byte) {
                    return None;
                }
                if open.is_empty() {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn push(pieces: &mut VecDeque<Range<usize>>, piece: Range<usize>) {
    if pieces.len() == PIECES_MAX {
        pieces.pop_front();
    }
    pieces.push_back(piece);
}
