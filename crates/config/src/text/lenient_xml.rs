//! Tags in a text that is almost XML: people write `a && b` and `Vec<T>` between them. Only known names are tags;
//! everything else, and everything inside of a tag for free text, is text.

use super::{Diagnostics, SourceLocation, quote};

/// A limit that no hand-written file reaches.
const DEPTH_MAX: usize = 50;
/// A limit that no definition reaches.
const ELEMENTS_MAX: usize = 20_000;

/// One element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) location: SourceLocation,
    pub(crate) attributes: Vec<(String, String)>,
    /// The text between the tags, without that of elements within.
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
}

/// The names of tags.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vocabulary<'a> {
    pub(crate) names: &'a [&'a str],
    /// The names of elements with free text.
    pub(crate) raw: &'a [&'a str],
}

impl Element {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.trim().is_empty())
    }

    /// Returns the first child with this name.
    pub(crate) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    pub(crate) fn children_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }
}

/// Reads the element in a byte range of the file's text; reports unmatched tags, and returns the readable part.
pub(crate) fn read_tags(
    text: &str,
    range: std::ops::Range<usize>,
    vocabulary: Vocabulary<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Element> {
    let mut scanner = Scanner { text: &text[..range.end], at: range.start, vocabulary };
    let mut open: Vec<Element> = Vec::new();
    let mut count = 0;
    while let Some(token) = scanner.next() {
        match token {
            XmlToken::Text(text) => {
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&text);
                }
            }
            XmlToken::Open { name, attributes: Attributes { read: attributes, unread }, at, closed } => {
                count += 1;
                let location = diagnostics.location_of(at);
                if let Some(unread) = unread {
                    let message = format!("<{name}>: {} is no attribute", quote(&unread));
                    diagnostics.error_with_hint(location, message, "write each as name=\"value\"");
                }
                if open.len() >= DEPTH_MAX || count > ELEMENTS_MAX {
                    diagnostics.error(location, "there are more tags than are read");
                    return None;
                }
                let element =
                    Element { name, location, attributes, text: String::new(), children: Vec::new() };
                open.push(element);
                if closed && let Some(whole) = close(&mut open) {
                    return Some(whole);
                }
            }
            XmlToken::Close { name, at } => {
                let location = diagnostics.location_of(at);
                let Some(depth) = open.iter().rposition(|element| element.name == name) else {
                    diagnostics.error(location, format!("</{name}> closes nothing"));
                    continue;
                };
                while open.len() > depth + 1 {
                    if let Some(element) = open.last() {
                        let message = format!("<{}> is not closed before </{name}>", element.name);
                        diagnostics.error(element.location, message);
                    }
                    close(&mut open);
                }
                if let Some(whole) = close(&mut open) {
                    return Some(whole);
                }
            }
        }
    }
    match open.first() {
        Some(element) => diagnostics.error(element.location, format!("<{}> is not closed", element.name)),
        // The text at the start looked like a tag and was not a whole one.
        None => {
            diagnostics.error(diagnostics.location_of(range.start), "the tag that begins here is not whole")
        }
    }
    None
}

/// Closes the innermost element; returns it if it was the outermost too.
fn close(open: &mut Vec<Element>) -> Option<Element> {
    let mut element = open.pop()?;
    element.text = element.text.trim().to_owned();
    match open.last_mut() {
        Some(parent) => {
            parent.children.push(element);
            None
        }
        None => Some(element),
    }
}

enum XmlToken {
    Text(String),
    Open { name: String, attributes: Attributes, at: usize, closed: bool },
    Close { name: String, at: usize },
}

struct Attributes {
    read: Vec<(String, String)>,
    /// The text where parsing stopped too early.
    unread: Option<String>,
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    vocabulary: Vocabulary<'a>,
}

impl Scanner<'_> {
    fn next(&mut self) -> Option<XmlToken> {
        let rest = &self.text[self.at..];
        if rest.is_empty() {
            return None;
        }
        if let Some(body) = rest.strip_prefix("<![CDATA[") {
            let length = body.find("]]>").unwrap_or(body.len());
            self.at += (9 + length + 3).min(rest.len());
            return Some(XmlToken::Text(body[..length].to_owned()));
        }
        if let Some(body) = rest.strip_prefix("<!--") {
            let length = body.find("-->").map_or(rest.len(), |end| 4 + end + 3);
            self.at += length;
            return Some(XmlToken::Text(String::new()));
        }
        if let Some(token) = self.read_tag() {
            return Some(token);
        }
        let next = rest.match_indices('<').map(|(at, _)| at).find(|at| *at > 0).unwrap_or(rest.len());
        self.at += next;
        Some(XmlToken::Text(unescape(&rest[..next])))
    }

    /// Reads a tag whose name is known.
    fn read_tag(&mut self) -> Option<XmlToken> {
        let rest = &self.text[self.at..];
        let body = rest.strip_prefix('<')?;
        let (closing, body) = match body.strip_prefix('/') {
            Some(body) => (true, body),
            None => (false, body),
        };
        let name_end = body.find(|letter: char| !is_name(letter)).unwrap_or(body.len());
        let (name, after) = body.split_at(name_end);
        if !self.vocabulary.names.contains(&name) {
            return None;
        }
        let start = self.at;
        let end = tag_end(after)?;
        let inside = &after[..end];
        self.at = start + (rest.len() - after.len()) + end + 1;
        if closing {
            return Some(XmlToken::Close { name: name.to_owned(), at: start });
        }
        let closed = inside.ends_with('/');
        let attributes = parse_attributes(inside.trim_end_matches('/'));
        if self.vocabulary.raw.contains(&name) && !closed {
            return Some(self.skip_raw_element(name.to_owned(), attributes, start));
        }
        Some(XmlToken::Open { name: name.to_owned(), attributes, at: start, closed })
    }

    /// Skips an element of free text.
    fn skip_raw_element(&mut self, name: String, attributes: Attributes, start: usize) -> XmlToken {
        let end = format!("</{name}>");
        if let Some(length) = self.text[self.at..].find(&end) {
            self.at += length + end.len();
            return XmlToken::Open { name, attributes, at: start, closed: true };
        }
        XmlToken::Open { name, attributes, at: start, closed: false }
    }
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

/// Returns the offset of the `>` of a tag, outside of quotation marks.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
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
