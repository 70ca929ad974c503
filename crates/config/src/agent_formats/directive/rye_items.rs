//! The items of Rye and RyeOS that permissions name: tools, directives, knowledge. Their tools for files, commands and
//! the web are Volery's own; services of Rye do not exist here.

use domain::access::{AccessEffect, AccessSubject};

use super::draft::DirectiveDraft;
use crate::text::{SourceLocation, quote};

/// The things that a permission allows with items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemAction {
    Execute,
    Search,
    Load,
    /// Searches or loads: the later word for both.
    Fetch,
    Sign,
}

impl ItemAction {
    pub(super) fn parse(word: &str) -> Option<Self> {
        match word {
            "execute" => Some(Self::Execute),
            "search" => Some(Self::Search),
            "load" => Some(Self::Load),
            "fetch" => Some(Self::Fetch),
            "sign" => Some(Self::Sign),
            _ => None,
        }
    }
}

/// A pattern of items.
#[derive(Debug, Clone, Copy)]
pub(super) struct ItemPattern<'a> {
    pub(super) action: ItemAction,
    /// `tool`, `directive`, `knowledge`; `*` is any.
    pub(super) kind: &'a str,
    pub(super) pattern: &'a str,
    pub(super) location: SourceLocation,
}

/// The meaning of the name of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolMeaning {
    Subjects(Vec<AccessSubject>),
    /// A service that does not exist here.
    Unsupported(String),
}

/// Adds what a permission for items allows.
pub(super) fn add_item_rules(
    item: ItemPattern<'_>,
    effect: AccessEffect,
    draft: &mut DirectiveDraft<'_, '_>,
) {
    let ItemPattern { action, kind, pattern, location } = item;
    let pattern = pattern.trim();
    let is_item_character = |letter: char| letter.is_alphanumeric() || "_-./:*?@+".contains(letter);
    if pattern.is_empty() || !pattern.chars().all(is_item_character) {
        return draft.reject_rule(
            effect,
            location,
            &format!("{} is not the name of an item", quote(pattern)),
        );
    }
    let is_everything = is_wildcard(pattern) && (kind == "*" || action != ItemAction::Execute);
    let mut allow = |subjects: Vec<AccessSubject>| {
        subjects.into_iter().for_each(|subject| draft.add_rule(effect, subject, location));
    };
    match (action, kind) {
        (ItemAction::Execute, "*") if is_everything => allow(every_execution()),
        (ItemAction::Execute, "tool" | "*") => match tool_meaning(pattern) {
            ToolMeaning::Subjects(subjects) => allow(subjects),
            ToolMeaning::Unsupported(service) => {
                draft.note("permission", pattern);
                add_need(&service, effect, location, draft);
            }
        },
        (ItemAction::Execute, "directive") => allow(vec![AccessSubject::Delegate(item_path(pattern))]),
        (ItemAction::Execute, "script") => allow(vec![script(pattern)]),
        // To execute knowledge is to read it.
        (ItemAction::Execute, "knowledge") => allow(item_subjects(&["load"], kind, pattern)),
        (ItemAction::Search, _) => allow(item_subjects(&["search"], kind, pattern)),
        (ItemAction::Load, _) => allow(item_subjects(&["load"], kind, pattern)),
        (ItemAction::Fetch, _) => allow(item_subjects(&["search", "load"], kind, pattern)),
        (ItemAction::Sign, "*") if is_everything => {
            draft.warn(location, "items are not signed here, so the permission to sign allows nothing");
        }
        (ItemAction::Sign, _) => add_need("signing", effect, location, draft),
        (ItemAction::Execute, _) if is_wildcard(pattern) => {
            let message =
                format!("there are no items of the kind {}, so the permission allows nothing", quote(kind));
            draft.warn(location, message);
        }
        (ItemAction::Execute, "graph" | "graphs") => add_need("graphs", effect, location, draft),
        (ItemAction::Execute, "service") => {
            add_need(&format!("the service {pattern}"), effect, location, draft)
        }
        (ItemAction::Execute, _) => add_need(&format!("the {kind} {pattern}"), effect, location, draft),
    }
}

