//! An agent that gets what its user has: Claude Code decides by the user's own settings and rules first.

use std::path::PathBuf;

use domain::inherit::Inherited;
use domain::permission::Level;
use domain::run::RunSpec;
use domain::setup::Setup;

use super::project;
use crate::contract::{Place, ProjectPrograms};
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

/// Returns the servers that files of the project name, and the file of each: they are not the user's own. A file that cannot be
/// read is an error: Claude Code may read it all the same, and would start servers that nobody can name to leave them out.
pub(super) fn projects_servers(spec: &RunSpec) -> Result<Vec<(PathBuf, String)>, String> {
    let mut named = Vec::new();
    for folder in project_settings::ancestors(&spec.directory) {
        let file = folder.join(PROJECTS_SERVERS);
        let settings = user::look(&file).map_err(|reason| {
            format!(
                "the MCP servers of {} cannot be left out, because the file cannot be read: {reason}",
                file.display()
            )
        })?;
        let names = settings.map(|settings| user::names(&settings, "mcpServers")).unwrap_or_default();
        named.extend(names.into_iter().map(|name| (file.clone(), name)));
    }
    Ok(named)
}

/// Tells whether the project's own settings are left out. Where the user's rules count, no question stands above what settings
/// allow, and a project's settings are not the user's own.
pub(super) fn leaves_project_out(setup: &Setup, place: &Place<'_>) -> bool {
    place.project_programs == ProjectPrograms::Off || setup.inherits(Inherited::Settings)
}

/// Returns a sentence for each file whose servers are left out.
pub(super) fn withheld_servers(spec: &RunSpec) -> Result<Vec<String>, String> {
    let mut sentences: Vec<String> = Vec::new();
    let found = projects_servers(spec)?;
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
    Ok(sentences)
}

/// Returns a sentence for each file of settings of the project that is left out.
pub(super) fn withheld_settings(spec: &RunSpec) -> Vec<String> {
    let files = project::settings_files(spec).into_iter().filter(|file| file.exists());
    let sentence = |file: PathBuf| {
        format!(
            "withheld: the settings of {}, except what they deny: a project's settings are not the user's own",
            file.display()
        )
    };
    files.map(sentence).collect()
}
