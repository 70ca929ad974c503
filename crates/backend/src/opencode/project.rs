//! What opencode finds in a project: settings, plug-ins and tools, and how far up it looks for them.

use std::path::{Path, PathBuf};

use domain::run::RunSpec;
use serde_json::Value;

use crate::contract::ProjectProgram;
use crate::project_settings::{self, Keys, ProjectSettings};
use crate::user::{self, User};

/// A project's settings name plug-ins and commands, and whom keys are sent to.
static PROJECT: ProjectSettings = ProjectSettings {
    program: "opencode",
    files: &["opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"],
    keys: Keys::Harmless(&[
        "$schema",
        "agent",
        "autoupdate",
        "command",
        "compaction",
        "default_agent",
        "disabled_providers",
        "enabled_providers",
        "instructions",
        "keybinds",
        "layout",
        "mcp",
        "mode",
        "model",
        "permission",
        "share",
        "small_model",
        "snapshot",
        "theme",
        "tools",
        "tui",
        "username",
        "watcher",
    ]),
    variables: &[],
};

/// Returns what opencode would execute in a project.
pub(crate) fn programs_of_project(folders: &[&Path]) -> Vec<ProjectProgram> {
    const WITHIN: [&str; 4] = [".opencode/plugin", ".opencode/plugins", ".opencode/tool", ".opencode/tools"];
    const ENDINGS: [&str; 8] = ["js", "ts", "mjs", "cjs", "mts", "cts", "jsx", "tsx"];
    let mut found = PROJECT.programs(folders);
    found.extend(project_settings::loaded("opencode", folders, &WITHIN, &ENDINGS));
    found.extend(PROJECT.each(folders, sends));
    // What it offers to turn them off does so in some runs and in others not.
    found.into_iter().map(|program| ProjectProgram { can_be_off: false, ..program }).collect()
}

/// Returns what settings that are harmless by their names would send somewhere: variables and files are put into any
/// text of theirs, and instructions may be addresses.
fn sends(settings: &Value) -> Option<String> {
    fn any(value: &Value, is: fn(&str) -> bool) -> bool {
        match value {
            Value::String(text) => is(text),
            Value::Array(items) => items.iter().any(|item| any(item, is)),
            Value::Object(members) => members.iter().any(|(key, value)| is(key) || any(value, is)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    if any(settings, |text| text.contains("{env:") || text.contains("{file:")) {
        return Some("values of variables or files".to_owned());
    }
    let instructions = &settings["instructions"];
    any(instructions, |text| text.contains("://")).then(|| format!("instructions: {instructions}"))
}

/// Refuses what stands above the project and is not its user's, where the program looks for it: no trust covers that.
pub(super) fn check_above(spec: &RunSpec, user: &User<'_>) -> Result<(), String> {
    let within = user::upward(&spec.directory, &spec.project);
    let above = folders_of(spec).into_iter().filter(|folder| !within.contains(&folder.as_path()));
    for folder in above.filter(|folder| !project_settings::is_home(folder, user.home)) {
        if let Some(program) = programs_of_project(&[&folder]).first() {
            return Err(format!(
                "opencode would follow {}, which belongs neither to the project nor to you: {}",
                program.file.display(),
                program.says
            ));
        }
    }
    Ok(())
}

/// Returns the folders in which the program looks for settings of a project: outside of a git work tree all above.
pub(super) fn folders_of(spec: &RunSpec) -> Vec<PathBuf> {
    if !user::is_in_work_tree(&spec.directory) {
        return project_settings::ancestors(&spec.directory);
    }
    user::upward(&spec.directory, &spec.project).into_iter().map(Path::to_owned).collect()
}
