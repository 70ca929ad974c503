//! What Claude Code would execute because of files in a project.

use std::path::{Path, PathBuf};

use domain::run::RunSpec;

use crate::contract::{Excerpt, ProjectProgram};
use crate::excerpt;
use crate::frontmatter;
use crate::project_settings::{Keys, ProjectSettings};
use crate::user;

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

/// Commands, skills and agents. They can have programs executed while they are put into a prompt, bring hooks and servers with
/// them, and say which tools need no question. The model can choose them too.
const PROMPTS: [(&str, &str); 3] =
    [(".claude/commands", "command"), (".claude/skills", "skill"), (AGENTS, "agent")];
const AGENTS: &str = ".claude/agents";
/// How deep and how far is looked; what lies beyond may be anything.
const DEPTH_MAX: usize = 8;
const ENTRIES_MAX: usize = 10_000;

/// Returns what the files in these folders would execute. Claude Code can be told to leave all of it out.
pub(crate) fn programs(folders: &[&Path]) -> Vec<ProjectProgram> {
    let mut found = SETTINGS.programs(folders);
    for folder in folders {
        for (within, kind) in PROMPTS {
            let prompts = folder.join(within);
            let (mut files, mut left) = (Vec::new(), ENTRIES_MAX);
            let is_all = collect(&prompts, DEPTH_MAX, &mut left, &mut files);
            files.sort();
            found.extend(files.into_iter().filter_map(|file| {
                let excerpts = Some(excerpts(&file, within)).filter(|found| !found.is_empty())?;
                let name = file.strip_prefix(&prompts).unwrap_or(&file).display().to_string();
                let says = format!("claude, {kind}: {name}");
                Some(ProjectProgram {
                    file,
                    says,
                    is_program: true,
                    can_be_off: true,
                    unread: None,
                    excerpts,
                })
            }));
            // A folder has no digest, so that nobody can trust what was not looked at.
            let says =
                format!("claude, {kind}: too many or too deep to look at all, so trust counts for none");
            let beyond = || ProjectProgram {
                file: prompts.clone(),
                says,
                is_program: true,
                can_be_off: true,
                unread: None,
                excerpts: Vec::new(),
            };
            found.extend((!is_all).then(beyond));
        }
    }
    found
}

/// Returns where a project may have settings for the directory of a run.
pub(super) fn settings_files(spec: &RunSpec) -> Vec<PathBuf> {
    let folders = user::upward(&spec.directory, &spec.project);
    folders.iter().flat_map(|folder| SETTINGS.files.iter().map(|file| folder.join(file))).collect()
}

/// Returns what the settings of a project deny. They hold also where all else of them is left out.
pub(super) fn denials(spec: &RunSpec) -> Vec<String> {
    let settings = settings_files(spec).into_iter().filter_map(|file| user::settings(&file));
    let denials = settings.flat_map(|settings| {
        let rules = settings["permissions"]["deny"].as_array().cloned().unwrap_or_default();
        rules.into_iter().filter_map(|rule| rule.as_str().map(ToOwned::to_owned))
    });
    denials.collect()
}

/// Returns what in a text executes or grants something; nothing if it is harmless. What cannot be read may say anything.
fn excerpts(file: &Path, folder: &str) -> Vec<Excerpt> {
    let Some(text) = user::look_lossy_text(file).ok().flatten() else {
        let why = "it could not be read, so it may execute anything";
        return vec![Excerpt { line: None, text: "the whole file".to_owned(), why }];
    };
    let of_head = frontmatter::strange(&text).into_iter().map(|strange| {
        let is_hook = strange.what == "hooks";
        let found = Excerpt::from(strange);
        match is_hook && folder == AGENTS {
            // The same file is an agent of ours, whose reader says that its hooks are not run.
            true => Excerpt { why: HOOKS_OF_AGENT, ..found },
            false => found,
        }
    });
    let mut found: Vec<Excerpt> = of_head.collect();
    found.extend(excerpt::executed(&text));
    found
}

const HOOKS_OF_AGENT: &str =
    "Claude Code runs these programs when it starts this agent by itself; Volery does not run them";

