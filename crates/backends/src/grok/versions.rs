//! How Grok's program is found. No version was available for tests, and its documentation names none.

use crate::program::{ProgramSpec, TestedVersions};

pub(super) static PROGRAM: ProgramSpec = ProgramSpec {
    names: &["grok"],
    native_paths: &[],
    path_variable: Some("GROK_BIN"),
    install: "its vendor's download at x.ai",
    tested_versions: TestedVersions::Never,
};
