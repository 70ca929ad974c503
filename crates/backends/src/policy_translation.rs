//! Translations of a permission that several vendors' programs share: a mode for the level, a list of enabled tools, and
//! rules under the program's own names. What is allowed is decided in `domain::policy`.

use domain::permission::{Permission, Rule, ToolKind};
use domain::policy::Extent;

/// The values of a program's setting for the three levels, such as the names of its sandboxes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByLevel<T> {
    pub(crate) read_only: T,
    pub(crate) safe_edit: T,
    pub(crate) yolo: T,
}

impl<T> ByLevel<T> {
    /// Returns the value for a permission; without a level, that of safe-edit.
    pub(crate) fn select(self, permission: &Permission) -> T {
        match permission.level_extent(ToolKind::Edit) {
            Extent::Nothing => self.read_only,
            Extent::Directory => self.safe_edit,
            Extent::Everything => self.yolo,
        }
    }
}

/// A built-in tool of a program, with its kind.
pub(crate) type ToolEntry = (&'static str, ToolKind<'static>);

/// Returns the tools to enable: those that are allowed, and in the agent's list if it has one.
pub(crate) fn enabled_tools(
    tools: &[ToolEntry],
    listed: Option<&[String]>,
    is_allowed: impl Fn(ToolKind<'_>) -> bool,
) -> Vec<&'static str> {
    let is_listed = |tool: &str, kind: ToolKind<'_>| {
        listed
            .is_none_or(|listed| listed.iter().any(|name| name == tool || ToolKind::from_name(name) == kind))
    };
    tools
        .iter()
        .filter(|(tool, kind)| is_allowed(*kind) && is_listed(tool, *kind))
        .map(|(tool, _)| *tool)
        .collect()
}

/// The gap of programs that enable or disable edits, and cannot limit them to a directory.
pub(crate) const UNBOUNDED_EDITS: &str = "the level safe-edit (it changes files outside its directory too)";

/// Returns the restricting rules that a list of enabled tools does not enforce.
pub(crate) fn unlisted_restrictions(permission: &Permission, has_shell: bool) -> Vec<String> {
    // A rule about another tool does not prevent the same action in the shell, and a single tool of a server cannot be
    // disabled.
    let is_enforced = |rule: &Rule| match rule.kind() {
        ToolKind::Shell | ToolKind::Everything | ToolKind::Delegate => true,
        // With a star elsewhere than at its end, the name may be that of a single tool.
        ToolKind::Mcp { server, tool } => tool.is_none() && !server.trim_end_matches('*').contains('*'),
        ToolKind::Read | ToolKind::Edit | ToolKind::Search | ToolKind::Fetch | ToolKind::WebSearch => {
            !has_shell
        }
        ToolKind::Env | ToolKind::Other(_) => false,
    };
    let gaps = permission.restricting_rules().filter(|(_, rule)| !is_enforced(rule));
    gaps.map(|(list, rule)| format!("the rule {list} {rule}")).collect()
}

/// Returns a rule under other names of its tool.
pub(crate) fn renamed_rule<'a>(
    rule: &'a Rule,
    names: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = String> {
    names.into_iter().map(|name| match rule.pattern() {
        Some(pattern) => format!("{name}({pattern})"),
        None => name.to_owned(),
    })
}