/// Adds what a capability such as `rye.execute.tool.rye.file-system.*` allows.
pub(super) fn add_capability(
    capability: &str,
    effect: AccessEffect,
    location: SourceLocation,
    draft: &mut DirectiveDraft<'_, '_>,
) {
    let capability = capability.trim();
    let own = capability.strip_prefix("ryeos.").or_else(|| capability.strip_prefix("rye."));
    let path = own.unwrap_or(capability);
    if is_wildcard(path) {
        draft.add_rule(effect, AccessSubject::Any, location);
        return;
    }
    let mut parts = path.splitn(3, '.');
    let action = parts.next().and_then(ItemAction::parse);
    let (kind, pattern) = (parts.next().unwrap_or("*"), parts.next().unwrap_or("*"));
    match action {
        Some(action) => add_item_rules(ItemPattern { action, kind, pattern, location }, effect, draft),
        None if own.is_some() => add_need(capability, effect, location, draft),
        None => {
            let problem = format!("{} is not a capability of Rye", quote(capability));
            draft.reject_rule(effect, location, &problem);
        }
    }
}

/// Records that the directive needs a service that does not exist here. A rule that denies it changes nothing.
pub(super) fn add_need(
    service: &str,
    effect: AccessEffect,
    location: SourceLocation,
    draft: &mut DirectiveDraft<'_, '_>,
) {
    match effect {
        AccessEffect::Allow | AccessEffect::NeedsApproval => draft.unsupported(location, service),
        AccessEffect::Deny => {
            draft.warn(location, format!("there is no {} that could be denied", quote(service)));
        }
    }
}

/// Returns the meaning of a tool's name, which may be a pattern: `rye.file-system.*`, `rye/bash/bash`, `tool:my/tool`.
pub(super) fn tool_meaning(name: &str) -> ToolMeaning {
    let name = name.trim().trim_start_matches("tool:");
    let dotted = name.replace('/', ".");
    let in_capability = ["ryeos.execute.tool.", "rye.execute.tool."];
    let dotted = in_capability.iter().find_map(|prefix| dotted.strip_prefix(prefix)).unwrap_or(&dotted);
    let own = dotted.strip_prefix("ryeos.").or_else(|| dotted.strip_prefix("rye."));
    let parts: Vec<&str> = own.unwrap_or(dotted).split('.').collect();
    let last = parts.get(1..).unwrap_or_default().join(".");
    let unsupported = |service: &str| ToolMeaning::Unsupported(service.to_owned());
    match (parts[0], last.as_str()) {
        ("*" | "**", _) => ToolMeaning::Subjects(every_execution()),
        ("file-system" | "file_system" | "filesystem" | "fs", operation) => file_tool(operation, dotted),
        ("bash" | "shell", "" | "*" | "**" | "bash" | "shell" | "run") => {
            ToolMeaning::Subjects(vec![AccessSubject::Exec(vec!["*".to_owned()])])
        }
        ("git", "" | "*" | "**" | "git") => ToolMeaning::Subjects(vec![program("git")]),
        ("code", operation) if own.is_some() => match operation.split('.').next() {
            Some(name @ ("git" | "npm")) => ToolMeaning::Subjects(vec![program(name)]),
            Some(_) | None => unsupported(dotted),
        },
        ("web", "fetch" | "webfetch" | "fetch.fetch" | "*" | "**") if own.is_some() => {
            ToolMeaning::Subjects(vec![AccessSubject::Reach("*".to_owned())])
        }
        ("web", "search" | "websearch" | "search.search") if own.is_some() => unsupported("web search"),
        ("mcp", _) if own.is_some() => unsupported("management of MCP servers"),
        ("mcp", _) => ToolMeaning::Subjects(vec![mcp_tool(&last)]),
        ("agent", "*" | "**" | "threads.*" | "threads.thread_directive" | "threads.spawn_thread")
            if own.is_some() =>
        {
            ToolMeaning::Subjects(vec![AccessSubject::Delegate("**".to_owned())])
        }
        ("agent", operation) if own.is_some() && operation.contains("graph") => unsupported("graphs"),
        ("core", operation) if own.is_some() => unsupported(core_service(operation)),
        (_, _) if own.is_some() => unsupported(dotted),
        (_, _) => ToolMeaning::Subjects(vec![script(name)]),
    }
}

