//! Files of a project that make Claude Code execute programs: settings, commands, skills and agents.

use std::path::{Path, PathBuf};

use domain::run::RunSpec;

use crate::contract::{Excerpt, ProjectExecutable};
use crate::excerpt;
use crate::frontmatter;
use crate::project_executables::{ProjectConfigFiles, SafeKeys};
use crate::user_environment;

/// A project's settings can define hooks, commands that provide keys, and variables that select another service. Claude Code
/// applies them even in a folder that it does not trust.
static SETTINGS: ProjectConfigFiles = ProjectConfigFiles {
    program: "claude",
    files: &[".claude/settings.json", ".claude/settings.local.json"],
    keys: SafeKeys::Listed(&[
        "$schema",
        "attribution",
        "cleanupPeriodDays",
        "companyAnnouncements",
        "disabledMcpjsonServers",
        "enableAllProjectMcpServers",
        "enabledMcpjsonServers",
        "includeCoAuthoredBy",
        "language",
        "model",
        "outputStyle",
        "permissions",
        "respectGitignore",
        "spinnerTipsEnabled",
    ]),
    variables: &[],
};

/// Commands, skills and agents. They can execute programs while they are inserted into a prompt, define hooks and servers, and
/// allow tools without confirmation. The model can choose them by itself.
const PROMPT_FOLDERS: [(&str, &str); 3] =
    [(".claude/commands", "command"), (".claude/skills", "skill"), (AGENTS_FOLDER, "agent")];
const AGENTS_FOLDER: &str = ".claude/agents";
/// Limits of the scan. Files beyond them may contain anything.
const DEPTH_MAX: usize = 8;
const ENTRIES_MAX: usize = 10_000;

/// Returns what Claude Code would execute because of files in these folders. All of it can be turned off.
pub(crate) fn project_executables(folders: &[&Path]) -> Vec<ProjectExecutable> {
    let mut found = SETTINGS.find_executables(folders);
    for folder in folders {
        for (subfolder, kind) in PROMPT_FOLDERS {
            let prompts = folder.join(subfolder);
            let (mut files, mut entries_left) = (Vec::new(), ENTRIES_MAX);
            let is_complete = collect_markdown(&prompts, DEPTH_MAX, &mut entries_left, &mut files);
            files.sort();
            found.extend(files.into_iter().filter_map(|file| {
                let excerpts = Some(excerpts(&file, subfolder)).filter(|found| !found.is_empty())?;
                let name = file.strip_prefix(&prompts).unwrap_or(&file).display().to_string();
                let says = format!("claude, {kind}: {name}");
                Some(ProjectExecutable {
                    file,
                    description: says,
                    content_is_executed: true,
                    can_be_disabled: true,
                    read_error: None,
                    excerpts,
                })
            }));
            // A folder has no digest, so nobody can trust what was not scanned.
            let says =
                format!("claude, {kind}: too many or too deep to look at all, so trust counts for none");
            let unscanned = || ProjectExecutable {
                file: prompts.clone(),
                description: says,
                content_is_executed: true,
                can_be_disabled: true,
                read_error: None,
                excerpts: Vec::new(),
            };
            found.extend((!is_complete).then(unscanned));
        }
    }
    found
}

/// Returns the paths at which a project may have settings for the directory of a run.
pub(super) fn settings_files(spec: &RunSpec) -> Vec<PathBuf> {
    let folders = user_environment::directories_up_to_root(&spec.directory, &spec.project);
    folders.iter().flat_map(|folder| SETTINGS.files.iter().map(|file| folder.join(file))).collect()
}

/// Returns the rules that a project's settings deny. They apply even if the rest of those settings is excluded.
pub(super) fn denied_rules(spec: &RunSpec) -> Vec<String> {
    settings_files(spec).iter().flat_map(|file| denied_rules_of(file)).collect()
}

/// Returns the rules that a settings file denies.
pub(super) fn denied_rules_of(file: &Path) -> Vec<String> {
    let settings = user_environment::read_settings(file).unwrap_or_default();
    let rules = settings["permissions"]["deny"].as_array().cloned().unwrap_or_default();
    rules.into_iter().filter_map(|rule| rule.as_str().map(ToOwned::to_owned)).collect()
}

/// Returns the parts of a file that execute or allow something. A file that cannot be read may contain anything.
fn excerpts(file: &Path, folder: &str) -> Vec<Excerpt> {
    let Some(text) = user_environment::try_read_text_lossy(file).ok().flatten() else {
        let why = "it could not be read, so it may execute anything";
        return vec![Excerpt { line: None, text: "the whole file".to_owned(), reason: why }];
    };
    let from_frontmatter = frontmatter::find_risky_keys(&text).into_iter().map(|finding| {
        let is_hook = finding.name == "hooks";
        let found = Excerpt::from(finding);
        match is_hook && folder == AGENTS_FOLDER {
            // The file is also an agent of Volery, and Volery does not run its hooks.
            true => Excerpt { reason: AGENT_HOOKS_REASON, ..found },
            false => found,
        }
    });
    let mut found: Vec<Excerpt> = from_frontmatter.collect();
    found.extend(excerpt::embedded_commands(&text));
    found
}

