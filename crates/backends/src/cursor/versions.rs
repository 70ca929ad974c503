//! How Cursor's program is found. No version was available for tests.

use crate::program::{ProgramSpec, TestedVersions};

/// Other programs use the newer name too, so the older one takes precedence.
pub(super) static PROGRAM: ProgramSpec = ProgramSpec {
    names: &["cursor-agent", "agent"],
    native_paths: &[],
    path_variable: Some("CURSOR_AGENT_BIN"),
    install: "the script at cursor.com/install",
    tested_versions: TestedVersions::Never,
};