fn file_tool(operation: &str, name: &str) -> ToolMeaning {
    let everywhere = || "**".to_owned();
    let (read, write) = (AccessSubject::Read(everywhere()), AccessSubject::Write(everywhere()));
    ToolMeaning::Subjects(match operation.trim_start_matches("fs_") {
        "" | "*" | "**" => vec![read, write],
        "read" | "list" | "ls" | "glob" | "grep" | "search" | "stat" => vec![read],
        "write" | "append" | "create" | "mkdir" => vec![write],
        "edit" | "edit_lines" => vec![read, write],
        _ => return ToolMeaning::Unsupported(name.to_owned()),
    })
}

/// Returns the name of a service of `rye/core`.
fn core_service(operation: &str) -> &str {
    match operation.split('.').next().unwrap_or_default() {
        "registry" => "registry",
        "bundler" => "bundler",
        "telemetry" => "telemetry",
        "sign" | "keys" => "signing",
        "runtimes" if operation.contains("graph") => "graphs",
        "" | "*" | "**" => "rye/core",
        service => service,
    }
}

fn mcp_tool(path: &str) -> AccessSubject {
    let (server, tool) = path.split_once('.').unwrap_or((path, "*"));
    AccessSubject::Mcp { server: server.to_owned(), tool: tool.to_owned() }
}

fn program(name: &str) -> AccessSubject {
    AccessSubject::Exec(vec![name.to_owned()])
}

/// Returns the subject of a script of the project.
pub(super) fn script(name: &str) -> AccessSubject {
    AccessSubject::Runtime(format!("script:{}", name.trim()))
}

/// Returns what may be executed if everything may.
fn every_execution() -> Vec<AccessSubject> {
    let any = || "*".to_owned();
    let everywhere = || "**".to_owned();
    vec![
        AccessSubject::Read(everywhere()),
        AccessSubject::Write(everywhere()),
        AccessSubject::Exec(vec![any()]),
        AccessSubject::Reach(any()),
        AccessSubject::Mcp { server: any(), tool: any() },
        AccessSubject::Delegate(everywhere()),
        script("**"),
    ]
}

/// Returns `search` for all items, `search:directive/x/**` for some.
fn item_subjects(actions: &[&str], kind: &str, pattern: &str) -> Vec<AccessSubject> {
    let subject = |action: &&str| match (kind, is_wildcard(pattern)) {
        ("*", true) => AccessSubject::Runtime((*action).to_owned()),
        _ => AccessSubject::Runtime(format!("{action}:{kind}/{}", item_path(pattern))),
    };
    actions.iter().map(subject).collect()
}

/// Returns the path of an item, whose parts capabilities join with dots. In Rye `*` stands for any text.
fn item_path(pattern: &str) -> String {
    let pattern = pattern.trim().trim_start_matches("directive:").trim_start_matches("knowledge:");
    let path = if pattern.contains('/') { pattern.to_owned() } else { pattern.replace('.', "/") };
    match path.strip_suffix('*') {
        Some(start) if start.is_empty() || start.ends_with('/') => format!("{start}**"),
        Some(_) | None => path,
    }
}

fn is_wildcard(pattern: &str) -> bool {
    matches!(pattern.trim(), "*" | "**" | "*/*" | "**/*")
}
