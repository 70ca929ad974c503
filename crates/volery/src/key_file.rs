//! A file that holds keys of services by the names of their variables, as PowerSpawn has it. Read where a key is needed,
//! and nowhere kept.

use std::path::Path;

use backend::plain_file;
use serde_json::Value;

const FILE_BYTES_MAX: u64 = 1 << 20;

/// Returns what the file holds under the first of these names that it has. A file that is not there or no JSON has none.
pub fn value(file: &Path, names: &[String]) -> Option<String> {
    let keys = read(file).ok()??;
    names
        .iter()
        .find_map(|name| Some(keys.get(name)?.as_str()?.trim().to_owned()).filter(|key| !key.is_empty()))
}

/// Reads the file: nothing if there is none, and why it cannot be used.
pub fn read(file: &Path) -> Result<Option<Value>, String> {
    let text = match plain_file::text(file, FILE_BYTES_MAX) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|error| error.to_string())?,
    };
    let keys: Value = serde_json::from_str(&text).map_err(|error| {
        // Where, and nothing of what stands there.
        format!("it is no JSON (line {}, column {})", error.line(), error.column())
    })?;
    if keys.is_object() { Ok(Some(keys)) } else { Err("it is no JSON object".to_owned()) }
}
