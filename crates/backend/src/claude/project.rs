//! What Claude Code would execute because of files in a project.

use std::path::{Path, PathBuf};

use crate::contract::ProjectProgram;
use crate::project_settings::{Keys, ProjectSettings};

/// A project's settings name hooks and commands for keys, and variables that lead elsewhere, also where Claude Code
/// itself does not trust the folder.
static SETTINGS: ProjectSettings = ProjectSettings {
    program: "claude",
    files: &[".claude/settings.json", ".claude/settings.local.json"],
    keys: Keys::Harmless(&[
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

/// Commands and skills have programs executed while they are put into a prompt, bring hooks with them, and say which
/// tools need no question. The model can choose them too.
const PROMPTS: [&str; 2] = [".claude/commands", ".claude/skills"];
const DEPTH_MAX: usize = 4;
const FILES_MAX: usize = 1_000;

/// Returns what the files in these folders would execute. Claude Code can be told to leave all of it out.
pub(crate) fn programs(folders: &[&Path]) -> Vec<ProjectProgram> {
    let mut found = SETTINGS.programs(folders);
    for prompts in folders.iter().flat_map(|folder| PROMPTS.map(|prompts| folder.join(prompts))) {
        let mut files = Vec::new();
        collect(&prompts, DEPTH_MAX, &mut files);
        files.sort();
        found.extend(files.into_iter().map(|file| {
            let name = file.strip_prefix(&prompts).unwrap_or(&file).display().to_string();
            let kind = if prompts.ends_with("skills") { "skill" } else { "command" };
            let says = format!("claude, {kind}: {name}");
            ProjectProgram { file, says, is_program: true, can_be_off: true, unread: None }
        }));
    }
    found
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        if files.len() >= FILES_MAX {
            return;
        }
        if path.is_dir() {
            if depth > 0 {
                collect(&path, depth - 1, files);
            }
        } else if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("md")) {
            files.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_skills_count_as_programs_wherever_they_are() {
        let place = tempfile::tempdir().unwrap();
        for file in
            [".claude/commands/git/push.md", ".claude/skills/fly/SKILL.md", ".claude/skills/fly/wing.png"]
        {
            let file = place.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "Result: !`date`\n").unwrap();
        }
        let found = programs(&[place.path()]);
        let said: Vec<&str> = found.iter().map(|program| program.says.as_str()).collect();
        assert_eq!(said, ["claude, command: git/push.md", "claude, skill: fly/SKILL.md"]);
        assert!(found.iter().all(|program| program.is_program && program.can_be_off));
    }
}
