//! JSON text to the tree. The library that reads JSON elsewhere does not tell where a value stands, so the walk
//! over the text is done here; single values are left to the library.

use super::{Entry, Findings, Node, Place, Shape};

/// Deeper than this nobody writes by hand.
const DEPTH_MAX: usize = 100;

/// Which texts are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Grammar {
    Strict,
    /// With comments, and with a comma after the last item, as editors' settings have it.
    Commented,
}

/// Returns the tree of a JSON text, or `None` after reporting the first place that is no valid JSON.
pub(crate) fn read_json(text: &str, findings: &mut Findings<'_>) -> Option<Node> {
    read(text, Grammar::Strict, findings)
}

/// Returns the tree of a JSON text that may have comments and a comma after the last item.
pub(crate) fn read_commented_json(text: &str, findings: &mut Findings<'_>) -> Option<Node> {
    read(text, Grammar::Commented, findings)
}

fn read(text: &str, grammar: Grammar, findings: &mut Findings<'_>) -> Option<Node> {
    let mut parser = Parser { text, at: 0, grammar, findings };
    let parsed = parser.value(0).and_then(|node| {
        parser.skip_space();
        if parser.at < text.len() { Err(parser.wrong("expected the end of the file")) } else { Ok(node) }
    });
    match parsed {
        Ok(node) => Some(node),
        Err(Wrong { at, message }) => {
            let place = findings.place_of(at);
            findings.error(place, format!("not valid JSON: {message}"));
            None
        }
    }
}

struct Wrong {
    at: usize,
    message: &'static str,
}

struct Parser<'a, 'b, 'c> {
    text: &'a str,
    at: usize,
    grammar: Grammar,
    findings: &'b Findings<'c>,
}

impl Parser<'_, '_, '_> {
    fn wrong(&self, message: &'static str) -> Wrong {
        Wrong { at: self.at, message }
    }

    fn place(&self) -> Place {
        self.findings.place_of(self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(b'/') if self.grammar == Grammar::Commented => match self.comment_bytes() {
                    Some(bytes) => self.at += bytes,
                    None => return,
                },
                Some(_) | None => return,
            }
        }
    }

    /// Returns the length of the comment that begins here.
    fn comment_bytes(&self) -> Option<usize> {
        let rest = &self.text[self.at..];
        match rest.as_bytes().get(1)? {
            b'/' => Some(rest.find('\n').unwrap_or(rest.len())),
            b'*' => rest.find("*/").map(|end| end + 2),
            _ => None,
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Wrong> {
        self.skip_space();
        if depth > DEPTH_MAX {
            return Err(self.wrong("it is nested too deeply"));
        }
        let place = self.place();
        let shape = match self.peek() {
            Some(b'{') => Shape::Map(self.map(depth)?),
            Some(b'[') => Shape::List(self.list(depth)?),
            Some(b'"') => Shape::Text(self.string()?),
            Some(_) => self.scalar()?,
            None => return Err(self.wrong("expected a value, found the end of the file")),
        };
        Ok(Node { place, shape })
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry>, Wrong> {
        let mut entries = Vec::new();
        self.at += 1;
        loop {
            self.skip_space();
            if (entries.is_empty() || self.grammar == Grammar::Commented) && self.peek() == Some(b'}') {
                break;
            }
            let place = self.place();
            if self.peek() != Some(b'"') {
                return Err(self.wrong("expected a key in quotation marks"));
            }
            let key = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.wrong("expected ':' after the key"));
            }
            self.at += 1;
            entries.push(Entry { key, place, node: self.value(depth + 1)? });
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                Some(_) | None => return Err(self.wrong("expected ',' or '}'")),
            }
        }
        self.at += 1;
        Ok(entries)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Wrong> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.skip_space();
            if (items.is_empty() || self.grammar == Grammar::Commented) && self.peek() == Some(b']') {
                break;
            }
            items.push(self.value(depth + 1)?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                Some(_) | None => return Err(self.wrong("expected ',' or ']'")),
            }
        }
        self.at += 1;
        Ok(items)
    }

    fn string(&mut self) -> Result<String, Wrong> {
        let bytes = self.text.as_bytes();
        let mut end = self.at + 1;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(b'\n') | None => return Err(self.wrong("the text has no closing quotation mark")),
                Some(_) => end += 1,
            }
        }
        let Some(quoted) = self.text.get(self.at..=end) else {
            return Err(self.wrong("the text has an invalid escape"));
        };
        let text = serde_json::from_str(quoted)
            .map_err(|_| self.wrong("the text has an invalid escape or a control character"))?;
        self.at = end + 1;
        Ok(text)
    }

    fn scalar(&mut self) -> Result<Shape, Wrong> {
        let rest = &self.text[self.at..];
        let end = rest.find([',', ']', '}', ' ', '\t', '\n', '\r', ':', '"', '/']).unwrap_or(rest.len());
        let value: serde_json::Value =
            serde_json::from_str(&rest[..end]).map_err(|_| self.wrong("expected a value"))?;
        let shape = match value {
            serde_json::Value::Null => Shape::Nothing,
            serde_json::Value::Bool(truth) => Shape::Truth(truth),
            serde_json::Value::Number(number) => match (number.as_i128(), number.as_f64()) {
                (Some(number), _) => Shape::Integer(number),
                (None, Some(number)) => Shape::Number(number),
                (None, None) => return Err(self.wrong("the number is too large")),
            },
            serde_json::Value::String(_) | serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
                return Err(self.wrong("expected a value"));
            }
        };
        self.at += end;
        Ok(shape)
    }
}
