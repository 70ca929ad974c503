//! `<tools>` and `<mcps>`: the tools that a directive declares.

use domain::access::AccessSubject;
use domain::directive::DeclaredToolKind;

use super::draft::{DirectiveDraft, ElementFields, split_list};
use super::permissions::{checked_path, host_of};
use super::rye_items::{ToolMeaning, tool_meaning};
use super::words::command_pattern;
use super::xml::Element;
use crate::text::{SourceLocation, quote};

/// Reads all declared tools. Tools without a declaration are none.
pub(super) fn read_tools(element: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    draft.directive.tools.get_or_insert_default();
    ElementFields::open(element).close(draft);
    for name in split_list(&element.text) {
        declare_named(&name, false, element.location, draft);
    }
    for tool in &element.children {
        read_tool(tool, draft);
    }
}

fn read_tool(element: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    let mut fields = ElementFields::open(element);
    let is_required = take_required(&mut fields, draft);
    match element.name.as_str() {
        "filesystem" | "files" => return read_filesystem(fields, is_required, draft),
        "shell" | "bash" => return read_shell(fields, is_required, draft),
        "mcps" => return read_tools(element, draft),
        "mcp" => return read_mcp(fields, is_required, draft),
        "tool" | "script" => read_named_tools(&mut fields, is_required, draft),
        "fetch" | "network" | "web" => read_fetch(&mut fields, is_required, draft),
        "directive" | "directives" | "run_directive" | "spawn" => {
            draft.note("tool", fields.take_any(&["name", "id"]).unwrap_or(&element.text));
            draft.declare_tool(DeclaredToolKind::Directives, is_required, element.location);
        }
        action @ ("search" | "load" | "knowledge") => {
            draft.note("tool", fields.take_any(&["name", "id"]).unwrap_or(&element.text));
            let kind = DeclaredToolKind::Items { action: action.to_owned() };
            draft.declare_tool(kind, is_required, element.location);
        }
        "git" => {
            draft.reject_text(element);
            let kind = DeclaredToolKind::Shell { commands: vec![vec!["git".to_owned()]] };
            draft.declare_tool(kind, is_required, element.location);
        }
        name => {
            draft.warn(
                element.location,
                format!("<{name}> is not a tool that Volery has; it is taken for a script"),
            );
            draft.note("tool", &element.text);
            let kind = DeclaredToolKind::Script { name: name.to_owned() };
            draft.declare_tool(kind, is_required, element.location);
        }
    }
    for child in &element.children {
        draft.warn(child.location, format!("<{}> in <{}> is ignored", child.name, element.name));
    }
    fields.close(draft);
}

/// Reads `<tool name="x"/>`, `<tool>x</tool>` and `<script name="x"/>`.
fn read_named_tools(fields: &mut ElementFields<'_>, is_required: bool, draft: &mut DirectiveDraft<'_, '_>) {
    let element = fields.element;
    let name = fields.take_any(&["name", "id"]).map(ToOwned::to_owned);
    if name.is_some() {
        draft.note("tool", &element.text);
    }
    let names = name.map_or_else(|| split_list(&element.text), |name| vec![name]);
    if names.is_empty() {
        draft.warn(element.location, format!("<{}> has no name", element.name));
    }
    for name in names {
        if element.name == "script" {
            draft.declare_tool(DeclaredToolKind::Script { name }, is_required, element.location);
        } else {
            declare_named(&name, is_required, element.location, draft);
        }
    }
}

/// Reads `<fetch hosts="api.example.org"/>`.
fn read_fetch(fields: &mut ElementFields<'_>, is_required: bool, draft: &mut DirectiveDraft<'_, '_>) {
    let element = fields.element;
    let written = fields.take_any(&["hosts", "host", "endpoint", "url"]).unwrap_or(&element.text);
    let mut hosts = Vec::new();
    for host in split_list(written) {
        match host_of(&host) {
            Some(host) => hosts.push(host),
            None => {
                draft.warn(element.location, format!("{} is not a host, so it is left out", quote(&host)))
            }
        }
    }
    draft.declare_tool(DeclaredToolKind::Fetch { hosts }, is_required, element.location);
}

/// Takes `required`: a tool is optional unless the file says otherwise.
fn take_required(fields: &mut ElementFields<'_>, draft: &mut DirectiveDraft<'_, '_>) -> bool {
    let required = fields.take("required").unwrap_or("false");
    let is_required = required.eq_ignore_ascii_case("true");
    if !is_required && !required.eq_ignore_ascii_case("false") {
        let message = format!("required={} is neither true nor false", quote(required));
        draft.diagnostics.error_with_hint(fields.element.location, message, "write required=\"true\"");
    }
    is_required
}

