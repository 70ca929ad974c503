//! The sessions that Jarvis has kept: one id of Claude Code's for each agent. Read, never written.

use std::path::Path;

use backend::plain_file;
use domain::id::SessionId;
use serde_json::Value;

/// The later name, then the one of the first design.
const FILES: [&str; 2] = ["data/subagent-sessions.json", "data/sessions.json"];
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Returns the session that an agent had. A file that cannot be read is as good as none: the agent begins anew.
pub(crate) fn session(home: &Path, agent: &str) -> Option<SessionId> {
    FILES.iter().find_map(|file| {
        let text = plain_file::text(&home.join(file), FILE_BYTES_MAX).ok()?;
        let sessions: Value = serde_json::from_str(&text).ok()?;
        sessions.get(agent)?.as_str()?.parse().ok()
    })
}
