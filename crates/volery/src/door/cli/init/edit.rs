//! What shall stand in a client's configuration, put into its text and taken out again. Pure: text in, text out.
//!
//! Every edit is checked by its meaning: the text must afterwards say what it said before and the entry, nothing else.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{json_text, merge, toml_text, yaml_text};

const BYTE_ORDER_MARK: char = '\u{feff}';

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Syntax {
    /// JSON, in which comments and trailing commas may stand.
    Json,
    Toml,
    Yaml,
}

/// Something that shall stand in a file, beside what does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    /// A key has this value; a table that is there has at least these members.
    Key { path: Vec<String>, value: Value },
    /// A list has this item among others.
    Item { path: Vec<String>, item: String },
}

impl Entry {
    pub(crate) fn key(path: &[&str], value: Value) -> Self {
        Self::Key { path: owned(path), value }
    }

    pub(crate) fn item(path: &[&str], item: &str) -> Self {
        Self::Item { path: owned(path), item: item.to_owned() }
    }
}

/// What was done for an entry, so that it can be taken back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Done {
    path: Vec<String>,
    change: Change,
    /// How many of the tables and lists above it were made for it; they go with it if nothing else is in them.
    made: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Change {
    Key { wrote: Value, before: Option<Value> },
    Item { item: String },
}

/// Why a text is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditError {
    #[error("line {line}, column {column}: {message}")]
    Unreadable { line: usize, column: usize, message: String },
    #[error("{key} is not {wanted} there")]
    OtherShape { key: String, wanted: &'static str },
    #[error("{key} cannot be changed there without changing something else; does it stand there twice?")]
    Ambiguous { key: String },
    #[error("{key} is not among plain indented lines; other forms of YAML are not edited")]
    OnlyBlocks { key: String },
}

/// Puts entries into a text. Returns the text and what was done: nothing for what stands there already.
pub(crate) fn apply(syntax: Syntax, text: &str, entries: &[Entry]) -> Result<(String, Vec<Done>), EditError> {
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

/// What became of a text from which something was taken.
pub(crate) struct TakenBack {
    pub(crate) text: String,
    /// The keys that somebody has changed since; they stay.
    pub(crate) kept: Vec<String>,
    /// Nothing is left in the text, not even a comment.
    pub(crate) empty: bool,
}

/// Takes back what was done, whatever else was changed meanwhile.
pub(crate) fn take_back(syntax: Syntax, text: &str, done: &[Done]) -> Result<TakenBack, EditError> {
    let mut text = text.to_owned();
    let mut kept = Vec::new();
    for done in done.iter().rev() {
        match take_back_one(syntax, &text, done)? {
            Some(edited) => text = edited,
            None => kept.push(done.path.join(".")),
        }
    }
    let bare: String = text.chars().filter(|char| !char.is_whitespace()).collect();
    let empty = matches!(bare.as_str(), "" | "{}");
    Ok(TakenBack { text, kept, empty })
}

/// Joins what was done at two times: what stood there before the first counts.
pub(crate) fn join(earlier: &[Done], later: Vec<Done>) -> Vec<Done> {
    let mut all = earlier.to_vec();
    for done in later {
        let known = all.iter_mut().find_map(|known| {
            let below = known.below(&done)?.to_vec();
            Some((known, below))
        });
        match (known, &done.change) {
            (Some((known, below)), Change::Key { wrote: newer, .. }) => known.rewrite(&below, newer),
            (Some(_), Change::Item { .. }) => {}
            (None, _) => all.push(done),
        }
    }
    all
}

impl Done {
    /// Returns where within what this did the other did something, if it did.
    fn below<'a>(&self, other: &'a Self) -> Option<&'a [String]> {
        let below = other.path.strip_prefix(self.path.as_slice())?;
        let same = match (&self.change, &other.change) {
            (Change::Key { .. }, Change::Key { .. }) => true,
            (Change::Item { item }, Change::Item { item: other }) => item == other && below.is_empty(),
            (Change::Key { .. }, Change::Item { .. }) | (Change::Item { .. }, Change::Key { .. }) => false,
        };
        same.then_some(below)
    }

    /// Notes that a part of what was written is something else now.
    fn rewrite(&mut self, below: &[String], newer: &Value) {
        let Change::Key { wrote, .. } = &mut self.change else { return };
        match below {
            [] => wrote.clone_from(newer),
            below => set(wrote, below, newer.clone()),
        }
    }
}

