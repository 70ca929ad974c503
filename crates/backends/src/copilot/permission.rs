//! Translates a permission into options of Copilot that allow and deny tools. Copilot cannot ask in this mode, so it denies
//! everything that no option allows.

use domain::permission::{Permission, Rule, ToolKind};
use domain::policy::{Extent, is_in_git_dir};

use super::versions::TOOL_GROUPS;

/// Commands whose first argument is part of what an option matches.
const COMMANDS_WITH_SUBCOMMANDS: [&str; 2] = ["git", "gh"];

/// Git's hooks and settings, which can execute programs. Denials of Copilot take precedence.
const GIT_PATTERNS: [&str; 2] = [".git/**", "**/.git/**"];

/// The translated permission.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CopilotPermission {
    /// Arguments of the program.
    pub(super) args: Vec<String>,
    /// Groups of tools that the agent does not have.
    pub(super) hidden_tool_groups: Vec<&'static str>,
    /// Restricting rules that Copilot cannot express.
    pub(super) unenforceable: Vec<String>,
    /// Allowing rules that Copilot cannot express.
    pub(super) inexpressible_grants: Vec<String>,
}

/// Translates a permission for an agent that works in this directory.
pub(super) fn translate(permission: &Permission, directory: &str) -> CopilotPermission {
    let mut translated = CopilotPermission::default();
    let add_arg = |translated: &mut CopilotPermission, text: &str| translated.args.push(text.to_owned());
    let edits = permission.level_extent(ToolKind::Edit);
    match edits {
        Extent::Everything => add_arg(&mut translated, "--allow-all"),
        Extent::Directory => {
            add_arg(&mut translated, "--allow-tool=write");
            add_arg(&mut translated, "--disallow-temp-dir");
            GIT_PATTERNS.iter().for_each(|pattern| {
                add_arg(
                    &mut translated,
                    &format!("--deny-tool=write({})", absolute_pattern(pattern, directory)),
                )
            });
        }
        Extent::Nothing => add_arg(&mut translated, "--disallow-temp-dir"),
    }
    for rule in &permission.allow {
        allow(&mut translated, rule, directory);
    }
    // Copilot cannot ask in this mode, so `ask` rules deny.
    for (list, rule) in permission.restricting_rules() {
        deny(&mut translated, list, rule, directory);
    }
    // Copilot allows commands that only read without an option.
    let is_allowed = |kind: ToolKind<'_>| {
        let is_granted = |rule: &Rule| !translated.inexpressible_grants.contains(&allow_rule_text(rule));
        permission.allow.iter().filter(|rule| rule.is_about(kind)).any(is_granted)
    };
    let (allows_shell, allows_write) = (is_allowed(ToolKind::Shell), is_allowed(ToolKind::Edit));
    if permission.level_extent(ToolKind::Shell) == Extent::Nothing && !allows_shell {
        add_arg(&mut translated, "--deny-tool=shell");
    }
    if edits == Extent::Nothing && !allows_write {
        add_arg(&mut translated, "--deny-tool=write");
    }
    if edits == Extent::Everything {
        translated.inexpressible_grants.clear();
    }
    translated
}

fn allow(translated: &mut CopilotPermission, rule: &Rule, directory: &str) {
    let argument = match (rule.kind(), rule.pattern()) {
        (ToolKind::Read | ToolKind::Search | ToolKind::Delegate, _) => return,
        (ToolKind::Everything, None) => Some("--allow-all-tools".to_owned()),
        (ToolKind::Shell, None) => Some("--allow-tool=shell".to_owned()),
        (ToolKind::Shell, Some(pattern)) => {
            allowed_command(pattern).map(|stem| format!("--allow-tool=shell({stem}:*)"))
        }
        (ToolKind::Edit, None) => Some("--allow-tool=write".to_owned()),
        (ToolKind::Edit, Some(pattern)) if is_in_git_dir(pattern) => None,
        (ToolKind::Edit, Some(pattern)) => {
            Some(format!("--allow-tool=write({})", absolute_pattern(pattern, directory)))
        }
        (ToolKind::Fetch, None) => Some("--allow-all-urls".to_owned()),
        (ToolKind::Mcp { server, tool }, None) => Some(format!("--allow-tool={}", mcp_tool(server, tool))),
        _ => None,
    };
    match argument {
        Some(argument) => translated.args.push(argument),
        None => translated.inexpressible_grants.push(allow_rule_text(rule)),
    }
}

