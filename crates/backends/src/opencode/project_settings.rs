//! Files of a project that opencode reads: settings, plug-ins and tools, and the folders in which it looks for them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use domain::run::RunSpec;
use serde_json::Value;

use crate::contract::{Excerpt, ProjectExecutable};
use crate::excerpt;
use crate::project_executables::{self, ProjectConfigFiles, SafeKeys};
use crate::user_environment::{self, UserEnvironment};

/// A project's settings can define plug-ins and commands, and the services that keys are sent to.
static PROJECT_SETTINGS: ProjectConfigFiles = ProjectConfigFiles {
    program: "opencode",
    files: &["opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"],
    keys: SafeKeys::Listed(&[
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

/// Returns what opencode would execute because of files in these folders.
pub(crate) fn project_executables(folders: &[&Path]) -> Vec<ProjectExecutable> {
    const FOLDERS: [&str; 4] = [".opencode/plugin", ".opencode/plugins", ".opencode/tool", ".opencode/tools"];
    const EXTENSIONS: [&str; 8] = ["js", "ts", "mjs", "cjs", "mts", "cts", "jsx", "tsx"];
    let mut found = PROJECT_SETTINGS.find_executables(folders);
    found.extend(project_executables::loaded_plugins("opencode", folders, &FOLDERS, &EXTENSIONS));
    if let Some(root) = folders.last() {
        let files =
            folders.iter().flat_map(|folder| PROJECT_SETTINGS.files.iter().map(|file| folder.join(file)));
        found.extend(files.filter_map(|file| leaking_values(&file, root)));
    }
    // opencode's own options to turn them off do not work in all runs.
    found.into_iter().map(|program| ProjectExecutable { can_be_disabled: false, ..program }).collect()
}

/// Returns values that otherwise harmless settings would send somewhere: opencode substitutes variables and files in any string,
/// and fetches instructions from URLs.
fn leaking_values(file: &Path, root: &Path) -> Option<ProjectExecutable> {
    let settings = user_environment::read_settings(file)?;
    let text = user_environment::read_text(file).unwrap_or_default();
    let mut texts = Vec::new();
    collect_strings(&settings, &mut Vec::new(), &mut texts);
    let mut found: Vec<(String, Excerpt)> = Vec::new();
    for (path, value) in texts {
        let is_harmless = || {
            substitutions(value)
                .into_iter()
                .all(|substitution| is_own_prompt_file(&path, substitution, file, root))
        };
        let name = path.join(".");
        let is_address = path.first() == Some(&"instructions") && value.contains("://");
        let why = match value.contains("{env:") || value.contains("{file:") {
            true if is_harmless() => continue,
            true => destination(path.first().copied().unwrap_or_default()),
            false if is_address => "opencode fetches the address and puts what it gets into the prompt",
            false => continue,
        };
        let line = text.lines().position(|line| line.contains(first_marker(value)));
        let line = line.map(|line| u32::try_from(line).unwrap_or(u32::MAX).saturating_add(1));
        let shown = excerpt::printable(&format!("{name}: {value}"));
        found.push((name, Excerpt { line, text: shown, reason: why }));
    }
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let says = format!("opencode, values that leave the settings: {}", excerpt::printable(&names.join(", ")));
    let excerpts: Vec<Excerpt> = found.into_iter().map(|(_, excerpt)| excerpt).collect();
    (!excerpts.is_empty()).then(|| ProjectExecutable {
        file: file.to_owned(),
        description: says,
        content_is_executed: true,
        can_be_disabled: false,
        read_error: None,
        excerpts,
    })
}

/// Collects every string of a value with its path. Keys are strings too.
fn collect_strings<'a>(value: &'a Value, path: &mut Vec<&'a str>, texts: &mut Vec<(Vec<&'a str>, &'a str)>) {
    match value {
        Value::String(text) => texts.push((path.clone(), text)),
        Value::Array(items) => items.iter().for_each(|item| collect_strings(item, path, texts)),
        Value::Object(members) => {
            for (key, value) in members {
                texts.push((path.clone(), key));
                path.push(key);
                collect_strings(value, path, texts);
                path.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the substitutions in a text, such as `file:./a.md`. One without a closing brace may end in another text.
fn substitutions(text: &str) -> Vec<&str> {
    let substitution_at = |(at, _): (usize, &str)| {
        let inner = &text[at + 1..];
        let is_substitution = inner.starts_with("env:") || inner.starts_with("file:");
        is_substitution.then(|| inner.split_once('}').map_or("", |(inner, _)| inner))
    };
    text.match_indices('{').filter_map(substitution_at).collect()
}

/// Returns the part of a text with which its line can be found.
fn first_marker(text: &str) -> &str {
    let from = text.find("{env:").into_iter().chain(text.find("{file:")).min().unwrap_or(0);
    let rest = &text[from..];
    rest.find(['}', '\n', '"', '\\']).map_or(rest, |end| &rest[..end])
}

/// Returns whether a substitution only inserts a file of the project into a prompt: the agent could read the file anyway. A hidden
/// file may contain secrets, except in folders that usually contain prompts.
fn is_own_prompt_file(path: &[&str], substitution: &str, settings: &Path, root: &Path) -> bool {
    const PROMPT_FOLDERS: [&str; 8] =
        [".agents", ".ai", ".claude", ".codex", ".cursor", ".github", ".opencode", ".prompts"];
    let is_prompt = matches!(path, ["agent" | "mode", _, "prompt"] | ["command", _, "template"]);
    let Some(path_text) = substitution.strip_prefix("file:").map(str::trim) else { return false };
    let (Some(folder), Ok(root)) = (settings.parent(), root.canonicalize()) else { return false };
    if !is_prompt || path_text.is_empty() || path_text.starts_with('~') {
        return false;
    }
    // If there is no such file, opencode stops with an error and sends nothing.
    let Ok(target) = folder.join(path_text).canonicalize() else { return stays_inside(path_text) };
    let Ok(relative) = target.strip_prefix(&root) else { return false };
    let is_visible = |part: std::path::Component<'_>| {
        let part = part.as_os_str().to_string_lossy();
        !part.starts_with('.') || PROMPT_FOLDERS.contains(&&*part)
    };
    relative.components().all(is_visible)
}

fn stays_inside(path: &str) -> bool {
    let is_plain = |part: std::path::Component<'_>| {
        matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir)
    };
    Path::new(path).components().all(is_plain)
}

/// Describes where a substituted value goes.
fn destination(key: &str) -> &'static str {
    match key {
        "agent" | "command" | "instructions" | "mode" => {
            "opencode puts a variable or a file into a prompt, which the model's provider gets"
        }
        "mcp" => "opencode puts a variable or a file into what an MCP server gets",
        "provider" => "opencode puts a variable or a file into what a provider gets",
        _ => "opencode puts a variable or a file into this setting",
    }
}

/// Refuses executables in settings above the project that are not the user's: trust in the project does not cover them.
pub(super) fn check_above(spec: &RunSpec, user: &UserEnvironment<'_>) -> Result<(), String> {
    let project_folders = user_environment::directories_up_to_root(&spec.directory, &spec.project);
    let above = settings_folders(spec, user)
        .into_iter()
        .filter(|folder| !project_folders.contains(&folder.as_path()));
    for folder in above.filter(|folder| !project_executables::is_home(folder, user.home)) {
        if let Some(program) = project_executables(&[&folder]).first() {
            return Err(format!(
                "opencode would follow {}, which belongs neither to the project nor to you: {}",
                program.file.display(),
                program.description
            ));
        }
    }
    Ok(())
}

/// Returns the folders in which opencode may look for settings of a project: up to the root of the work tree, for which it asks
/// git. If git does not answer, opencode looks in all folders above.
pub(super) fn settings_folders(spec: &RunSpec, user: &UserEnvironment<'_>) -> Vec<PathBuf> {
    if !has_certain_root(&spec.directory, user) {
        return project_executables::ancestors(&spec.directory);
    }
    user_environment::directories_up_to_root(&spec.directory, &spec.project)
        .into_iter()
        .map(Path::to_owned)
        .collect()
}

/// Returns whether the nearest folder with a `.git` is certainly the root for git. Git itself is not asked, because its answer
/// depends on the environment, and opencode has another one.
fn has_certain_root(directory: &str, user: &UserEnvironment<'_>) -> bool {
    let has_git_folder = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
    let Some(root) = Path::new(directory).ancestors().find(has_git_folder) else { return false };
    user_environment::git_repository(root).is_some_and(|git_repository| {
        belongs_to_user(root, &git_repository) && has_default_root(&git_repository) && git_is_installed(user)
    })
}

/// Git refuses repositories of other users.
fn belongs_to_user(root: &Path, repository: &Path) -> bool {
    let user_id = rustix::process::geteuid().as_raw();
    let is_own = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.uid() == user_id);
    is_own(root) && is_own(&root.join(".git")) && is_own(repository)
}

/// Returns whether the settings of a repository neither set another root nor include other settings.
fn has_default_root(repository: &Path) -> bool {
    let common_dir = user_environment::read_text(&repository.join("commondir"));
    let common_dir = common_dir.map_or_else(|| repository.to_owned(), |path| repository.join(path.trim()));
    let Ok(settings) = user_environment::try_read_text(&common_dir.join("config")) else { return false };
    let settings = settings.unwrap_or_default().to_ascii_lowercase();
    // The settings of a submodule contain its own path.
    let is_submodule = common_dir.components().any(|part| part.as_os_str() == "modules");
    let sets_root = settings.contains("worktree") && !is_submodule;
    !sets_root && !settings.contains("[include") && !settings.contains("worktreeconfig")
}

fn git_is_installed(user: &UserEnvironment<'_>) -> bool {
    let path = (user.variable)("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("git").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, Vec<Excerpt>)> {
        let temp = tempfile::tempdir().unwrap();
        let project = temp.path().join("project");
        for (file, text) in [("prompts/docs.md", "Write."), (".env", "KEY=1"), ("../outside.md", "x")] {
            let file = project.join(file);
            std::fs::create_dir_all(project.join("prompts")).unwrap();
            std::fs::write(file, text).unwrap();
        }
        std::os::unix::fs::symlink("../../outside.md", project.join("prompts/link.md")).unwrap();
        for (file, text) in files {
            let file = project.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        project_executables(&[&project])
            .into_iter()
            .map(|program| (program.description, program.excerpts))
            .collect()
    }

    #[test]
    fn a_file_of_the_project_in_a_prompt_needs_no_trust() {
        for settings in [
            r#"{"agent":{"docs":{"description":"d","prompt":"{file:./prompts/docs.md}"}}}"#,
            r#"{"agent":{"docs":{"prompt":"First: {file:prompts/docs.md} {file: ./prompts/absent.md }"}}}"#,
            r#"{"mode":{"docs":{"prompt":"{file:./prompts/docs.md}"}}}"#,
            r#"{"command":{"docs":{"template":"{file:./prompts/docs.md} { not one }"}}}"#,
        ] {
            assert_eq!(found(&[("opencode.json", settings)]), [], "{settings}");
        }
        let below = r#"{"agent":{"docs":{"prompt":"{file:../prompts/docs.md}"}}}"#;
        assert_eq!(found(&[(".opencode/opencode.json", below)]), []);
    }

    #[test]
    fn every_other_substitution_is_shown_with_its_line_and_where_it_goes() {
        let settings = "{\n \"agent\": {\"docs\": {\n  \"prompt\": \"Key: {env:SECRET_KEY}\"}},\n \"username\": \"{file:~/.ssh/id}\",\n \
            \"instructions\": [\"https://x.example/a.md\"]}";
        let found = found(&[("opencode.json", settings)]);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].0,
            "opencode, values that leave the settings: agent.docs.prompt, username, instructions"
        );
        let shown: Vec<(Option<u32>, &str, &str)> =
            found[0].1.iter().map(|one| (one.line, one.text.as_str(), one.reason)).collect();
        assert_eq!(
            shown,
            [
                (
                    Some(3),
                    "agent.docs.prompt: Key: {env:SECRET_KEY}",
                    "opencode puts a variable or a file into a prompt, which the model's provider gets"
                ),
                (
                    Some(4),
                    "username: {file:~/.ssh/id}",
                    "opencode puts a variable or a file into this setting"
                ),
                (
                    Some(5),
                    "instructions: https://x.example/a.md",
                    "opencode fetches the address and puts what it gets into the prompt"
                ),
            ]
        );
    }

    #[test]
    fn a_file_that_is_hidden_or_outside_of_the_project_counts() {
        for prompt in [
            "{file:../outside.md}",
            "{file:prompts/link.md}",
            "{file:/etc/passwd}",
            "{file:~/x.md}",
            "{file:.env}",
            "{file:./prompts/../.env}",
            "{file:../absent.md}",
            "{file:./prompts/docs.md} {env:KEY}",
            "{file:./prompts/docs.md",
            "{file:}",
        ] {
            let settings = serde_json::json!({"agent": {"docs": {"prompt": prompt}}}).to_string();
            assert_eq!(found(&[("opencode.json", &settings)]).len(), 1, "{prompt}");
        }
        let elsewhere = r#"{"agent":{"docs":{"description":"{file:./prompts/docs.md}"}}}"#;
        assert_eq!(found(&[("opencode.json", elsewhere)]).len(), 1);
        let name = r#"{"agent":{"{env:KEY}":{"description":"d"}}}"#;
        assert_eq!(found(&[("opencode.json", name)]).len(), 1);
    }
}
