//! Whether vendors' programs may execute what files of a project name. What is not trusted is left out, and said;
//! where it cannot be left out, a run is refused.

use std::path::Path;

use backend::contract::ProjectProgram;
use domain::run::{Alternative, BackendSpec};

use super::AppError;
use super::engine::Engine;
use crate::registry::{Catalogue, programs_of_projects};

/// What stands in the folders of a run, and whether its user trusts all of it.
pub(super) struct ProjectPrograms<'a> {
    project: &'a str,
    folders: Vec<&'a Path>,
    trusted: bool,
}

impl Engine {
    pub(super) fn project_programs<'a>(
        &self,
        catalogue: &'a Catalogue,
        directory: &'a str,
    ) -> ProjectPrograms<'a> {
        let project = catalogue.project.as_str();
        let folders = backend::user::upward(directory, project);
        let found = programs_of_projects::found(&folders);
        // Trust is given to what stands at the top of the project or above it in its work tree, and was looked at.
        let looked_at =
            |program: &ProjectProgram| catalogue.programs.contains(program) && program.unread.is_none();
        let trusted = found.iter().all(looked_at) && self.trust().is_trusted(catalogue);
        ProjectPrograms { project, folders, trusted }
    }
}

impl ProjectPrograms<'_> {
    /// Returns the digest of what is trusted, if there is anything.
    pub(super) fn trusted(&self) -> Option<String> {
        self.trusted.then(|| programs_of_projects::fingerprint(&self.folders)).flatten()
    }

    /// Says what the backend of a run and its fallbacks leave out, or why one of them may not be run.
    pub(super) fn weigh(
        &self,
        backend: &BackendSpec,
        others: &[Alternative],
    ) -> Result<Vec<String>, AppError> {
        let backends = std::iter::once(backend).chain(others.iter().map(|other| &other.backend));
        backends.filter_map(|backend| self.weigh_one(backend).transpose()).collect()
    }

    fn weigh_one(&self, backend: &BackendSpec) -> Result<Option<String>, AppError> {
        let Some(driven) = backend::registry::by_kind(&backend.kind).filter(|_| !self.trusted) else {
            return Ok(None);
        };
        let programs = programs_of_projects::of(driven, &self.folders);
        let hint = format!("look at it, then: volery trust {}", self.project);
        if let Some(program) = programs.iter().find(|program| !program.can_be_off) {
            let (file, says) = (program.file.display(), &program.says);
            let message =
                format!("{} would follow {file}, which you have not trusted:\n{says}", backend.name);
            return Err(AppError::denied(message).hint(hint));
        }
        let mut files: Vec<String> =
            programs.iter().map(|program| program.file.display().to_string()).collect();
        files.dedup();
        let left_out = || {
            let files = files.join(", ");
            format!(
                "{} leaves out the settings of the project, since {files} would execute programs or grant more than you \
                 have trusted; {hint}",
                backend.name
            )
        };
        Ok((!files.is_empty()).then(left_out))
    }
}
