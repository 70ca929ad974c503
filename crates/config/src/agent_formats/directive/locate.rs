//! Finds the parts of a directive's file: its signatures, its frontmatter, the block in XML with its fence, and the
//! procedure after it.

use std::ops::Range;

use super::xml::opening_tag;

/// The tag that a directive begins with.
const OPENING: &str = "<directive";
const CLOSING: &str = "</directive>";
/// The most tags `<directive` and `</directive>` of one file that are looked at.
const TAGS_MAX: usize = 2_000;
/// The keys that only the frontmatter of a directive has. A note has other ones.
const FRONTMATTER_KEYS: [&str; 14] = [
    "description",
    "model",
    "model_tier",
    "limits",
    "permissions",
    "requires",
    "inputs",
    "outputs",
    "extends",
    "actions",
    "context",
    "hooks",
    "continuation",
    "execution",
];

/// The block in XML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// From the tag `<directive …>` to the end of `</directive>`.
    pub(super) outer: Range<usize>,
    /// The bytes between these tags.
    pub(super) inner: Range<usize>,
    pub(super) attributes: Vec<(String, String)>,
    /// The whole lines of the fence around it.
    pub(super) fence: Option<Fence>,
}

impl Block {
    /// Returns the end of the text before the block and its fence.
    pub(super) fn before(&self) -> usize {
        self.fence.as_ref().map_or(self.outer.start, |fence| fence.opening.start)
    }

    /// Returns the start of the text after the block and its fence.
    pub(super) fn after(&self) -> usize {
        self.fence.as_ref().map_or(self.outer.end, |fence| fence.closing.end)
    }
}

/// The lines of a fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fence {
    pub(super) opening: Range<usize>,
    pub(super) closing: Range<usize>,
    /// Text between the directive and the end of the fence.
    pub(super) has_rest: bool,
}

/// Returns where a directive begins, whether or not it ends: the first tag with a name, else the first one that begins
/// its line and has an end. `<directive to run>` is not a tag.
pub(super) fn block_start(text: &str) -> Option<usize> {
    let mut bare = None;
    for (at, _) in text.match_indices(OPENING).take(TAGS_MAX) {
        let begins_name = |letter: char| letter.is_whitespace() || letter == '>';
        if !text[at + OPENING.len()..].starts_with(begins_name) {
            continue;
        }
        let Some((attributes, _)) = opening_tag(&text[at..]) else { continue };
        if attributes.iter().any(|(name, _)| name == "name") {
            return Some(at);
        }
        let line = &text[..at][text[..at].rfind('\n').map_or(0, |end| end + 1)..];
        if bare.is_none() && line.trim().is_empty() && text[at..].contains(CLOSING) {
            bare = Some(at);
        }
    }
    bare.or_else(|| broken_start(text))
}

/// Returns where a tag begins that has a name and is not whole, or has something else than attributes.
fn broken_start(text: &str) -> Option<usize> {
    let mut starts = text.match_indices(OPENING).take(TAGS_MAX).map(|(at, _)| at);
    starts.find(|at| {
        let line = text[at + OPENING.len()..].lines().next().unwrap_or_default();
        line.starts_with([' ', '\t']) && line.contains("name=")
    })
}

/// Returns the block that begins here; `None` if it has no end.
pub(super) fn block(text: &str, start: usize) -> Option<Block> {
    let (attributes, length) = opening_tag(&text[start..])?;
    let opening = opening_fence(text, start);
    let end = block_end(text, start, opening.is_some())?;
    let fence = opening.map(|opening| closing_fence(text, opening, end));
    let inner = start + length..end - CLOSING.len();
    Some(Block { outer: start..end, inner, attributes, fence })
}

/// Returns the end of the closing tag. A template in an action may contain whole directives, and prose may contain
/// one of the tags, so tags at the start of a line count first, then all tags; if they do not balance, the last closing
/// tag at the end of a fence, or at all.
fn block_end(text: &str, start: usize, is_fenced: bool) -> Option<usize> {
    let tags = directive_tags(text, start);
    let is_at_end = |tag: &&DirectiveTag| !is_fenced || tag.ends_fence;
    let by_line = balance(tags.iter().filter(|tag| tag.begins_line)).filter(is_at_end);
    let by_tag = || balance(tags.iter()).filter(is_at_end);
    let closing = || tags.iter().filter(|tag| tag.closes);
    let tag =
        by_line.or_else(by_tag).or_else(|| closing().rfind(is_at_end)).or_else(|| closing().next_back());
    tag.map(|tag| tag.end)
}

/// A tag `<directive …>` or `</directive>` behind the start of a directive.
#[derive(Debug, Clone, Copy)]
struct DirectiveTag {
    closes: bool,
    end: usize,
    begins_line: bool,
    /// Nothing but the end of a fence or of the file follows.
    ends_fence: bool,
}

