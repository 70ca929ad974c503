//! Finds the location of a key in a file, for findings that only the backend could make.

use std::path::Path;

use super::guarded_read::read_text;

/// Returns line and column of a key; `None` if the file does not have it.
pub fn key_location(file: &str, key: &str) -> Option<(u32, u32)> {
    // The errors of the file were reported when it was read.
    let text = read_text(Path::new(file), &mut Vec::new())?;
    config::agent_formats::locate_key(file, &text, key)
}

/// Returns the line that names an executable in a project's own file. `what` is trust's name for it: `backend upper`,
/// `agent a, MCP server b`, `agent a, acceptance`.
pub fn executable_line(file: &str, what: &str) -> Option<u32> {
    let kind_and_name = what.rsplit(", ").next().unwrap_or(what);
    let keys: &[&str] = match kind_and_name.split(' ').next().unwrap_or(kind_and_name) {
        "backend" => &["backends"],
        "MCP" | "remote" => &["mcp_servers", "mcpServers", "mcp-servers"],
        "acceptance" => &["accept"],
        "hook" => &["hooks"],
        _ => return None,
    };
    let (section, _) = keys.iter().find_map(|key| key_location(file, key))?;
    // One of several names is in the section's line or below it.
    let name = kind_and_name.rsplit(' ').next().filter(|name| *name != kind_and_name);
    let text = read_text(Path::new(file), &mut Vec::new())?;
    let below = text.lines().enumerate().skip(usize::try_from(section).unwrap_or(1).saturating_sub(1));
    let named_line = name.and_then(|name| below.into_iter().find(|(_, line)| line.contains(name)));
    Some(named_line.map_or(section, |(index, _)| u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1)))
}
