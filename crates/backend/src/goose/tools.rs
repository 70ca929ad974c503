//! A permission in the words of goose: which tools there are. It has no rules about what they are used on, and where
//! files may be changed cannot be limited.

use domain::permission::{Level, Permission, Rule, ToolKind};

use crate::server_tools::speaks;

/// The tools of the extension that works on files, with what they do.
const OWN: [(&str, ToolKind<'static>); 5] = [
    ("analyze", ToolKind::Search),
    ("edit", ToolKind::Edit),
    ("shell", ToolKind::Shell),
    ("tree", ToolKind::Read),
    ("write", ToolKind::Edit),
];

/// Tells whether a kind of tool may be there: a rule that denies some of its uses takes all of it away.
fn may(permission: &Permission, kind: ToolKind<'_>) -> bool {
    let restricts = |rule: &Rule| rule.kind() == kind || rule.kind() == ToolKind::Everything;
    if permission.deny.iter().chain(&permission.ask).any(restricts) {
        return false;
    }
    if permission.allow.iter().any(|rule| speaks(rule, kind)) {
        return true;
    }
    match (permission.level.unwrap_or(Level::SafeEdit), kind) {
        (Level::Yolo, _) | (_, ToolKind::Read | ToolKind::Search) => true,
        (Level::SafeEdit, ToolKind::Edit) => true,
        (Level::SafeEdit | Level::ReadOnly, _) => false,
    }
}

/// Returns the tools of its own that the agent has.
pub(super) fn own(permission: &Permission, wanted: Option<&[String]>) -> Vec<&'static str> {
    let asked = |tool: &str, kind: ToolKind<'_>| {
        wanted.is_none_or(|wanted| wanted.iter().any(|name| name == tool || ToolKind::named(name) == kind))
    };
    OWN.iter()
        .filter(|(tool, kind)| may(permission, *kind) && asked(tool, *kind))
        .map(|(tool, _)| *tool)
        .collect()
}

/// Names what a permission demands and goose cannot do.
pub(super) fn unenforceable(permission: &Permission) -> Vec<String> {
    let mut gaps = Vec::new();
    let edits = permission.level == Some(Level::SafeEdit) && may(permission, ToolKind::Edit);
    if edits && !permission.allow.iter().any(|rule| speaks(rule, ToolKind::Edit)) {
        gaps.push("the level safe-edit (it changes files outside its directory too)".to_owned());
    }
    let patterned = permission.allow.iter().filter(|rule| rule.pattern().is_some());
    gaps.extend(patterned.map(|rule| format!("the rule allow {rule}")));
    let shell = may(permission, ToolKind::Shell);
    for (word, rule) in permission
        .ask
        .iter()
        .map(|rule| ("ask", rule))
        .chain(permission.deny.iter().map(|rule| ("deny", rule)))
    {
        // What the shell can do, a rule about another tool does not prevent; and of a server that is whole, goose
        // cannot take one tool away.
        let said = match rule.kind() {
            ToolKind::Shell | ToolKind::Everything => true,
            ToolKind::Mcp { tool, .. } => tool.is_none(),
            ToolKind::Delegate => true,
            ToolKind::Read | ToolKind::Edit | ToolKind::Search | ToolKind::Fetch | ToolKind::WebSearch => {
                !shell
            }
            ToolKind::Other(_) => false,
        };
        if !said {
            gaps.push(format!("the rule {word} {rule}"));
        }
    }
    gaps
}
