//! Conversations on disk, each a list of messages, where the vendor would store them.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Returns the messages of a conversation, if there is one.
pub(crate) fn read(file: &Path) -> Option<Vec<Value>> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// Stores a conversation. If that fails, resuming the conversation fails.
pub(crate) fn write(file: &Path, messages: &[Value]) {
    if let Some(folder) = file.parent() {
        let _ = fs::create_dir_all(folder);
    }
    let _ = fs::write(file, Value::from(messages.to_vec()).to_string());
}

/// Returns a fresh id in the form of a UUID.
pub(crate) fn fresh_id() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    kernel.trim().to_owned()
}
