//! Finds the last message in a transcript that is written for people. A message begins with `> `. Tool calls and their output come
//! between messages and are not part of the answer. Only the line that names a tool can be recognized: everything from there to the
//! next message is ignored.

use crate::stream_buffer;

/// The mark before a message.
const MESSAGE_MARK: char = '>';
/// The control sequences that remain of a mark's colour with `NO_COLOR`.
const RESETS: [&str; 2] = ["\x1b[0m", "\x1b[m"];
/// The text before the name of a tool: `Using tool: NAME`, in later versions `I will … (using tool: NAME)`.
const TOOL_PREFIX: &str = "Using tool: ";
const TOOL_SUFFIX: &str = "(using tool: ";
/// The texts that can follow the name of a tool.
const AFTER_TOOL_NAME: [&str; 2] = ["(", "from mcp server"];
/// The mark of the line that shows that a model answered, and the text after it.
const TRAILER_MARK: char = '\u{25b8}';
pub(super) const CREDITS: &str = "Credits:";

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind {
    /// The first line of a message: its mark has a colour, or the rest of one.
    ColouredMark,
    /// The first line of a message, or a quotation in one.
    PlainMark,
    Tool,
    Other,
}

/// The last message of a transcript.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LastMessage {
    pub(super) text: String,
    /// The transcript ends with the line about credits, as in some versions.
    pub(super) has_credits: bool,
}

pub(super) fn parse_last_message(transcript: &str) -> LastMessage {
    let mut lines: Vec<(LineKind, String)> = transcript.split('\n').map(parse_line).collect();
    let mut has_credits = false;
    while let Some((_, text)) = lines.pop_if(|(_, text)| text.trim().is_empty() || is_trailer(text)) {
        has_credits |= is_trailer(&text);
    }
    let text = match lines.iter().any(|(kind, _)| *kind != LineKind::Other) {
        true => split_messages(&lines).into_iter().rfind(|message| !message.is_empty()).unwrap_or_default(),
        // Without marks, all of it may be the message.
        false => join_lines(lines.iter().map(|(_, text)| text.as_str())),
    };
    LastMessage { text, has_credits }
}

fn split_messages(lines: &[(LineKind, String)]) -> Vec<String> {
    let has_colours = lines.iter().any(|(kind, _)| *kind == LineKind::ColouredMark);
    let mut messages: Vec<Vec<&str>> = Vec::new();
    let mut in_message = false;
    for (kind, text) in lines {
        let is_start = match kind {
            LineKind::ColouredMark => true,
            LineKind::PlainMark => !has_colours && !in_message,
            LineKind::Tool | LineKind::Other => false,
        };
        in_message = is_start || (in_message && *kind != LineKind::Tool);
        match messages.last_mut() {
            _ if is_start => messages.push(vec![text.trim_start().trim_start_matches(MESSAGE_MARK)]),
            Some(message) if in_message => message.push(text),
            Some(_) | None => {}
        }
    }
    messages.into_iter().map(|message| join_lines(message.into_iter())).collect()
}

fn join_lines<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

fn parse_line(raw: &str) -> (LineKind, String) {
    let text = stream_buffer::strip_ansi(raw);
    let kind = match () {
        () if is_tool_line(&text) => LineKind::Tool,
        () if !has_mark(&text) => LineKind::Other,
        () if has_coloured_mark(raw) => LineKind::ColouredMark,
        () => LineKind::PlainMark,
    };
    (kind, text)
}

/// Returns whether a line begins with a mark, which may be followed by nothing.
fn has_mark(text: &str) -> bool {
    text.strip_prefix(MESSAGE_MARK)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// Returns whether the mark of a line has a colour, or the end of one after it.
fn has_coloured_mark(raw: &str) -> bool {
    let Some((before, after)) = raw.split_once(MESSAGE_MARK) else { return false };
    let after = after.trim_start_matches(' ');
    // A reset before the mark belongs to the line above.
    let colour = RESETS.iter().fold(before.to_owned(), |rest, reset| rest.replace(reset, ""));
    !colour.is_empty() || RESETS.iter().any(|reset| after.starts_with(reset))
}

fn is_tool_line(text: &str) -> bool {
    let text = text.trim();
    if text.ends_with(')') && text.contains(TOOL_SUFFIX) {
        return true;
    }
    // There may be a symbol before it.
    let line = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let Some((name, rest)) =
        line.strip_prefix(TOOL_PREFIX).map(|rest| rest.split_once(' ').unwrap_or((rest, "")))
    else {
        return false;
    };
    let rest = rest.trim_start();
    let is_valid = |c: char| c.is_alphanumeric() || "_-@/.".contains(c);
    name.chars().all(is_valid)
        && (rest.is_empty() || AFTER_TOOL_NAME.iter().any(|text| rest.starts_with(text)))
}

/// Returns whether a line is `▸ Credits: NUMBER …`. Without the mark and the number it belongs to the text.
fn is_trailer(text: &str) -> bool {
    let credits =
        text.trim_start().strip_prefix(TRAILER_MARK).and_then(|rest| rest.trim_start().strip_prefix(CREDITS));
    credits.is_some_and(|number| number.trim_start().starts_with(|c: char| c.is_ascii_digit()))
}
