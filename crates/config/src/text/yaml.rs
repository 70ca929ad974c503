//! YAML text to the tree, with budgets against alias bombs. Nothing else in the crate uses the YAML library.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Location, Options, Spanned, UserMessageFormatter};

use super::yaml_repair::{quote_lines, quote_scalar};
use super::{Diagnostics, MapEntry, Node, NodeValue, SourceLocation, quote};
use crate::yaml::YamlError;

/// The most broken scalars that are repaired.
const QUOTED_MAX: usize = 16;
/// A limit that no hand-written file reaches: a rehearsal may have ten thousand steps.
const NODES_MAX: usize = 50_000;
/// How many values aliases may repeat in all.
const REPEATED_MAX: usize = 2_000;
/// Each level costs the reader of the library some kilobytes of a stack that may have two megabytes.
const DEPTH_MAX: usize = 32;
const SCALAR_BYTES_MAX: usize = 4 << 20;

/// A YAML text, possibly a part of its file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct YamlText<'a> {
    pub(crate) text: &'a str,
    /// The number of lines of the file before it.
    pub(crate) lines_before: u32,
}

/// Returns the tree of a YAML text, or `None` after an error. A top-level scalar that is not valid YAML, such as
/// `description: Use when: x`, is read as if it were in quotes, with a warning.
pub(crate) fn read_yaml(yaml: YamlText<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<Node> {
    let first_error = match parse(yaml.text) {
        Ok(tree) => return Some(yaml.node(tree)),
        Err(error) => error,
    };
    let mut text = yaml.text.to_owned();
    let mut error_line = repairable_line(&first_error);
    let mut quoted_keys = Vec::new();
    for _ in 0..QUOTED_MAX {
        let Some(scalar) = error_line.and_then(|line| quote_scalar(&text, line)) else { break };
        text = scalar.text;
        quoted_keys.push((scalar.key, scalar.line));
        match parse(&text) {
            Ok(tree) => {
                for (key, line) in quoted_keys {
                    let location = yaml.location(line, 1);
                    let message =
                        format!("the value of {} is not valid YAML and is read as text", quote(&key));
                    diagnostics.warning_with_hint(location, message, "put the value in quotes");
                }
                return Some(yaml.node(tree));
            }
            Err(error) => error_line = repairable_line(&error),
        }
    }
    if let Some(node) = repairable_line(&first_error).and_then(|_| read_quoted_lines(yaml, diagnostics)) {
        return Some(node);
    }
    let location = first_error.location().map_or(yaml.location(1, 1), |location| yaml.location_at(location));
    match exceeded_limit(innermost(&first_error)) {
        Some((limit, hint)) => diagnostics.error_with_hint(location, format!("the YAML {limit}"), hint),
        None if has_unquoted_colon(yaml.text, &first_error) => {
            let text = format!("not valid YAML: {}", message(&first_error));
            diagnostics.error_with_hint(location, text, "put text with a colon in quotes");
        }
        None => diagnostics.error(location, format!("not valid YAML: {}", message(&first_error))),
    }
    None
}

/// Returns whether the value in the line of an error contains text that YAML reads as another key.
fn has_unquoted_colon(text: &str, error: &Error) -> bool {
    let index = error.location().and_then(|location| usize::try_from(location.line()).ok()?.checked_sub(1));
    let line = index.and_then(|index| text.lines().nth(index)).unwrap_or_default();
    line.split_once(": ")
        .is_some_and(|(_, value)| value.contains(": ") && !value.starts_with(['"', '\'', '[', '{']))
}

/// Reads an invalid text as Claude Code does: with quotes around one-line values, and blanks for tabs.
fn read_quoted_lines(yaml: YamlText<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<Node> {
    /// Keys whose value may become a text without giving an agent more rights. A list of denied tools without its
    /// closing bracket must not become a text that denies nothing.
    const MAY_BE_TEXT: [&str; 12] = [
        "argument-hint",
        "author",
        "category",
        "color",
        "description",
        "model",
        "name",
        "tags",
        "title",
        "tools",
        "version",
        "when_to_use",
    ];
    let (text, changed) = quote_lines(yaml.text);
    if !changed.iter().all(|(key, _)| MAY_BE_TEXT.contains(&key.as_str())) {
        return None;
    }
    let node = yaml.node(parse(&text).ok()?);
    for (key, line) in &changed {
        let message = format!("the value of {} is read as text, because the YAML is not valid", quote(key));
        diagnostics.warning_with_hint(yaml.location(*line, 1), message, "put the value in quotes");
    }
    if let Some(row) = yaml.text.lines().position(|line| line.starts_with('\t')) {
        let line = u32::try_from(row + 1).unwrap_or(u32::MAX);
        let message = "YAML does not allow a tab at the beginning of a line; it is read as two blanks";
        diagnostics.warning(yaml.location(line, 1), message);
    }
    Some(node)
}

/// Returns the tree of a YAML text without repairs; `None` if it is not valid.
pub(crate) fn strict_yaml(text: &str) -> Option<Node> {
    let yaml = YamlText { text, lines_before: 0 };
    parse(text).ok().map(|tree| yaml.node(tree))
}

/// Returns the tree of a YAML text without repairs, or its error.
pub(crate) fn strict_yaml_or_error(text: &str) -> Result<Node, YamlError> {
    let yaml = YamlText { text, lines_before: 0 };
    match parse(text) {
        Ok(tree) => Ok(yaml.node(tree)),
        Err(error) => {
            let location =
                error.location().map_or(yaml.location(1, 1), |location| yaml.location_at(location));
            let limit = exceeded_limit(innermost(&error));
            let message = limit.map_or_else(|| message(&error), |(limit, _)| format!("the YAML {limit}"));
            Err(YamlError { line: location.line as usize, column: location.column as usize, message })
        }
    }
}

impl YamlText<'_> {
    fn location(&self, line: u32, column: u32) -> SourceLocation {
        SourceLocation { line: self.lines_before.saturating_add(line.max(1)), column: column.max(1) }
    }

    fn location_at(&self, location: Location) -> SourceLocation {
        let number = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        self.location(number(location.line()), number(location.column()))
    }

    fn location_of_spanned<T>(&self, spanned: &Spanned<T>) -> SourceLocation {
        // The location of an alias is that of its use, not of its definition.
        let used = spanned.referenced;
        self.location_at(if used == Location::UNKNOWN { spanned.defined } else { used })
    }

    fn node(&self, tree: Spanned<YamlTree>) -> Node {
        let location = self.location_of_spanned(&tree);
        let value = match tree.value {
            YamlTree::Nothing => NodeValue::Null,
            YamlTree::Truth(truth) => NodeValue::Bool(truth),
            YamlTree::Integer(number) => NodeValue::Integer(number),
            YamlTree::Number(number) => NodeValue::Float(number),
            YamlTree::Text(text) => NodeValue::String(text),
            YamlTree::List(items) => NodeValue::List(items.into_iter().map(|item| self.node(item)).collect()),
            YamlTree::Map(entries) => NodeValue::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| {
                        let location = self.location_of_spanned(&key);
                        MapEntry { key: key.value, location, node: self.node(value) }
                    })
                    .collect(),
            ),
        };
        Node { location, value }
    }
}

