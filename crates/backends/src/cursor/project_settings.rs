//! Settings of a project that make Cursor execute programs, or allow it to without asking.

use std::path::Path;

use crate::contract::ProjectExecutable;
use crate::project_executables::{ProjectConfigFiles, SafeKeys};

static PROJECT_SETTINGS: [ProjectConfigFiles; 2] = [
    ProjectConfigFiles {
        program: "cursor",
        files: &[".cursor/cli.json"],
        keys: SafeKeys::AllExcept(&[("permissions.allow", false)]),
        variables: &[],
    },
    ProjectConfigFiles {
        program: "cursor",
        files: &[".cursor/hooks.json"],
        keys: SafeKeys::AllExcept(&[("hooks", false)]),
        variables: &[],
    },
];

/// Finds what Cursor would execute: `--trust` is always set, because Cursor would ask otherwise, so the files of the
/// directory need Volery's trust.
pub(super) fn project_executables(folders: &[&Path]) -> Vec<ProjectExecutable> {
    PROJECT_SETTINGS.iter().flat_map(|settings| settings.find_executables(folders)).collect()
}