/// Adds the texts in a folder and below it, and tells whether they are all. Links may go round in circles.
fn collect(folder: &Path, depth: usize, left: &mut usize, files: &mut Vec<PathBuf>) -> bool {
    let mut is_all = true;
    for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let Some(fewer) = left.checked_sub(1) else { return false };
        *left = fewer;
        let path = entry.path();
        if path.is_dir() {
            is_all &= depth > 0 && collect(&path, depth - 1, left, files);
        } else if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("md")) {
            files.push(path);
        }
    }
    is_all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_skills_and_agents_count_if_they_may_execute_or_allow_something() {
        let place = tempfile::tempdir().unwrap();
        for (file, text) in [
            (".claude/commands/git/push.md", "Result: !`date`\n"),
            (".claude/commands/commit.md", "---\ndescription: d\n---\nWrite a message.\n"),
            (".claude/commands/free.md", "---\nallowed-tools: Bash\n---\nWrite.\n"),
            (".claude/skills/fly/SKILL.md", "---\nname: fly\nhooks: {}\n---\nFly.\n"),
            (".claude/skills/fly/wing.png", "!`date`"),
            (".claude/agents/plain.md", "---\nname: plain\ntools: Read, mcp__a__b\n---\nRead.\n"),
            (".claude/agents/eager.md", "---\nname: eager\nmcpServers: [{a: {command: b}}]\n---\n"),
        ] {
            let file = place.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let found = programs(&[place.path()]);
        let said: Vec<&str> = found.iter().map(|program| program.says.as_str()).collect();
        let expected = [
            "claude, command: free.md",
            "claude, command: git/push.md",
            "claude, skill: fly/SKILL.md",
            "claude, agent: eager.md",
        ];
        assert_eq!(said, expected);
        let rules = r#"{"permissions": {"deny": ["Read(./.env)", 1]}}"#;
        std::fs::write(place.path().join(".claude/settings.json"), rules).unwrap();
        let mut spec = crate::sample::spec("claude");
        spec.directory = place.path().display().to_string();
        spec.project = spec.directory.clone();
        assert_eq!(denials(&spec), ["Read(./.env)"]);
        assert!(found.iter().all(|program| program.is_program && program.can_be_off));
        let shown = |place: usize| {
            let found = &found[place].excerpts[0];
            (found.line, found.text.as_str(), found.why)
        };
        assert_eq!(shown(0), (Some(2), "allowed-tools: Bash", "it allows tools without a question"));
        assert_eq!(shown(1), (Some(1), "!`date`", "the command runs when the text is put into a prompt"));
        assert_eq!(shown(2), (Some(3), "hooks: {}", "hooks run programs at events of the agent"));
    }

    #[test]
    fn texts_that_only_look_like_commands_need_no_trust() {
        let place = tempfile::tempdir().unwrap();
        for (file, text) in [
            (".claude/commands/greet.md", "Say `Hello!`, then stop.\n"),
            (".claude/commands/code.md", "```js\nconst a = `Hi ${name}!`;\nconst b = `${a}`;\n```\n"),
            (".claude/agents/lists.md", "---\nname: lists\ntools: [\n  Read,\n  Grep\n]\n---\nRead.\n"),
            (".claude/agents/notes.md", "---\n\nA rule above a text. Note: it is no head.\n"),
        ] {
            let file = place.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        assert_eq!(programs(&[place.path()]), []);
    }

    #[test]
    fn what_is_hidden_among_many_or_deep_below_counts() {
        let place = tempfile::tempdir().unwrap();
        let commands = place.path().join(".claude/commands");
        let said = || programs(&[place.path()]).into_iter().map(|program| program.says).collect::<Vec<_>>();
        std::fs::create_dir_all(commands.join("1/2/3/4/5/6/7/8")).unwrap();
        for number in 0..1_200 {
            std::fs::write(commands.join(format!("{number}.md")), "Fly.\n").unwrap();
        }
        assert_eq!(said(), Vec::<String>::new());
        std::fs::write(commands.join("1/2/3/4/5/6/7/8/deep.md"), "!`date`").unwrap();
        assert_eq!(said(), ["claude, command: 1/2/3/4/5/6/7/8/deep.md"]);
        for number in 0..30 {
            std::os::unix::fs::symlink(&commands, commands.join(format!("1/round{number}"))).unwrap();
        }
        assert_eq!(
            said().last().unwrap(),
            "claude, command: too many or too deep to look at all, so trust counts for none"
        );
    }
}
