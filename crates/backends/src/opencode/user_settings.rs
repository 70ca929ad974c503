//! Runs that inherit their user's settings or MCP servers: opencode applies the rules of the user's settings, and starts the user's
//! servers. A project's settings are not the user's.

use std::path::{Path, PathBuf};

use domain::run::RunSpec;
use serde_json::Value;

use super::permission::UserRule;
use super::project_settings::settings_folders;
use super::{project_settings_files, server_names, user_settings_files};
use crate::project_executables::is_home;
use crate::user_environment::{self, UserEnvironment};

/// Returns the rules of the user's settings, and the denials of the project's settings. A file that cannot be read is an error,
/// because it may deny something.
pub(super) fn inherited_rules(spec: &RunSpec, user: &UserEnvironment<'_>) -> Result<Vec<UserRule>, String> {
    let mut rules = Vec::new();
    for file in user_settings_files(user) {
        rules.extend(read_rules(&file)?);
    }
    for file in project_settings_files(&project_folders(spec, user)) {
        rules.extend(read_rules(&file)?.into_iter().filter(|rule| rule.action == "deny"));
    }
    Ok(rules)
}

fn read_rules(file: &Path) -> Result<Vec<UserRule>, String> {
    let settings = user_environment::try_read_settings(file)
        .map_err(|reason| format!("the rules of {} cannot be read: {reason}", file.display()))?;
    Ok(settings.map(|settings| parse_rules(&settings)).unwrap_or_default())
}

fn parse_rules(settings: &Value) -> Vec<UserRule> {
    let mut rules = Vec::new();
    let mut add = |key: &str, pattern: &str, action: &Value| {
        // With sub-agents-mcp, opencode approves what the user's settings say to ask about (`--auto`).
        let action = match action.as_str() {
            Some("allow" | "ask") => "allow",
            Some("deny") => "deny",
            _ => return,
        };
        rules.push(UserRule { key: key.to_owned(), pattern: pattern.to_owned(), action });
    };
    match &settings["permission"] {
        Value::Object(keys) => {
            for (key, value) in keys {
                match value {
                    Value::Object(patterns) => {
                        patterns.iter().for_each(|(pattern, action)| add(key, pattern, action));
                    }
                    action => add(key, "*", action),
                }
            }
        }
        action => add("*", "*", action),
    }
    // The older way to disable a tool.
    for (tool, is_on) in settings["tools"].as_object().into_iter().flatten() {
        if is_on == &Value::Bool(false) {
            let key = if matches!(tool.as_str(), "write" | "patch") { "edit" } else { tool };
            add(key, "*", &Value::from("deny"));
        }
    }
    rules
}

/// Returns the names of the servers that the project's settings define. The user may have a server of the same name, which the
/// project's definition would replace.
pub(super) fn project_server_names(spec: &RunSpec, user: &UserEnvironment<'_>) -> Vec<String> {
    server_names(project_settings_files(&project_folders(spec, user)).into_iter())
}

/// Returns the folders of the project in which opencode looks for settings. The user's home is not a project.
fn project_folders(spec: &RunSpec, user: &UserEnvironment<'_>) -> Vec<PathBuf> {
    let mut folders = settings_folders(spec, user);
    folders.retain(|folder| !is_home(folder, user.home));
    folders
}

/// Returns a sentence for each file of the project whose servers are excluded.
pub(super) fn withheld_servers(spec: &RunSpec) -> Vec<String> {
    let folders: Vec<PathBuf> = user_environment::directories_up_to_root(&spec.directory, &spec.project)
        .into_iter()
        .map(Path::to_owned)
        .collect();
    let sentence = |file: PathBuf| {
        let names = server_names(std::iter::once(file.clone()));
        (!names.is_empty()).then(|| {
            format!(
                "withheld: the MCP servers {} of {}: a project's servers are not the user's own",
                names.join(", "),
                file.display()
            )
        })
    };
    project_settings_files(&folders).into_iter().filter_map(sentence).collect()
}
