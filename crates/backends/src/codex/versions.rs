//! The tested versions of Codex, and the names that they use.

use crate::program::{ProgramSpec, TestedVersions};

pub(super) static PROGRAM: ProgramSpec = ProgramSpec {
    names: &["codex"],
    native_paths: &[
        "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        "@openai/codex-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex",
        "@openai/codex/vendor/x86_64-unknown-linux-musl/bin/codex",
        "@openai/codex/vendor/aarch64-unknown-linux-musl/bin/codex",
    ],
    path_variable: None,
    install: "npm install -g @openai/codex",
    tested_versions: TestedVersions::Real("0.166.0", "0.166.0"),
};

/// Settings of every run. For a feature that it does not know, Codex only prints a warning.
pub(super) const CONFIG_OVERRIDES: &[&str] = &[
    // Otherwise Codex waits forever for a service that cannot be reached.
    "features.unbounded_connection_retries=false",
    // Both define MCP servers that are not the agent's own.
    "features.plugins=false",
    "features.apps=false",
    "check_for_update_on_startup=false",
];

/// Notifications that are not needed and would fill the record of the run.
pub(super) const OPTED_OUT_NOTIFICATIONS: &[&str] = &[
    "account/rateLimits/updated",
    "item/commandExecution/outputDelta",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/textDelta",
    "remoteControl/status/changed",
    "thread/status/changed",
    "turn/diff/updated",
];

/// Folders that the sandbox creates in each writable directory, to protect them, and leaves behind if it is killed.
pub(super) const LITTER_DIRS: &[&str] = &[".git", ".codex", ".agents", ".aws"];
