//! Kiwi: directives. They are read and listed; what runs them is still to come.

use domain::agent::Format;

use super::super::system::{System, no_sessions, nothing};

pub(crate) const SYSTEM: System = System {
    name: "kiwi",
    program: "kiwi",
    is: |entry| entry.mentions("kiwi-mcp") || entry.mentions("kiwi_mcp"),
    left_files: |project| project.join(".ai/directives").is_dir(),
    tools: &[],
    backends: &[],
    variables: &[],
    flags: &[],
    folders: |site| {
        let places = [site.project, site.home].map(|place| place.join(".ai/directives"));
        places.into_iter().map(|path| site.folder(path, Format::Directive)).collect()
    },
    sessions: no_sessions,
    set_env: nothing,
    refused: nothing,
    note: Some(
        "directives are read, listed and checked, but volery does not run them yet: leave the entry as it is",
    ),
};
