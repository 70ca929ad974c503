//! `<permissions>`: rules as attributes, as in Kiwi, and as nested elements, as in Rye.

use domain::access::{AccessEffect, AccessSubject};

use super::draft::{DirectiveDraft, ElementFields, split_list};
use super::rye_items::{
    ItemAction, ItemPattern, ToolMeaning, add_capability, add_item_rules, add_need, script, tool_meaning,
};
use super::words::command_pattern;
use super::xml::Element;
use crate::text::quote;

/// The verbs of rules with a resource.
const VERBS: [&str; 9] = ["read", "write", "execute", "list", "search", "edit", "create", "append", "delete"];
/// The words by which permissions name the server that runs directives.
const OWN_SERVERS: [&str; 8] =
    ["kiwi-mcp", "kiwi_mcp", "mcp_kiwi", "kiwi", "rye-mcp", "rye_mcp", "mcp_rye", "rye"];

/// Reads all rules. Permissions without a rule allow nothing.
pub(super) fn read_permissions(element: &Element, draft: &mut DirectiveDraft<'_, '_>) {
    draft.directive.permissions.get_or_insert_default();
    ElementFields::open(element).close(draft);
    match element.text.as_str() {
        "*" => draft.add_rule(AccessEffect::Allow, AccessSubject::Any, element.location),
        _ => draft.reject_text(element),
    }
    for rule in &element.children {
        read_rule(rule, AccessEffect::Allow, draft);
    }
}

fn read_rule(element: &Element, effect: AccessEffect, draft: &mut DirectiveDraft<'_, '_>) {
    let has_content = !element.children.is_empty() || !element.text.is_empty();
    match element.name.as_str() {
        "acknowledge" => draft.note("acknowledge", &element.text),
        "cap" | "capability" => add_capability(&element.text, effect, element.location, draft),
        "deny" if element.attributes.is_empty() => {
            draft.reject_text(element);
            if element.children.is_empty() {
                draft.reject_rule(AccessEffect::Deny, element.location, "<deny> has no object");
            }
            element.children.iter().for_each(|rule| read_rule(rule, AccessEffect::Deny, draft));
        }
        "filesystem" | "shell" | "network" if element.attribute("resource").is_none() => {
            read_group(element, effect, draft);
        }
        "deny" => read_resource_rule(element, AccessEffect::Deny, draft),
        name if element.attributes.is_empty() && has_content && ItemAction::parse(name).is_some() => {
            read_item_rules(element, effect, draft);
        }
        name if element.attributes.is_empty() => {
            draft.reject_text(element);
            draft.reject_rule(effect, element.location, &format!("<{name}> has no object"));
        }
        name if VERBS.contains(&name) => read_resource_rule(element, effect, draft),
        name => {
            let problem = format!("<{name}> is not a permission");
            draft.reject_rule(effect, element.location, &problem);
        }
    }
}

/// Reads `<execute><tool>…</tool></execute>` and `<search>*</search>`.
fn read_item_rules(element: &Element, effect: AccessEffect, draft: &mut DirectiveDraft<'_, '_>) {
    let Some(action) = ItemAction::parse(&element.name) else { return };
    for pattern in split_list(&element.text) {
        let item = ItemPattern { action, kind: "*", pattern: &pattern, location: element.location };
        add_item_rules(item, effect, draft);
    }
    for child in &element.children {
        ElementFields::open(child).close(draft);
        if child.text.is_empty() {
            draft.reject_rule(effect, child.location, &format!("<{}> has no name", child.name));
        }
        for pattern in split_list(&child.text) {
            let item = ItemPattern { action, kind: &child.name, pattern: &pattern, location: child.location };
            add_item_rules(item, effect, draft);
        }
    }
}