fn apply_one(syntax: Syntax, text: &str, entry: &Entry) -> Result<Option<(String, Done)>, EditError> {
    let mut meant = syntax.value(text)?;
    let (path, list) = match entry {
        Entry::Key { path, .. } => (path, false),
        Entry::Item { path, .. } => (path, true),
    };
    let made = missing(&meant, path, list)?;
    let change = match entry {
        Entry::Key { value, .. } => {
            let before = lookup(&meant, path).cloned();
            if before.as_ref() == Some(value) {
                return Ok(None);
            }
            Change::Key { wrote: value.clone(), before }
        }
        Entry::Item { item, .. } => {
            if items(&meant, path).is_some_and(|items| items.iter().any(|known| known == item)) {
                return Ok(None);
            }
            Change::Item { item: item.clone() }
        }
    };
    let edited = match entry {
        Entry::Key { path, value } => {
            set(&mut meant, path, value.clone());
            syntax.put(text, path, value)?
        }
        Entry::Item { path, item } => {
            push(&mut meant, path, item);
            syntax.include(text, path, item)?
        }
    };
    syntax.check(&edited, &meant, path)?;
    Ok(Some((edited, Done { path: path.clone(), change, made })))
}

fn take_back_one(syntax: Syntax, text: &str, done: &Done) -> Result<Option<String>, EditError> {
    let Done { path, change, made } = done;
    let mut meant = syntax.value(text)?;
    let edited = match change {
        Change::Key { wrote, before } => {
            let now = lookup(&meant, path);
            if now.is_none() {
                return Ok(Some(text.to_owned()));
            }
            if now != Some(wrote) {
                return Ok(None);
            }
            match before {
                Some(before) => {
                    set(&mut meant, path, before.clone());
                    syntax.put(text, path, before)?
                }
                None => {
                    remove(&mut meant, path, *made);
                    syntax.remove(text, path, *made)?
                }
            }
        }
        Change::Item { item } => {
            let position = items(&meant, path).and_then(|items| items.iter().position(|known| known == item));
            let Some(position) = position else { return Ok(Some(text.to_owned())) };
            exclude(&mut meant, path, position, *made);
            syntax.exclude(text, path, position, *made)?
        }
    };
    syntax.check(&edited, &meant, path)?;
    Ok(Some(edited))
}

impl Syntax {
    /// Returns what a text says; an empty one says nothing.
    pub(crate) fn value(self, text: &str) -> Result<Value, EditError> {
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let value = match self {
            Self::Json => json_text::value(text)?,
            Self::Toml => toml_text::value(text)?,
            Self::Yaml => yaml_text::value(text)?,
        };
        if value.is_object() {
            return Ok(value);
        }
        Err(EditError::OtherShape { key: "the whole".to_owned(), wanted: "an object" })
    }

    fn put(self, text: &str, path: &[String], value: &Value) -> Result<String, EditError> {
        match self {
            Self::Json => with_mark(text, |text| json_text::put(text, path, value)),
            Self::Toml => with_mark(text, |text| toml_text::put(text, path, value)),
            Self::Yaml => with_mark(text, |text| yaml_text::put(text, path, value)),
        }
    }

    fn include(self, text: &str, path: &[String], item: &str) -> Result<String, EditError> {
        match self {
            Self::Json => with_mark(text, |text| json_text::include(text, path, item)),
            Self::Toml => with_mark(text, |text| toml_text::include(text, path, item)),
            // No client that writes YAML needs an item of a list.
            Self::Yaml => Err(EditError::Ambiguous { key: path.join(".") }),
        }
    }

    fn remove(self, text: &str, path: &[String], made: usize) -> Result<String, EditError> {
        match self {
            Self::Json => with_mark(text, |text| json_text::remove(text, path, made)),
            Self::Toml => with_mark(text, |text| toml_text::remove(text, path, made)),
            Self::Yaml => with_mark(text, |text| yaml_text::remove(text, path, made)),
        }
    }

    fn exclude(self, text: &str, path: &[String], position: usize, made: usize) -> Result<String, EditError> {
        match self {
            Self::Json => with_mark(text, |text| json_text::exclude(text, path, position, made)),
            Self::Toml => with_mark(text, |text| toml_text::exclude(text, path, position, made)),
            Self::Yaml => Err(EditError::Ambiguous { key: path.join(".") }),
        }
    }

    /// Checks that a text says this and nothing else.
    fn check(self, text: &str, meant: &Value, path: &[String]) -> Result<(), EditError> {
        let same = self.value(text).is_ok_and(|value| value == *meant);
        if same { Ok(()) } else { Err(EditError::Ambiguous { key: path.join(".") }) }
    }
}

fn with_mark(text: &str, edit: impl FnOnce(&str) -> Result<String, EditError>) -> Result<String, EditError> {
    match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => edit(rest).map(|edited| format!("{BYTE_ORDER_MARK}{edited}")),
        None => edit(text),
    }
}

fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|&key| key.to_owned()).collect()
}

pub(super) fn lookup<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.as_object()?.get(key))
}

fn items<'a>(value: &'a Value, path: &[String]) -> Option<&'a Vec<Value>> {
    lookup(value, path)?.as_array()
}

/// Counts what has to be made for a path; what is there already must be a table, or at its end a list.
fn missing(value: &Value, path: &[String], list: bool) -> Result<usize, EditError> {
    let other_shape = |upto: usize, wanted| EditError::OtherShape { key: path[..upto].join("."), wanted };
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
