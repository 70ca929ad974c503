//! YAML text to the tree, with budgets against alias bombs. Nothing else in the crate knows the YAML library.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Location, Options, Spanned, UserMessageFormatter};

use super::lenient::{quote_lines, quote_scalar};
use super::{Entry, Findings, Node, Place, Shape, quoted};
use crate::yaml::YamlError;

/// More broken scalars than this in one text are not a slip.
const QUOTED_MAX: usize = 16;
/// More values than this nobody writes by hand: a rehearsal may have ten thousand steps.
const NODES_MAX: usize = 50_000;
/// How many values aliases may repeat in all.
const REPEATED_MAX: usize = 2_000;
/// Each level costs the reader of the library some kilobytes of a stack that may have two megabytes.
const DEPTH_MAX: usize = 32;
const SCALAR_BYTES_MAX: usize = 4 << 20;

/// A YAML text that may be a part of its file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct YamlText<'a> {
    pub(crate) text: &'a str,
    /// How many lines of the file come before it.
    pub(crate) lines_before: u32,
}

/// Returns the tree of a YAML text, or `None` after an error. A top-level scalar that is no valid YAML, such
/// as `description: Use when: x`, is read as if it were in quotes, with a warning.
pub(crate) fn read_yaml(yaml: YamlText<'_>, findings: &mut Findings<'_>) -> Option<Node> {
    let first_error = match parse(yaml.text) {
        Ok(tree) => return Some(yaml.node(tree)),
        Err(error) => error,
    };
    let mut text = yaml.text.to_owned();
    let mut error_line = mendable_line(&first_error);
    let mut quoted_keys = Vec::new();
    for _ in 0..QUOTED_MAX {
        let Some(scalar) = error_line.and_then(|line| quote_scalar(&text, line)) else { break };
        text = scalar.text;
        quoted_keys.push((scalar.key, scalar.line));
        match parse(&text) {
            Ok(tree) => {
                for (key, line) in quoted_keys {
                    let place = yaml.place(line, 1);
                    let message =
                        format!("the value of {} is not valid YAML and is read as text", quoted(&key));
                    findings.warning_with_hint(place, message, "put the value in quotes");
                }
                return Some(yaml.node(tree));
            }
            Err(error) => error_line = mendable_line(&error),
        }
    }
    if let Some(node) = mendable_line(&first_error).and_then(|_| read_quoted_lines(yaml, findings)) {
        return Some(node);
    }
    let place = first_error.location().map_or(yaml.place(1, 1), |location| yaml.at(location));
    match passed_limit(innermost(&first_error)) {
        Some((limit, hint)) => findings.error_with_hint(place, format!("the YAML {limit}"), hint),
        None => findings.error(place, format!("not valid YAML: {}", message(&first_error))),
    }
    None
}

/// Reads a text as Claude Code reads one that is not valid: with values in quotes that stand in one line, and blanks for tabs.
fn read_quoted_lines(yaml: YamlText<'_>, findings: &mut Findings<'_>) -> Option<Node> {
    /// Keys whose value may become a text without giving an agent more. A list of denied tools that lost its end must not
    /// become a text that denies nothing.
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
        let message = format!("the value of {} is read as text, because the YAML is not valid", quoted(key));
        findings.warning_with_hint(yaml.place(*line, 1), message, "put the value in quotes");
    }
    if let Some(row) = yaml.text.lines().position(|line| line.starts_with('\t')) {
        let line = u32::try_from(row + 1).unwrap_or(u32::MAX);
        let message = "YAML does not allow a tab at the beginning of a line; it is read as two blanks";
        findings.warning(yaml.place(line, 1), message);
    }
    Some(node)
}

/// Returns the tree of a YAML text as it is written; nothing if it is not valid.
pub(crate) fn strict_yaml(text: &str) -> Option<Node> {
    let yaml = YamlText { text, lines_before: 0 };
    parse(text).ok().map(|tree| yaml.node(tree))
}

/// Returns the tree of a YAML text as it is written, or where and why it is not valid.
pub(crate) fn strict_yaml_or_error(text: &str) -> Result<Node, YamlError> {
    let yaml = YamlText { text, lines_before: 0 };
    match parse(text) {
        Ok(tree) => Ok(yaml.node(tree)),
        Err(error) => {
            let place = error.location().map_or(yaml.place(1, 1), |location| yaml.at(location));
            let limit = passed_limit(innermost(&error));
            let message = limit.map_or_else(|| message(&error), |(limit, _)| format!("the YAML {limit}"));
            Err(YamlError { line: place.line as usize, column: place.column as usize, message })
        }
    }
}

impl YamlText<'_> {
    fn place(&self, line: u32, column: u32) -> Place {
        Place { line: self.lines_before.saturating_add(line.max(1)), column: column.max(1) }
    }

    fn at(&self, location: Location) -> Place {
        let number = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        self.place(number(location.line()), number(location.column()))
    }

    fn spanned<T>(&self, spanned: &Spanned<T>) -> Place {
        // An alias stands where it is used; its content is defined elsewhere.
        let used = spanned.referenced;
        self.at(if used == Location::UNKNOWN { spanned.defined } else { used })
    }

    fn node(&self, tree: Spanned<Tree>) -> Node {
        let place = self.spanned(&tree);
        let shape = match tree.value {
            Tree::Nothing => Shape::Nothing,
            Tree::Truth(truth) => Shape::Truth(truth),
            Tree::Integer(number) => Shape::Integer(number),
            Tree::Number(number) => Shape::Number(number),
            Tree::Text(text) => Shape::Text(text),
            Tree::List(items) => Shape::List(items.into_iter().map(|item| self.node(item)).collect()),
            Tree::Map(entries) => Shape::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| {
                        let place = self.spanned(&key);
                        Entry { key: key.value, place, node: self.node(value) }
                    })
                    .collect(),
            ),
        };
        Node { place, shape }
    }
}

fn parse(text: &str) -> Result<Spanned<Tree>, Error> {
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

/// Returns the line of an error of syntax. Passing a budget is none: quotes must not let an alias bomb through.
fn mendable_line(error: &Error) -> Option<u32> {
    let error = error.without_snippet();
    let syntax =
        matches!(error, Error::Message { .. } | Error::ExternalMessage { .. } | Error::UnknownAnchor { .. });
    let line = error.location().and_then(|location| u32::try_from(location.line()).ok());
    line.filter(|_| syntax)
}

/// Returns the error that an alias only led to.
fn innermost(error: &Error) -> &Error {
    match error.without_snippet() {
        Error::AliasError { error, .. } => innermost(error),
        error => error,
    }
}

/// Returns in plain words which limit a text passes, and what to do about it.
fn passed_limit(error: &Error) -> Option<(String, &'static str)> {
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
        // Whatever else is counted is about anchors, aliases and merge keys.
        _ => repeats(),
    }
}

/// Returns the library's words without its own "at line …", which would miss the lines before.
fn message(error: &Error) -> String {
    let rendered = innermost(error).render_with_formatter(&UserMessageFormatter);
    match rendered.rfind(" at line ") {
        Some(at) => rendered[..at].to_owned(),
        None => rendered,
    }
}

/// What the library hands over, before places are put in.
#[derive(Debug)]
enum Tree {
    Nothing,
    Truth(bool),
    Integer(i128),
    Number(f64),
    Text(String),
    List(Vec<Spanned<Tree>>),
    Map(Vec<(Spanned<String>, Spanned<Tree>)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Nothing)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Nothing)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Tree, E> {
        Ok(Tree::Truth(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Integer(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Integer(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Tree, E> {
        Ok(Tree::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Tree::Map(map))
    }
}
