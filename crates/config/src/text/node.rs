//! The tree: values with their source locations.

/// A location in a file. Lines and columns count from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourceLocation {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl SourceLocation {
    pub(crate) const START: Self = Self { line: 1, column: 1 };
}

/// A value with its location.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) location: SourceLocation,
    pub(crate) value: NodeValue,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeValue {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    String(String),
    /// A TOML date or time, which no reader accepts.
    DateTime,
    List(Vec<Node>),
    Map(Vec<MapEntry>),
}

/// A key of a map with its value; keys may repeat until `Fields` reports it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MapEntry {
    pub(crate) key: String,
    pub(crate) location: SourceLocation,
    pub(crate) node: Node,
}

impl Node {
    /// Describes the value, to follow the word "found".
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            NodeValue::Null => "nothing".to_owned(),
            NodeValue::Bool(truth) => format!("the value {truth}"),
            NodeValue::Integer(number) => format!("the number {number}"),
            NodeValue::Float(number) => format!("the number {number}"),
            NodeValue::String(text) => format!("the text {}", super::quote(text)),
            NodeValue::DateTime => "a date or time".to_owned(),
            NodeValue::List(_) => "a list".to_owned(),
            NodeValue::Map(_) => "a map".to_owned(),
        }
    }

    /// Returns the value as JSON; `None` if it has a number or a date that JSON does not.
    pub(crate) fn to_json(&self) -> Option<serde_json::Value> {
        use serde_json::Value;
        let value = match &self.value {
            NodeValue::Null => Value::Null,
            NodeValue::Bool(truth) => Value::from(*truth),
            NodeValue::Integer(number) => Value::from(i64::try_from(*number).ok()?),
            NodeValue::Float(number) => Value::from(serde_json::Number::from_f64(*number)?),
            NodeValue::String(text) => Value::from(text.as_str()),
            NodeValue::DateTime => return None,
            NodeValue::List(items) => items.iter().map(Self::to_json).collect::<Option<Vec<Value>>>()?.into(),
            NodeValue::Map(entries) => {
                let entries = entries.iter().map(|entry| Some((entry.key.clone(), entry.node.to_json()?)));
                Value::Object(entries.collect::<Option<serde_json::Map<String, Value>>>()?)
            }
        };
        Some(value)
    }

    /// Formats the value for display: a text unchanged, a list or a map like JSON. A duplicate key of a map occurs
    /// twice.
    pub(crate) fn display(&self) -> String {
        match &self.value {
            NodeValue::Null => String::new(),
            NodeValue::String(text) => text.clone(),
            _ => self.display_nested(),
        }
    }

    fn display_nested(&self) -> String {
        let in_quotes = |text: &str| serde_json::Value::from(text).to_string();
        match &self.value {
            NodeValue::Null => "null".to_owned(),
            NodeValue::Bool(truth) => truth.to_string(),
            NodeValue::Integer(number) => number.to_string(),
            NodeValue::Float(number) => number.to_string(),
            NodeValue::String(text) => in_quotes(text),
            NodeValue::DateTime => "a date or time".to_owned(),
            NodeValue::List(items) => {
                let items: Vec<String> = items.iter().map(Self::display_nested).collect();
                format!("[{}]", items.join(", "))
            }
            NodeValue::Map(entries) => {
                let entries = entries
                    .iter()
                    .map(|entry| format!("{}: {}", in_quotes(&entry.key), entry.node.display_nested()));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Adds every name in the value.
    pub(crate) fn collect_names(&self, names: &mut Vec<String>) {
        match &self.value {
            NodeValue::List(items) => items.iter().for_each(|item| item.collect_names(names)),
            NodeValue::Map(entries) => {
                for entry in entries {
                    names.push(entry.key.clone());
                    entry.node.collect_names(names);
                }
            }
            NodeValue::Null
            | NodeValue::Bool(_)
            | NodeValue::Integer(_)
            | NodeValue::Float(_)
            | NodeValue::String(_)
            | NodeValue::DateTime => {}
        }
    }
}
