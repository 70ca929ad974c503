//! A permission as options of Qwen Code: what it shall refuse or allow by itself, without asking.

use domain::permission::{Level, Permission, Rule, ToolKind};

use super::versions::{self, ASKING_TOOL, UNASKED_TOOLS};

/// Names the rules that it cannot be told, or that it would pass over without asking.
pub(super) fn unenforceable(permission: &Permission) -> Vec<String> {
    let untold = permission.deny.iter().filter(|rule| rule.spelling().contains(','));
    let unasked = permission
        .ask
        .iter()
        .filter(|rule| matches!(rule.kind(), ToolKind::Read | ToolKind::Search | ToolKind::Everything));
    let untold = untold.map(|rule| format!("the rule deny {rule}"));
    untold.chain(unasked.map(|rule| format!("the rule ask {rule}"))).collect()
}

/// Returns what is refused without asking, since it lets some uses pass without a question. Where a run may execute
/// something, editing is left to the question: what is refused here, Qwen Code refuses to every command that writes.
pub(super) fn excluded(permission: &Permission, tools: Option<&[String]>) -> Vec<String> {
    let mut all = vec![ASKING_TOOL.to_owned()];
    all.extend(permission.deny.iter().flat_map(spellings));
    let speaks = |kind: ToolKind<'_>| {
        let of = |rule: &Rule| rule.kind() == kind || rule.kind() == ToolKind::Everything;
        permission.allow.iter().chain(&permission.ask).any(of)
    };
    let beyond: &[ToolKind<'_>] = match permission.level {
        Some(Level::ReadOnly) if speaks(ToolKind::Shell) => &[],
        Some(Level::ReadOnly) => &[ToolKind::Shell, ToolKind::Edit],
        Some(Level::SafeEdit) => &[ToolKind::Shell],
        Some(Level::Yolo) | None => &[],
    };
    if matches!(permission.level, Some(Level::ReadOnly | Level::SafeEdit)) {
        let unnamed = UNASKED_TOOLS.into_iter().filter(|tool| !speaks(ToolKind::Other(tool)));
        all.extend(unnamed.map(ToOwned::to_owned));
    }
    for (kind, named) in versions::all_tools() {
        let is_beyond = beyond.contains(&kind) && !speaks(kind);
        let unwanted = |tool: &&str| is_beyond || tools.is_some_and(|tools| !is_wanted(kind, tool, tools));
        all.extend(named.iter().copied().filter(unwanted).map(ToOwned::to_owned));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// A name of the program's own stands for that tool alone, any other word for all that do the same; so does `edit`,
/// which is both.
fn is_wanted(kind: ToolKind<'_>, tool: &str, tools: &[String]) -> bool {
    let is_own = |name: &str| name.contains('_') && versions::all_tools().any(|(_, own)| own.contains(&name));
    tools.iter().any(|name| match ToolKind::named(name) {
        _ if is_own(name) => name == tool,
        wanted => wanted == kind || wanted == ToolKind::Everything || name == tool,
    })
}

/// Returns a rule in the program's own words. Patterns have the same form.
fn spellings(rule: &Rule) -> Vec<String> {
    let names: Vec<String> = match rule.kind() {
        ToolKind::Everything => versions::all_tools().flat_map(|(_, tools)| owned(tools)).collect(),
        ToolKind::Mcp { server, tool: Some(tool) } => vec![format!("mcp__{server}__{tool}")],
        ToolKind::Mcp { server, tool: None } => vec![format!("mcp__{server}")],
        ToolKind::Other(name) => vec![name.to_owned()],
        kind => owned(versions::tools(kind)),
    };
    let with_pattern = |name: String| match rule.pattern() {
        Some(pattern) => format!("{name}({pattern})"),
        None => name,
    };
    names.into_iter().map(with_pattern).collect()
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
