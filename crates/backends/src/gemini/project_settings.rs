//! Settings of a project that make Gemini CLI execute programs or reach other services.

use crate::project_executables::{ProjectConfigFiles, SafeKeys};

/// Settings that do not execute, reach or allow anything. MCP servers are among them, because Gemini CLI only starts those of the
/// agent.
const SAFE_SETTINGS: &[&str] = &[
    "$schema",
    "context.discoveryMaxDirs",
    "context.fileFiltering",
    "context.fileName",
    "context.importFormat",
    "context.includeDirectoryTree",
    "context.memoryBoundaryMarkers",
    "contextFileName",
    "contextManagement",
    "extensions.disabled",
    "fileFiltering",
    "general.checkpointing",
    "general.debugKeystrokeLogging",
    "general.enableAutoUpdate",
    "general.enableAutoUpdateNotification",
    "general.enableNotifications",
    "general.maxAttempts",
    "general.notificationMethod",
    "general.openEditorInNewWindow",
    "general.preferredEditor",
    "general.retryFetchErrors",
    "general.topicUpdateNarration",
    "general.vimMode",
    "hideBanner",
    "hideTips",
    "mcp.allowed",
    "mcp.excluded",
    "mcpServers",
    "model.compressionThreshold",
    "model.disableLoopDetection",
    "model.maxSessionTurns",
    "model.name",
    "model.skipNextSpeakerCheck",
    "model.summarizeToolOutput",
    "output.format",
    "skills.disabled",
    "theme",
    "tools.disableLLMCorrection",
    "tools.exclude",
    "tools.truncateToolOutputThreshold",
    "tools.useRipgrep",
    "ui",
    "useWriteTodos",
    "vimMode",
];

/// A project's settings take precedence over the user's, and system settings are only read from paths that nobody else can write.
pub(crate) static PROJECT_SETTINGS: ProjectConfigFiles = ProjectConfigFiles {
    program: "gemini",
    files: &[".gemini/settings.json"],
    keys: SafeKeys::ListedByPath { safe: SAFE_SETTINGS, can_be_disabled: &[] },
    variables: &[".gemini/.env"],
};
