//! An agent that gets what its user has: Claude Code decides by the user's own settings and rules first.

use std::path::PathBuf;

use domain::inherit::Inherited;
use domain::permission::Level;
use domain::run::RunSpec;
use domain::setup::Setup;

use crate::{project_settings, user};

/// The setting that names servers of a project's files that are not started.
pub(super) const LEFT_OUT: &str = "disabledMcpjsonServers";
/// The file that gives everybody in a project the same servers. Claude Code starts them unasked when nobody is there.
const PROJECTS_SERVERS: &str = ".mcp.json";

/// Returns the mode that Claude Code begins in. Where the user's rules count, it is the one that has the meaning of the
/// level; what Claude Code asks about then is decided by the agent's rules alone. Else every use is asked about, and
/// decided by the permission.
pub(super) fn permission_mode(setup: &Setup) -> &'static str {
    match setup.permission.level.filter(|_| setup.inherits(Inherited::Settings)) {
        Some(Level::ReadOnly) => "plan",
        Some(Level::SafeEdit) => "acceptEdits",
        Some(Level::Yolo) | None => "default",
    }
}

/// Returns the servers that files of the project name, and the file of each: they are not the user's own.
pub(super) fn projects_servers(spec: &RunSpec) -> Vec<(PathBuf, String)> {
    let files =
        project_settings::ancestors(&spec.directory).into_iter().map(|folder| folder.join(PROJECTS_SERVERS));
    let named = files.flat_map(|file| {
        let names = user::settings(&file).map(|settings| user::names(&settings, "mcpServers"));
        names.into_iter().flatten().map(move |name| (file.clone(), name))
    });
    named.collect()
}

/// Returns a sentence for each file whose servers are left out.
pub(super) fn withheld(spec: &RunSpec) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    let found = projects_servers(spec);
    let mut files: Vec<&PathBuf> = found.iter().map(|(file, _)| file).collect();
    files.dedup();
    for file in files {
        let names = found.iter().filter(|(other, _)| other == file).map(|(_, name)| name.as_str());
        let names: Vec<&str> = names.collect();
        sentences.push(format!(
            "withheld: the MCP servers {} of {}: a project's servers are not the user's own; claude mcp add --scope user makes \
             one yours",
            names.join(", "),
            file.display()
        ));
    }
    sentences
}
