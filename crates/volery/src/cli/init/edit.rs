//! Adds entries to the text of a client's configuration, and removes them again. Pure: text in, text out.
//!
//! Every edit is verified by parsing the result: it must have the previous content and the entry, nothing else.

use backends::client_setup::{ConfigEntry, Syntax};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{json_text, merge, toml_text, yaml_text};

const BYTE_ORDER_MARK: char = '\u{feff}';

/// How an entry was added, so that it can be undone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AppliedEdit {
    path: Vec<String>,
    change: EntryChange,
    /// How many of the tables and lists above the entry were created for it; they are removed with it if they are empty.
    made: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EntryChange {
    Key { wrote: Value, before: Option<Value> },
    Item { item: String },
}

/// Why a text is not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditError {
    #[error("line {line}, column {column}: {message}")]
    Unreadable { line: usize, column: usize, message: String },
    #[error("{key} is not {expected} there")]
    OtherShape { key: String, expected: &'static str },
    #[error("{key} cannot be changed there without changing something else; does it stand there twice?")]
    Ambiguous { key: String },
    #[error("{key} is not among plain indented lines; other forms of YAML are not edited")]
    OnlyBlocks { key: String },
}

/// Adds entries to a text. Returns the text and the edits, without entries that it already had.
pub(crate) fn apply(
    syntax: Syntax,
    text: &str,
    entries: &[ConfigEntry],
) -> Result<(String, Vec<AppliedEdit>), EditError> {
    let mut text = text.to_owned();
    let mut all_done = Vec::new();
    for entry in entries {
        for member in merge::members(entry, &syntax.value(&text)?)? {
            if let Some((edited, done)) = apply_one(syntax, &text, &member)? {
                text = edited;
                all_done.push(done);
            }
        }
    }
    Ok((text, all_done))
}

/// The result of undoing edits.
pub(crate) struct UndoResult {
    pub(crate) text: String,
    /// The keys that somebody has changed since the edit; they stay.
    pub(crate) changed_since: Vec<String>,
    /// The text is empty, without even a comment.
    pub(crate) empty: bool,
}

/// Undoes edits, even if other parts of the text have changed.
pub(crate) fn undo(syntax: Syntax, text: &str, done: &[AppliedEdit]) -> Result<UndoResult, EditError> {
    let mut text = text.to_owned();
    let mut changed_since = Vec::new();
    for done in done.iter().rev() {
        match undo_one(syntax, &text, done)? {
            Some(edited) => text = edited,
            None => changed_since.push(done.path.join(".")),
        }
    }
    let bare: String = text.chars().filter(|char| !char.is_whitespace()).collect();
    let empty = matches!(bare.as_str(), "" | "{}");
    Ok(UndoResult { text, changed_since, empty })
}

/// Joins the edits of two times: the content before the first one counts as the previous content.
pub(crate) fn join(earlier: &[AppliedEdit], later: Vec<AppliedEdit>) -> Vec<AppliedEdit> {
    let mut all = earlier.to_vec();
    for done in later {
        let known = all.iter_mut().find_map(|known| {
            let below = known.below(&done)?.to_vec();
            Some((known, below))
        });
        match (known, &done.change) {
            (Some((known, below)), EntryChange::Key { wrote: newer, .. }) => known.rewrite(&below, newer),
            (Some(_), EntryChange::Item { .. }) => {}
            (None, _) => all.push(done),
        }
    }
    all
}

impl AppliedEdit {
    /// Returns the path of another edit relative to this one, if it is within this one.
    fn below<'a>(&self, other: &'a Self) -> Option<&'a [String]> {
        let below = other.path.strip_prefix(self.path.as_slice())?;
        let same = match (&self.change, &other.change) {
            (EntryChange::Key { .. }, EntryChange::Key { .. }) => true,
            (EntryChange::Item { item }, EntryChange::Item { item: other }) => {
                item == other && below.is_empty()
            }
            (EntryChange::Key { .. }, EntryChange::Item { .. })
            | (EntryChange::Item { .. }, EntryChange::Key { .. }) => false,
        };
        same.then_some(below)
    }

    /// Records that a part of the written value has changed.
    fn rewrite(&mut self, below: &[String], newer: &Value) {
        let EntryChange::Key { wrote, .. } = &mut self.change else { return };
        match below {
            [] => wrote.clone_from(newer),
            below => set(wrote, below, newer.clone()),
        }
    }
}

