//! budgie: agents of Kiro, each a tool.

use std::path::Path;

use domain::agent::Format;

use super::super::system::{Site, System, honoured, names_in, nothing};
use crate::app::{Folder, Prompts};

pub(crate) const SYSTEM: System = System {
    name: "budgie",
    is: |entry| entry.mentions("budgie") || entry.name == "kiro-subagents",
    left_files: |project: &Path| project.join(".kiro/sub-agents").is_dir(),
    tools: &["kiro-subagents.NAME, for each agent", "kiro-subagents.health-check"],
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
        };
        vec![Folder { prompts, ..site.folder(path, Format::Kiro) }]
    },
    sessions,
    more_env: nothing,
    note: None,
};

fn sessions(site: &Site<'_>) -> Vec<String> {
    names_in(&site.flag_or_home("sessions-dir", ".kiro/sub-agents/sessions"), "")
}
