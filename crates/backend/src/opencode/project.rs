//! What opencode finds in a project: settings, plug-ins and tools, and how far up it looks for them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use domain::run::RunSpec;
use serde_json::Value;

use crate::contract::{Excerpt, ProjectProgram};
use crate::excerpt;
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
    if let Some(root) = folders.last() {
        let files = folders.iter().flat_map(|folder| PROJECT.files.iter().map(|file| folder.join(file)));
        found.extend(files.filter_map(|file| sends(&file, root)));
    }
    // What it offers to turn them off does so in some runs and in others not.
    found.into_iter().map(|program| ProjectProgram { can_be_off: false, ..program }).collect()
}

/// Returns what settings that are harmless by their names would send somewhere: opencode puts variables and files into any
/// text of theirs, and fetches instructions from addresses.
fn sends(file: &Path, root: &Path) -> Option<ProjectProgram> {
    let settings = user::settings(file)?;
    let text = user::text(file).unwrap_or_default();
    let mut texts = Vec::new();
    collect_texts(&settings, &mut Vec::new(), &mut texts);
    let mut found: Vec<(String, Excerpt)> = Vec::new();
    for (path, value) in texts {
        let has_all =
            || substitutions(value).into_iter().all(|one| is_own_prompt_file(&path, one, file, root));
        let name = path.join(".");
        let is_address = path.first() == Some(&"instructions") && value.contains("://");
        let why = match value.contains("{env:") || value.contains("{file:") {
            true if has_all() => continue,
            true => destination(path.first().copied().unwrap_or_default()),
            false if is_address => "opencode fetches the address and puts what it gets into the prompt",
            false => continue,
        };
        let line = text.lines().position(|line| line.contains(first_mark(value)));
        let line = line.map(|line| u32::try_from(line).unwrap_or(u32::MAX).saturating_add(1));
        let shown = excerpt::shown(&format!("{name}: {value}"));
        found.push((name, Excerpt { line, text: shown, why }));
    }
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let says = format!("opencode, values that leave the settings: {}", excerpt::shown(&names.join(", ")));
    let excerpts: Vec<Excerpt> = found.into_iter().map(|(_, excerpt)| excerpt).collect();
    (!excerpts.is_empty()).then(|| ProjectProgram {
        file: file.to_owned(),
        says,
        is_program: true,
        can_be_off: false,
        unread: None,
        excerpts,
    })
}

/// Adds every text of a value with the names that lead to it. A name is a text too.
fn collect_texts<'a>(value: &'a Value, path: &mut Vec<&'a str>, texts: &mut Vec<(Vec<&'a str>, &'a str)>) {
    match value {
        Value::String(text) => texts.push((path.clone(), text)),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, path, texts)),
        Value::Object(members) => {
            for (key, value) in members {
                texts.push((path.clone(), key));
                path.push(key);
                collect_texts(value, path, texts);
                path.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns what stands where opencode puts a value in: `file:./a.md`. One that nothing closes may end in another text.
fn substitutions(text: &str) -> Vec<&str> {
    let begins = |(at, _): (usize, &str)| {
        let inner = &text[at + 1..];
        let is_one = inner.starts_with("env:") || inner.starts_with("file:");
        is_one.then(|| inner.split_once('}').map_or("", |(inner, _)| inner))
    };
    text.match_indices('{').filter_map(begins).collect()
}

/// Returns the part of a text by which its line is found.
fn first_mark(text: &str) -> &str {
    let from = text.find("{env:").into_iter().chain(text.find("{file:")).min().unwrap_or(0);
    let rest = &text[from..];
    rest.find(['}', '\n', '"', '\\']).map_or(rest, |end| &rest[..end])
}

/// Tells whether a substitution only puts a file of the project into a prompt: the agent could read the file anyway. A file
/// that is hidden may have secrets, except in the folders where people keep prompts.
fn is_own_prompt_file(path: &[&str], substitution: &str, settings: &Path, root: &Path) -> bool {
    const PROMPT_FOLDERS: [&str; 8] =
        [".agents", ".ai", ".claude", ".codex", ".cursor", ".github", ".opencode", ".prompts"];
    let is_prompt = matches!(path, ["agent" | "mode", _, "prompt"] | ["command", _, "template"]);
    let Some(named) = substitution.strip_prefix("file:").map(str::trim) else { return false };
    let (Some(folder), Ok(root)) = (settings.parent(), root.canonicalize()) else { return false };
    if !is_prompt || named.is_empty() || named.starts_with('~') {
        return false;
    }
    // Where there is no file, opencode stops with an error and sends nothing.
    let Ok(real) = folder.join(named).canonicalize() else { return stays_below(named) };
    let Ok(below) = real.strip_prefix(&root) else { return false };
    let is_shown = |part: std::path::Component<'_>| {
        let part = part.as_os_str().to_string_lossy();
        !part.starts_with('.') || PROMPT_FOLDERS.contains(&&*part)
    };
    below.components().all(is_shown)
}

fn stays_below(named: &str) -> bool {
    let is_plain = |part: std::path::Component<'_>| {
        matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir)
    };
    Path::new(named).components().all(is_plain)
}

/// Says where opencode puts a value that is substituted in a setting.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, Vec<Excerpt>)> {
        let place = tempfile::tempdir().unwrap();
        let project = place.path().join("project");
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
        programs_of_project(&[&project]).into_iter().map(|program| (program.says, program.excerpts)).collect()
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
            found[0].1.iter().map(|one| (one.line, one.text.as_str(), one.why)).collect();
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