fn apply_one(
    syntax: Syntax,
    text: &str,
    entry: &ConfigEntry,
) -> Result<Option<(String, AppliedEdit)>, EditError> {
    let mut expected = syntax.value(text)?;
    let (path, list) = match entry {
        ConfigEntry::Key { path, .. } => (path, false),
        ConfigEntry::Item { path, .. } => (path, true),
    };
    let made = missing(&expected, path, list)?;
    let change = match entry {
        ConfigEntry::Key { value, .. } => {
            let before = lookup(&expected, path).cloned();
            if before.as_ref() == Some(value) {
                return Ok(None);
            }
            EntryChange::Key { wrote: value.clone(), before }
        }
        ConfigEntry::Item { item, .. } => {
            if items(&expected, path).is_some_and(|items| items.iter().any(|known| known == item)) {
                return Ok(None);
            }
            EntryChange::Item { item: item.clone() }
        }
    };
    let edited = match entry {
        ConfigEntry::Key { path, value } => {
            set(&mut expected, path, value.clone());
            syntax.put(text, path, value)?
        }
        ConfigEntry::Item { path, item } => {
            push(&mut expected, path, item);
            syntax.include(text, path, item)?
        }
    };
    syntax.check(&edited, &expected, path)?;
    Ok(Some((edited, AppliedEdit { path: path.clone(), change, made })))
}

fn undo_one(syntax: Syntax, text: &str, done: &AppliedEdit) -> Result<Option<String>, EditError> {
    let AppliedEdit { path, change, made } = done;
    let mut expected = syntax.value(text)?;
    let edited = match change {
        EntryChange::Key { wrote, before } => {
            let now = lookup(&expected, path);
            if now.is_none() {
                return Ok(Some(text.to_owned()));
            }
            if now != Some(wrote) {
                return Ok(None);
            }
            match before {
                Some(before) => {
                    set(&mut expected, path, before.clone());
                    syntax.put(text, path, before)?
                }
                None => {
                    remove(&mut expected, path, *made);
                    syntax.remove(text, path, *made)?
                }
            }
        }
        EntryChange::Item { item } => {
            let position =
                items(&expected, path).and_then(|items| items.iter().position(|known| known == item));
            let Some(position) = position else { return Ok(Some(text.to_owned())) };
            exclude(&mut expected, path, position, *made);
            syntax.exclude(text, path, position, *made)?
        }
    };
    syntax.check(&edited, &expected, path)?;
    Ok(Some(edited))
}

/// Reads and edits texts of a syntax.
pub(crate) trait SyntaxEdit: Copy {
    /// Parses a text; an empty one is an empty object.
    fn value(self, text: &str) -> Result<Value, EditError>;

    fn put(self, text: &str, path: &[String], value: &Value) -> Result<String, EditError>;

    fn include(self, text: &str, path: &[String], item: &str) -> Result<String, EditError>;

    fn remove(self, text: &str, path: &[String], made: usize) -> Result<String, EditError>;

    fn exclude(self, text: &str, path: &[String], position: usize, made: usize) -> Result<String, EditError>;

    /// Checks that a text has exactly this content.
    fn check(self, text: &str, expected: &Value, path: &[String]) -> Result<(), EditError>;
}

impl SyntaxEdit for Syntax {
    fn value(self, text: &str) -> Result<Value, EditError> {
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let value = match self {
            Self::Json => json_text::value(text)?,
            Self::Toml => toml_text::value(text)?,
            Self::Yaml => yaml_text::value(text)?,
        };
        if value.is_object() {
            return Ok(value);
        }
        Err(EditError::OtherShape { key: "the whole".to_owned(), expected: "an object" })
    }

    fn put(self, text: &str, path: &[String], value: &Value) -> Result<String, EditError> {
        match self {
            Self::Json => with_byte_order_mark(text, |text| json_text::put(text, path, value)),
            Self::Toml => with_byte_order_mark(text, |text| toml_text::put(text, path, value)),
            Self::Yaml => with_byte_order_mark(text, |text| yaml_text::put(text, path, value)),
        }
    }

