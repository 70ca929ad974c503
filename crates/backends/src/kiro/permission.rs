//! Translates a permission into the tools that Kiro may use without confirmation. It refuses all others, because nobody can answer.

use domain::agent::Delegates;
use domain::launch::LaunchOverrides;
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::policy::Extent;
use domain::run::RunSpec;

use super::{AgentSetup, agent_copy, is_kiro_agent, keeps_sessions};
use crate::mcp_config;
use crate::policy_translation::{ToolEntry, UNBOUNDED_EDITS};

pub(super) const WRITE_TOOL: &str = "fs_write";

/// The tools that can be trusted individually, with their kinds.
const TRUSTABLE_TOOLS: [ToolEntry; 3] =
    [("fs_read", ToolKind::Read), (WRITE_TOOL, ToolKind::Edit), ("execute_bash", ToolKind::Shell)];

/// Returns the parts of a permission that Kiro cannot enforce.
pub(super) fn unenforceable(permission: &Permission) -> Vec<String> {
    let mut gaps = Vec::new();
    let trusted = trusted_tools(permission, Some(Level::SafeEdit));
    let is_trusted =
        |tool: &str| trusted.as_ref().is_none_or(|trusted| trusted.iter().any(|name| name == tool));
    let has_bounds = permission.level.is_some_and(|level| level.extent(ToolKind::Edit) == Extent::Directory);
    if has_bounds && is_trusted(WRITE_TOOL) {
        gaps.push(UNBOUNDED_EDITS.to_owned());
    }
    let patterned = permission.allow.iter().filter(|rule| rule.pattern().is_some());
    gaps.extend(patterned.map(|rule| format!("the rule allow {rule}")));
    for (list, rule) in permission.restricting_rules() {
        let is_shell_rule = rule.is_about(ToolKind::Shell);
        // A rule about another tool does not prevent the same action in the shell.
        if !is_shell_rule && is_trusted("execute_bash") {
            gaps.push(format!("the rule {list} {rule}"));
        }
    }
    gaps
}

/// Returns the argument with the tools that need no confirmation.
pub(super) fn trust_argument(spec: &RunSpec, agent_setup: &AgentSetup) -> String {
    match trusted_tools(&spec.setup.permission, default_level(spec)) {
        None => "--trust-all-tools".to_owned(),
        Some(mut tools) => {
            let delegates = !is_kiro_agent(spec) && spec.delegates != Delegates::Nobody;
            tools.extend(delegates.then(|| format!("@{}", mcp_config::OWN_SERVER)));
            tools.extend(agent_setup.has_answer_tool.then(|| agent_copy::ANSWER_TOOL.to_owned()));
            format!("--trust-tools={}", tools.join(","))
        }
    }
}

/// Returns the level of an agent without one. A file in the format of Kiro itself lists the tools that need no confirmation.
fn default_level(spec: &RunSpec) -> Option<Level> {
    // Only budgie's dialect keeps sessions by name, and all of its agents are files of Kiro's.
    let is_budgie = keeps_sessions(&LaunchOverrides::from_options(&spec.backend.options));
    let is_kiro_file = is_kiro_agent(spec) || spec.setup.vendor_agent.is_some() || is_budgie;
    (!is_kiro_file).then_some(Level::SafeEdit)
}

/// Returns the tools that need no confirmation; `None` stands for all of them. Kiro refuses all others.
pub(super) fn trusted_tools(permission: &Permission, default_level: Option<Level>) -> Option<Vec<String>> {
    let level = permission.level.or(default_level);
    let is_restricted = |kind: ToolKind<'_>| permission.restricts_kind(kind);
    let allows_everything = |rule: &Rule| rule.kind() == ToolKind::Everything && rule.pattern().is_none();
    let everything_allowed =
        level.is_some_and(|level| !level.is_limited()) || permission.allow.iter().any(allows_everything);
    if everything_allowed && permission.deny.is_empty() && permission.ask.is_empty() {
        return None;
    }
    let is_in_level = |kind| level.is_some_and(|level| level.extent(kind) != Extent::Nothing);
    let is_allowed = |kind: ToolKind<'_>| {
        permission.allow.iter().any(|rule| rule.kind() == kind && rule.pattern().is_none())
    };
    let built_in = TRUSTABLE_TOOLS.iter().filter(|(_, kind)| {
        (everything_allowed || is_in_level(*kind) || is_allowed(*kind)) && !is_restricted(*kind)
    });
    let mut tools: Vec<String> = built_in.map(|(tool, _)| (*tool).to_owned()).collect();
    for rule in permission.allow.iter().filter(|rule| rule.pattern().is_none()) {
        let ToolKind::Mcp { server, tool } = rule.kind() else { continue };
        let whole_server = ToolKind::Mcp { server, tool: None };
        let is_partly_restricted =
            tool.is_none() && permission.restricting_rules().any(|(_, rule)| rule.names_server(server));
        if !is_restricted(rule.kind()) && !is_restricted(whole_server) && !is_partly_restricted {
            tools.push(tool.map_or_else(|| format!("@{server}"), |tool| format!("@{server}/{tool}")));
        }
    }
    Some(tools)
}
