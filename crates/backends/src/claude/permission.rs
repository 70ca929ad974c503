//! Translates a permission for Claude Code: its mode, the tools it offers, the rules it denies, and the tools it asks about.

use domain::inherit::Inherited;
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::policy::Extent;
use domain::run::RunSpec;
use domain::setup::Setup;

use super::versions;
use crate::mcp_config::OWN_SERVER;
use crate::policy_translation::ByLevel;

/// The tools with which Claude Code changes files.
const EDIT_TOOLS: [&str; 3] = ["Edit", "Write", "NotebookEdit"];

/// Tools of Claude Code by the kind that permission rules use.
const TOOLS_BY_KIND: [(ToolKind<'static>, &[&str]); 7] = [
    (ToolKind::Read, &["Read"]),
    (ToolKind::Search, &["Glob", "Grep"]),
    (ToolKind::Edit, &["Edit", "NotebookEdit", "Write"]),
    (ToolKind::Shell, &["Bash", "Monitor", "PowerShell"]),
    (ToolKind::Fetch, &["WebFetch"]),
    (ToolKind::WebSearch, &["WebSearch"]),
    (ToolKind::Delegate, &["Agent", "Task"]),
];

/// Kinds that a level denies, and that settings could allow.
const KINDS_ABOVE_LEVEL: [ToolKind<'static>; 4] =
    [ToolKind::Edit, ToolKind::Shell, ToolKind::Fetch, ToolKind::WebSearch];

/// Returns the permission mode of the run. Where the user's rules apply, the mode corresponds to the level, and the agent's
/// rules decide about what Claude Code then asks. Otherwise Claude Code asks about every use, and the permission decides.
pub(super) fn permission_mode(setup: &Setup) -> &'static str {
    let modes = ByLevel { read_only: "plan", safe_edit: "acceptEdits", yolo: "default" };
    match setup.permission.level.is_some() && setup.inherits(Inherited::Settings) {
        true => modes.select(&setup.permission),
        false => "default",
    }
}

/// Returns the built-in tools to which Claude Code is limited; `None` stands for all of them.
pub(super) fn offered_tools(setup: &Setup) -> Option<Vec<String>> {
    let permission = &setup.permission;
    let has_limit = permission.level.is_some_and(Level::is_limited);
    match &setup.tools {
        Some(tools) => Some(tools.clone()),
        // The permission mode decides which of them may be used.
        None if setup.inherits(Inherited::Settings) => None,
        None if has_limit => {
            let rules = permission.allow.iter().chain(&permission.ask);
            let other_tools = rules.filter(|rule| matches!(rule.kind(), ToolKind::Other(_))).map(Rule::tool);
            Some(
                versions::TOOLS_WITH_LEVEL
                    .iter()
                    .copied()
                    .chain(other_tools)
                    .map(ToOwned::to_owned)
                    .collect(),
            )
        }
        None => None,
    }
}

/// Returns the tools and rules that Claude Code must deny by itself, because it allows some uses without asking.
pub(super) fn denied_rules(setup: &Setup) -> Option<String> {
    let permission = &setup.permission;
    let mut rules: Vec<String> = permission.deny.iter().map(|rule| rule.spelling().to_owned()).collect();
    let may_edit = permission.level_extent(ToolKind::Edit) != Extent::Nothing;
    if !may_edit && !setup.inherits(Inherited::Settings) {
        // It asks about each command, and the level allows those that only read.
        let commands = (!permission.allows_reading_commands()).then_some((ToolKind::Shell, "Bash"));
        let tools = commands.into_iter().chain(EDIT_TOOLS.map(|tool| (ToolKind::Edit, tool)));
        let denied_tools = tools.filter(|(kind, _)| !permission.opens_kind(*kind));
        rules.extend(denied_tools.map(|(_, tool)| tool.to_owned()));
    }
    (!rules.is_empty()).then(|| rules.join(","))
}

/// Returns the tools that Claude Code must always ask about.
pub(super) fn confirmed_tools(spec: &RunSpec) -> Vec<String> {
    let without_denials = Permission { deny: Vec::new(), ..spec.setup.permission.clone() };
    // Where the user's rules apply, Claude Code enforces denials by itself.
    let permission = match spec.setup.inherits(Inherited::Settings) {
        true => &without_denials,
        false => &spec.setup.permission,
    };
    let has_level =
        permission.level.is_some_and(Level::is_limited) && !spec.setup.inherits(Inherited::Settings);
    let built_in = TOOLS_BY_KIND
        .iter()
        .filter(|(kind, _)| {
            (has_level && KINDS_ABOVE_LEVEL.contains(kind))
                || permission.restricts_kind(*kind)
                || restricts_callees(permission, *kind)
        })
        .flat_map(|(_, tools)| tools.iter().map(|tool| (*tool).to_owned()));
    let servers = spec.setup.mcp_servers.iter().map(|server| server.name.as_str());
    let from_servers = servers
        .chain([OWN_SERVER])
        .filter(|server| (has_level && *server != OWN_SERVER) || permission.restricts_server(server))
        .map(|server| format!("mcp__{}", tool_name_part(server)));
    // Rules about tools that only Claude Code knows are passed on unchanged.
    let restricting = permission.restricting_rules().map(|(_, rule)| rule);
    let others = restricting.filter(|rule| matches!(rule.kind(), ToolKind::Other(_)));
    built_in.chain(from_servers).chain(others.map(|rule| rule.tool().to_owned())).collect()
}

/// Returns whether only some agents may be called: Claude Code calls any agent without asking.
fn restricts_callees(permission: &Permission, kind: ToolKind<'_>) -> bool {
    let with_pattern = |rule: &Rule| rule.kind() == ToolKind::Delegate && rule.pattern().is_some();
    let without_pattern = |rule: &Rule| rule.kind() == ToolKind::Delegate && rule.pattern().is_none();
    kind == ToolKind::Delegate
        && permission.allow.iter().any(with_pattern)
        && !permission.allow.iter().any(without_pattern)
}

/// Returns the name of a server as it appears in the names of its tools.
fn tool_name_part(server: &str) -> String {
    let is_valid = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    server.chars().map(|letter| if is_valid(letter) { letter } else { '_' }).collect()
}