/// Reads `<filesystem><read paths="src/**"/></filesystem>`.
fn read_filesystem(mut fields: ElementFields<'_>, is_required: bool, draft: &mut DirectiveDraft<'_, '_>) {
    let element = fields.element;
    for (name, is_write) in [("read", false), ("write", true)] {
        if let Some(paths) = fields.take(name) {
            let paths = checked_paths(paths, element.location, draft);
            draft.declare_tool(file_tool(is_write, paths), is_required, element.location);
        }
    }
    fields.close(draft);
    draft.reject_text(element);
    if element.children.is_empty() && element.attributes.is_empty() {
        let paths = || vec!["**".to_owned()];
        draft.declare_tool(file_tool(false, paths()), is_required, element.location);
        draft.declare_tool(file_tool(true, paths()), is_required, element.location);
    }
    for operation in &element.children {
        let is_write = match operation.name.as_str() {
            "read" | "list" | "search" => false,
            "write" | "edit" | "create" | "append" => true,
            name => {
                draft.warn(operation.location, format!("<{name}> is no tool for files; it is ignored"));
                continue;
            }
        };
        let mut fields = ElementFields::open(operation);
        let is_required = take_required(&mut fields, draft) || is_required;
        let text = fields.take_any(&["paths", "path", "pattern"]).unwrap_or(&operation.text);
        let mut paths = checked_paths(text, operation.location, draft);
        for path in &operation.children {
            paths.extend(checked_paths(&path.text, path.location, draft));
        }
        if paths.is_empty() && !is_write && text.is_empty() {
            paths.push("**".to_owned());
        } else if paths.is_empty() {
            draft.warn(operation.location, format!("<{}> has no paths, so it allows none", operation.name));
        }
        fields.close(draft);
        draft.declare_tool(file_tool(is_write, paths), is_required, operation.location);
    }
}

fn checked_paths(text: &str, location: SourceLocation, draft: &mut DirectiveDraft<'_, '_>) -> Vec<String> {
    let mut paths = Vec::new();
    for path in split_list(text) {
        match checked_path(&path) {
            Ok(path) => paths.push(path),
            Err(problem) => draft.warn(location, format!("{problem}, so it is left out")),
        }
    }
    paths
}

fn file_tool(is_write: bool, paths: Vec<String>) -> DeclaredToolKind {
    if is_write { DeclaredToolKind::WriteFiles { paths } } else { DeclaredToolKind::ReadFiles { paths } }
}

/// Reads `<shell commands="git,npm"/>` and `<shell><command>git</command></shell>`.
fn read_shell(mut fields: ElementFields<'_>, is_required: bool, draft: &mut DirectiveDraft<'_, '_>) {
    let element = fields.element;
    let mut texts = vec![(element.location, element.text.clone())];
    let attribute = fields.take_any(&["commands", "command"]);
    texts.extend(attribute.map(|commands| (element.location, commands.to_owned())));
    fields.close(draft);
    for child in &element.children {
        if child.name != "command" {
            draft.warn(child.location, format!("<{}> in <shell> is ignored", child.name));
            continue;
        }
        let mut fields = ElementFields::open(child);
        let named = fields.take_any(&["name", "pattern", "command"]);
        fields.close(draft);
        texts.extend(named.map(|command| (child.location, command.to_owned())));
        texts.push((child.location, child.text.clone()));
    }
    let mut commands = Vec::new();
    for (location, text) in texts {
        for command in split_list(&text) {
            match command_pattern(&command) {
                Some(words) => commands.push(words),
                None => {
                    let message = format!("the command {} needs a shell, so it is left out", quote(&command));
                    draft.warn(location, message);
                }
            }
        }
    }
    if commands.is_empty() {
        draft.warn(element.location, "<shell> has no commands, so it allows none");
    }
    draft.declare_tool(DeclaredToolKind::Shell { commands }, is_required, element.location);
}

