//! The levels and rules of an agent in the words of Grok: a sandbox of the kernel for the level, and rules that deny.

use domain::permission::{Level, Permission, Rule, ToolKind};

/// What only reads leaves these alone; the sandbox alone would leave folders for temporary files open.
const CHANGING: [&str; 3] = ["Bash", "Edit", "Write"];
const EVERYTHING: [&str; 6] = ["Bash", "Edit", "Write", "Read", "Grep", "WebFetch"];
/// Through these a model finds and uses the tools of MCP servers: the user's and the project's are not for it.
pub(super) const SERVER_TOOLS: [&str; 2] = ["search_tool", "use_tool"];

/// Returns the sandbox for a level.
pub(super) fn sandbox(level: Option<Level>) -> &'static str {
    match level {
        Some(Level::ReadOnly) => "read-only",
        None | Some(Level::SafeEdit) => "workspace",
        Some(Level::Yolo) => "off",
    }
}

/// Returns the rules that deny. What would be asked is denied: nobody can be asked. Where the user's settings count, the sandbox
/// alone is the level, as with sub-agents-mcp.
pub(super) fn denied(permission: &Permission, by_sandbox: bool) -> Vec<String> {
    let read_only = permission.level == Some(Level::ReadOnly) && !by_sandbox;
    let level = CHANGING.iter().filter(|_| read_only).map(|word| (*word).to_owned());
    let rules = restricting(permission).flat_map(|(_, rule)| spelled(rule));
    level.chain(rules).collect()
}

/// Returns the tools of its own that are taken away.
pub(super) fn removed(permission: &Permission) -> Vec<&'static str> {
    restricting(permission).filter_map(|(_, rule)| removable(rule)).collect()
}

/// Names what has no words: rules that allow more than the level, and rules that a shell would get around.
pub(super) fn gaps(permission: &Permission) -> Vec<String> {
    let mut gaps: Vec<String> =
        permission.allow.iter().map(|rule| format!("the rule allow {rule}")).collect();
    let shell_is_free = !denied(permission, false).iter().any(|rule| rule == "Bash");
    for (word, rule) in restricting(permission) {
        let about_files = matches!(rule.kind(), ToolKind::Read | ToolKind::Edit | ToolKind::Search);
        let worded = !spelled(rule).is_empty() || removable(rule).is_some() || is_of_a_server(rule);
        if !worded || (about_files && shell_is_free) {
            gaps.push(format!("the rule {word} {rule}"));
        }
    }
    gaps
}

fn restricting(permission: &Permission) -> impl Iterator<Item = (&'static str, &Rule)> {
    let asks = permission.ask.iter().map(|rule| ("ask", rule));
    asks.chain(permission.deny.iter().map(|rule| ("deny", rule)))
}

fn spelled(rule: &Rule) -> Vec<String> {
    let prefixes: &[&str] = match rule.kind() {
        ToolKind::Shell => &["Bash"],
        ToolKind::Edit => &["Edit", "Write"],
        ToolKind::Read => &["Read"],
        ToolKind::Search => &["Grep"],
        ToolKind::Fetch => &["WebFetch"],
        ToolKind::Everything => &EVERYTHING,
        ToolKind::WebSearch | ToolKind::Delegate | ToolKind::Mcp { .. } | ToolKind::Other(_) => &[],
    };
    let spell = |prefix: &&str| match rule.pattern() {
        Some(pattern) => format!("{prefix}({pattern})"),
        None => (*prefix).to_owned(),
    };
    prefixes.iter().map(spell).collect()
}

fn removable(rule: &Rule) -> Option<&'static str> {
    match rule.kind() {
        ToolKind::WebSearch if rule.pattern().is_none() => Some("web_search"),
        ToolKind::Delegate if rule.pattern().is_none() => Some("Agent"),
        _ => None,
    }
}

/// Tells whether a rule is about tools that are taken away anyway.
fn is_of_a_server(rule: &Rule) -> bool {
    matches!(rule.kind(), ToolKind::Mcp { .. })
}
