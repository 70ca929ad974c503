//! Tags in a text that is almost XML: people write `a && b` and `Vec<T>` between them. What is a tag depends on the
//! element around it; everything else is text.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::text::{Diagnostics, SourceLocation, quote};

/// A limit that no hand-written file reaches.
const DEPTH_MAX: usize = 50;
/// A limit that no definition reaches.
const ELEMENTS_MAX: usize = 20_000;
/// The longest tag with its attributes. It bounds the search for the end of each.
const TAG_BYTES_MAX: usize = 4_096;

/// One element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) location: SourceLocation,
    pub(super) attributes: Vec<(String, String)>,
    /// The text between the tags, without that of elements within.
    pub(super) text: String,
    pub(super) children: Vec<Element>,
    /// The bytes of the file with both tags.
    pub(super) outer: Range<usize>,
    /// The bytes between the tags.
    pub(super) inner: Range<usize>,
}

/// What is a tag inside of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing is a tag.
    Text,
    /// Only these names are tags.
    Only(&'static [&'static str]),
    /// Everything that looks like a tag and has an end is one.
    Any,
}

/// Says what is a tag inside of an element with this name, which is inside of an element with this content.
pub(super) type ContentRule = fn(&str, Content) -> Content;

impl Element {
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.trim().is_empty())
    }

    /// Returns the first child with this name.
    pub(super) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    pub(super) fn children_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }
}

/// Reads the elements in a byte range of the file's text as children of a nameless element, which is returned. Reports
/// unmatched tags; elements that are not closed end with their parent.
pub(super) fn read_elements(
    text: &str,
    range: Range<usize>,
    (content, rule): (Content, ContentRule),
    diagnostics: &mut Diagnostics<'_>,
) -> Element {
    let mut scanner = Scanner::new(text, range.clone());
    let root = Element {
        name: String::new(),
        location: diagnostics.location_of(range.start),
        attributes: Vec::new(),
        text: String::new(),
        children: Vec::new(),
        outer: range.clone(),
        inner: range.clone(),
    };
    let mut open = vec![(root, content)];
    let mut count = 0;
    while let Some(token) = scanner.next(&open) {
        match token {
            XmlToken::Text(text) => push_text(&mut open, &text),
            XmlToken::Open { name, attributes, outer, closed } => {
                count += 1;
                let location = diagnostics.location_of(outer.start);
                if let Some(unread) = &attributes.unread {
                    let message = format!("<{name}>: {} is no attribute", quote(unread));
                    diagnostics.error_with_hint(location, message, "write each as name=\"value\"");
                }
                if open.len() >= DEPTH_MAX || count > ELEMENTS_MAX {
                    diagnostics.error(location, "there are more tags than are read");
                    break;
                }
                let content = rule(&name, open.last().map_or(Content::Any, |(_, content)| *content));
                let (attributes, inner) = (attributes.read, outer.end..outer.end);
                let (text, children) = (String::new(), Vec::new());
                let element = Element { name, location, attributes, text, children, outer, inner };
                open.push((element, content));
                let is_complete = closed || content == Content::Text;
                if !closed && content == Content::Text {
                    scanner.read_raw(&mut open, diagnostics);
                }
                if is_complete {
                    close(&mut open);
                }
            }
            XmlToken::Close { name, tag } => close_named(&mut open, &name, tag, diagnostics),
        }
    }
    while open.len() > 1 {
        if let Some((element, _)) = open.last_mut() {
            diagnostics.error(element.location, format!("<{}> is not closed", element.name));
            (element.inner.end, element.outer.end) = (range.end, range.end);
        }
        close(&mut open);
    }
    open.pop().expect("the outermost element is never closed").0
}

/// Closes the innermost element with this name, and those in it.
fn close_named(
    open: &mut Vec<(Element, Content)>,
    name: &str,
    tag: Range<usize>,
    diagnostics: &mut Diagnostics<'_>,
) {
    let Some(depth) = open.iter().rposition(|(element, _)| element.name == name) else {
        diagnostics.error(diagnostics.location_of(tag.start), format!("</{name}> closes nothing"));
        return;
    };
    while open.len() > depth + 1 {
        if let Some((element, _)) = open.last_mut() {
            let message = format!("<{}> is not closed before </{name}>", element.name);
            diagnostics.error(element.location, message);
            (element.inner.end, element.outer.end) = (tag.start, tag.start);
        }
        close(open);
    }
    if let Some((element, _)) = open.last_mut() {
        (element.inner.end, element.outer.end) = (tag.start, tag.end);
    }
    close(open);
}

/// Moves the innermost element into its parent.
fn close(open: &mut Vec<(Element, Content)>) {
    let Some((mut element, _)) = open.pop() else { return };
    element.text = element.text.trim().to_owned();
    if let Some((parent, _)) = open.last_mut() {
        parent.children.push(element);
    }
}

