//! A server of ours that a file has already: what is ours is set, what somebody added to it stays. Pure.

use serde_json::{Map, Value};

use super::edit::{EditError, Entry, lookup};

/// By what a server is reached that is not started.
const ADDRESSES: [&str; 4] = ["url", "httpUrl", "serverUrl", "uri"];
/// The command that every entry of ours gives the program.
const SERVE: &str = "serve";

/// Returns an entry as the members that a table which is there has to be given; what else is in the table stays.
pub(super) fn members(entry: &Entry, now: &Value) -> Result<Vec<Entry>, EditError> {
    let Entry::Key { path, value: Value::Object(wanted) } = entry else { return Ok(vec![entry.clone()]) };
    let Some(Value::Object(there)) = lookup(now, path) else { return Ok(vec![entry.clone()]) };
    let reached = ADDRESSES.iter().any(|key| there.contains_key(*key)) && !there.contains_key("command");
    if reached && wanted.contains_key("command") {
        let wanted = "a server that is started by a command";
        return Err(EditError::OtherShape { key: path.join("."), wanted });
    }
    Ok(below(path, wanted, there))
}

fn below(path: &[String], wanted: &Map<String, Value>, there: &Map<String, Value>) -> Vec<Entry> {
    let members = wanted.iter().flat_map(|(key, value)| {
        let path: Vec<String> = path.iter().chain([key]).cloned().collect();
        match (value, there.get(key)) {
            (Value::Object(wanted), Some(Value::Object(there))) => below(&path, wanted, there),
            (value, _) => vec![Entry::Key { path, value: value.clone() }],
        }
    });
    members.collect()
}

/// Returns entries that say no more about the server's arguments than was asked: where nobody named a dialect, a call of
/// `serve` that is there is as good as ours.
pub(super) fn with_arguments_of(now: &Value, entries: &[Entry]) -> Vec<Entry> {
    let settled = entries.iter().cloned().map(|mut entry| {
        if let Entry::Key { path, value: Value::Object(wanted) } = &mut entry
            && let Some(Value::Object(there)) = lookup(now, path)
        {
            keep_arguments(wanted, there);
        }
        entry
    });
    settled.collect()
}

fn keep_arguments(wanted: &mut Map<String, Value>, there: &Map<String, Value>) {
    let is_serve = |words: &[Value]| words.first().is_some_and(|word| word == SERVE);
    let list = |value: &Value| value.as_array().cloned();
    let (ours, theirs) = (wanted.get("args").and_then(list), there.get("args").and_then(list));
    if let (Some(ours), Some(theirs)) = (ours, theirs)
        && ours == [SERVE]
        && is_serve(&theirs)
    {
        wanted.insert("args".to_owned(), Value::Array(theirs));
    }
    // The program and its arguments as one list.
    let (ours, theirs) = (wanted.get("command").and_then(list), there.get("command").and_then(list));
    if let (Some(ours), Some(theirs)) = (ours, theirs)
        && let ([program, arguments @ ..], [_, kept @ ..]) = (ours.as_slice(), theirs.as_slice())
        && arguments == [SERVE]
        && is_serve(kept)
    {
        let words = std::iter::once(program).chain(kept).cloned().collect();
        wanted.insert("command".to_owned(), Value::Array(words));
    }
}
