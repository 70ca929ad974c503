//! Reads from Codex's own settings how long it waits for this server.
//!
//! Codex sends the same cancellation if its user stops a call and if the call times out, and does not send the limit.
//! Without its settings, a lower limit would cancel runs that only took too long.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use system_files::regular_file;

/// Larger files are not read.
const BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
struct CodexSettings {
    #[serde(default)]
    mcp_servers: std::collections::BTreeMap<String, toml::Value>,
}

/// Returns the shortest limit that may apply to a server in this directory. It is unknown which folders Codex trusts, and
/// an early answer is better than a late one.
pub(crate) fn limit(directory: &Path, codex_home: Option<&Path>) -> Option<Duration> {
    let project_dirs = directory.ancestors().map(|folder| folder.join(".codex"));
    let folders = project_dirs.chain(codex_home.map(Path::to_owned));
    folders.filter_map(|folder: PathBuf| limit_in(&folder.join("config.toml"))).min()
}

fn limit_in(path: &Path) -> Option<Duration> {
    // Codex itself reports unreadable settings.
    let settings: CodexSettings = toml::from_str(&regular_file::read_text(path, BYTES_MAX).ok()?).ok()?;
    let ours = settings.mcp_servers.iter().filter(|(name, server)| is_ours(name, server));
    ours.filter_map(|(_, server)| seconds(server.get("tool_timeout_sec")?)).min()
}

fn is_ours(name: &str, server: &toml::Value) -> bool {
    let command = server.get("command").and_then(toml::Value::as_str).map(Path::new);
    name == "volery" || command.and_then(Path::file_name).is_some_and(|file| file == "volery")
}

fn seconds(value: &toml::Value) -> Option<Duration> {
    let limit = match value {
        toml::Value::Integer(seconds) => u64::try_from(*seconds).ok().map(Duration::from_secs),
        toml::Value::Float(seconds) => Duration::try_from_secs_f64(*seconds).ok(),
        _ => None,
    };
    // A shorter limit cannot be met, and every cancel would count as a timeout.
    limit.filter(|limit| *limit >= Duration::from_secs(1))
}
