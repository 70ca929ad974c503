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
}
