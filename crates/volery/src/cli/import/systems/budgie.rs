//! budgie: agents of Kiro, each a tool.

use std::path::Path;

use domain::agent::AgentFormat;
use domain::go_duration;

use super::super::system::{SettingNote, SetupSite, System, honoured, no_sessions, nothing};
use engine::{AgentFolder, KiroPrompts};

pub(crate) const SYSTEM: System = System {
    name: "budgie",
    program: "budgie",
    matches_entry: |entry| entry.mentions("budgie") || entry.name == "kiro-subagents",
    has_files: |project: &Path| project.join(".kiro/sub-agents").is_dir(),
    tools: &["kiro-subagents.NAME for each agent", "kiro-subagents.health-check"],
    backends: &["kiro"],
    variables: &[],
    flags: &[
        honoured("agents-dir"),
        honoured("sessions-dir"),
        honoured("prompts-dir"),
        honoured("kiro-binary"),
        honoured("tool-prefix"),
        honoured("agent-timeout"),
        honoured("sandbox"),
        honoured("sandbox-image"),
        honoured("verbose"),
        honoured("debug"),
        honoured("list-tools"),
        honoured("system-prompt"),
        honoured("context-summary-prompt"),
    ],
    folders: |site| {
        let path = site.flag_or_home("agents-dir", ".kiro/agents");
        let prompts = KiroPrompts {
            folders: vec![site.flag_or_home("prompts-dir", ".kiro/sub-agents/prompts")],
            system: site.flag_path("system-prompt"),
            summary: site.flag_path("context-summary-prompt"),
            sub_agents_only: true,
        };
        vec![AgentFolder { prompts, ..site.folder(path, AgentFormat::Kiro) }]
    },
    // Budgie deletes its sessions when it ends.
    sessions: no_sessions,
    set_env: nothing,
    startup_problems,
    note: Some("a sessionId from before begins a new conversation: budgie's own ended with its server"),
};

fn startup_problems(site: &SetupSite<'_>) -> Vec<SettingNote> {
    let note = |flag: &str, why: String| SettingNote { name: format!("--{flag}"), why };
    let flag_value = |flag| site.entry.and_then(|entry| entry.flag(flag));
    let mut problems = Vec::new();
    if let Some(error) = flag_value("agent-timeout").and_then(|text| go_duration::parse_ms(text).err()) {
        problems.push(note("agent-timeout", error.to_string()));
    }
    let folder = site.flag_or_home("agents-dir", ".kiro/agents");
    if !folder.is_dir() {
        problems.push(note("agents-dir", format!("there is no folder {}", folder.display())));
    }
    for flag in ["system-prompt", "context-summary-prompt"] {
        if let Some(path) = site.flag_path(flag).filter(|path| !path.is_file()) {
            problems.push(note(flag, format!("there is no file {}", path.display())));
        }
    }
    problems
}
