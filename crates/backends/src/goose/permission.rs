//! Translates a permission into a list of tools. goose has no rules about the arguments of a tool, and cannot limit where files are
//! changed.

use domain::permission::{Permission, ToolKind};
use domain::policy::Extent;

use crate::policy_translation::{self, ToolEntry, UNBOUNDED_EDITS};

/// The tools of the extension `developer`, with their kinds.
const BUILT_IN_TOOLS: [ToolEntry; 5] = [
    ("analyze", ToolKind::Search),
    ("edit", ToolKind::Edit),
    ("shell", ToolKind::Shell),
    ("tree", ToolKind::Read),
    ("write", ToolKind::Edit),
];

fn is_allowed(permission: &Permission, kind: ToolKind<'_>) -> bool {
    permission.tool_extent(kind) != Extent::Nothing
}

/// Returns the built-in tools that the agent has.
pub(super) fn built_in_tools(permission: &Permission, listed: Option<&[String]>) -> Vec<&'static str> {
    policy_translation::enabled_tools(&BUILT_IN_TOOLS, listed, |kind| is_allowed(permission, kind))
}

/// Returns the parts of a permission that goose cannot enforce.
pub(super) fn unenforceable(permission: &Permission) -> Vec<String> {
    let bounds_edits =
        permission.level.is_some() && permission.tool_extent(ToolKind::Edit) == Extent::Directory;
    let level = bounds_edits.then(|| UNBOUNDED_EDITS.to_owned());
    let patterned = permission.allow.iter().filter(|rule| rule.pattern().is_some());
    let grants = patterned.map(|rule| format!("the rule allow {rule}"));
    let has_shell = is_allowed(permission, ToolKind::Shell);
    let restrictions = policy_translation::unlisted_restrictions(permission, has_shell);
    level.into_iter().chain(grants).chain(restrictions).collect()
}
