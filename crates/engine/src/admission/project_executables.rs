//! Whether vendors' programs may execute what files of a project name. Untrusted executables are left out, with a
//! warning; if they cannot be left out, the run is refused.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use backends::contract::ProjectExecutable;
use backends::user_environment::ProjectFolders;
use domain::run::{BackendSpec, ResolvedFallback, RunSpec};

use crate::api::EngineError;
use crate::engine::Engine;
use crate::registry::{Catalog, TrustStore, project_executables};

/// The project executables in the folders of a run, and whether its user trusts all of them. The files of a backend
/// are read when the backend is checked, and those of all backends only if it has some: trust covers all or nothing.
pub(crate) struct ProjectExecutables<'a> {
    catalog: &'a Catalog,
    folders: ProjectFolders<'a>,
    trust: TrustStore,
    /// By the kind of the backend.
    executables: RefCell<BTreeMap<&'static str, Rc<[ProjectExecutable]>>>,
    combined_trust: OnceCell<CombinedTrust>,
}

/// The trust in the executables of all backends.
struct CombinedTrust {
    trusted: bool,
    fingerprint: Option<String>,
}

impl Engine {
    pub(crate) fn project_executables<'a>(
        &self,
        catalog: &'a Catalog,
        directory: &'a str,
    ) -> ProjectExecutables<'a> {
        ProjectExecutables {
            catalog,
            folders: ProjectFolders::of_run(directory, &catalog.project),
            trust: self.trust(),
            executables: RefCell::default(),
            combined_trust: OnceCell::new(),
        }
    }

    /// Refuses a run whose program would follow files of the project that its user does not trust, or records what it
    /// leaves out and what is trusted.
    pub(crate) fn check_project_executables(
        &self,
        catalog: &Catalog,
        spec: &mut RunSpec,
    ) -> Result<(), EngineError> {
        let executables = self.project_executables(catalog, &spec.directory);
        spec.warnings.extend(executables.check(&spec.backend, &spec.fallbacks)?);
        spec.trusted_executables_digest = executables.trusted(&spec.backend, &spec.fallbacks);
        Ok(())
    }
}

impl ProjectExecutables<'_> {
    /// Returns the digest of the trusted executables, if the backend of a run or a fallback has any.
    pub(crate) fn trusted(&self, backend: &BackendSpec, others: &[ResolvedFallback]) -> Option<String> {
        let mut backends = backends(backend, others);
        if backends.all(|backend| self.find_for(&backend.kind).is_empty()) {
            return None;
        }
        self.combined_trust().fingerprint.clone().filter(|_| self.combined_trust().trusted)
    }

    /// Returns what the backend of a run and its fallbacks leave out, or why one of them may not run.
    pub(crate) fn check(
        &self,
        backend: &BackendSpec,
        others: &[ResolvedFallback],
    ) -> Result<Vec<String>, EngineError> {
        backends(backend, others).filter_map(|backend| self.check_one(backend).transpose()).collect()
    }

    fn check_one(&self, backend: &BackendSpec) -> Result<Option<String>, EngineError> {
        let executables = self.find_for(&backend.kind);
        if executables.is_empty() || self.combined_trust().trusted {
            return Ok(None);
        }
        let hint = format!("look at it, then: volery trust {}", self.catalog.project);
        if let Some(executable) = executables.iter().find(|executable| !executable.can_be_disabled) {
            let (file, says) = (executable.file.display(), &executable.description);
            let message =
                format!("{} would follow {file}, which you have not trusted:\n{says}", backend.name);
            return Err(EngineError::denied(message).hint(hint));
        }
        let mut files: Vec<String> =
            executables.iter().map(|executable| executable.file.display().to_string()).collect();
        files.dedup();
        let files = files.join(", ");
        Ok(Some(format!(
            "{} leaves out the settings of the project, since {files} would execute programs or grant more than you \
             have trusted; {hint}",
            backend.name
        )))
    }

    /// Returns what the program of one backend would execute.
    fn find_for(&self, kind: &str) -> Rc<[ProjectExecutable]> {
        let Some(backend) = backends::registry::by_kind(kind) else { return Rc::default() };
        let find = || project_executables::find_for(backend, &self.folders).into();
        Rc::clone(self.executables.borrow_mut().entry(backend.kind()).or_insert_with(find))
    }

    fn combined_trust(&self) -> &CombinedTrust {
        self.combined_trust.get_or_init(|| {
            let project = self.catalog.project.as_str();
            let is_nested = *self.folders != *ProjectFolders::of_run(project, project);
            let nested = is_nested.then(|| project_executables::find_all(&self.folders));
            let executables = nested.as_deref().unwrap_or_else(|| self.catalog.project_executables());
            // Trust covers the executables at the top of the project, or above it in its work tree, that could be
            // read.
            let is_covered = |executable: &ProjectExecutable| {
                self.catalog.project_executables().contains(executable) && executable.read_error.is_none()
            };
            let trusted = executables.iter().all(is_covered) && self.trust.is_trusted(self.catalog);
            CombinedTrust {
                trusted,
                fingerprint: project_executables::fingerprint(executables, &self.folders),
            }
        })
    }
}

fn backends<'a>(
    backend: &'a BackendSpec,
    others: &'a [ResolvedFallback],
) -> impl Iterator<Item = &'a BackendSpec> {
    std::iter::once(backend).chain(others.iter().map(|other| &other.backend))
}