fn deny(translated: &mut CopilotPermission, list: &str, rule: &Rule, directory: &str) {
    let argument = match (rule.kind(), rule.pattern()) {
        (ToolKind::Everything, None) => {
            translated.hidden_tool_groups.extend(TOOL_GROUPS);
            return;
        }
        (ToolKind::Read, None) => return translated.hidden_tool_groups.push("read"),
        (ToolKind::Search, None) => return translated.hidden_tool_groups.push("search"),
        (ToolKind::Delegate, None) => return translated.hidden_tool_groups.push("agent"),
        (ToolKind::WebSearch, None) => return translated.hidden_tool_groups.push("web"),
        (ToolKind::Fetch, None) => {
            translated.hidden_tool_groups.push("web");
            Some("--deny-tool=url".to_owned())
        }
        (ToolKind::Shell, None) => Some("--deny-tool=shell".to_owned()),
        (ToolKind::Shell, Some(pattern)) => {
            denied_command(pattern).map(|command| format!("--deny-tool=shell({command}:*)"))
        }
        (ToolKind::Edit, None) => Some("--deny-tool=write".to_owned()),
        (ToolKind::Edit, Some(pattern)) => {
            Some(format!("--deny-tool=write({})", absolute_pattern(pattern, directory)))
        }
        // Copilot compares the names of servers and tools as texts.
        (ToolKind::Mcp { .. }, None) if rule.has_server_glob() => None,
        (ToolKind::Mcp { server, tool }, None) => Some(format!("--deny-tool={}", mcp_tool(server, tool))),
        (ToolKind::Other(name), None) => Some(format!("--excluded-tools={name}")),
        _ => None,
    };
    match argument {
        Some(argument) => translated.args.push(argument),
        None => translated.unenforceable.push(format!("the rule {list} {rule}")),
    }
}

fn allow_rule_text(rule: &Rule) -> String {
    format!("the rule allow {rule}")
}

fn mcp_tool(server: &str, tool: Option<&str>) -> String {
    tool.map_or_else(|| server.to_owned(), |tool| format!("{server}({tool})"))
}

/// Returns the command of a pattern that allows any arguments, if Copilot can distinguish it: Copilot matches the name of a
/// command, and for a few commands the first argument.
fn allowed_command(pattern: &str) -> Option<&str> {
    let command = pattern.strip_suffix(":*").or_else(|| pattern.strip_suffix(" *"))?;
    let mut words = command.split(' ');
    let (first, second, third) = (words.next(), words.next(), words.next());
    let is_short = second.is_none()
        || (third.is_none() && COMMANDS_WITH_SUBCOMMANDS.contains(&first.unwrap_or_default()));
    (is_short && is_literal(command)).then_some(command)
}

/// Returns the beginning of the denied commands.
fn denied_command(pattern: &str) -> Option<&str> {
    let command = pattern.strip_suffix(":*").or_else(|| pattern.strip_suffix(" *")).unwrap_or(pattern);
    is_literal(command).then_some(command)
}

fn is_literal(command: &str) -> bool {
    !command.is_empty() && !command.contains(['*', '?', '(', ')', ','])
}

/// Makes a path pattern absolute. Copilot would match a relative one in every folder.
fn absolute_pattern(pattern: &str, directory: &str) -> String {
    match (pattern.strip_prefix("//"), pattern.starts_with('/')) {
        (Some(rest), _) => format!("/{rest}"),
        (None, true) => pattern.to_owned(),
        (None, false) => {
            format!("{}/{}", directory.trim_end_matches('/'), pattern.trim_start_matches("./"))
        }
    }
}
