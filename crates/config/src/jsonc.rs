//! Reads JSON, also with comments and a comma after the last item, as editors and vendors' programs accept it. The result
//! is a tree of positions in the text, so that errors have a location and an edit can keep every other byte.
//!
//! `jsonc-parser` reads the syntax, `serde_json` single values: it is stricter about texts and numbers.

use jsonc_parser::ast::Value as Parsed;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::errors::ParseErrorKind;
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{
    CollectOptions, CommentCollectionStrategy, ParseOptions, ParseStringErrorKind, parse_to_ast,
};
use serde_json::{Map, Value};

/// A limit that no file reaches that a person wrote.
const DEPTH_MAX: usize = 100;

const TOO_DEEP: &str = "it is nested too deeply";
const INVALID_TEXT: &str = "the text has an invalid escape or a control character";

/// The accepted syntax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonSyntax {
    Strict,
    /// With comments, and with a comma after the last item.
    Commented,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonShape {
    Object,
    Array,
    Scalar,
    /// The text has no value.
    Nothing,
}

/// A value and its position.
#[derive(Debug)]
pub struct JsonNode {
    pub value_kind: JsonShape,
    pub start: usize,
    pub end: usize,
    pub parts: Vec<JsonPart>,
    /// Where line comments directly within this value end.
    pub line_comment_ends: Vec<usize>,
}

/// A member of an object, or an item of a list.
#[derive(Debug)]
pub struct JsonPart {
    /// Where it begins: at its key, if it has one.
    pub start: usize,
    pub key: Option<String>,
    pub node: JsonNode,
    /// The position of the comma after it.
    pub comma: Option<usize>,
}

/// The first error in a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JsonSyntaxError {
    /// Its position in bytes.
    pub at: usize,
    pub message: String,
}

impl JsonSyntaxError {
    /// Returns the line and the column in characters, both from 1.
    pub fn location(&self, text: &str) -> (usize, usize) {
        let before = &text[..self.at];
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (before.matches('\n').count() + 1, column)
    }
}

impl JsonNode {
    pub fn is_nothing(&self) -> bool {
        self.value_kind == JsonShape::Nothing
    }

    /// Returns the index of the part with this key: the last one, as parsers do.
    pub fn find_key(&self, key: &str) -> Option<usize> {
        self.parts.iter().rposition(|part| part.key.as_deref() == Some(key))
    }

    /// Returns the parsed value; an empty object if there is none.
    pub fn value(&self, text: &str) -> Value {
        match self.value_kind {
            JsonShape::Nothing => Value::Object(Map::new()),
            JsonShape::Array => self.parts.iter().map(|part| part.node.value(text)).collect(),
            JsonShape::Object => {
                let members = self.parts.iter();
                let members =
                    members.map(|part| (part.key.clone().unwrap_or_default(), part.node.value(text)));
                Value::Object(members.collect())
            }
            JsonShape::Scalar => serde_json::from_str(&text[self.start..self.end]).unwrap_or(Value::Null),
        }
    }
}