fn directive_tags(text: &str, start: usize) -> Vec<DirectiveTag> {
    let mut tags = Vec::new();
    for (at, _) in text[start..].match_indices('<').map(|(at, mark)| (start + at, mark)) {
        let tag = &text[at..];
        let begins_line = at == start || text[..at].trim_end_matches([' ', '\t']).ends_with('\n');
        if tag.starts_with(CLOSING) {
            let end = at + CLOSING.len();
            let rest = text[end..].trim_start();
            let ends_fence = rest.is_empty() || is_fence(rest);
            tags.push(DirectiveTag { closes: true, end, begins_line, ends_fence });
        } else if tag.starts_with(OPENING)
            && let Some((_, length)) = opening_tag(tag)
        {
            tags.push(DirectiveTag { closes: false, end: at + length, begins_line, ends_fence: false });
        }
    }
    tags
}

/// Returns the tag that closes the first one.
fn balance<'a>(tags: impl Iterator<Item = &'a DirectiveTag>) -> Option<&'a DirectiveTag> {
    let mut depth = 0_usize;
    for tag in tags {
        if !tag.closes {
            depth += 1;
        } else if depth <= 1 {
            return Some(tag);
        } else {
            depth -= 1;
        }
    }
    None
}

/// Returns the line of the fence that the directive is in.
fn opening_fence(text: &str, start: usize) -> Option<Range<usize>> {
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    if !text[line_start..start].trim().is_empty() {
        return None;
    }
    let before = text[..line_start].trim_end();
    let fence_start = before.rfind('\n').map_or(0, |at| at + 1);
    let is_fence = is_fence(&before[fence_start..]);
    is_fence.then_some(fence_start..before.len())
}

fn closing_fence(text: &str, opening: Range<usize>, end: usize) -> Fence {
    let mut at = end;
    for line in text[end..].split_inclusive('\n') {
        if is_fence(line) {
            let has_rest = !text[end..at].trim().is_empty();
            return Fence { opening, closing: at..at + line.trim_end().len(), has_rest };
        }
        at += line.len();
    }
    Fence { opening, closing: end..end, has_rest: false }
}

fn is_fence(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("```") || line.starts_with("~~~")
}

/// Returns the text with blanks instead of the lines inside of fences, of the same length: examples are not steps.
pub(super) fn without_fences(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut is_inside = false;
    for line in text.split_inclusive('\n') {
        let is_mark = is_fence(line);
        if is_inside || is_mark {
            masked.extend(line.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        } else {
            masked.push_str(line);
        }
        is_inside ^= is_mark;
    }
    masked
}

/// Returns the lines of signatures: comments such as `<!-- rye:signed:… -->` before everything else.
pub(super) fn signatures(text: &str) -> Vec<Range<usize>> {
    const MARKS: [&str; 8] = [
        "rye:signed",
        "ryeos:signed",
        "rye:unsigned",
        "ryeos:unsigned",
        "rye:validated",
        "kiwi-mcp:validated",
        "kiwi:validated",
        "lilux:validated",
    ];
    let mut at = 0;
    let mut found = Vec::new();
    for line in text.split_inclusive('\n') {
        let comment = line.trim().strip_prefix("<!--").and_then(|comment| comment.strip_suffix("-->"));
        let Some(comment) = comment.map(str::trim) else {
            if line.trim().is_empty() {
                at += line.len();
                continue;
            }
            break;
        };
        if MARKS.iter().any(|mark| comment.starts_with(mark)) || comment.is_empty() {
            found.push(at..at + line.trim_end().len());
        }
        at += line.len();
    }
    found
}

/// Returns the text with blanks instead of the comments before its frontmatter, so that the frontmatter comes first.
pub(super) fn without_leading_comments(text: &str) -> String {
    let mut blanked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(line) = rest.split_inclusive('\n').next() {
        let is_comment = line.trim().starts_with("<!--") && line.trim().ends_with("-->");
        if !is_comment && !line.trim().is_empty() {
            break;
        }
        blanked.extend(line.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        rest = &rest[line.len()..];
    }
    blanked + rest
}

/// Returns whether a text begins with the frontmatter of a directive, whether or not it can be read.
pub(super) fn has_frontmatter(text: &str) -> bool {
    let text = without_leading_comments(text);
    let mut lines = text.lines().skip_while(|line| line.trim().is_empty());
    if lines.next().is_none_or(|line| line.trim_end() != "---") {
        return false;
    }
    let mut keys = lines
        .take_while(|line| line.trim_end() != "---")
        .map(|line| line.split_once(':').map_or("", |(key, _)| key.trim_matches(['"', '\''])));
    keys.any(|key| FRONTMATTER_KEYS.contains(&key))
}
