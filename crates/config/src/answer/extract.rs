//! Finds possible JSON in a text: code blocks, and balanced brackets. Reads any text a bounded number of times.

use std::collections::VecDeque;
use std::ops::Range;

/// How many pieces of each kind are looked at; the last ones of a text are the answer more often than the first.
const PIECES_MAX: usize = 8;
/// How often a text may be read in the search for balanced brackets.
const READINGS_MAX: usize = 8;
/// The marks between the reasoning and the answer of a model.
const THOUGHTS_END: [&str; 2] = ["</think>", "</thinking>"];

/// Returns the text after the model's reasoning.
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

/// Returns the contents of the last code blocks; an unclosed one reaches to the end.
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

/// Returns the fence of a code block at the start of a line.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(mark).len();
    (length >= 3).then(|| &line[..length])
}

fn closes(line: &str, fence: &str, opened: &str) -> bool {
    fence.starts_with(opened) && line.trim() == fence
}

/// Returns the last top-level values in brackets, and the start of one without an end.
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
                // An earlier unclosed bracket was not the beginning of a truncated value.
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

/// Returns the end of the value that begins here, if its brackets are balanced.
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