const AGENT_HOOKS_REASON: &str =
    "Claude Code runs these programs when it starts this agent by itself; Volery does not run them";

/// Collects the Markdown files below a folder, and returns whether it found all of them. Symbolic links may form cycles.
fn collect_markdown(folder: &Path, depth: usize, entries_left: &mut usize, files: &mut Vec<PathBuf>) -> bool {
    let mut is_complete = true;
    for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let Some(remaining) = entries_left.checked_sub(1) else { return false };
        *entries_left = remaining;
        let path = entry.path();
        if path.is_dir() {
            is_complete &= depth > 0 && collect_markdown(&path, depth - 1, entries_left, files);
        } else if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("md")) {
            files.push(path);
        }
    }
    is_complete
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_skills_and_agents_that_execute_or_allow_something_are_found() {
        let temp = tempfile::tempdir().unwrap();
        for (file, text) in [
            (".claude/commands/git/push.md", "Result: !`date`\n"),
            (".claude/commands/commit.md", "---\ndescription: d\n---\nWrite a message.\n"),
            (".claude/commands/free.md", "---\nallowed-tools: Bash\n---\nWrite.\n"),
            (".claude/skills/fly/SKILL.md", "---\nname: fly\nhooks: {}\n---\nFly.\n"),
            (".claude/skills/fly/wing.png", "!`date`"),
            (".claude/agents/plain.md", "---\nname: plain\ntools: Read, mcp__a__b\n---\nRead.\n"),
            (".claude/agents/eager.md", "---\nname: eager\nmcpServers: [{a: {command: b}}]\n---\n"),
        ] {
            let file = temp.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let found = project_executables(&[temp.path()]);
        let descriptions: Vec<&str> = found.iter().map(|program| program.description.as_str()).collect();
        let expected = [
            "claude, command: free.md",
            "claude, command: git/push.md",
            "claude, skill: fly/SKILL.md",
            "claude, agent: eager.md",
        ];
        assert_eq!(descriptions, expected);
        let rules = r#"{"permissions": {"deny": ["Read(./.env)", 1]}}"#;
        std::fs::write(temp.path().join(".claude/settings.json"), rules).unwrap();
        let mut spec = crate::test_fixtures::spec("claude");
        spec.directory = temp.path().display().to_string();
        spec.project = spec.directory.clone();
        assert_eq!(denied_rules(&spec), ["Read(./.env)"]);
        assert!(found.iter().all(|program| program.content_is_executed && program.can_be_disabled));
        let shown = |index: usize| {
            let found = &found[index].excerpts[0];
            (found.line, found.text.as_str(), found.reason)
        };
        assert_eq!(shown(0), (Some(2), "allowed-tools: Bash", "it allows tools without a question"));
        assert_eq!(shown(1), (Some(1), "!`date`", "the command runs when the text is put into a prompt"));
        assert_eq!(shown(2), (Some(3), "hooks: {}", "hooks run programs at events of the agent"));
    }

    #[test]
    fn text_that_resembles_commands_needs_no_trust() {
        let temp = tempfile::tempdir().unwrap();
        for (file, text) in [
            (".claude/commands/greet.md", "Say `Hello!`, then stop.\n"),
            (".claude/commands/code.md", "```js\nconst a = `Hi ${name}!`;\nconst b = `${a}`;\n```\n"),
            (".claude/agents/lists.md", "---\nname: lists\ntools: [\n  Read,\n  Grep\n]\n---\nRead.\n"),
            (".claude/agents/notes.md", "---\n\nA rule above a text. Note: it is no head.\n"),
        ] {
            let file = temp.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        assert_eq!(project_executables(&[temp.path()]), []);
    }

    #[test]
    fn files_hidden_among_many_or_in_deep_folders_are_found() {
        let temp = tempfile::tempdir().unwrap();
        let commands = temp.path().join(".claude/commands");
        let descriptions = || {
            project_executables(&[temp.path()])
                .into_iter()
                .map(|program| program.description)
                .collect::<Vec<_>>()
        };
        std::fs::create_dir_all(commands.join("1/2/3/4/5/6/7/8")).unwrap();
        for number in 0..1_200 {
            std::fs::write(commands.join(format!("{number}.md")), "Fly.\n").unwrap();
        }
        assert_eq!(descriptions(), Vec::<String>::new());
        std::fs::write(commands.join("1/2/3/4/5/6/7/8/deep.md"), "!`date`").unwrap();
        assert_eq!(descriptions(), ["claude, command: 1/2/3/4/5/6/7/8/deep.md"]);
        for number in 0..30 {
            std::os::unix::fs::symlink(&commands, commands.join(format!("1/round{number}"))).unwrap();
        }
        assert_eq!(
            descriptions().last().unwrap(),
            "claude, command: too many or too deep to look at all, so trust counts for none"
        );
    }
}
