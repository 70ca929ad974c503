//! Which versions of Codex were tried, and what they call things.

use crate::program::{Program, Tried};

pub(super) static PROGRAM: Program = Program {
    names: &["codex"],
    natives: &[
        "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        "@openai/codex-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex",
        "@openai/codex/vendor/x86_64-unknown-linux-musl/bin/codex",
        "@openai/codex/vendor/aarch64-unknown-linux-musl/bin/codex",
    ],
    variable: None,
    tried: Tried::Real("0.166.0", "0.166.0"),
};

/// Settings of every run. A feature that a version does not know earns a warning of Codex and nothing worse.
pub(super) const SETTINGS: &[&str] = &[
    // Else a service that cannot be reached is waited for without end.
    "features.unbounded_connection_retries=false",
    // Both bring MCP servers that are not the agent's own.
    "features.plugins=false",
    "features.apps=false",
    "check_for_update_on_startup=false",
];

/// Notifications that say nothing about the run and would fill its record.
pub(super) const UNWANTED: &[&str] = &[
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

/// Folders that its sandbox makes in each place that may be written, to protect them, and leaves if it is killed.
pub(super) const LEFT_FOLDERS: &[&str] = &[".git", ".codex", ".agents", ".aws"];
