//! The MCP servers that plug-ins of Copilot's user bring, by name: each plug-in has a folder below one of its source.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::user;

/// Where plug-ins are below the program's home.
const FOLDER: &str = "installed-plugins";
/// Where a plug-in says what it brings, and where its servers stand if it does not say.
const MANIFESTS: [&str; 3] = ["plugin.json", ".claude-plugin/plugin.json", ".github/plugin/plugin.json"];
const SERVERS: [&str; 3] = [".mcp.json", ".github/mcp.json", "mcp.json"];
/// The most plug-ins that are looked at, of each source, and the most sources.
const FOLDERS_MAX: usize = 500;

/// Returns the names of all servers of all plug-ins.
pub(super) fn servers(home: &Path) -> Vec<String> {
    let sources = folders(&home.join(FOLDER)).into_iter();
    sources.flat_map(|source| folders(&source)).flat_map(|plugin| of_plugin(&plugin)).collect()
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).take(FOLDERS_MAX).collect()
}

fn of_plugin(plugin: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut files: Vec<PathBuf> = SERVERS.iter().map(|file| plugin.join(file)).collect();
    for manifest in MANIFESTS.iter().filter_map(|file| user::settings(&plugin.join(file))) {
        match &manifest["mcpServers"] {
            Value::String(file) => files.push(plugin.join(file)),
            Value::Array(items) => {
                files.extend(items.iter().filter_map(Value::as_str).map(|file| plugin.join(file)));
            }
            Value::Object(servers) => names.extend(servers.keys().cloned()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    names.extend(files.iter().filter_map(|file| user::settings(file)).flat_map(|settings| named(&settings)));
    names
}

/// Returns the servers of a file, which stand under a key or are all that it has.
fn named(settings: &Value) -> Vec<String> {
    let is_keyed = ["mcpServers", "servers"].iter().any(|key| settings[key].is_object());
    match (is_keyed, settings.as_object()) {
        (true, _) => [user::names(settings, "mcpServers"), user::names(settings, "servers")].concat(),
        (false, Some(servers)) => servers.keys().cloned().collect(),
        (false, None) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_found_however_a_plugin_names_them() {
        let home = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = home.path().join(FOLDER).join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("_direct/a/plugin.json", r#"{"name": "a", "mcpServers": "own.json"}"#);
        write("_direct/a/own.json", r#"{"mcpServers": {"one": {}}}"#);
        write("market/b/.claude-plugin/plugin.json", r#"{"mcpServers": {"two": {}}}"#);
        write("market/c/.mcp.json", r#"{"three": {"command": "x"}}"#);
        write("market/d/plugin.json", r#"{"mcpServers": ["x.json", 3, "missing.json"]}"#);
        write("market/d/x.json", r#"{"servers": {"four": {}}}"#);
        write("market/e/plugin.json", "no JSON");
        let mut found = servers(home.path());
        found.sort();
        assert_eq!(found, ["four", "one", "three", "two"]);
        assert_eq!(servers(&home.path().join("nowhere")), Vec::<String>::new());
    }
}
