//! Whether vendors' programs may execute what files of a project name. What is not trusted is left out, and said;
//! where it cannot be left out, a run is refused.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use backend::contract::ProjectProgram;
use domain::run::{Alternative, BackendSpec};

use super::AppError;
use super::engine::Engine;
use crate::registry::{Catalogue, Trust, programs_of_projects};

/// What stands in the folders of a run, and whether its user trusts all of it. Each backend's files are looked for
/// when the backend is asked about, and those of all backends only if it has some: trust covers all or nothing.
pub(super) struct ProjectPrograms<'a> {
    catalogue: &'a Catalogue,
    folders: Vec<&'a Path>,
    trust: Trust,
    /// By the kind of the backend.
    found: RefCell<BTreeMap<&'static str, Rc<[ProjectProgram]>>>,
    whole: OnceCell<Whole>,
}

/// The answer for all backends.
struct Whole {
    trusted: bool,
    fingerprint: Option<String>,
}

impl Engine {
    pub(super) fn project_programs<'a>(
        &self,
        catalogue: &'a Catalogue,
        directory: &'a str,
    ) -> ProjectPrograms<'a> {
        ProjectPrograms {
            catalogue,
            folders: backend::user::upward(directory, &catalogue.project),
            trust: self.trust(),
            found: RefCell::default(),
            whole: OnceCell::new(),
        }
    }
}

impl ProjectPrograms<'_> {
    /// Returns the digest of what is trusted, if the backend of a run or a fallback finds anything.
    pub(super) fn trusted(&self, backend: &BackendSpec, others: &[Alternative]) -> Option<String> {
        let mut kinds = kinds(backend, others);
        if kinds.all(|backend| self.of(&backend.kind).is_empty()) {
            return None;
        }
        self.whole().fingerprint.clone().filter(|_| self.whole().trusted)
    }

    /// Says what the backend of a run and its fallbacks leave out, or why one of them may not be run.
    pub(super) fn weigh(
        &self,
        backend: &BackendSpec,
        others: &[Alternative],
    ) -> Result<Vec<String>, AppError> {
        kinds(backend, others).filter_map(|backend| self.weigh_one(backend).transpose()).collect()
    }

    fn weigh_one(&self, backend: &BackendSpec) -> Result<Option<String>, AppError> {
        let programs = self.of(&backend.kind);
        if programs.is_empty() || self.whole().trusted {
            return Ok(None);
        }
        let hint = format!("look at it, then: volery trust {}", self.catalogue.project);
        if let Some(program) = programs.iter().find(|program| !program.can_be_off) {
            let (file, says) = (program.file.display(), &program.says);
            let message =
                format!("{} would follow {file}, which you have not trusted:\n{says}", backend.name);
            return Err(AppError::denied(message).hint(hint));
        }
        let mut files: Vec<String> =
            programs.iter().map(|program| program.file.display().to_string()).collect();
        files.dedup();
        let files = files.join(", ");
        Ok(Some(format!(
            "{} leaves out the settings of the project, since {files} would execute programs or grant more than you \
             have trusted; {hint}",
            backend.name
        )))
    }

    /// Returns what the program of one backend would execute.
    fn of(&self, kind: &str) -> Rc<[ProjectProgram]> {
        let Some(backend) = backend::registry::by_kind(kind) else { return Rc::default() };
        let look = || programs_of_projects::of(backend, &self.folders).into();
        Rc::clone(self.found.borrow_mut().entry(backend.kind()).or_insert_with(look))
    }

    fn whole(&self) -> &Whole {
        self.whole.get_or_init(|| {
            let project = self.catalogue.project.as_str();
            let elsewhere = (self.folders != backend::user::upward(project, project))
                .then(|| programs_of_projects::found(&self.folders));
            let found = elsewhere.as_deref().unwrap_or_else(|| self.catalogue.programs());
            // Trust is given to what stands at the top of the project or above it in its work tree, and was looked at.
            let looked_at = |program: &ProjectProgram| {
                self.catalogue.programs().contains(program) && program.unread.is_none()
            };
            let trusted = found.iter().all(looked_at) && self.trust.is_trusted(self.catalogue);
            Whole { trusted, fingerprint: programs_of_projects::fingerprint_of(found, &self.folders) }
        })
    }
}

fn kinds<'a>(backend: &'a BackendSpec, others: &'a [Alternative]) -> impl Iterator<Item = &'a BackendSpec> {
    std::iter::once(backend).chain(others.iter().map(|other| &other.backend))
}
