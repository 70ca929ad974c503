//! Edits TOML text, and keeps comments, order and spacing around an edit.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use super::edit::EditError;

pub(super) fn value(text: &str) -> Result<Value, EditError> {
    // Parsed by `toml_edit` first, which reports where a problem is.
    parse(text)?;
    toml::from_str(text).map_err(|error| unreadable(text, error.span(), error.message()))
}

pub(super) fn put(text: &str, path: &[String], value: &Value) -> Result<String, EditError> {
    let mut document = parse(text)?;
    let Some((key, above)) = path.split_last() else { return Ok(text.to_owned()) };
    let trailing = document.trailing().as_str().unwrap_or_default().to_owned();
    let first = document.as_table().is_empty();
    let table = table_or_create(&mut document, above).ok_or_else(|| ambiguous(path))?;
    let known = table.get(key).is_some();
    // Tables within a server are short, so they are written inline.
    let new = if path.len() > 2 { inline(value).map(Item::Value) } else { item(value) };
    let mut new = new.ok_or_else(|| ambiguous(path))?;
    match table.get_mut(key) {
        // Replaced in place, so that the comments around it stay.
        Some(old) => {
            if let (Item::Value(old), Item::Value(new)) = (&*old, &mut new) {
                *new.decor_mut() = old.decor().clone();
            }
            *old = new;
        }
        None => {
            table.insert(key, new);
        }
    }
    let header = table.get_mut(key).and_then(Item::as_table_mut).filter(|_| !known);
    if let Some(header) = header {
        // Comments at the end of the file stay before the added table.
        let space = if first && trailing.is_empty() { "" } else { "\n" };
        header.decor_mut().set_prefix(format!("{trailing}{space}"));
        document.set_trailing("");
    }
    Ok(with_line_endings(text, document.to_string()))
}

pub(super) fn include(text: &str, path: &[String], item: &str) -> Result<String, EditError> {
    let mut document = parse(text)?;
    let Some((key, above)) = path.split_last() else { return Ok(text.to_owned()) };
    let table = table_or_create(&mut document, above).ok_or_else(|| ambiguous(path))?;
    let list = table.entry(key).or_insert_with(|| toml_edit::value(Array::new()));
    list.as_array_mut().ok_or_else(|| ambiguous(path))?.push(item);
    Ok(with_line_endings(text, document.to_string()))
}

pub(super) fn remove(text: &str, path: &[String], made: usize) -> Result<String, EditError> {
    let mut document = parse(text)?;
    remove_from(&mut document, path, made).ok_or_else(|| ambiguous(path))?;
    Ok(with_line_endings(text, document.to_string()))
}

pub(super) fn exclude(
    text: &str,
    path: &[String],
    position: usize,
    made: usize,
) -> Result<String, EditError> {
    let mut document = parse(text)?;
    let (key, above) = path.split_last().ok_or_else(|| ambiguous(path))?;
    let list = table_at(document.as_table_mut(), above).and_then(|table| table.get_mut(key)?.as_array_mut());
    let list = list.ok_or_else(|| ambiguous(path))?;
    list.remove(position);
    if made > 0 && list.is_empty() {
        remove_from(&mut document, path, made - 1).ok_or_else(|| ambiguous(path))?;
    }
    Ok(with_line_endings(text, document.to_string()))
}

fn remove_from(document: &mut DocumentMut, path: &[String], made: usize) -> Option<()> {
    let (key, above) = path.split_last()?;
    let table = table_at(document.as_table_mut(), above)?;
    let removed = table.remove(key)?;
    let empty = table.is_empty();
    let prefix = removed.as_table().and_then(|table| table.decor().prefix()?.as_str()).unwrap_or_default();
    // The comments above a table belong to the user: they go back to the end of the file.
    let lines = prefix.strip_suffix('\n').unwrap_or(prefix).to_owned();
    if !lines.is_empty() {
        let trailing = document.trailing().as_str().unwrap_or_default();
        let trailing = format!("{lines}{trailing}");
        document.set_trailing(trailing);
    }
    if made > 0 && !above.is_empty() && empty {
        return remove_from(document, above, made - 1);
    }
    Some(())
}

fn table_at<'a>(root: &'a mut Table, path: &[String]) -> Option<&'a mut dyn TableLike> {
    let mut table: &mut dyn TableLike = root;
    for key in path {
        table = table.get_mut(key)?.as_table_like_mut()?;
    }
    Some(table)
}

fn table_or_create<'a>(document: &'a mut DocumentMut, path: &[String]) -> Option<&'a mut dyn TableLike> {
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for key in path {
        let below = table.entry(key).or_insert_with(|| {
            let mut made = Table::new();
            made.set_implicit(true);
            Item::Table(made)
        });
        table = below.as_table_like_mut()?;
    }
    Some(table)
}

/// Converts the value of a key: an object becomes a table with a header. TOML has no null.
fn item(value: &Value) -> Option<Item> {
    let Value::Object(entries) = value else { return inline(value).map(Item::Value) };
    let mut table = Table::new();
    for (key, value) in entries {
        table.insert(key, Item::Value(inline(value)?));
    }
    Some(Item::Table(table))
}

fn inline(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(inline).collect::<Option<Array>>()?.into(),
        Value::Object(entries) => {
            let mut table = InlineTable::new();
            for (key, value) in entries {
                table.insert(key, inline(value)?);
            }
            table.into()
        }
    })
}

fn parse(text: &str) -> Result<DocumentMut, EditError> {
    text.parse::<DocumentMut>().map_err(|error| unreadable(text, error.span(), error.message()))
}

fn unreadable(text: &str, span: Option<std::ops::Range<usize>>, message: &str) -> EditError {
    let upto = text.get(..span.map_or(0, |span| span.start)).unwrap_or(text);
    let line = upto.matches('\n').count() + 1;
    let column = upto.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    EditError::Unreadable { line, column, message: message.replace('\n', "; ") }
}

/// Restores CRLF line endings, because `toml_edit` ends its own lines with LF.
fn with_line_endings(text: &str, edited: String) -> String {
    if !text.contains("\r\n") {
        return edited;
    }
    let converted = edited.replace("\r\n", "\n").replace('\n', "\r\n");
    // A multi-line string contains line endings, which must not change.
    let same = value(&converted).ok() == value(&edited).ok();
    if same { converted } else { edited }
}

fn ambiguous(path: &[String]) -> EditError {
    EditError::Ambiguous { key: path.join(".") }
}