    fn include(self, text: &str, path: &[String], item: &str) -> Result<String, EditError> {
        match self {
            Self::Json => with_byte_order_mark(text, |text| json_text::include(text, path, item)),
            Self::Toml => with_byte_order_mark(text, |text| toml_text::include(text, path, item)),
            // No client with YAML needs items of lists.
            Self::Yaml => Err(EditError::Ambiguous { key: path.join(".") }),
        }
    }

    fn remove(self, text: &str, path: &[String], made: usize) -> Result<String, EditError> {
        match self {
            Self::Json => with_byte_order_mark(text, |text| json_text::remove(text, path, made)),
            Self::Toml => with_byte_order_mark(text, |text| toml_text::remove(text, path, made)),
            Self::Yaml => with_byte_order_mark(text, |text| yaml_text::remove(text, path, made)),
        }
    }

    fn exclude(self, text: &str, path: &[String], position: usize, made: usize) -> Result<String, EditError> {
        match self {
            Self::Json => with_byte_order_mark(text, |text| json_text::exclude(text, path, position, made)),
            Self::Toml => with_byte_order_mark(text, |text| toml_text::exclude(text, path, position, made)),
            Self::Yaml => Err(EditError::Ambiguous { key: path.join(".") }),
        }
    }

    fn check(self, text: &str, expected: &Value, path: &[String]) -> Result<(), EditError> {
        let same = self.value(text).is_ok_and(|value| value == *expected);
        if same { Ok(()) } else { Err(EditError::Ambiguous { key: path.join(".") }) }
    }
}

fn with_byte_order_mark(
    text: &str,
    edit: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<String, EditError> {
    match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => edit(rest).map(|edited| format!("{BYTE_ORDER_MARK}{edited}")),
        None => edit(text),
    }
}

pub(super) fn lookup<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.as_object()?.get(key))
}

fn items<'a>(value: &'a Value, path: &[String]) -> Option<&'a Vec<Value>> {
    lookup(value, path)?.as_array()
}

/// Counts the tables and lists that must be created for a path. Existing parts must be tables, or a list at its end.
fn missing(value: &Value, path: &[String], list: bool) -> Result<usize, EditError> {
    let other_shape = |upto: usize, expected| EditError::OtherShape { key: path[..upto].join("."), expected };
    let last = path.len();
    for upto in 1..last {
        match lookup(value, &path[..upto]) {
            Some(Value::Object(_)) => {}
            Some(_) => return Err(other_shape(upto, "an object")),
            None => return Ok(last - upto + usize::from(list)),
        }
    }
    match lookup(value, path) {
        Some(Value::Array(_)) | None if list => Ok(usize::from(lookup(value, path).is_none())),
        Some(_) if list => Err(other_shape(last, "a list")),
        Some(_) | None => Ok(0),
    }
}

fn table<'a>(value: &'a mut Value, path: &[String]) -> Option<&'a mut Map<String, Value>> {
    let mut table = value.as_object_mut()?;
    for key in path {
        let below = table.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
        table = below.as_object_mut()?;
    }
    Some(table)
}

fn set(value: &mut Value, path: &[String], new: Value) {
    let Some((key, above)) = path.split_last() else { return };
    if let Some(table) = table(value, above) {
        table.insert(key.clone(), new);
    }
}

fn push(value: &mut Value, path: &[String], item: &str) {
    let Some((key, above)) = path.split_last() else { return };
    let list =
        table(value, above).map(|table| table.entry(key.clone()).or_insert_with(|| Value::Array(Vec::new())));
    if let Some(Value::Array(items)) = list {
        items.push(Value::String(item.to_owned()));
    }
}

fn remove(value: &mut Value, path: &[String], made: usize) {
    let Some((key, above)) = path.split_last() else { return };
    let Some(table) = table(value, above) else { return };
    table.shift_remove(key);
    if made > 0 && table.is_empty() && !above.is_empty() {
        remove(value, above, made - 1);
    }
}

fn exclude(value: &mut Value, path: &[String], position: usize, made: usize) {
    let Some((key, above)) = path.split_last() else { return };
    let Some(Value::Array(items)) = table(value, above).and_then(|table| table.get_mut(key)) else { return };
    items.remove(position);
    if made > 0 && items.is_empty() {
        remove(value, path, made - 1);
    }
}
