//! Agents in folders between a directory and the top of its project. Volery does not read them, since a project has
//! one folder for its agents, which is trusted as a whole; it warns about them instead.

use std::path::Path;

use domain::diagnostic::Diagnostic;

use super::agent_folders::folders_at;
use super::discovery::agent_files;

/// Returns a warning for each folder with agents between a directory and the top of its project.
pub fn nested_agent_warnings(directory: &str, project: &str) -> Vec<Diagnostic> {
    let (directory, project) = (Path::new(directory), Path::new(project));
    let between = directory.ancestors().take_while(|path| *path != project && path.starts_with(project));
    let folders = between.flat_map(|path| folders_at(path).map(move |folder| (path, folder)));
    // Errors of a folder that is not read do not matter.
    let unread = folders.filter(|(_, folder)| !agent_files(folder, &mut Vec::new()).is_empty());
    let warnings = unread.map(|(path, folder)| {
        let message = format!("its agents are not read, since the project is {}", project.display());
        let hint = format!("an empty folder {} makes a project of its own", path.join(".volery").display());
        Diagnostic::warning(&folder.path.display().to_string(), message).hint(hint)
    });
    warnings.collect()
}
