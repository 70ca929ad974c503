//! What in a client's files keeps the server from being used, whatever else they say. It is left, and told.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::client::{Client, SERVER, Scope, Server, Surroundings};
use super::edit::{Syntax, lookup};
use super::file;

/// Returns what bans the server, each in words.
pub(super) fn bans(
    client: &Client,
    surroundings: &Surroundings,
    scope: Scope,
    server: &Server,
) -> Vec<String> {
    let mut files: Vec<(PathBuf, Scope, Syntax)> = Vec::new();
    let asked: Vec<PathBuf> =
        (client.wishes)(surroundings, scope, server).into_iter().map(|wish| wish.path).collect();
    // What a project says is of no interest where the user's configuration is meant.
    let scopes: &[Scope] = if scope == Scope::User { &[Scope::User] } else { &[Scope::Project, Scope::User] };
    for &scope in scopes {
        let wishes = (client.wishes)(surroundings, scope, server);
        files.extend(wishes.into_iter().map(|wish| (wish.path, wish.scope, wish.syntax)));
    }
    if client.name == "claude" && scope == Scope::Project {
        let shared = surroundings.project.join(".claude/settings.json");
        files.push((shared, Scope::Project, Syntax::Json));
    }
    files.dedup();
    let mut told = Vec::new();
    for (path, of, syntax) in files {
        // What cannot be read is told where it shall be changed.
        let found = file::find(&path, of, &surroundings.project).ok().and_then(|found| found.text);
        let Some(value) = found.and_then(|text| syntax.value(&text).ok()) else { continue };
        let project = (scope == Scope::Project).then_some(surroundings.project.as_path());
        let in_file = bans_in(&value, project).into_iter();
        let own = switched_off(&value).into_iter().filter(|_| asked.contains(&path));
        told.extend(in_file.chain(own).map(|ban| {
            format!("{}: {ban}; that wins over what is added, and is left as it is", path.display())
        }));
    }
    told
}

fn bans_in(value: &Value, project: Option<&Path>) -> Vec<String> {
    let of_project = project.is_some();
    let project = project.unwrap_or(Path::new("")).to_string_lossy().into_owned();
    let named = |item: &&str| *item == SERVER;
    let denied = |item: &&str| *item == "mcp__volery" || item.starts_with("mcp__volery__");
    // Claude Code; then Gemini CLI and Qwen Code, today's names and the older ones.
    let mut bans: Vec<String> = [
        (vec!["disabledMcpjsonServers"], true),
        (vec!["projects", &project, "disabledMcpjsonServers"], true),
        (vec!["projects", &project, "disabledMcpServers"], true),
        (vec!["mcp", "excluded"], true),
        (vec!["excludeMCPServers"], true),
        (vec!["mcp", "allowed"], false),
        (vec!["allowMCPServers"], false),
    ]
    .into_iter()
    .filter(|(path, _)| of_project || path[0] != "projects")
    .filter_map(|(path, is_ban)| {
        let names = list(value, &path)?.iter().any(named);
        let what = if is_ban { "names" } else { "does not name" };
        (names == is_ban).then(|| format!("{} {what} {SERVER}", path.join(".")))
    })
    .collect();
    let denied =
        list(value, &["permissions", "deny"]).and_then(|items| items.into_iter().find(|item| denied(item)));
    bans.extend(denied.map(|rule| format!("permissions.deny has {rule}")));
    bans
}

/// The entry itself may say that it shall not be used.
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