/// Parses a text into a tree.
pub fn parse(text: &str, syntax: JsonSyntax) -> Result<JsonNode, JsonSyntaxError> {
    let lenient = syntax == JsonSyntax::Commented;
    let options = ParseOptions {
        allow_comments: lenient,
        allow_trailing_commas: lenient,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let collected = CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
    let parsed = parse_to_ast(text, &collected, &options).map_err(|error| {
        // The library points at the opening bracket of a value that does not end, and at the end of the value before a
        // missing comma.
        let start = error.range().start;
        let at = match error.kind() {
            ParseErrorKind::UnterminatedObject | ParseErrorKind::UnterminatedArray => text.len(),
            ParseErrorKind::ExpectedComma => text.len() - text[start..].trim_start().len(),
            _ => start,
        };
        JsonSyntaxError { at, message: describe(error.kind()).to_owned() }
    })?;
    let tokens = parsed.tokens.unwrap_or_default();
    match parsed.value {
        Some(value) => TreeBuilder { text, tokens: &tokens }.node(&value, 0),
        // The library leaves out comments before it looks for a value.
        None if !lenient && !text.trim().is_empty() => {
            let at = text.len() - text.trim_start().len();
            Err(JsonSyntaxError { at, message: describe(&ParseErrorKind::CommentsNotAllowed).to_owned() })
        }
        None => {
            let end = text.len();
            let line_comment_ends = line_comments(&tokens).map(|comment| comment.range.end).collect();
            Ok(JsonNode {
                value_kind: JsonShape::Nothing,
                start: end,
                end,
                parts: Vec::new(),
                line_comment_ends,
            })
        }
    }
}

fn describe(kind: &ParseErrorKind) -> &'static str {
    match kind {
        ParseErrorKind::UnterminatedObject | ParseErrorKind::UnterminatedArray => {
            "the closing bracket was expected"
        }
        ParseErrorKind::UnexpectedTokenInObject | ParseErrorKind::ExpectedStringObjectProperty => {
            "a key in double quotes was expected"
        }
        ParseErrorKind::ExpectedColonAfterObjectKey => "a colon was expected",
        ParseErrorKind::ExpectedComma => "a comma or the closing bracket was expected",
        ParseErrorKind::TrailingCommasNotAllowed => "a comma after the last item is not allowed",
        ParseErrorKind::CommentsNotAllowed => "comments are not allowed",
        ParseErrorKind::UnterminatedCommentBlock => "this comment does not end",
        ParseErrorKind::MultipleRootJsonValues => "the end of the text was expected",
        ParseErrorKind::NestingDepthExceeded => TOO_DEEP,
        ParseErrorKind::String(ParseStringErrorKind::UnterminatedStringLiteral) => {
            "the text has no closing quotation mark"
        }
        ParseErrorKind::String(_) => INVALID_TEXT,
        _ => "a value was expected",
    }
}

/// Builds the tree from what the library found.
struct TreeBuilder<'a> {
    text: &'a str,
    /// In the order of the text, with comments.
    tokens: &'a [TokenAndRange<'a>],
}

impl TreeBuilder<'_> {
    fn node(&self, value: &Parsed<'_>, depth: usize) -> Result<JsonNode, JsonSyntaxError> {
        let (start, end) = (value.start(), value.end());
        if depth > DEPTH_MAX {
            return Err(JsonSyntaxError { at: start, message: TOO_DEEP.to_owned() });
        }
        let (value_kind, parts) = match value {
            Parsed::Object(object) => {
                let members = object.properties.iter().map(|member| {
                    let key = self.scalar::<String>(member.name.start(), member.name.end())?;
                    self.part(member.start(), Some(key), &member.value, depth)
                });
                (JsonShape::Object, members.collect::<Result<Vec<_>, _>>()?)
            }
            Parsed::Array(array) => {
                let items = array.elements.iter().map(|item| self.part(item.start(), None, item, depth));
                (JsonShape::Array, items.collect::<Result<Vec<_>, _>>()?)
            }
            Parsed::StringLit(_) | Parsed::NumberLit(_) | Parsed::BooleanLit(_) | Parsed::NullKeyword(_) => {
                self.scalar::<Value>(start, end)?;
                (JsonShape::Scalar, Vec::new())
            }
        };
        let line_comment_ends = self.own_line_comments(start, end, &parts);
        Ok(JsonNode { value_kind, start, end, parts, line_comment_ends })
    }

    fn part(
        &self,
        start: usize,
        key: Option<String>,
        value: &Parsed<'_>,
        depth: usize,
    ) -> Result<JsonPart, JsonSyntaxError> {
        let node = self.node(value, depth + 1)?;
        let comma = self.comma_after(node.end);
        Ok(JsonPart { start, key, node, comma })
    }

    fn scalar<T: serde::de::DeserializeOwned>(&self, start: usize, end: usize) -> Result<T, JsonSyntaxError> {
        let scalar = &self.text[start..end];
        serde_json::from_str(scalar).map_err(|_| {
            let message = if scalar.starts_with('"') { INVALID_TEXT } else { "the number is too large" };
            JsonSyntaxError { at: start, message: message.to_owned() }
        })
    }

    /// Returns the position of the comma that follows, if one does.
    fn comma_after(&self, end: usize) -> Option<usize> {
        let next = self.tokens.partition_point(|token| token.range.start < end);
        let mut following = self.tokens[next..].iter();
        let token =
            following.find(|next| !matches!(next.token, Token::CommentLine(_) | Token::CommentBlock(_)))?;
        (token.token == Token::Comma).then_some(token.range.start)
    }

    /// Returns the ends of the line comments within a value, except those within its parts.
    fn own_line_comments(&self, start: usize, end: usize, parts: &[JsonPart]) -> Vec<usize> {
        let first = self.tokens.partition_point(|token| token.range.start < start);
        let last = self.tokens.partition_point(|token| token.range.start < end);
        let is_own = |at: usize| {
            let before = parts.partition_point(|part| part.node.start < at);
            before.checked_sub(1).is_none_or(|part| parts[part].node.end < at)
        };
        let comments = line_comments(&self.tokens[first..last]).map(|comment| comment.range);
        comments.filter(|range| is_own(range.start)).map(|range| range.end).collect()
    }
}

