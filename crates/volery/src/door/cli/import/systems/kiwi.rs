//! Kiwi: directives. They are read and listed; what runs them is still to come.

use domain::agent::Format;

use super::super::system::{System, nothing};

pub(crate) const SYSTEM: System = System {
    name: "kiwi",
    is: |entry| entry.mentions("kiwi-mcp") || entry.mentions("kiwi_mcp"),
    left_files: |project| project.join(".ai/directives").is_dir(),
    tools: &[],
    variables: &[],
    flags: &[],
    folders: |site| {
        let places = [site.project, site.home].map(|place| place.join(".ai/directives"));
        places.into_iter().map(|path| site.folder(path, Format::Directive)).collect()
    },
    sessions: nothing,
    more_env: nothing,
    note: Some("directives are read and checked, but volery does not run them yet"),
};
