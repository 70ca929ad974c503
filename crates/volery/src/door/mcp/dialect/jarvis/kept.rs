//! The sessions that Jarvis has kept: one id of Claude Code's for each agent. Read, never written.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use domain::id::SessionId;
use serde_json::Value;

/// The later name, then the one of the first design.
const FILES: [&str; 2] = ["data/subagent-sessions.json", "data/sessions.json"];
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Returns the session that an agent had. A file that cannot be read is as good as none: the agent begins anew.
pub(crate) fn session(home: &Path, agent: &str) -> Option<SessionId> {
    FILES.iter().find_map(|file| {
        let mut text = String::new();
        File::open(home.join(file)).ok()?.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
        let sessions: Value = serde_json::from_str(&text).ok()?;
        sessions.get(agent)?.as_str()?.parse().ok()
    })
}
