//! Finds settings in a client's files that block the server. They are reported, but not changed.

use std::path::{Path, PathBuf};

use backends::client_setup::{ClientEnvironment, ClientSetup, ConfigScope, SERVER, ServerCommand, Syntax};
use serde_json::Value;

use super::config_file;
use super::edit::{SyntaxEdit, lookup};

/// Describes the settings that block the server.
pub(super) fn find_blocks(
    client: &ClientSetup,
    environment: &ClientEnvironment,
    scope: ConfigScope,
    server: &ServerCommand,
) -> Vec<String> {
    let mut files: Vec<(PathBuf, ConfigScope, Syntax)> = Vec::new();
    let written_paths: Vec<PathBuf> =
        (client.desired_files)(environment, scope, server).into_iter().map(|desired| desired.path).collect();
    // Project files do not matter for the user's configuration.
    let scopes: &[ConfigScope] = if scope == ConfigScope::User {
        &[ConfigScope::User]
    } else {
        &[ConfigScope::Project, ConfigScope::User]
    };
    for &scope in scopes {
        let desired_files = (client.desired_files)(environment, scope, server);
        files.extend(desired_files.into_iter().map(|desired| (desired.path, desired.scope, desired.syntax)));
    }
    if scope == ConfigScope::Project {
        let blocking = client.blocking_files.iter().map(|file| environment.project.join(file));
        files.extend(blocking.map(|file| (file, ConfigScope::Project, Syntax::Json)));
    }
    files.dedup();
    let mut messages = Vec::new();
    for (path, file_scope, syntax) in files {
        // Unreadable files are reported when they are edited.
        let found = config_file::find_config_file(&path, file_scope, &environment.project)
            .ok()
            .and_then(|found| found.text);
        let Some(value) = found.and_then(|text| syntax.value(&text).ok()) else { continue };
        let project = (scope == ConfigScope::Project).then_some(environment.project.as_path());
        let in_file = blocks_in(&value, project).into_iter();
        let disabled = switched_off(&value).into_iter().filter(|_| written_paths.contains(&path));
        messages.extend(in_file.chain(disabled).map(|block| {
            format!("{}: {block}; that wins over what is added, and is left as it is", path.display())
        }));
    }
    messages
}

fn blocks_in(value: &Value, project: Option<&Path>) -> Vec<String> {
    let has_project = project.is_some();
    let project = project.unwrap_or(Path::new("")).to_string_lossy().into_owned();
    let is_ours = |item: &&str| *item == SERVER;
    let denied = |item: &&str| *item == "mcp__volery" || item.starts_with("mcp__volery__");
    // Claude Code; then Gemini CLI and Qwen Code, today's names and the older ones.
    let mut blocks: Vec<String> = [
        (vec!["disabledMcpjsonServers"], true),
        (vec!["projects", &project, "disabledMcpjsonServers"], true),
        (vec!["projects", &project, "disabledMcpServers"], true),
        (vec!["mcp", "excluded"], true),
        (vec!["excludeMCPServers"], true),
        (vec!["mcp", "allowed"], false),
        (vec!["allowMCPServers"], false),
    ]
    .into_iter()
    .filter(|(path, _)| has_project || path[0] != "projects")
    .filter_map(|(path, is_blocking)| {
        let names = list(value, &path)?.iter().any(is_ours);
        let what = if is_blocking { "names" } else { "does not name" };
        (names == is_blocking).then(|| format!("{} {what} {SERVER}", path.join(".")))
    })
    .collect();
    let denied =
        list(value, &["permissions", "deny"]).and_then(|items| items.into_iter().find(|item| denied(item)));
    blocks.extend(denied.map(|rule| format!("permissions.deny has {rule}")));
    blocks
}

/// Returns how the server's own entry disables it, if it does.
fn switched_off(value: &Value) -> Option<String> {
    ["mcpServers", "servers", "mcp_servers", "context_servers"].into_iter().find_map(|table| {
        let entry = value.get(table)?.get(SERVER)?;
        let off = [("disabled", true), ("enabled", false)];
        let (key, state) =
            off.into_iter().find(|(key, state)| entry.get(key) == Some(&Value::Bool(*state)))?;
        Some(format!("{table}.{SERVER}.{key} is {state}"))
    })
}

fn list<'a>(value: &'a Value, path: &[&str]) -> Option<Vec<&'a str>> {
    let path: Vec<String> = path.iter().map(|&key| key.to_owned()).collect();
    Some(lookup(value, &path)?.as_array()?.iter().filter_map(Value::as_str).collect())
}