fn line_comments<'a>(tokens: &'a [TokenAndRange<'a>]) -> impl Iterator<Item = &'a TokenAndRange<'a>> {
    tokens.iter().filter(|token| matches!(token.token, Token::CommentLine(_)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn value(text: &str, syntax: JsonSyntax) -> Option<Value> {
        parse(text, syntax).ok().map(|tree| tree.value(text))
    }

    #[test]
    fn comments_and_commas_are_read_where_they_are_allowed() {
        let text =
            "{ // one\n \"a\": \"x // no, \\\" /* y */\", /* two\n */ \"mcp\": {\"s\": [1, 2,], }, }\n";
        let expected = json!({"a": "x // no, \" /* y */", "mcp": {"s": [1, 2]}});
        assert_eq!(value(text, JsonSyntax::Commented), Some(expected));
        assert_eq!(value(text, JsonSyntax::Strict), None);
        assert_eq!(value("[1,]", JsonSyntax::Strict), None);
        assert_eq!(value("// only this", JsonSyntax::Commented), Some(json!({})));
        assert_eq!(value("// only this", JsonSyntax::Strict), None);
    }

    #[test]
    fn other_leniencies_are_errors_with_a_location() {
        for (text, at) in [
            ("{a: 1}", 1),
            ("{\"a\": 'x'}", 6),
            ("[1 2]", 3),
            ("[0x1]", 1),
            ("[+1]", 1),
            ("[.5]", 1),
            ("[NaN]", 1),
            ("[\"\\x41\"]", 2),
            ("[\"a\nb\"]", 1),
            ("{\n  \"a\": 1 /* open", 11),
            ("{} {}", 3),
        ] {
            let error = parse(text, JsonSyntax::Commented).unwrap_err();
            assert_eq!(error.at, at, "{text}: {error}");
        }
        let text = "{\n  \"ä\": oops}";
        assert_eq!(parse(text, JsonSyntax::Commented).unwrap_err().location(text), (2, 8));
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(&nested(DEPTH_MAX), JsonSyntax::Strict).is_ok());
        assert!(parse(&nested(DEPTH_MAX + 2), JsonSyntax::Strict).is_err());
        assert!(parse(&nested(100_000), JsonSyntax::Strict).is_err());
    }

    proptest! {
        #[test]
        fn strict_syntax_is_that_of_serde_json(text in "[\\[\\]{},:\"/*\\\\ a1.e\n-]{0,40}") {
            if !text.trim().is_empty() {
                let expected = serde_json::from_str::<Value>(&text).ok();
                prop_assert_eq!(value(&text, JsonSyntax::Strict), expected.clone());
                if expected.is_some() {
                    prop_assert_eq!(value(&text, JsonSyntax::Commented), expected);
                }
            }
        }

        #[test]
        fn positions_are_those_of_the_values(text in "[\\[\\]{},:\"/*\\\\ a1\n]{0,60}") {
            if let Ok(tree) = parse(&text, JsonSyntax::Commented) {
                check_positions(&tree, &text);
            }
        }
    }

    fn check_positions(node: &JsonNode, text: &str) {
        for part in &node.parts {
            assert!(node.start < part.start && part.node.end < node.end, "{text}");
            assert!(part.comma.is_none_or(|comma| text.as_bytes()[comma] == b','), "{text}");
            check_positions(&part.node, text);
        }
    }
}
