//! TOML text to the tree. The parser recovers from errors, so all errors of syntax are reported at once; what it
//! recovered is not used, because half a command is not the command that somebody wrote.

use std::collections::BTreeSet;

use ::toml::Spanned;
use ::toml::de::{DeInteger, DeTable, DeValue};

use super::{Entry, Findings, Node, Place, Shape};

/// Returns the tree of a TOML text, or `None` after reporting what is no valid TOML.
pub(crate) fn read_toml(text: &str, findings: &mut Findings<'_>) -> Option<Node> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let valid = errors.is_empty();
    let mut reported: BTreeSet<(u32, String)> = BTreeSet::new();
    for error in errors {
        let place = error.span().map_or(Place::START, |span| findings.place_of(span.start));
        // What goes too deep is reported anew for each level that follows.
        if reported.insert((place.line, error.message().to_owned())) {
            findings.error(place, format!("not valid TOML: {}", error.message()));
        }
    }
    let document = Some(document).filter(|_| valid)?;
    Some(Node { place: Place::START, shape: Shape::Map(entries(document.get_ref(), findings)) })
}

fn entries(table: &DeTable<'_>, findings: &Findings<'_>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            place: findings.place_of(key.span().start),
            node: node(value, findings),
        })
        .collect();
    entries.sort_by_key(|entry| entry.place);
    entries
}

fn node(value: &Spanned<DeValue<'_>>, findings: &Findings<'_>) -> Node {
    let shape = match value.get_ref() {
        DeValue::String(text) => Shape::Text(text.to_string()),
        DeValue::Integer(number) => integer(number),
        DeValue::Float(number) => number.as_str().parse().map_or(Shape::Nothing, Shape::Number),
        DeValue::Boolean(truth) => Shape::Truth(*truth),
        DeValue::Datetime(_) => Shape::Moment,
        DeValue::Array(items) => Shape::List(items.iter().map(|item| node(item, findings)).collect()),
        DeValue::Table(table) => Shape::Map(entries(table, findings)),
    };
    Node { place: findings.place_of(value.span().start), shape }
}

fn integer(number: &DeInteger<'_>) -> Shape {
    let digits = number.as_str();
    i128::from_str_radix(digits, number.radix())
        .map_or_else(|_| Shape::Text(digits.to_owned()), Shape::Integer)
}