fn push_text(open: &mut [(Element, Content)], text: &str) {
    if let Some((element, _)) = open.last_mut() {
        element.text.push_str(text);
    }
}

enum XmlToken {
    Text(String),
    Open { name: String, attributes: Attributes, outer: Range<usize>, closed: bool },
    Close { name: String, tag: Range<usize> },
}

struct Attributes {
    read: Vec<(String, String)>,
    /// The text where parsing stopped too early.
    unread: Option<String>,
}

struct Scanner<'a> {
    /// The file up to the end of the range, so that offsets are those of the file.
    text: &'a str,
    at: usize,
    /// The names in closing tags.
    closing: BTreeSet<&'a str>,
    /// Where the elements of one name end, by the end of their opening tags. Computed once for each name: a file may
    /// consist of tags.
    ends: BTreeMap<String, BTreeMap<usize, usize>>,
    start: usize,
    /// The last ends of a comment and of CDATA: searching for an end that does not exist would take quadratic time.
    comments_end: usize,
    cdata_end: usize,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str, range: Range<usize>) -> Self {
        let within = &text[range.clone()];
        let names = within.match_indices("</").map(|(at, _)| name_at(&within[at + 2..]));
        let closing = names.filter(|name| !name.is_empty()).collect();
        let last = |end: &str| within.rfind(end).map_or(0, |at| range.start + at);
        let (comments_end, cdata_end) = (last("-->"), last("]]>"));
        let (at, start, ends) = (range.start, range.start, BTreeMap::new());
        Self { text: &text[..range.end], at, closing, ends, start, comments_end, cdata_end }
    }

    fn next(&mut self, open: &[(Element, Content)]) -> Option<XmlToken> {
        let rest = &self.text[self.at..];
        if rest.is_empty() {
            return None;
        }
        // One that has no end is text, so that it hides no tag.
        if rest.starts_with("<![CDATA[") && self.at + 9 <= self.cdata_end {
            let length = rest[9..].find("]]>").unwrap_or(rest.len() - 9);
            self.at += (9 + length + 3).min(rest.len());
            return Some(XmlToken::Text(rest[9..9 + length].to_owned()));
        }
        if rest.starts_with("<!--") && self.at + 4 <= self.comments_end {
            self.at += rest[4..].find("-->").map_or(rest.len(), |end| 4 + end + 3);
            return Some(XmlToken::Text(String::new()));
        }
        if let Some(token) = self.read_tag(open) {
            return Some(token);
        }
        let next = rest.match_indices('<').map(|(at, _)| at).find(|at| *at > 0).unwrap_or(rest.len());
        self.at += next;
        Some(XmlToken::Text(unescape(&rest[..next])))
    }

    /// Reads a tag that is one inside of the open elements.
    fn read_tag(&mut self, open: &[(Element, Content)]) -> Option<XmlToken> {
        let body = self.text[self.at..].strip_prefix('<')?;
        let (closing, body) = body.strip_prefix('/').map_or((false, body), |body| (true, body));
        let name = name_at(body);
        let after = &body[name.len()..];
        let content = open.last().map_or(Content::Any, |(_, content)| *content);
        let end = tag_end(after)?;
        let inside = &after[..end];
        let is_tag = match content {
            Content::Text => false,
            Content::Only(names) => {
                names.contains(&name) || closing && open.iter().any(|(element, _)| element.name == name)
            }
            Content::Any if closing => open.iter().any(|(element, _)| element.name == name),
            Content::Any => inside.ends_with('/') || self.closing.contains(name),
        };
        if name.is_empty() || !is_tag {
            return None;
        }
        let tag = self.at..self.text.len() - after.len() + end + 1;
        self.at = tag.end;
        let name = name.to_owned();
        if closing {
            return Some(XmlToken::Close { name, tag });
        }
        let closed = inside.ends_with('/');
        let attributes = parse_attributes(inside.trim_end_matches('/'));
        Some(XmlToken::Open { name, attributes, outer: tag, closed })
    }

    /// Reads the text of the innermost element up to its end, and passes it.
    fn read_raw(&mut self, open: &mut [(Element, Content)], diagnostics: &mut Diagnostics<'_>) {
        let Some((element, _)) = open.last_mut() else { return };
        let ends = self
            .ends
            .entry(element.name.clone())
            .or_insert_with(|| ends_of(&self.text[self.start..], &element.name, self.start));
        let Some(end) = ends.get(&self.at).copied().filter(|end| *end >= self.at) else {
            diagnostics.error(element.location, format!("<{}> is not closed", element.name));
            return;
        };
        element.inner.end = end;
        element.text = plain_text(&self.text[self.at..end]);
        self.at = end + self.text[end..].find('>').map_or(0, |length| length + 1);
        element.outer.end = self.at;
    }
}

