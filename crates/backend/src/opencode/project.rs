//! What opencode finds in a project: settings, plug-ins and tools, and how far up it looks for them.

use std::os::unix::fs::MetadataExt;
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
    let above = folders_of(spec, user).into_iter().filter(|folder| !within.contains(&folder.as_path()));
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

/// Returns the folders in which the program may look for settings of a project: to the root of the work tree, which it asks
/// git for. Where git gives no answer it looks at all above.
pub(super) fn folders_of(spec: &RunSpec, user: &User<'_>) -> Vec<PathBuf> {
    if !is_bounded(&spec.directory, user) {
        return project_settings::ancestors(&spec.directory);
    }
    user::upward(&spec.directory, &spec.project).into_iter().map(Path::to_owned).collect()
}

/// Tells whether git surely takes the nearest folder with a `.git` for the root. It is not asked: it may be told otherwise
/// by an environment that is not the program's.
fn is_bounded(directory: &str, user: &User<'_>) -> bool {
    let has_some = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
    let Some(root) = Path::new(directory).ancestors().find(has_some) else { return false };
    user::repository(root)
        .is_some_and(|repository| is_own(root, &repository) && names_no_root(&repository) && has_git(user))
}

/// Git refuses what belongs to somebody else.
fn is_own(root: &Path, repository: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_own = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.uid() == own);
    is_own(root) && is_own(&root.join(".git")) && is_own(repository)
}

/// Tells whether the settings of a repository leave it at that: they may name another root, or other settings that do.
fn names_no_root(repository: &Path) -> bool {
    let common = user::text(&repository.join("commondir"));
    let common = common.map_or_else(|| repository.to_owned(), |path| repository.join(path.trim()));
    let Ok(settings) = user::look_text(&common.join("config")) else { return false };
    let settings = settings.unwrap_or_default().to_ascii_lowercase();
    // A submodule names its own place.
    let is_submodule = common.components().any(|part| part.as_os_str() == "modules");
    let names = settings.contains("worktree") && !is_submodule;
    !names && !settings.contains("[include") && !settings.contains("worktreeconfig")
}

fn has_git(user: &User<'_>) -> bool {
    let path = (user.value)("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("git").is_file())
}
