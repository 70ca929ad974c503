//! All backends. A new one is a folder, and a line here.

use crate::claude::Claude;
use crate::codex::Codex;
use crate::command::Command;
use crate::contract::Backend;
use crate::copilot::Copilot;
use crate::cursor::Cursor;
use crate::gemini::Gemini;
use crate::goose::Goose;
use crate::grok::Grok;
use crate::kiro::Kiro;
use crate::opencode::Opencode;
use crate::program::Program;
use crate::qwen::Qwen;
use crate::rehearsal::Rehearsal;

/// The address of the service that speaks the protocol of Claude Code's, and the variable that holds its key.
const GLM: (&str, &str) = ("https://api.z.ai/api/anthropic", "ZAI_API_KEY");

static ALL: &[&dyn Backend] = &[
    &Command,
    &Rehearsal,
    &Claude { name: "claude", service: None },
    &Claude { name: "glm", service: Some(GLM) },
    &Codex,
    &Gemini,
    &Copilot,
    &Qwen,
    &Opencode,
    &Goose,
    &Cursor,
    &Kiro,
    &Grok,
];

/// Returns the backend that understands runs of this kind.
pub fn by_kind(kind: &str) -> Option<&'static dyn Backend> {
    ALL.iter().copied().find(|backend| backend.kind() == kind)
}

/// Returns the backends that have a vendor's program, by name.
pub fn vendors() -> impl Iterator<Item = (&'static str, &'static Program)> {
    ALL.iter().filter_map(|backend| Some((backend.kind(), backend.program()?)))
}

/// Returns the names that a configuration cannot define anew: every backend that needs no configuration.
pub fn built_in() -> Vec<&'static str> {
    ALL.iter().map(|backend| backend.kind()).filter(|kind| *kind != Command.kind()).collect()
}
