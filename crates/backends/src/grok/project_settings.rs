//! Files of a project that define MCP servers.

use std::path::{Path, PathBuf};

use domain::run::RunSpec;

use crate::user_environment;

/// The files in which Grok looks for servers of a project.
const SERVER_FILES: [&str; 2] = [".mcp.json", ".cursor/mcp.json"];

/// Returns the files of a project that define servers: an agent that may use the user's servers could use those too.
pub(super) fn project_server_files(spec: &RunSpec, home: Option<&Path>) -> Vec<PathBuf> {
    let folders = user_environment::directories_up_to_root(&spec.directory, &spec.project);
    let folders = folders.into_iter().filter(|folder| Some(*folder) != home);
    let files = folders.flat_map(|folder| SERVER_FILES.map(|file| folder.join(file)));
    // A file that cannot be read may define servers.
    let defines = |file: &PathBuf| match user_environment::try_read_settings(file) {
        Ok(settings) => settings
            .is_some_and(|settings| !user_environment::entry_names(&settings, "mcpServers").is_empty()),
        Err(_) => true,
    };
    files.filter(defines).collect()
}
