//! Reads the sessions that Jarvis stored: one session id of Claude Code for each agent. Never written.

use std::path::Path;

use domain::id::SessionId;
use serde_json::Value;
use system_files::regular_file;

/// The current name, then that of the first design.
const FILES: [&str; 2] = ["data/subagent-sessions.json", "data/sessions.json"];
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Returns the stored session of an agent. With an unreadable file the agent starts a new session.
pub(crate) fn stored_session(home: &Path, agent: &str) -> Option<SessionId> {
    FILES.iter().find_map(|file| {
        let text = regular_file::read_text(&home.join(file), FILE_BYTES_MAX).ok()?;
        let sessions: Value = serde_json::from_str(&text).ok()?;
        sessions.get(agent)?.as_str()?.parse().ok()
    })
}