/// Reads `<filesystem><read paths=…/></filesystem>`, `<shell><command pattern=…/></shell>` and
/// `<network><fetch hosts=…/></network>`.
fn read_group(element: &Element, effect: AccessEffect, draft: &mut DirectiveDraft<'_, '_>) {
    if element.name == "shell" && !element.attributes.is_empty() {
        add_resource_rules(Resource { name: "shell", verb: "execute", element }, effect, draft);
    } else {
        ElementFields::open(element).close(draft);
    }
    if element.children.is_empty() && element.attributes.is_empty() && element.text.is_empty() {
        draft.reject_rule(effect, element.location, &format!("<{}> has no object", element.name));
    }
    match element.name.as_str() {
        "shell" if !element.text.is_empty() => add_commands(&element.text, element, effect, draft),
        _ => draft.reject_text(element),
    }
    for child in &element.children {
        let is_known = match element.name.as_str() {
            "shell" => child.name == "command",
            "network" => matches!(child.name.as_str(), "fetch" | "read" | "write"),
            _ => VERBS.contains(&child.name.as_str()),
        };
        if !is_known {
            let problem = format!("<{}> in <{}> is not a permission", child.name, element.name);
            draft.reject_rule(effect, child.location, &problem);
            continue;
        }
        let verb = if child.name == "command" { "execute" } else { child.name.as_str() };
        if !child.text.is_empty() && child.name == "command" {
            add_commands(&child.text, child, effect, draft);
        } else {
            add_resource_rules(Resource { name: &element.name, verb, element: child }, effect, draft);
        }
    }
}

fn add_commands(text: &str, element: &Element, effect: AccessEffect, draft: &mut DirectiveDraft<'_, '_>) {
    match commands(text) {
        Ok(subjects) => {
            subjects.into_iter().for_each(|subject| draft.add_rule(effect, subject, element.location));
        }
        Err(problem) => draft.reject_rule(effect, element.location, &problem),
    }
}

/// Reads `<read resource="filesystem" path="…"/>`.
fn read_resource_rule(element: &Element, effect: AccessEffect, draft: &mut DirectiveDraft<'_, '_>) {
    let name = match element.attribute("resource") {
        Some(name) => name,
        None if element.attribute("path").or(element.attribute("paths")).is_some() => "filesystem",
        None if element.attribute("command").or(element.attribute("commands")).is_some() => "shell",
        None => {
            let problem = format!("<{}> has no resource=\"…\"", element.name);
            return draft.reject_rule(effect, element.location, &problem);
        }
    };
    add_resource_rules(Resource { name, verb: &element.name, element }, effect, draft);
}

/// The object of a rule in the manner of Kiwi.
struct Resource<'a> {
    name: &'a str,
    /// `read`, `write`, `execute` or `deny`.
    verb: &'a str,
    element: &'a Element,
}

fn add_resource_rules(resource: Resource<'_>, effect: AccessEffect, draft: &mut DirectiveDraft<'_, '_>) {
    let element = resource.element;
    let mut fields = ElementFields::open(element);
    fields.take("resource");
    if let Some(reason) = fields.take_any(&["reason", "description", "note"]) {
        draft.note("permission", reason);
    }
    if !element.children.is_empty() || !element.text.is_empty() {
        draft.note("permission", &element.text);
        for child in &element.children {
            draft.warn(child.location, format!("<{}> in <{}> is ignored", child.name, element.name));
        }
    }
    let uses = resource_uses(&resource, &mut fields);
    let remaining = fields.remaining();
    match uses {
        // An attribute that is not understood may narrow the rule.
        Ok(_) if !remaining.is_empty() => {
            let problem = format!("the attribute {} of <{}> is unknown", quote(remaining[0]), element.name);
            draft.reject_rule(effect, element.location, &problem);
        }
        Ok(ResourceUses { subjects, needs, warnings }) => {
            warnings.iter().for_each(|warning| draft.warn(element.location, warning));
            subjects.into_iter().for_each(|subject| draft.add_rule(effect, subject, element.location));
            needs.iter().for_each(|service| add_need(service, effect, element.location, draft));
        }
        Err(problem) => draft.reject_rule(effect, element.location, &problem),
    }
}

/// What a rule allows or denies.
#[derive(Debug, Default)]
struct ResourceUses {
    subjects: Vec<AccessSubject>,
    /// Services that do not exist here.
    needs: Vec<String>,
    warnings: Vec<String>,
}

impl From<Vec<AccessSubject>> for ResourceUses {
    fn from(subjects: Vec<AccessSubject>) -> Self {
        Self { subjects, ..Self::default() }
    }
}

