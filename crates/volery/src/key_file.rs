//! A file that holds keys of services by the names of their variables, as PowerSpawn has it. Read where a key is needed,
//! and nowhere kept.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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
    // Opening a pipe must not wait for whoever writes it.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = match OpenOptions::new().read(true).custom_flags(flags).open(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| error.to_string())?,
    };
    if !opened.metadata().is_ok_and(|found| found.is_file() && found.len() <= FILE_BYTES_MAX) {
        return Err("it is no file of at most 1 MiB".to_owned());
    }
    let mut text = String::new();
    opened.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
    let keys: Value = serde_json::from_str(&text).map_err(|error| {
        // Where, and nothing of what stands there.
        format!("it is no JSON (line {}, column {})", error.line(), error.column())
    })?;
    if keys.is_object() { Ok(Some(keys)) } else { Err("it is no JSON object".to_owned()) }
}
