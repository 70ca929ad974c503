//! The tree: values with the place where each was written.

/// Where something stands in its file. Lines and columns count from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Place {
    pub(crate) const START: Self = Self { line: 1, column: 1 };
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) shape: Shape,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Nothing,
    Truth(bool),
    Integer(i128),
    Number(f64),
    Text(String),
    /// A TOML date or time, which no reader wants.
    Moment,
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a map with its value; keys may repeat until `Fields` has complained about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) place: Place,
    pub(crate) node: Node,
}

impl Node {
    /// Returns what stands here, to follow the word "found".
    pub(crate) fn describe(&self) -> String {
        match &self.shape {
            Shape::Nothing => "nothing".to_owned(),
            Shape::Truth(truth) => format!("the value {truth}"),
            Shape::Integer(number) => format!("the number {number}"),
            Shape::Number(number) => format!("the number {number}"),
            Shape::Text(text) => format!("the text {}", super::quoted(text)),
            Shape::Moment => "a date or time".to_owned(),
            Shape::List(_) => "a list".to_owned(),
            Shape::Map(_) => "a map".to_owned(),
        }
    }

    /// Returns the value as JSON; `None` if it has a number or a date that JSON does not.
    pub(crate) fn to_json(&self) -> Option<serde_json::Value> {
        use serde_json::Value;
        let value = match &self.shape {
            Shape::Nothing => Value::Null,
            Shape::Truth(truth) => Value::from(*truth),
            Shape::Integer(number) => Value::from(i64::try_from(*number).ok()?),
            Shape::Number(number) => Value::from(serde_json::Number::from_f64(*number)?),
            Shape::Text(text) => Value::from(text.as_str()),
            Shape::Moment => return None,
            Shape::List(items) => items.iter().map(Self::to_json).collect::<Option<Vec<Value>>>()?.into(),
            Shape::Map(entries) => {
                let entries = entries.iter().map(|entry| Some((entry.key.clone(), entry.node.to_json()?)));
                Value::Object(entries.collect::<Option<serde_json::Map<String, Value>>>()?)
            }
        };
        Some(value)
    }

    /// Returns the value in one piece for people to read: a text as it is, a list or a map like JSON. A name that a map has
    /// twice is there twice.
    pub(crate) fn shown(&self) -> String {
        match &self.shape {
            Shape::Nothing => String::new(),
            Shape::Text(text) => text.clone(),
            _ => self.shown_inside(),
        }
    }

    fn shown_inside(&self) -> String {
        let in_quotes = |text: &str| serde_json::Value::from(text).to_string();
        match &self.shape {
            Shape::Nothing => "null".to_owned(),
            Shape::Truth(truth) => truth.to_string(),
            Shape::Integer(number) => number.to_string(),
            Shape::Number(number) => number.to_string(),
            Shape::Text(text) => in_quotes(text),
            Shape::Moment => "a date or time".to_owned(),
            Shape::List(items) => {
                let items: Vec<String> = items.iter().map(Self::shown_inside).collect();
                format!("[{}]", items.join(", "))
            }
            Shape::Map(entries) => {
                let entries = entries
                    .iter()
                    .map(|entry| format!("{}: {}", in_quotes(&entry.key), entry.node.shown_inside()));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Adds every name in the value.
    pub(crate) fn collect_names(&self, names: &mut Vec<String>) {
        match &self.shape {
            Shape::List(items) => items.iter().for_each(|item| item.collect_names(names)),
            Shape::Map(entries) => {
                for entry in entries {
                    names.push(entry.key.clone());
                    entry.node.collect_names(names);
                }
            }
            Shape::Nothing
            | Shape::Truth(_)
            | Shape::Integer(_)
            | Shape::Number(_)
            | Shape::Text(_)
            | Shape::Moment => {}
        }
    }
}
