//! What was said, of a transcript for people. A message begins with `> `; tools, what they write and how they ended
//! stand between messages and are no answer. Of all that, only the line that names a tool is known by its words: what
//! follows it is left out up to the next message.

use crate::kept;

/// What stands before a message.
const MARK: char = '>';
/// What is left of a mark's colour where there shall be none.
const RESETS: [&str; 2] = ["\x1b[0m", "\x1b[m"];
/// How a tool is told: `Using tool: NAME`, in later versions `I will … (using tool: NAME)`.
const TOOL: &str = "Using tool: ";
const TOOL_BEHIND: &str = "(using tool: ";
/// What follows the name of a tool, if anything does.
const BEHIND_TOOL: [&str; 2] = ["(", "from mcp server"];
/// How the line begins that shows that a model answered, and what follows.
const TRAILER: char = '\u{25b8}';
pub(super) const CREDITS: &str = "Credits:";

/// What a line of a transcript is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The first of a message: its mark has a colour, or what is left of one.
    Painted,
    /// The first of a message, or a quotation in one.
    Marked,
    Tool,
    Other,
}

/// The last message of a transcript.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) text: String,
    /// The line about credits stood at the end, as some versions have it.
    pub(super) credited: bool,
}

/// Finds what was said last.
pub(super) fn last(transcript: &str) -> Said {
    let mut lines: Vec<(Kind, String)> = transcript.split('\n').map(line).collect();
    let mut credited = false;
    while let Some((_, text)) = lines.pop_if(|(_, text)| text.trim().is_empty() || is_trailer(text)) {
        credited |= is_trailer(&text);
    }
    let text = match lines.iter().any(|(kind, _)| *kind != Kind::Other) {
        true => messages(&lines).into_iter().rfind(|message| !message.is_empty()).unwrap_or_default(),
        // Nothing is marked, so all of it may be what was said.
        false => joined(lines.iter().map(|(_, text)| text.as_str())),
    };
    Said { text, credited }
}

fn messages(lines: &[(Kind, String)]) -> Vec<String> {
    let painted = lines.iter().any(|(kind, _)| *kind == Kind::Painted);
    let mut messages: Vec<Vec<&str>> = Vec::new();
    let mut within = false;
    for (kind, text) in lines {
        let begins = match kind {
            Kind::Painted => true,
            Kind::Marked => !painted && !within,
            Kind::Tool | Kind::Other => false,
        };
        within = begins || (within && *kind != Kind::Tool);
        match messages.last_mut() {
            _ if begins => messages.push(vec![text.trim_start().trim_start_matches(MARK)]),
            Some(message) if within => message.push(text),
            Some(_) | None => {}
        }
    }
    messages.into_iter().map(|message| joined(message.into_iter())).collect()
}

fn joined<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

fn line(raw: &str) -> (Kind, String) {
    let text = kept::plain(raw);
    let kind = match () {
        () if names_tool(&text) => Kind::Tool,
        () if !is_marked(&text) => Kind::Other,
        () if is_painted(raw) => Kind::Painted,
        () => Kind::Marked,
    };
    (kind, text)
}

/// A mark stands there also where nothing follows.
fn is_marked(text: &str) -> bool {
    text.strip_prefix(MARK).is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// Tells whether a marked line has the mark in a colour, or the end of one behind it.
fn is_painted(raw: &str) -> bool {
    let Some((before, behind)) = raw.split_once(MARK) else { return false };
    let behind = behind.trim_start_matches(' ');
    // The end of a colour before it is one of the line above.
    let colour = RESETS.iter().fold(before.to_owned(), |rest, reset| rest.replace(reset, ""));
    !colour.is_empty() || RESETS.iter().any(|reset| behind.starts_with(reset))
}

fn names_tool(text: &str) -> bool {
    let text = text.trim();
    if text.ends_with(')') && text.contains(TOOL_BEHIND) {
        return true;
    }
    // A sign may stand before it.
    let words = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let Some((name, rest)) = words.strip_prefix(TOOL).map(|rest| rest.split_once(' ').unwrap_or((rest, "")))
    else {
        return false;
    };
    let rest = rest.trim_start();
    let named = |c: char| c.is_alphanumeric() || "_-@/.".contains(c);
    name.chars().all(named) && (rest.is_empty() || BEHIND_TOOL.iter().any(|words| rest.starts_with(words)))
}

/// Tells whether a line is `▸ Credits: NUMBER …`. Without its mark and its number it is the end of a text about something
/// else.
fn is_trailer(text: &str) -> bool {
    let credits =
        text.trim_start().strip_prefix(TRAILER).and_then(|rest| rest.trim_start().strip_prefix(CREDITS));
    credits.is_some_and(|number| number.trim_start().starts_with(|c: char| c.is_ascii_digit()))
}
