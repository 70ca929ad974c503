//! Asks the backend of an attempt how to launch its agent.

use backends::contract::{LaunchContext, LaunchPlan, ProcessLaunch, ProjectExecutables};
use backends::user_environment::{ProjectFolders, UserEnvironment};
use domain::launch::LaunchOverrides;
use domain::run::{RunSpec, Usage};
use domain::secret::Redactor;
use journal::RunDir;

use super::agent_process;
use crate::registry::project_executables;

/// Asks the backend of an attempt for a launch plan.
pub(crate) fn prepare_launch(
    dir: &RunDir,
    attempt: &RunSpec,
    session_used: Option<Usage>,
) -> Result<LaunchPlan, String> {
    let backend = find_backend(attempt)?;
    let own_program = crate::current_exe::path().map_err(|error| error.to_string())?;
    let launch = LaunchOverrides::from_options(&attempt.backend.options);
    let found =
        backend.program().and_then(|program| crate::programs::vendor_programs::find(program, &launch));
    let context = LaunchContext {
        work_dir: &dir.work_dir(),
        current_exe: &own_program,
        program: found.as_ref(),
        prior_session_usage: session_used,
        project_executables: project_executables_mode(backend, attempt)?,
    };
    let mut prepared = backend.prepare(&attempt.for_vendor(), &context).map_err(|error| error.to_string())?;
    if let LaunchPlan::Process(plan) = &mut prepared {
        let home = crate::env::home();
        let user = UserEnvironment { home: home.as_deref(), variable: &crate::env::get };
        backend.apply_user_environment(attempt, plan, &context, &user).map_err(|error| error.to_string())?;
    }
    Ok(prepared)
}

/// Lets the backend of an attempt scan its workspace.
pub(crate) fn scan_workspace(attempt: &RunSpec, plan: &mut ProcessLaunch) -> Result<Vec<String>, String> {
    let home = crate::env::home();
    let user = UserEnvironment { home: home.as_deref(), variable: &crate::env::get };
    find_backend(attempt)?.scan_workspace(attempt, plan, &user).map_err(|error| error.to_string())
}

/// Masks the secrets of a run in a text that others may read.
pub(crate) fn mask_secrets(dir: &RunDir, spec: &RunSpec, text: &str) -> String {
    let plan = match prepare_launch(dir, spec, None) {
        Ok(LaunchPlan::Process(plan)) => Some(plan),
        Ok(LaunchPlan::Loop(_) | LaunchPlan::AgentLoop(_)) | Err(_) => None,
    };
    Redactor::new(agent_process::secrets(spec, plan.as_ref())).redact(text)
}

/// Returns whether the user trusts what the project's files would execute now.
fn project_executables_mode(
    backend: &dyn backends::contract::Backend,
    attempt: &RunSpec,
) -> Result<ProjectExecutables, String> {
    let folders = ProjectFolders::of_run(&attempt.directory, &attempt.project);
    let executables = project_executables::find_for(backend, &folders);
    if executables.is_empty()
        || project_executables::current_fingerprint(&folders) == attempt.trusted_executables_digest
    {
        return Ok(ProjectExecutables::On);
    }
    match executables.into_iter().find(|program| !program.can_be_disabled) {
        None => Ok(ProjectExecutables::Off),
        Some(program) => Err(format!("{} is not trusted: {}", program.file.display(), program.description)),
    }
}

pub(crate) fn find_backend(attempt: &RunSpec) -> Result<&'static dyn backends::contract::Backend, String> {
    let kind = &attempt.backend.kind;
    backends::registry::by_kind(kind).ok_or_else(|| format!("there is no backend of the kind {kind}"))
}
