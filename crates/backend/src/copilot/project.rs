//! What Copilot would execute because of files in a project: its own hooks and those of Claude Code, and servers of custom
//! agents. Nothing turns them off; Copilot's own trust in a folder counts only for some.

use std::path::{Path, PathBuf};

use crate::contract::{Excerpt, ProjectProgram};
use crate::excerpt;
use crate::frontmatter;
use crate::project_settings::{Keys, ProjectSettings};
use crate::user;

static SETTINGS: ProjectSettings = ProjectSettings {
    program: "copilot",
    files: &[".github/copilot/settings.json", ".github/copilot/settings.local.json"],
    keys: Keys::Harmless(&["$schema", "companyAnnouncements", "model", "version"]),
    variables: &[],
};
static OF_CLAUDE: ProjectSettings = ProjectSettings {
    program: "copilot",
    files: &[".claude/settings.json", ".claude/settings.local.json"],
    keys: Keys::Except(&[("hooks", false)]),
    variables: &[],
};
const HOOKS: &str = ".github/hooks";
/// Custom agents, which can be called by the model and bring servers with them.
const AGENTS: [&str; 2] = [".github/agents", ".claude/agents"];
/// Returns what the files in these folders would execute.
pub(crate) fn programs(folders: &[&Path]) -> Vec<ProjectProgram> {
    let mut found = SETTINGS.programs(folders);
    found.extend(OF_CLAUDE.programs(folders));
    for folder in folders {
        found.extend(files(&folder.join(HOOKS), "json").into_iter().map(|file| {
            let excerpt = excerpt::whole_file(&file, excerpt::why("hooks"));
            program(file, "hooks", vec![excerpt])
        }));
        let agents = AGENTS.iter().flat_map(|agents| files(&folder.join(agents), "md"));
        found.extend(agents.filter_map(|file| {
            let (what, excerpts) = strange(&file)?;
            Some(program(file, &what, excerpts))
        }));
    }
    found.into_iter().map(|program| ProjectProgram { can_be_off: false, ..program }).collect()
}

fn program(file: PathBuf, what: &str, excerpts: Vec<Excerpt>) -> ProjectProgram {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let says = format!("copilot, {what}: {name}");
    ProjectProgram { file, says, is_program: true, can_be_off: false, unread: None, excerpts }
}

/// Says what in an agent's file executes or grants something; nothing if it is harmless.
fn strange(file: &Path) -> Option<(String, Vec<Excerpt>)> {
    let Some(text) = user::look_lossy_text(file).ok().flatten() else {
        return Some(("an agent that cannot be read".to_owned(), Vec::new()));
    };
    let found = frontmatter::strange(&text);
    let keys: Vec<&str> = found.iter().map(|one| one.what.as_str()).collect();
    let what = format!("{} of an agent", keys.join(", "));
    (!found.is_empty()).then(|| (what, found.into_iter().map(Excerpt::from).collect()))
}

/// No file is left out for there being many: it may be the one that brings something.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    user::files(folder, |known| known.eq_ignore_ascii_case(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_and_servers_of_agents_need_trust_and_plain_agents_do_not() {
        let place = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = place.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write(".github/agents/plain.agent.md", "---\nname: plain\n---\nUse MCP if you can.\n");
        write(".github/agents/lists.agent.md", "---\nname: lists\ntools: [\n  'read',\n  'edit'\n]\n---\n");
        write(".claude/settings.json", r#"{"model": "opus"}"#);
        assert_eq!(programs(&[place.path()]), []);
        write(".github/agents/eager.agent.md", "---\nmcp-servers: {a: {command: b}}\n---\n");
        write(".github/agents/hidden.agent.md", "---\n\"\\x6dcp-servers\": {a: {command: b}}\n---\n");
        write(".github/hooks/start.json", r#"{"version": 1, "hooks": {}}"#);
        write(".github/copilot/settings.json", r#"{"hooks": {"sessionStart": []}, "model": "x"}"#);
        write(".claude/settings.json", r#"{"hooks": {"SessionStart": [1]}}"#);
        let found = programs(&[place.path()]);
        let said: Vec<&str> = found.iter().map(|program| program.says.as_str()).collect();
        assert_eq!(
            said,
            [
                "copilot, hooks: {\"sessionStart\":[]}",
                "copilot, hooks: {\"SessionStart\":[1]}",
                "copilot, hooks: start.json",
                "copilot, mcp-servers of an agent: eager.agent.md",
                "copilot, mcp-servers of an agent: hidden.agent.md",
            ]
        );
        assert!(found.iter().all(|program| !program.can_be_off));
    }

    #[test]
    fn what_grants_nothing_in_agents_of_copilot_or_claude_needs_no_trust_and_what_does_is_named() {
        let place = tempfile::tempdir().unwrap();
        let said = |file: &str, head: &str| {
            let file = place.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, format!("---\nname: a\n{head}\n---\n")).unwrap();
            programs(&[place.path()]).into_iter().map(|program| program.says).collect::<Vec<_>>()
        };
        let of_copilot = "user-invocable: false\nmetadata:\n  owner: me\nagents: ['*']\nhandoffs:\n  - label: Plan\n    agent: b\n    send: false";
        assert_eq!(said(".github/agents/a.agent.md", of_copilot), Vec::<String>::new());
        let of_claude =
            "permissionMode: plan\nmaxTurns: 5\neffort: high\ncolor: red\nmemory: project\nbackground: true";
        assert_eq!(said(".claude/agents/b.md", of_claude), Vec::<String>::new());
        let loose = said(".claude/agents/b.md", "permissionMode: bypassPermissions");
        assert_eq!(loose, ["copilot, permissionMode: bypassPermissions of an agent: b.md"]);
        assert_eq!(said(".claude/agents/b.md", "hooks: {}"), ["copilot, hooks of an agent: b.md"]);
    }

    #[test]
    fn many_plain_agents_hide_none_that_brings_servers() {
        let place = tempfile::tempdir().unwrap();
        let agents = place.path().join(".github/agents");
        std::fs::create_dir_all(&agents).unwrap();
        for number in 0..1_200 {
            std::fs::write(agents.join(format!("{number}.md")), "Fly.\n").unwrap();
        }
        std::fs::write(agents.join("z.md"), "---\nmcp-servers: {a: {command: b}}\n---\n").unwrap();
        let found = programs(&[place.path()]);
        assert_eq!((found.len(), found[0].says.as_str()), (1, "copilot, mcp-servers of an agent: z.md"));
    }
}