/// Reads `<mcp name="x"><tool>y</tool></mcp>`, also with `<tools>` around its tools.
fn read_mcp(mut fields: ElementFields<'_>, is_required: bool, draft: &mut DirectiveDraft<'_, '_>) {
    let element = fields.element;
    let server = fields.take_any(&["name", "server"]).map(ToOwned::to_owned);
    let mut tools = fields.take_any(&["tools", "actions"]).map(split_list).unwrap_or_default();
    fields.close(draft);
    draft.note("mcp", &element.text);
    let Some(server) = server else {
        draft.diagnostics.error_with_hint(element.location, "an <mcp> has no name", "write name=\"SERVER\"");
        return;
    };
    let mut required_tools = Vec::new();
    let nested = element.children_named("tools").flat_map(|tools| &tools.children);
    for tool in element.children.iter().filter(|child| child.name != "tools").chain(nested) {
        let mut fields = ElementFields::open(tool);
        let is_tool_required = take_required(&mut fields, draft);
        let name = fields.take("name").unwrap_or(&tool.text);
        fields.close(draft);
        if tool.name != "tool" {
            draft.warn(tool.location, format!("<{}> in <mcp> is ignored", tool.name));
        } else if name.is_empty() {
            draft.warn(tool.location, "a <tool> has no name");
        } else if is_tool_required {
            required_tools.push((name.to_owned(), tool.location));
        } else {
            tools.extend(split_list(name));
        }
    }
    element.children_named("tools").for_each(|tools| draft.reject_text(tools));
    for (tool, location) in &required_tools {
        let kind = DeclaredToolKind::Mcp { server: server.clone(), tools: vec![tool.clone()] };
        draft.declare_tool(kind, true, *location);
    }
    if required_tools.is_empty() || !tools.is_empty() {
        draft.declare_tool(DeclaredToolKind::Mcp { server, tools }, is_required, element.location);
    }
}

/// Declares a tool by its name in one of the systems: `filesystem.read`, `supabase.query`, `rye/bash/bash`.
pub(super) fn declare_named(
    name: &str,
    is_required: bool,
    location: SourceLocation,
    draft: &mut DirectiveDraft<'_, '_>,
) {
    let everywhere = || vec!["**".to_owned()];
    let own = match name.replace('_', ".").as_str() {
        "filesystem.read" | "filesystem.list" | "filesystem.search" => {
            Some(DeclaredToolKind::ReadFiles { paths: everywhere() })
        }
        "filesystem.write" | "filesystem.edit" => Some(DeclaredToolKind::WriteFiles { paths: everywhere() }),
        "shell.run" => Some(DeclaredToolKind::Shell { commands: vec![vec!["*".to_owned()]] }),
        "run.directive" => Some(DeclaredToolKind::Directives),
        action @ ("search" | "load" | "knowledge") => {
            Some(DeclaredToolKind::Items { action: action.to_owned() })
        }
        _ => None,
    };
    if let Some(kind) = own {
        return draft.declare_tool(kind, is_required, location);
    }
    match tool_meaning(name) {
        ToolMeaning::Unsupported(service) => draft.unsupported(location, &service),
        ToolMeaning::Subjects(subjects) => {
            subjects.into_iter().filter_map(|subject| declared_kind(subject, name)).for_each(|kind| {
                draft.declare_tool(kind, is_required, location);
            });
        }
    }
}

/// Returns the tool for what a tool of another system uses.
fn declared_kind(subject: AccessSubject, name: &str) -> Option<DeclaredToolKind> {
    let dotted = name.split_once('.').filter(|_| !name.contains(['/', ':', '*']));
    match (subject, dotted) {
        (AccessSubject::Read(path), _) => Some(DeclaredToolKind::ReadFiles { paths: vec![path] }),
        (AccessSubject::Write(path), _) => Some(DeclaredToolKind::WriteFiles { paths: vec![path] }),
        (AccessSubject::Exec(words), _) => Some(DeclaredToolKind::Shell { commands: vec![words] }),
        (AccessSubject::Reach(host), _) => Some(DeclaredToolKind::Fetch { hosts: vec![host] }),
        (AccessSubject::Mcp { server, tool }, _) => Some(DeclaredToolKind::Mcp { server, tools: vec![tool] }),
        (AccessSubject::Delegate(_), _) => Some(DeclaredToolKind::Directives),
        (AccessSubject::Runtime(_), Some((server, tool))) => {
            Some(DeclaredToolKind::Mcp { server: server.to_owned(), tools: vec![tool.to_owned()] })
        }
        (AccessSubject::Runtime(script), None) => {
            Some(DeclaredToolKind::Script { name: script.trim_start_matches("script:").to_owned() })
        }
        (AccessSubject::Env(_) | AccessSubject::Any, _) => None,
    }
}
