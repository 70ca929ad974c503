//! Kiwi: directives. They are read and listed, but not executed yet.

use domain::agent::AgentFormat;

use super::super::system::{System, no_sessions, nothing};

pub(crate) const SYSTEM: System = System {
    name: "kiwi",
    program: "kiwi",
    matches_entry: |entry| entry.mentions("kiwi-mcp") || entry.mentions("kiwi_mcp"),
    has_files: |project| project.join(".ai/directives").is_dir(),
    tools: &[],
    backends: &[],
    variables: &[],
    flags: &[],
    folders: |site| {
        let paths = [site.project, site.home].map(|base| base.join(".ai/directives"));
        paths.into_iter().map(|path| site.folder(path, AgentFormat::Directive)).collect()
    },
    sessions: no_sessions,
    set_env: nothing,
    startup_problems: nothing,
    note: Some(
        "volery runs directives (volery run NAME), but has no dialect kiwi yet: leave the entry as it is",
    ),
};
