//! Where a key stands in somebody's file, for a finding that only the backend could make.

use std::path::Path;

use super::text::read_text;

/// Returns line and column of a key; nothing where the file does not have it.
pub fn place_of_key(file: &str, key: &str) -> Option<(u32, u32)> {
    // What is wrong with the file was said when it was read.
    let text = read_text(Path::new(file), &mut Vec::new())?;
    definition::agent::place_of_key(file, &text, key)
}

/// Returns the line that names an executable of a project's own file, which is called as trust calls it: `backend upper`,
/// `agent a, MCP server b`, `agent a, acceptance`.
pub fn place_of_executable(file: &str, what: &str) -> Option<u32> {
    let part = what.rsplit(", ").next().unwrap_or(what);
    let keys: &[&str] = match part.split(' ').next().unwrap_or(part) {
        "backend" => &["backends"],
        "MCP" | "remote" => &["mcp_servers", "mcpServers", "mcp-servers"],
        "acceptance" => &["accept"],
        "hook" => &["hooks"],
        "name" => &["permission", "env", "extra_directories"],
        _ => return None,
    };
    let (section, _) = keys.iter().find_map(|key| place_of_key(file, key))?;
    // The name of one of several stands at the section or below it.
    let name = part.rsplit(' ').next().filter(|name| *name != part);
    let text = read_text(Path::new(file), &mut Vec::new())?;
    let below = text.lines().enumerate().skip(usize::try_from(section).unwrap_or(1).saturating_sub(1));
    let named = name.and_then(|name| below.into_iter().find(|(_, line)| line.contains(name)));
    Some(named.map_or(section, |(place, _)| u32::try_from(place).unwrap_or(u32::MAX).saturating_add(1)))
}
