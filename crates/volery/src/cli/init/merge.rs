//! Merges Volery's entry into one that the file already has: Volery's members are set, additions of the user stay. Pure.

use backends::client_setup::ConfigEntry;
use serde_json::{Map, Value};

use super::edit::{EditError, lookup};

/// The keys of servers that are reached by an address instead of started.
const ADDRESSES: [&str; 4] = ["url", "httpUrl", "serverUrl", "uri"];
/// The subcommand in every entry of Volery.
const SERVE: &str = "serve";

/// Splits an entry into the members to set in an existing table; other members of the table stay.
pub(super) fn members(entry: &ConfigEntry, now: &Value) -> Result<Vec<ConfigEntry>, EditError> {
    let ConfigEntry::Key { path, value: Value::Object(desired) } = entry else {
        return Ok(vec![entry.clone()]);
    };
    let Some(Value::Object(existing)) = lookup(now, path) else { return Ok(vec![entry.clone()]) };
    let has_address =
        ADDRESSES.iter().any(|key| existing.contains_key(*key)) && !existing.contains_key("command");
    if has_address && desired.contains_key("command") {
        let expected = "a server that is started by a command";
        return Err(EditError::OtherShape { key: path.join("."), expected });
    }
    Ok(missing_members(path, desired, existing))
}

fn missing_members(
    path: &[String],
    desired: &Map<String, Value>,
    existing: &Map<String, Value>,
) -> Vec<ConfigEntry> {
    let members = desired.iter().flat_map(|(key, value)| {
        let path: Vec<String> = path.iter().chain([key]).cloned().collect();
        match (value, existing.get(key)) {
            (Value::Object(desired), Some(Value::Object(existing))) => {
                missing_members(&path, desired, existing)
            }
            (value, _) => vec![ConfigEntry::Key { path, value: value.clone() }],
        }
    });
    members.collect()
}

/// Keeps the existing arguments of the server if they start `serve` and the user named no dialect.
pub(super) fn keep_existing_arguments(now: &Value, entries: &[ConfigEntry]) -> Vec<ConfigEntry> {
    let settled = entries.iter().cloned().map(|mut entry| {
        if let ConfigEntry::Key { path, value: Value::Object(desired) } = &mut entry
            && let Some(Value::Object(existing)) = lookup(now, path)
        {
            copy_arguments(desired, existing);
        }
        entry
    });
    settled.collect()
}

fn copy_arguments(desired: &mut Map<String, Value>, existing: &Map<String, Value>) {
    let is_serve = |arguments: &[Value]| arguments.first().is_some_and(|argument| argument == SERVE);
    let list = |value: &Value| value.as_array().cloned();
    let (ours, theirs) = (desired.get("args").and_then(list), existing.get("args").and_then(list));
    if let (Some(ours), Some(theirs)) = (ours, theirs)
        && ours == [SERVE]
        && is_serve(&theirs)
    {
        desired.insert("args".to_owned(), Value::Array(theirs));
    }
    // The program and its arguments as one list.
    let (ours, theirs) = (desired.get("command").and_then(list), existing.get("command").and_then(list));
    if let (Some(ours), Some(theirs)) = (ours, theirs)
        && let ([program, arguments @ ..], [_, existing_arguments @ ..]) =
            (ours.as_slice(), theirs.as_slice())
        && arguments == [SERVE]
        && is_serve(existing_arguments)
    {
        let arguments = std::iter::once(program).chain(existing_arguments).cloned().collect();
        desired.insert("command".to_owned(), Value::Array(arguments));
    }
}