fn parse(text: &str) -> Result<Spanned<YamlTree>, Error> {
    let options: Options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: NODES_MAX,
            max_events: 4 * NODES_MAX,
            max_depth: DEPTH_MAX,
            max_aliases: REPEATED_MAX,
            max_anchors: REPEATED_MAX,
            max_recorded_anchor_events: 4 * NODES_MAX,
            max_merge_keys: REPEATED_MAX,
            max_total_scalar_bytes: SCALAR_BYTES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: REPEATED_MAX },
        // Both values reach `Fields`, which reports every duplicate of the file and not only the first.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
}

/// Returns the line of a syntax error. Exceeding a budget does not count: quotes must not let an alias bomb through.
fn repairable_line(error: &Error) -> Option<u32> {
    let error = error.without_snippet();
    let syntax =
        matches!(error, Error::Message { .. } | Error::ExternalMessage { .. } | Error::UnknownAnchor { .. });
    let line = error.location().and_then(|location| u32::try_from(location.line()).ok());
    line.filter(|_| syntax)
}

/// Returns the error behind an alias error.
fn innermost(error: &Error) -> &Error {
    match error.without_snippet() {
        Error::AliasError { error, .. } => innermost(error),
        error => error,
    }
}

/// Describes the limit that a text exceeds, with a hint.
fn exceeded_limit(error: &Error) -> Option<(String, &'static str)> {
    let repeats = || {
        let limit = format!("repeats more than {REPEATED_MAX} values by its aliases");
        Some((limit, "write the values where they are needed, instead of *names of others"))
    };
    let breach = match error {
        Error::Budget { breach, .. } => breach,
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => return repeats(),
        _ => return None,
    };
    match breach {
        BudgetBreach::Depth { .. } => {
            Some((format!("is nested more than {DEPTH_MAX} deep"), "a definition needs a few levels only"))
        }
        BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
            Some((format!("has more than {NODES_MAX} values"), "a definition needs a few dozen only"))
        }
        BudgetBreach::ScalarBytes { .. } => {
            let limit = format!("has texts of more than {SCALAR_BYTES_MAX} bytes");
            Some((limit, "put long texts below the frontmatter, or into a file of their own"))
        }
        BudgetBreach::Documents { .. } => {
            Some(("has too many parts".to_owned(), "remove the lines with only ---"))
        }
        // All other budgets are about anchors, aliases and merge keys.
        _ => repeats(),
    }
}

/// Returns the library's message without its own "at line …", which ignores the lines before the YAML.
fn message(error: &Error) -> String {
    let rendered = innermost(error).render_with_formatter(&UserMessageFormatter);
    match rendered.rfind(" at line ") {
        Some(at) => rendered[..at].to_owned(),
        None => rendered,
    }
}

/// The library's tree, before locations are added.
#[derive(Debug)]
enum YamlTree {
    Nothing,
    Truth(bool),
    Integer(i128),
    Number(f64),
    Text(String),
    List(Vec<Spanned<YamlTree>>),
    Map(Vec<(Spanned<String>, Spanned<YamlTree>)>),
}

impl<'de> Deserialize<'de> for YamlTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(YamlTreeVisitor)
    }
}

struct YamlTreeVisitor;

impl<'de> Visitor<'de> for YamlTreeVisitor {
    type Value = YamlTree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<YamlTree, E> {
        Ok(YamlTree::Nothing)
    }

    fn visit_none<E>(self) -> Result<YamlTree, E> {
        Ok(YamlTree::Nothing)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<YamlTree, E> {
        Ok(YamlTree::Truth(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<YamlTree, E> {
        Ok(YamlTree::Integer(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<YamlTree, E> {
        Ok(YamlTree::Integer(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<YamlTree, E> {
        Ok(YamlTree::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<YamlTree, E> {
        Ok(YamlTree::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<YamlTree, E> {
        Ok(YamlTree::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<YamlTree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(YamlTree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<YamlTree, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(YamlTree::Map(map))
    }
}
