//! The names of the MCP servers of installed plug-ins. Each plug-in has a folder below the folder of its source.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::user_environment;

/// The folder with plug-ins, below Copilot's home.
const PLUGINS_FOLDER: &str = "installed-plugins";
/// The manifest of a plug-in, and the files with its servers if the manifest names none.
const MANIFEST_FILES: [&str; 3] = ["plugin.json", ".claude-plugin/plugin.json", ".github/plugin/plugin.json"];
const SERVER_FILES: [&str; 3] = [".mcp.json", ".github/mcp.json", "mcp.json"];
/// The most sources, and the most plug-ins of each, that are scanned.
const FOLDERS_MAX: usize = 500;

/// Returns the names of all servers of all plug-ins.
pub(super) fn server_names(home: &Path) -> Vec<String> {
    let sources = subfolders(&home.join(PLUGINS_FOLDER)).into_iter();
    sources.flat_map(|source| subfolders(&source)).flat_map(|plugin| plugin_server_names(&plugin)).collect()
}

fn subfolders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).take(FOLDERS_MAX).collect()
}

fn plugin_server_names(plugin: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut files: Vec<PathBuf> = SERVER_FILES.iter().map(|file| plugin.join(file)).collect();
    for manifest in
        MANIFEST_FILES.iter().filter_map(|file| user_environment::read_settings(&plugin.join(file)))
    {
        match &manifest["mcpServers"] {
            Value::String(file) => files.push(plugin.join(file)),
            Value::Array(items) => {
                files.extend(items.iter().filter_map(Value::as_str).map(|file| plugin.join(file)));
            }
            Value::Object(servers) => names.extend(servers.keys().cloned()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    names.extend(
        files
            .iter()
            .filter_map(|file| user_environment::read_settings(file))
            .flat_map(|settings| names_in_file(&settings)),
    );
    names
}

/// Returns the servers in a file, which are below a key or at the top level.
fn names_in_file(settings: &Value) -> Vec<String> {
    let is_keyed = ["mcpServers", "servers"].iter().any(|key| settings[key].is_object());
    match (is_keyed, settings.as_object()) {
        (true, _) => [
            user_environment::entry_names(settings, "mcpServers"),
            user_environment::entry_names(settings, "servers"),
        ]
        .concat(),
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
            let path = home.path().join(PLUGINS_FOLDER).join(file);
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
        let mut found = server_names(home.path());
        found.sort();
        assert_eq!(found, ["four", "one", "three", "two"]);
        assert_eq!(server_names(&home.path().join("nowhere")), Vec::<String>::new());
    }
}
