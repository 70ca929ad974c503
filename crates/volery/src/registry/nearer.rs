//! Agents that stand nearer to a directory than the top of its project. They are not read, since a project has one place for
//! its agents, which is trusted as a whole; whoever looks for them is told.

use std::path::Path;

use domain::diagnostic::Diagnostic;

use super::folders::folders_at;
use super::listing::files;

/// Returns a warning for each folder with agents between a directory and the top of its project.
pub fn unread_agents(directory: &str, project: &str) -> Vec<Diagnostic> {
    let (directory, project) = (Path::new(directory), Path::new(project));
    let between = directory.ancestors().take_while(|path| *path != project && path.starts_with(project));
    let folders = between.flat_map(|path| folders_at(path).map(move |folder| (path, folder)));
    // What is wrong with a folder that is not read is nobody's trouble.
    let unread = folders.filter(|(_, folder)| !files(folder, &mut Vec::new()).is_empty());
    let warnings = unread.map(|(path, folder)| {
        let message = format!("its agents are not read, since the project is {}", project.display());
        let hint = format!("an empty folder {} makes a project of its own", path.join(".volery").display());
        Diagnostic::warning(&folder.path.display().to_string(), message).hint(hint)
    });
    warnings.collect()
}
