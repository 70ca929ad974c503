//! Reads a file with keys of services by the names of their variables, in the format of PowerSpawn. The file is read
//! each time that a key is needed, and its keys are not cached.

use std::path::Path;

use serde_json::Value;
use system_files::regular_file;

const FILE_BYTES_MAX: u64 = 1 << 20;

/// Returns the value of the first of these names that the file has. A file that does not exist or is not JSON has
/// none.
pub fn value(file: &Path, names: &[String]) -> Option<String> {
    let keys = read(file).ok()??;
    names
        .iter()
        .find_map(|name| Some(keys.get(name)?.as_str()?.trim().to_owned()).filter(|key| !key.is_empty()))
}

/// Reads the file. Returns `None` if there is none, or why it cannot be used.
pub fn read(file: &Path) -> Result<Option<Value>, String> {
    let text = match regular_file::read_text(file, FILE_BYTES_MAX) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|error| error.to_string())?,
    };
    let keys: Value = serde_json::from_str(&text).map_err(|error| {
        // The message has the position of the error and none of the content.
        format!("it is no JSON (line {}, column {})", error.line(), error.column())
    })?;
    if keys.is_object() { Ok(Some(keys)) } else { Err("it is no JSON object".to_owned()) }
}