fn resource_uses(resource: &Resource<'_>, fields: &mut ElementFields<'_>) -> Result<ResourceUses, String> {
    let actions = &["action", "actions", "tools", "tool"];
    check_verb(resource)?;
    match resource.name {
        "filesystem" | "files" | "file" | "fs" => {
            let paths = fields.take_any(&["path", "paths", "pattern"]).ok_or("the permission has no path")?;
            file_subjects(resource.verb, paths).map(ResourceUses::from)
        }
        "shell" | "bash" | "terminal" | "command" => {
            let names = &["command", "commands", "action", "pattern", "name"];
            commands(fields.take_any(names).ok_or("the permission has no command")?).map(ResourceUses::from)
        }
        "network" | "http" | "web" => {
            let names = &["endpoint", "endpoints", "hosts", "host", "domain", "url"];
            hosts(fields.take_any(names).ok_or("the permission has no endpoint")?)
        }
        "env" | "environment" => {
            let variables = fields.take_any(&["var", "vars", "name", "variable"]);
            variables_subjects(resource.verb, variables.ok_or("the permission has no var")?)
                .map(ResourceUses::from)
        }
        "tool" | "tools" => {
            let names = fields.take_any(&["id", "tool_id", "name", "ids", "action"]);
            Ok(tool_uses(names.ok_or("the permission has no id")?))
        }
        "registry" => {
            fields.take_any(actions);
            Ok(ResourceUses { needs: vec!["registry".to_owned()], ..ResourceUses::default() })
        }
        "python" => {
            fields.take_any(&["module", "modules"]);
            Err("which modules a Python program imports cannot be limited".to_owned())
        }
        name if OWN_SERVERS.contains(&name) => {
            Ok(own_server_uses(name, fields.take_any(actions).ok_or("the permission has no action")?))
        }
        "script" | "scripts" | "directive" | "directives" | "spawn" | "thread" | "subagent" | "git" => {
            item_subjects(resource.name, fields).map(ResourceUses::from)
        }
        name => {
            let server = match name.strip_prefix("mcp:") {
                Some(server) => Some(server),
                None if name == "mcp" => fields.take_any(&["name", "server"]),
                None => Some(name),
            };
            let server = server.ok_or("the permission has no name of an MCP server")?;
            let tools = split_list(fields.take_any(actions).unwrap_or("*"));
            let subject = |tool: String| AccessSubject::Mcp { server: server.to_owned(), tool };
            Ok(tools.into_iter().map(subject).collect::<Vec<_>>().into())
        }
    }
}

fn item_subjects(resource: &str, fields: &mut ElementFields<'_>) -> Result<Vec<AccessSubject>, String> {
    let names = match resource {
        "spawn" | "thread" | "subagent" => {
            let action = fields.take("action").unwrap_or("thread");
            if !matches!(action, "thread" | "threads" | "directive" | "run" | "*") {
                return Err(format!("the action {} is unknown", quote(action)));
            }
            return Ok(vec![AccessSubject::Delegate("**".to_owned())]);
        }
        "git" => {
            let operations =
                split_list(fields.take_any(&["action", "actions", "command", "commands"]).unwrap_or("*"));
            return Ok(operations.iter().map(|operation| git(operation)).collect());
        }
        _ => fields.take_any(&["name", "id", "script", "directive", "action"]),
    };
    let names = split_list(names.ok_or("the permission has no name")?);
    Ok(match resource {
        "script" | "scripts" => names.iter().map(|name| script(name)).collect(),
        _ => names.into_iter().map(AccessSubject::Delegate).collect(),
    })
}

fn file_subjects(verb: &str, paths: &str) -> Result<Vec<AccessSubject>, String> {
    let mut subjects = Vec::new();
    for path in split_list(paths) {
        let path = checked_path(&path)?;
        match verb {
            "read" | "list" | "search" => subjects.push(AccessSubject::Read(path)),
            "write" | "edit" | "create" | "append" | "delete" => subjects.push(AccessSubject::Write(path)),
            "deny" => subjects.extend([AccessSubject::Read(path.clone()), AccessSubject::Write(path)]),
            _ => return Err(format!("<{verb}> means nothing for files")),
        }
    }
    Ok(subjects)
}

