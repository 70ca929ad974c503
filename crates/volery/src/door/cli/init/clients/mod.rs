//! One file per client.

pub(super) mod claude;
pub(super) mod codex;
pub(super) mod copilot;
pub(super) mod cursor;
pub(super) mod gemini;
pub(super) mod kiro;
pub(super) mod opencode;
pub(super) mod qwen;
pub(super) mod vscode;
