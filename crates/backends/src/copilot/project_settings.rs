//! Files of a project that make Copilot execute programs: its own hooks, hooks of Claude Code, and servers of custom agents. They
//! cannot be turned off, and Copilot's own trust in a folder applies only to some.

use std::path::{Path, PathBuf};

use crate::contract::{Excerpt, ProjectExecutable};
use crate::excerpt;
use crate::frontmatter;
use crate::project_executables::{ProjectConfigFiles, SafeKeys};
use crate::user_environment;

static SETTINGS: ProjectConfigFiles = ProjectConfigFiles {
    program: "copilot",
    files: &[".github/copilot/settings.json", ".github/copilot/settings.local.json"],
    keys: SafeKeys::Listed(&["$schema", "companyAnnouncements", "model", "version"]),
    variables: &[],
};
static CLAUDE_SETTINGS: ProjectConfigFiles = ProjectConfigFiles {
    program: "copilot",
    files: &[".claude/settings.json", ".claude/settings.local.json"],
    keys: SafeKeys::AllExcept(&[("hooks", false)]),
    variables: &[],
};
const HOOKS_FOLDER: &str = ".github/hooks";
/// Custom agents, which the model can call and which can define servers.
const AGENT_FOLDERS: [&str; 2] = [".github/agents", ".claude/agents"];

/// Returns what Copilot would execute because of files in these folders.
pub(crate) fn project_executables(folders: &[&Path]) -> Vec<ProjectExecutable> {
    let mut found = SETTINGS.find_executables(folders);
    found.extend(CLAUDE_SETTINGS.find_executables(folders));
    for folder in folders {
        found.extend(files_with_extension(&folder.join(HOOKS_FOLDER), "json").into_iter().map(|file| {
            let excerpt = excerpt::for_whole_file(&file, excerpt::key_effect("hooks"));
            executable(file, "hooks", vec![excerpt])
        }));
        let agents = AGENT_FOLDERS.iter().flat_map(|agents| files_with_extension(&folder.join(agents), "md"));
        found.extend(agents.filter_map(|file| {
            let (what, excerpts) = agent_findings(&file)?;
            Some(executable(file, &what, excerpts))
        }));
    }
    found.into_iter().map(|program| ProjectExecutable { can_be_disabled: false, ..program }).collect()
}

fn executable(file: PathBuf, what: &str, excerpts: Vec<Excerpt>) -> ProjectExecutable {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let says = format!("copilot, {what}: {name}");
    ProjectExecutable {
        file,
        description: says,
        content_is_executed: true,
        can_be_disabled: false,
        read_error: None,
        excerpts,
    }
}

/// Returns the parts of an agent's file that execute or allow something, or `None` if it is harmless.
fn agent_findings(file: &Path) -> Option<(String, Vec<Excerpt>)> {
    let Some(text) = user_environment::try_read_text_lossy(file).ok().flatten() else {
        return Some(("an agent that cannot be read".to_owned(), Vec::new()));
    };
    let found = frontmatter::find_risky_keys(&text);
    let names: Vec<&str> = found.iter().map(|finding| finding.name.as_str()).collect();
    let what = format!("{} of an agent", names.join(", "));
    (!found.is_empty()).then(|| (what, found.into_iter().map(Excerpt::from).collect()))
}

/// There is no limit on their number: any of them may define servers. A directory defines nothing.
fn files_with_extension(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files =
        user_environment::files_with_extension(folder, |found| found.eq_ignore_ascii_case(extension));
    files.retain(|file| !file.is_dir());
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_and_servers_of_agents_need_trust_and_plain_agents_do_not() {
        let temp = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = temp.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write(".github/agents/plain.agent.md", "---\nname: plain\n---\nUse MCP if you can.\n");
        write(".github/agents/lists.agent.md", "---\nname: lists\ntools: [\n  'read',\n  'edit'\n]\n---\n");
        write(".claude/settings.json", r#"{"model": "opus"}"#);
        std::fs::create_dir(temp.path().join(".github/agents/folder.md")).unwrap();
        assert_eq!(project_executables(&[temp.path()]), []);
        write(".github/agents/eager.agent.md", "---\nmcp-servers: {a: {command: b}}\n---\n");
        write(".github/agents/hidden.agent.md", "---\n\"\\x6dcp-servers\": {a: {command: b}}\n---\n");
        write(".github/hooks/start.json", r#"{"version": 1, "hooks": {}}"#);
        write(".github/copilot/settings.json", r#"{"hooks": {"sessionStart": []}, "model": "x"}"#);
        write(".claude/settings.json", r#"{"hooks": {"SessionStart": [1]}}"#);
        let found = project_executables(&[temp.path()]);
        let descriptions: Vec<&str> = found.iter().map(|program| program.description.as_str()).collect();
        assert_eq!(
            descriptions,
            [
                "copilot, hooks: {\"sessionStart\":[]}",
                "copilot, hooks: {\"SessionStart\":[1]}",
                "copilot, hooks: start.json",
                "copilot, mcp-servers of an agent: eager.agent.md",
                "copilot, mcp-servers of an agent: hidden.agent.md",
            ]
        );
        assert!(found.iter().all(|program| !program.can_be_disabled));
    }

    #[test]
    fn harmless_agents_need_no_trust_and_others_are_reported() {
        let temp = tempfile::tempdir().unwrap();
        let descriptions = |file: &str, head: &str| {
            let file = temp.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, format!("---\nname: a\n{head}\n---\n")).unwrap();
            project_executables(&[temp.path()])
                .into_iter()
                .map(|program| program.description)
                .collect::<Vec<_>>()
        };
        let copilot_agent = "user-invocable: false\nmetadata:\n  owner: me\nagents: ['*']\nhandoffs:\n  - label: Plan\n    agent: b\n    send: false";
        assert_eq!(descriptions(".github/agents/a.agent.md", copilot_agent), Vec::<String>::new());
        let claude_agent =
            "permissionMode: plan\nmaxTurns: 5\neffort: high\ncolor: red\nmemory: project\nbackground: true";
        assert_eq!(descriptions(".claude/agents/b.md", claude_agent), Vec::<String>::new());
        let loose = descriptions(".claude/agents/b.md", "permissionMode: bypassPermissions");
        assert_eq!(loose, ["copilot, permissionMode: bypassPermissions of an agent: b.md"]);
        assert_eq!(descriptions(".claude/agents/b.md", "hooks: {}"), ["copilot, hooks of an agent: b.md"]);
    }

    #[test]
    fn many_plain_agents_hide_none_that_brings_servers() {
        let temp = tempfile::tempdir().unwrap();
        let agents = temp.path().join(".github/agents");
        std::fs::create_dir_all(&agents).unwrap();
        for number in 0..1_200 {
            std::fs::write(agents.join(format!("{number}.md")), "Fly.\n").unwrap();
        }
        std::fs::write(agents.join("z.md"), "---\nmcp-servers: {a: {command: b}}\n---\n").unwrap();
        let found = project_executables(&[temp.path()]);
        assert_eq!(
            (found.len(), found[0].description.as_str()),
            (1, "copilot, mcp-servers of an agent: z.md")
        );
    }
}
