//! How long Codex waits for this server, as its own settings say.
//!
//! Codex says the same whether its user stops a call or its time-out ends it, and does not tell the limit: whoever
//! lowers that would have runs cancelled which only took too long.

use std::path::{Path, PathBuf};
use std::time::Duration;

use backend::plain_file;
use serde::Deserialize;

/// Larger files are nobody's settings.
const BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
struct Settings {
    #[serde(default)]
    mcp_servers: std::collections::BTreeMap<String, toml::Value>,
}

/// Returns the shortest limit of those that may apply to a server in this directory: which folders Codex trusts is not
/// known here, and an answer may come too soon, but not too late.
pub(crate) fn limit(directory: &Path, codex_home: Option<&Path>) -> Option<Duration> {
    let of_projects = directory.ancestors().map(|folder| folder.join(".codex"));
    let folders = of_projects.chain(codex_home.map(Path::to_owned));
    folders.filter_map(|folder: PathBuf| limit_in(&folder.join("config.toml"))).min()
}

fn limit_in(path: &Path) -> Option<Duration> {
    // What cannot be read is for Codex to complain about.
    let settings: Settings = toml::from_str(&plain_file::text(path, BYTES_MAX).ok()?).ok()?;
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
    // Nobody can answer sooner; a cancel shall still mean something then.
    limit.filter(|limit| *limit >= Duration::from_secs(1))
}
