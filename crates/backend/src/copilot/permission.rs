//! A permission in the words of Copilot: what it may do unasked and what it may never do. Whatever is in neither list
//! is refused by the program itself, since nobody can be asked.

use domain::permission::{Level, Permission, Rule, ToolKind, is_in_repository};

use super::versions::TOOL_GROUPS;

/// Programs whose first argument is part of what a rule matches.
const WITH_SUBCOMMANDS: [&str; 2] = ["git", "gh"];

/// Hooks and settings, which git executes for whoever calls it next. The program denies before it allows.
const OF_GIT: [&str; 2] = [".git/**", "**/.git/**"];

/// What a permission becomes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Translated {
    /// Arguments of the program.
    pub(super) args: Vec<String>,
    /// Groups of tools that the agent has not.
    pub(super) hidden: Vec<&'static str>,
    /// Rules that cannot be said.
    /// What restricts and cannot be said.
    pub(super) unsaid: Vec<String>,
    /// What is allowed and cannot be said.
    pub(super) ungranted: Vec<String>,
}

/// Translates a permission for an agent that works in this directory.
pub(super) fn translate(permission: &Permission, directory: &str) -> Translated {
    let mut all = Translated::default();
    let arg = |all: &mut Translated, text: &str| all.args.push(text.to_owned());
    let level = permission.level.unwrap_or(Level::SafeEdit);
    match level {
        Level::Yolo => arg(&mut all, "--allow-all"),
        Level::SafeEdit => {
            arg(&mut all, "--allow-tool=write");
            arg(&mut all, "--disallow-temp-dir");
            OF_GIT
                .iter()
                .for_each(|of| arg(&mut all, &format!("--deny-tool=write({})", path(of, directory))));
        }
        Level::ReadOnly => arg(&mut all, "--disallow-temp-dir"),
    }
    for rule in &permission.allow {
        allow(&mut all, rule, directory);
    }
    // Nobody can be asked in this mode, so what is to be asked for is refused.
    for (word, rule) in permission
        .ask
        .iter()
        .map(|rule| ("ask", rule))
        .chain(permission.deny.iter().map(|rule| ("deny", rule)))
    {
        deny(&mut all, word, rule, directory);
    }
    // The program lets commands that only read pass unasked.
    let allows = |kind: ToolKind<'_>| {
        let said = |rule: &Rule| !all.ungranted.contains(&ungranted(rule));
        let of_kind = |rule: &&Rule| rule.kind() == kind || rule.kind() == ToolKind::Everything;
        permission.allow.iter().filter(of_kind).any(said)
    };
    let (shell, write) = (allows(ToolKind::Shell), allows(ToolKind::Edit));
    if level != Level::Yolo && !shell {
        arg(&mut all, "--deny-tool=shell");
    }
    if level == Level::ReadOnly && !write {
        arg(&mut all, "--deny-tool=write");
    }
    if level == Level::Yolo {
        all.ungranted.clear();
    }
    all
}

fn allow(all: &mut Translated, rule: &Rule, directory: &str) {
    let said = match (rule.kind(), rule.pattern()) {
        (ToolKind::Read | ToolKind::Search | ToolKind::Delegate, _) => return,
        (ToolKind::Everything, None) => Some("--allow-all-tools".to_owned()),
        (ToolKind::Shell, None) => Some("--allow-tool=shell".to_owned()),
        (ToolKind::Shell, Some(pattern)) => stem(pattern).map(|stem| format!("--allow-tool=shell({stem}:*)")),
        (ToolKind::Edit, None) => Some("--allow-tool=write".to_owned()),
        (ToolKind::Edit, Some(pattern)) if is_in_repository(pattern) => None,
        (ToolKind::Edit, Some(pattern)) => Some(format!("--allow-tool=write({})", path(pattern, directory))),
        (ToolKind::Fetch, None) => Some("--allow-all-urls".to_owned()),
        (ToolKind::Mcp { server, tool }, None) => Some(format!("--allow-tool={}", mcp(server, tool))),
        _ => None,
    };
    match said {
        Some(said) => all.args.push(said),
        None => all.ungranted.push(ungranted(rule)),
    }
}

fn deny(all: &mut Translated, word: &str, rule: &Rule, directory: &str) {
    let said = match (rule.kind(), rule.pattern()) {
        (ToolKind::Everything, None) => {
            all.hidden.extend(TOOL_GROUPS);
            return;
        }
        (ToolKind::Read, None) => return all.hidden.push("read"),
        (ToolKind::Search, None) => return all.hidden.push("search"),
        (ToolKind::Delegate, None) => return all.hidden.push("agent"),
        (ToolKind::WebSearch, None) => return all.hidden.push("web"),
        (ToolKind::Fetch, None) => {
            all.hidden.push("web");
            Some("--deny-tool=url".to_owned())
        }
        (ToolKind::Shell, None) => Some("--deny-tool=shell".to_owned()),
        (ToolKind::Shell, Some(pattern)) => {
            plain_command(pattern).map(|words| format!("--deny-tool=shell({words}:*)"))
        }
        (ToolKind::Edit, None) => Some("--deny-tool=write".to_owned()),
        (ToolKind::Edit, Some(pattern)) => Some(format!("--deny-tool=write({})", path(pattern, directory))),
        (ToolKind::Mcp { server, tool }, None) => Some(format!("--deny-tool={}", mcp(server, tool))),
        (ToolKind::Other(name), None) => Some(format!("--excluded-tools={name}")),
        _ => None,
    };
    match said {
        Some(said) => all.args.push(said),
        None => all.unsaid.push(format!("the rule {word} {rule}")),
    }
}

fn ungranted(rule: &Rule) -> String {
    format!("the rule allow {rule}")
}

fn mcp(server: &str, tool: Option<&str>) -> String {
    tool.map_or_else(|| server.to_owned(), |tool| format!("{server}({tool})"))
}

/// Returns the command that a pattern stands for with any arguments, if the program can tell it from others: it
/// allows by the name of the command, and by the first argument of a few.
fn stem(pattern: &str) -> Option<&str> {
    let command = pattern.strip_suffix(":*").or_else(|| pattern.strip_suffix(" *"))?;
    let mut words = command.split(' ');
    let (first, second, third) = (words.next(), words.next(), words.next());
    let short =
        second.is_none() || (third.is_none() && WITH_SUBCOMMANDS.contains(&first.unwrap_or_default()));
    (short && is_plain(command)).then_some(command)
}

/// Returns the words that a denied command begins with.
fn plain_command(pattern: &str) -> Option<&str> {
    let command = pattern.strip_suffix(":*").or_else(|| pattern.strip_suffix(" *")).unwrap_or(pattern);
    is_plain(command).then_some(command)
}

fn is_plain(command: &str) -> bool {
    !command.is_empty() && !command.contains(['*', '?', '(', ')', ','])
}

/// Returns a pattern of paths as an absolute one: the program would look for a relative one in every folder.
fn path(pattern: &str, directory: &str) -> String {
    match (pattern.strip_prefix("//"), pattern.starts_with('/')) {
        (Some(rest), _) => format!("/{rest}"),
        (None, true) => pattern.to_owned(),
        (None, false) => {
            format!("{}/{}", directory.trim_end_matches('/'), pattern.trim_start_matches("./"))
        }
    }
}
