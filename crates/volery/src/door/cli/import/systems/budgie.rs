//! budgie: agents of Kiro, each a tool.

use std::path::Path;

use domain::agent::Format;
use domain::go_duration;

use super::super::system::{Site, System, Told, honoured, no_sessions, nothing};
use crate::app::{Folder, Prompts};

pub(crate) const SYSTEM: System = System {
    name: "budgie",
    program: "budgie",
    is: |entry| entry.mentions("budgie") || entry.name == "kiro-subagents",
    left_files: |project: &Path| project.join(".kiro/sub-agents").is_dir(),
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
        let prompts = Prompts {
            folders: vec![site.flag_or_home("prompts-dir", ".kiro/sub-agents/prompts")],
            system: site.flag_path("system-prompt"),
            summary: site.flag_path("context-summary-prompt"),
            sub_agents_only: true,
        };
        vec![Folder { prompts, ..site.folder(path, Format::Kiro) }]
    },
    // Budgie deletes its sessions when it ends.
    sessions: no_sessions,
    set_env: nothing,
    refused,
    note: Some("a sessionId from before begins a new conversation: budgie's own ended with its server"),
};

fn refused(site: &Site<'_>) -> Vec<Told> {
    let told = |flag: &str, why: String| Told { name: format!("--{flag}"), why };
    let named = |flag| site.entry.and_then(|entry| entry.flag(flag));
    let mut refused = Vec::new();
    if let Some(error) = named("agent-timeout").and_then(|text| go_duration::parse_ms(text).err()) {
        refused.push(told("agent-timeout", error.to_string()));
    }
    let folder = site.flag_or_home("agents-dir", ".kiro/agents");
    if !folder.is_dir() {
        refused.push(told("agents-dir", format!("there is no folder {}", folder.display())));
    }
    for flag in ["system-prompt", "context-summary-prompt"] {
        if let Some(path) = site.flag_path(flag).filter(|path| !path.is_file()) {
            refused.push(told(flag, format!("there is no file {}", path.display())));
        }
    }
    refused
}