/// Returns where the elements of one name end, by the end of their opening tags. An element that contains another of
/// its name, as in a template, ends with its own closing tag; if there are too few of them, with the next one.
fn ends_of(text: &str, name: &str, offset: usize) -> BTreeMap<usize, usize> {
    let mut ends = BTreeMap::new();
    let mut open: Vec<usize> = Vec::new();
    let mut closings = Vec::new();
    let mut tag_end_at = 0;
    for (at, _) in text.match_indices('<') {
        let body = &text[at + 1..];
        let (closing, body) = body.strip_prefix('/').map_or((false, body), |body| (true, body));
        // An attribute may contain what looks like a tag.
        if at < tag_end_at || name_at(body) != name {
            continue;
        }
        let after = &body[name.len()..];
        let Some(end) = tag_end(after) else { continue };
        tag_end_at = text.len() - after.len() + end + 1;
        match closing {
            true => {
                closings.push(at + offset);
                open.pop().map(|opening| ends.insert(opening, at + offset));
            }
            false if after[..end].ends_with('/') => {}
            false => open.push(tag_end_at + offset),
        }
    }
    for opening in open {
        let next = closings.partition_point(|closing| *closing < opening);
        closings.get(next).map(|closing| ends.insert(opening, *closing));
    }
    ends
}

/// Returns the text of an element without comments, and with its entities replaced outside of CDATA.
pub(super) fn plain_text(source: &str) -> String {
    replace_markup(source, Comments::Drop)
}

/// Returns the same with its comments, which may be instructions.
pub(super) fn commented_text(source: &str) -> String {
    replace_markup(source, Comments::Retain)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comments {
    Drop,
    Retain,
}

fn replace_markup(source: &str, comments: Comments) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    // Without this bound each of many comments without an end would search for it in the rest.
    let comments_end = source.rfind("-->").unwrap_or(0);
    while let Some(at) = rest.find("<!") {
        let (before, marked) = rest.split_at(at);
        text.push_str(&unescape(before));
        if let Some(body) = marked.strip_prefix("<![CDATA[") {
            let length = body.find("]]>").unwrap_or(body.len());
            text.push_str(&body[..length]);
            rest = body.get(length + 3..).unwrap_or_default();
        } else if let Some(length) = marked
            .strip_prefix("<!--")
            .filter(|body| source.len() - body.len() <= comments_end)
            .and_then(|body| body.find("-->"))
        {
            let (comment, after) = marked.split_at(4 + length + 3);
            if comments == Comments::Retain {
                text.push_str(comment);
            }
            rest = after;
        } else {
            text.push_str("<!");
            rest = &marked[2..];
        }
    }
    text.push_str(&unescape(rest));
    text
}

/// Returns the attributes of the tag that a text begins with, and its length. `None` if it is not a whole tag, or has
/// something else than attributes in it.
pub(super) fn opening_tag(text: &str) -> Option<(Vec<(String, String)>, usize)> {
    let body = text.strip_prefix('<')?;
    let name = name_at(body);
    let after = &body[name.len()..];
    let end = tag_end(after)
        .filter(|_| after.starts_with(|letter: char| letter.is_whitespace() || letter == '>'))?;
    let attributes = parse_attributes(&after[..end]);
    attributes.unread.is_none().then_some((attributes.read, 1 + name.len() + end + 1))
}

/// Returns the name that a text begins with.
fn name_at(text: &str) -> &str {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let end = text.find(|letter: char| !is_name(letter)).unwrap_or(text.len());
    if text.starts_with(|letter: char| letter.is_ascii_alphabetic()) { &text[..end] } else { "" }
}

/// Returns the offset of the `>` of a tag, outside of quotation marks.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, letter) in domain::size::head(text, TAG_BYTES_MAX).char_indices() {
        match (quote, letter) {
            (None, '>') => return Some(at),
            (None, '<') => return None,
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            (None | Some(_), _) => {}
        }
    }
    None
}

fn parse_attributes(text: &str) -> Attributes {
    let mut read = Vec::new();
    let mut rest = text.trim();
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim();
        let after = after.trim_start();
        let Some(quote) = after.chars().next().filter(|letter| matches!(letter, '"' | '\'')) else { break };
        let Some((value, next)) = after[1..].split_once(quote) else { break };
        if name.is_empty() || name.contains(char::is_whitespace) {
            break;
        }
        read.push((name.to_owned(), unescape(value)));
        rest = next.trim_start();
    }
    let unread = rest.split_whitespace().next().map(ToOwned::to_owned);
    Attributes { read, unread }
}

fn unescape(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}
