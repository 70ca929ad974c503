//! One file per client.

pub(super) mod claude;
pub(super) mod claude_desktop;
pub(super) mod cline;
pub(super) mod codex;
pub(super) mod copilot;
pub(super) mod cursor;
pub(super) mod gemini;
pub(super) mod goose;
pub(super) mod kimi;
pub(super) mod kiro;
pub(super) mod opencode;
pub(super) mod qwen;
pub(super) mod vscode;
pub(super) mod windsurf;
pub(super) mod zed;
