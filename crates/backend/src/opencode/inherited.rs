//! An agent that gets what its user has: opencode goes by the rules of its user's own settings, and starts the user's servers.

use std::path::{Path, PathBuf};

use domain::run::RunSpec;
use serde_json::Value;

use super::permission::UsersRule;
use super::project::folders_of;
use super::{projects_files, server_names, users_files};
use crate::project_settings;
use crate::user::{self, User};

/// Returns the rules of the user's settings, and those of the project's that deny: a project's settings are not the user's own. A
/// file that cannot be read is an error, since it may deny something.
pub(super) fn rules(spec: &RunSpec, user: &User<'_>) -> Result<Vec<UsersRule>, String> {
    let mut rules = Vec::new();
    for file in users_files(user) {
        rules.extend(rules_in(&file)?);
    }
    for file in projects_files(&projects_folders(spec, user)) {
        rules.extend(rules_in(&file)?.into_iter().filter(|rule| rule.action == "deny"));
    }
    Ok(rules)
}

fn rules_in(file: &Path) -> Result<Vec<UsersRule>, String> {
    let settings = user::look(file)
        .map_err(|reason| format!("the rules of {} cannot be read: {reason}", file.display()))?;
    Ok(settings.map(|settings| rules_of(&settings)).unwrap_or_default())
}

fn rules_of(settings: &Value) -> Vec<UsersRule> {
    let mut rules = Vec::new();
    let mut add = |key: &str, pattern: &str, action: &Value| {
        // sub-agents-mcp has opencode approve what its user wants to be asked about (`--auto`).
        let action = match action.as_str() {
            Some("allow" | "ask") => "allow",
            Some("deny") => "deny",
            _ => return,
        };
        rules.push(UsersRule { key: key.to_owned(), pattern: pattern.to_owned(), action });
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
    // The older way to take a tool away.
    for (tool, is_on) in settings["tools"].as_object().into_iter().flatten() {
        if is_on == &Value::Bool(false) {
            let key = if matches!(tool.as_str(), "write" | "patch") { "edit" } else { tool };
            add(key, "*", &Value::from("deny"));
        }
    }
    rules
}

/// Returns the names of the servers that files of the project define, also where the user has one of the same name: the project's
/// definition would take its place.
pub(super) fn projects_servers(spec: &RunSpec, user: &User<'_>) -> Vec<String> {
    server_names(projects_files(&projects_folders(spec, user)).into_iter())
}

/// Returns the folders of the project in which the program looks for settings. The user's home is not a project.
fn projects_folders(spec: &RunSpec, user: &User<'_>) -> Vec<PathBuf> {
    let mut folders = folders_of(spec, user);
    folders.retain(|folder| !project_settings::is_home(folder, user.home));
    folders
}

/// Returns a sentence for each file of the project whose servers are left out.
pub(super) fn withheld_servers(spec: &RunSpec) -> Vec<String> {
    let folders: Vec<PathBuf> =
        user::upward(&spec.directory, &spec.project).into_iter().map(Path::to_owned).collect();
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
    projects_files(&folders).into_iter().filter_map(sentence).collect()
}
