//! TOML text to the tree. The parser recovers from errors, so all syntax errors are reported at once. The recovered
//! part is not used, because half a command is not the command that somebody wrote.

use std::collections::BTreeSet;

use ::toml::Spanned;
use ::toml::de::{DeInteger, DeTable, DeValue};

use super::{Diagnostics, MapEntry, Node, NodeValue, SourceLocation};

/// Returns the tree of a TOML text, or `None` after reporting syntax errors.
pub(crate) fn read_toml(text: &str, diagnostics: &mut Diagnostics<'_>) -> Option<Node> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let valid = errors.is_empty();
    let mut reported: BTreeSet<(u32, String)> = BTreeSet::new();
    for error in errors {
        let location = error.span().map_or(SourceLocation::START, |span| diagnostics.location_of(span.start));
        // The parser reports excessive nesting again for each deeper level.
        if reported.insert((location.line, error.message().to_owned())) {
            diagnostics.error(location, format!("not valid TOML: {}", error.message()));
        }
    }
    let document = Some(document).filter(|_| valid)?;
    Some(Node {
        location: SourceLocation::START,
        value: NodeValue::Map(entries(document.get_ref(), diagnostics)),
    })
}

fn entries(table: &DeTable<'_>, diagnostics: &Diagnostics<'_>) -> Vec<MapEntry> {
    let mut entries: Vec<MapEntry> = table
        .iter()
        .map(|(key, value)| MapEntry {
            key: key.get_ref().to_string(),
            location: diagnostics.location_of(key.span().start),
            node: node(value, diagnostics),
        })
        .collect();
    entries.sort_by_key(|entry| entry.location);
    entries
}

fn node(spanned: &Spanned<DeValue<'_>>, diagnostics: &Diagnostics<'_>) -> Node {
    let value = match spanned.get_ref() {
        DeValue::String(text) => NodeValue::String(text.to_string()),
        DeValue::Integer(number) => integer(number),
        DeValue::Float(number) => number.as_str().parse().map_or(NodeValue::Null, NodeValue::Float),
        DeValue::Boolean(truth) => NodeValue::Bool(*truth),
        DeValue::Datetime(_) => NodeValue::DateTime,
        DeValue::Array(items) => NodeValue::List(items.iter().map(|item| node(item, diagnostics)).collect()),
        DeValue::Table(table) => NodeValue::Map(entries(table, diagnostics)),
    };
    Node { location: diagnostics.location_of(spanned.span().start), value }
}

fn integer(number: &DeInteger<'_>) -> NodeValue {
    let digits = number.as_str();
    i128::from_str_radix(digits, number.radix())
        .map_or_else(|_| NodeValue::String(digits.to_owned()), NodeValue::Integer)
}