/// Returns a pattern of paths without a leading `./`.
pub(super) fn checked_path(path: &str) -> Result<String, String> {
    let path = path.strip_prefix("./").unwrap_or(path);
    if path.starts_with('~') {
        return Err(format!("the path {} begins with ~, which is not expanded", quote(path)));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(format!("the path {} contains ..", quote(path)));
    }
    Ok(path.to_owned())
}

fn commands(text: &str) -> Result<Vec<AccessSubject>, String> {
    let pattern = |command: &String| {
        let words = command_pattern(command).map(AccessSubject::Exec);
        words.ok_or_else(|| format!("the command {} needs a shell, and there is none", quote(command)))
    };
    split_list(text).iter().map(pattern).collect()
}

fn git(operation: &str) -> AccessSubject {
    AccessSubject::Exec(match operation {
        "*" => vec!["git".to_owned()],
        _ => vec!["git".to_owned(), operation.to_owned(), "**".to_owned()],
    })
}

/// Refuses a verb that means nothing for a resource.
fn check_verb(resource: &Resource<'_>) -> Result<(), String> {
    let verbs: &[&str] = match resource.name {
        // The paths are checked with their verb.
        "filesystem" | "files" | "file" | "fs" => return Ok(()),
        "network" | "http" | "web" => &["read", "write", "execute", "fetch"],
        "env" | "environment" => &["read", "write"],
        _ => &["execute"],
    };
    if resource.verb == "deny" || verbs.contains(&resource.verb) {
        return Ok(());
    }
    Err(format!("<{}> means nothing for the resource {}", resource.verb, quote(resource.name)))
}

fn hosts(text: &str) -> Result<ResourceUses, String> {
    let mut uses = ResourceUses::default();
    for endpoint in split_list(text) {
        let host = host_of(&endpoint).ok_or_else(|| format!("{} is not a host", quote(&endpoint)))?;
        if !matches!(endpoint.split_once("://").map_or("http", |(scheme, _)| scheme), "http" | "https") {
            return Err(format!("{} is not an address of HTTP", quote(&endpoint)));
        }
        let path = endpoint.split_once("://").map_or(endpoint.as_str(), |(_, address)| address);
        if !matches!(path.split_once('/').map_or("", |(_, path)| path), "" | "*" | "**") {
            let message = format!("only hosts can be limited, so {} means all of {host}", quote(&endpoint));
            uses.warnings.push(message);
        }
        uses.subjects.push(AccessSubject::Reach(host));
    }
    Ok(uses)
}

/// Returns the host of an address such as `https://api.example.org:443/v1/*`.
pub(super) fn host_of(endpoint: &str) -> Option<String> {
    let address = endpoint.split_once("://").map_or(endpoint, |(_, address)| address);
    let authority = address.split(['/', '?']).next().unwrap_or_default();
    let host = authority.split(':').next().unwrap_or_default();
    let is_host = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '*');
    let host = if host == "**" { "*" } else { host };
    (!host.is_empty() && host.chars().all(is_host)).then(|| host.to_ascii_lowercase())
}

fn variables_subjects(verb: &str, variables: &str) -> Result<Vec<AccessSubject>, String> {
    if verb == "write" {
        return Err("a directive cannot set environment variables".to_owned());
    }
    Ok(split_list(variables).into_iter().map(AccessSubject::Env).collect())
}

fn tool_uses(names: &str) -> ResourceUses {
    let mut uses = ResourceUses::default();
    for name in split_list(names) {
        match tool_meaning(&name) {
            ToolMeaning::Subjects(subjects) => uses.subjects.extend(subjects),
            ToolMeaning::Unsupported(service) => uses.needs.push(service),
        }
    }
    uses
}

/// Returns what the actions of the server that runs directives mean here.
fn own_server_uses(server: &str, actions: &str) -> ResourceUses {
    let runtime = |name: &str| AccessSubject::Runtime(name.to_owned());
    let execute = || [AccessSubject::Delegate("**".to_owned()), script("**")];
    let mut uses = ResourceUses::default();
    for action in split_list(actions) {
        match action.as_str() {
            "search" | "load" | "help" => uses.subjects.push(runtime(&action)),
            "execute" | "run" => uses.subjects.extend(execute()),
            "*" => uses.subjects.extend([runtime("search"), runtime("load")].into_iter().chain(execute())),
            action => uses.needs.push(format!("{server} {action}")),
        }
    }
    uses
}
