//! How Kiro's program is found, and what differs between versions. No version was available for tests.

use crate::program::{ProgramSpec, TestedVersions, is_before};

/// The first version that reads `KIRO_HOME`.
const HOME_VARIABLE_SINCE: &str = "2.3";

/// The documentation describes versions 2 and 3.
pub(crate) static PROGRAM: ProgramSpec = ProgramSpec {
    names: &["kiro-cli"],
    native_paths: &[],
    path_variable: None,
    install: "the download at kiro.dev/cli",
    tested_versions: TestedVersions::Documented(HOME_VARIABLE_SINCE, "3"),
};

/// Returns whether a version of Kiro finds the copy of an agent. An unknown version may not.
pub fn supports_agent_copies(version: Option<&str>) -> bool {
    version.is_some_and(|version| !is_before(version, HOME_VARIABLE_SINCE))
}
