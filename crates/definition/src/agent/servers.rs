//! The MCP servers of an agent: a map by name, or a list in which each says its name. The vendors' spellings of
//! one server differ in a few keys, and all of them are taken.

use std::collections::BTreeMap;

use domain::mcp_server::{McpServer, Transport, VariableText, is_option};
use domain::secret::{Redactor, without_written_secrets, written_secrets};

use super::references::with_references;
use crate::text::{
    Bounds, Fields, Findings, Node, Place, Shape, amount, choice, duration_ms, environment_names, flag, list,
    quoted, text, text_or_list,
};

/// What vendors document for a server and no other vendor could be given.
const UNHONOURED: [&str; 22] = [
    "disabledTools",
    "disabled_tools",
    "excludeTools",
    "exclude_tools",
    "tcp",
    "autoApprove",
    "cwd",
    "trust",
    "description",
    "oauth",
    "oauthScopes",
    "startup_timeout_sec",
    "startup_timeout_ms",
    "required",
    "scopes",
    "oauth_resource",
    "auth",
    "supports_parallel_tool_calls",
    "environment_id",
    "experimental_environment",
    "default_tools_approval_mode",
    "headersHelper",
];

/// How a server is reached, in the words of its file.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Program,
    Http,
    Sse,
    /// No program but Claude Code knows it.
    Socket,
}

const KINDS: [(&str, Kind); 9] = [
    ("stdio", Kind::Program),
    ("http", Kind::Http),
    ("sse", Kind::Sse),
    ("local", Kind::Program),
    ("remote", Kind::Http),
    ("streamable-http", Kind::Http),
    ("streamable_http", Kind::Http),
    ("streamableHttp", Kind::Http),
    ("ws", Kind::Socket),
];

/// Reads all servers.
pub(super) fn read_servers(node: &Node, name: &str, findings: &mut Findings<'_>) -> Vec<McpServer> {
    let mut servers: Vec<McpServer> = Vec::new();
    let mut add = |server: Option<McpServer>, place: Place, findings: &mut Findings<'_>| {
        let Some(server) = server else { return };
        match servers.iter_mut().find(|known| known.name == server.name) {
            Some(known) => {
                let message =
                    format!("{name}: the server {} is written twice; this one counts", quoted(&server.name));
                findings.warning(place, message);
                *known = server;
            }
            None => servers.push(server),
        }
    };
    match &node.shape {
        Shape::Map(entries) => {
            for entry in entries {
                let named = Named { name: Some(&entry.key), place: entry.place, within: name };
                add(read_server(&entry.node, named, findings), entry.place, findings);
            }
        }
        Shape::List(items) => {
            for item in items {
                add(read_item(item, name, findings), item.place, findings);
            }
        }
        Shape::Text(_)
        | Shape::Nothing
        | Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Moment => {
            findings
                .error(node.place, format!("{name}: expected servers by name, found {}", node.describe()));
        }
    }
    servers
}

/// Reads an item of a list: `{name: x, command: …}`, or `x: {command: …}`.
fn read_item(item: &Node, within: &str, findings: &mut Findings<'_>) -> Option<McpServer> {
    if let Shape::Map(entries) = &item.shape
        && let [entry] = entries.as_slice()
        && let Shape::Map(_) = &entry.node.shape
    {
        let named = Named { name: Some(&entry.key), place: entry.place, within };
        return read_server(&entry.node, named, findings);
    }
    if let Shape::Text(reference) = &item.shape {
        let message = format!("{within}: {} names a server that is defined elsewhere", quoted(reference));
        let hint = "an agent gets only the servers that its own file defines: write its command or url here";
        findings.warning_with_hint(item.place, message, hint);
        return None;
    }
    read_server(item, Named { name: None, place: item.place, within }, findings)
}

struct Named<'a> {
    name: Option<&'a str>,
    place: Place,
    within: &'a str,
}

fn read_server(node: &Node, named: Named<'_>, findings: &mut Findings<'_>) -> Option<McpServer> {
    let mut fields = Fields::open(node, named.within, findings)?;
    let name = match named.name {
        Some(name) => Some(name.to_owned()),
        None => match fields.take("name") {
            Some(node) => text(node, &fields.name("name"), findings),
            None => {
                findings.error(fields.place, format!("the key {} is missing", fields.name("name")));
                None
            }
        },
    };
    let name = name.and_then(|name| check_name(name, &named, findings));
    let disabled = take_flag(&mut fields, "disabled", findings).unwrap_or_default()
        || take_flag(&mut fields, "enabled", findings) == Some(false);
    let node = fields.take("type").or_else(|| fields.take("transport"));
    let said = node.and_then(|node| Some((choice(node, &fields.name("type"), &KINDS, findings)?, node)));
    let transport = take_transport(&mut fields, said.map(|(kind, _)| kind), findings);
    let key = fields.name("type");
    let transport =
        transport.filter(|transport| said.is_none_or(|said| fits(transport, said, &key, findings)));
    let tools = take_tools(&mut fields, findings);
    let timeout_ms = take_timeout(&mut fields, findings);
    for key in UNHONOURED {
        if let Some(node) = fields.take(key) {
            findings.warning(node.place, format!("{} is not honoured", fields.name(key)));
        }
    }
    fields.close(findings);
    let server = McpServer { name: name?, transport: transport?, tools, timeout_ms };
    (!disabled).then_some(server)
}

/// Tells whether a server is reached in the way that its file says, and can be.
fn fits(transport: &Transport, (kind, node): (Kind, &Node), key: &str, findings: &mut Findings<'_>) -> bool {
    match (kind, transport) {
        (Kind::Program, Transport::Stdio { .. })
        | (Kind::Http | Kind::Sse, Transport::Http { .. } | Transport::Sse { .. }) => true,
        (Kind::Socket, _) => {
            findings.warning(
                node.place,
                format!("{key}: a web socket is not supported, so the server is left out"),
            );
            false
        }
        (Kind::Program, _) => {
            let hint = "write http or sse, or a command in the place of the url";
            findings.error_with_hint(node.place, format!("{key}: a program has no url"), hint);
            false
        }
        (Kind::Http | Kind::Sse, _) => {
            let hint = "write stdio, or a url in the place of the command";
            findings.error_with_hint(
                node.place,
                format!("{key}: a server with a command is a program"),
                hint,
            );
            false
        }
    }
}

fn check_name(name: String, named: &Named<'_>, findings: &mut Findings<'_>) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b' ' | b'/');
    if (1..=100).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('-') {
        return Some(name);
    }
    let message = format!("{}: {} is not the name of a server", named.within, quoted(&name));
    findings.error_with_hint(named.place, message, "1 to 100 letters, digits, '_', '-', '.' or '/'");
    None
}

fn take_flag(fields: &mut Fields<'_>, key: &'static str, findings: &mut Findings<'_>) -> Option<bool> {
    let node = fields.take(key)?;
    flag(node, &fields.name(key), findings)
}

/// Takes the time that the server has to answer: in milliseconds, or in seconds as Codex has it.
fn take_timeout(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> Option<u64> {
    let most = Bounds::from(1).up_to(86_400_000);
    let ms = fields.take("timeout").and_then(|node| amount(node, &fields.name("timeout"), most, findings));
    let key = "tool_timeout_sec";
    let seconds = fields.take(key).and_then(|node| duration_ms(node, &fields.name(key), most, findings));
    ms.or(seconds)
}

/// Takes the names of the only tools that there are; what several vendors' keys say must all hold.
fn take_tools(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> Option<Vec<String>> {
    let mut only: Option<Vec<String>> = None;
    for key in ["tools", "includeTools", "include_tools", "enabled_tools"] {
        let Some(node) = fields.take(key) else { continue };
        let tools = text_or_list(node, &fields.name(key), findings);
        if tools == ["*"] {
            continue;
        }
        only = Some(match only {
            Some(known) => known.into_iter().filter(|tool| tools.contains(tool)).collect(),
            None => tools,
        });
    }
    only
}

fn take_transport(
    fields: &mut Fields<'_>,
    kind: Option<Kind>,
    findings: &mut Findings<'_>,
) -> Option<Transport> {
    let url = take_url(fields, findings);
    match (fields.take("command"), url) {
        (Some(command), None) => {
            let transport = program_of(command, fields, findings);
            pass_over(fields, &HEADERS, "a program gets no headers", findings);
            transport
        }
        (None, Some((node, key))) => {
            let transport = address_of(node, key, kind, fields, findings);
            pass_over(fields, &PROGRAMS, "only a program gets it, and this is an address", findings);
            transport
        }
        (Some(_), Some((node, key))) => {
            let message = format!("{} and command exclude each other", fields.name(key));
            findings.error(node.place, message);
            pass_over_silently(fields, HEADERS.iter().chain(&PROGRAMS));
            None
        }
        (None, None) => {
            let message = format!("the key {} is missing", fields.name("command"));
            findings.error_with_hint(fields.place, message, "a server has a command, or a url");
            pass_over_silently(fields, HEADERS.iter().chain(&PROGRAMS));
            None
        }
    }
}

/// Keys for what a request to a server carries.
const HEADERS: [&str; 4] = ["headers", "http_headers", "bearer_token_env_var", "env_http_headers"];
/// Keys for what a program is started with.
const PROGRAMS: [&str; 4] = ["args", "env", "environment", "env_vars"];

/// Warns of keys that mean nothing for a server of this kind.
fn pass_over(fields: &mut Fields<'_>, keys: &[&'static str], reason: &str, findings: &mut Findings<'_>) {
    for key in keys {
        if let Some(node) = fields.take(key) {
            findings.warning(node.place, format!("{} is not honoured: {reason}", fields.name(key)));
        }
    }
}

/// Takes keys about which nothing is to be said beside a greater mistake.
fn pass_over_silently<'k>(fields: &mut Fields<'_>, keys: impl Iterator<Item = &'k &'static str>) {
    for key in keys {
        fields.take(key);
    }
}

/// Takes the address of a server. Of several that Gemini may be given it uses the one for HTTP.
fn take_url<'a>(fields: &mut Fields<'a>, findings: &mut Findings<'_>) -> Option<(&'a Node, &'static str)> {
    let keys = ["httpUrl", "http_url", "url"].into_iter();
    let mut found =
        keys.filter_map(|key| fields.take(key).map(|node| (node, key))).collect::<Vec<_>>().into_iter();
    let (node, key) = found.next()?;
    for (other, name) in found {
        findings.warning(other.place, format!("{} is not honoured: {key} is used", fields.name(name)));
    }
    Some((node, key))
}

fn program_of(command: &Node, fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> Option<Transport> {
    let before = findings.errors();
    let words = text_or_list(command, &fields.name("command"), findings);
    let is_told = findings.errors() > before;
    let more = fields.take("args").map(|node| arguments_of(node, &fields.name("args"), findings));
    let env = ["env", "environment"].into_iter().find_map(|key| fields.take(key));
    let mut env = env.map(|node| texts(node, &fields.name("env"), findings)).unwrap_or_default();
    if let Some(node) = fields.take("env_vars") {
        let names = environment_names(node, &fields.name("env_vars"), findings);
        env.extend(names.iter().map(|name| (name.clone(), VariableText::of_variable(name))));
    }
    let mut words = words.into_iter();
    let Some(program) = words.next() else {
        if !is_told {
            let message = format!("{}: there is no program in it", fields.name("command"));
            findings.error(command.place, message);
        }
        return None;
    };
    let words: Vec<VariableText> = words.map(VariableText::from).collect();
    point_out_arguments(words.iter().map(|word| (word, command.place)), &fields.name("command"), findings);
    let args = words.into_iter().chain(more.unwrap_or_default()).collect();
    Some(Transport::Stdio { command: program, args, env })
}

fn address_of(
    node: &Node,
    key: &'static str,
    kind: Option<Kind>,
    fields: &mut Fields<'_>,
    findings: &mut Findings<'_>,
) -> Option<Transport> {
    let headers = take_headers(fields, findings);
    let url = with_references(&text(node, &fields.name(key), findings)?);
    let lower = url.to_ascii_lowercase();
    // Where it begins with a variable, only its start tells.
    if !["http://", "https://", "${", "ws://", "wss://"].iter().any(|begin| lower.starts_with(begin)) {
        let message = format!("{}: {} is no address of a server", fields.name(key), quoted(&url));
        findings.error_with_hint(node.place, message, "it begins with https:// or http://");
        return None;
    }
    let url: VariableText = url.into();
    point_out(&url, None, node.place, &fields.name(key), findings);
    Some(match kind {
        Some(Kind::Sse) => Transport::Sse { url, headers },
        Some(Kind::Program | Kind::Http | Kind::Socket) | None => Transport::Http { url, headers },
    })
}

/// Takes what requests carry, also what Codex names by variables only.
fn take_headers(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> BTreeMap<String, VariableText> {
    let written = ["headers", "http_headers"].into_iter().find_map(|key| fields.take(key));
    let mut headers = written.map(|node| texts(node, &fields.name("headers"), findings)).unwrap_or_default();
    if let Some(node) = fields.take("bearer_token_env_var")
        && let Some(name) = text(node, &fields.name("bearer_token_env_var"), findings)
    {
        headers.insert("Authorization".to_owned(), format!("Bearer ${{{name}}}").into());
    }
    if let Some(node) = fields.take("env_http_headers") {
        let names = texts(node, &fields.name("env_http_headers"), findings);
        let named =
            names.iter().map(|(header, name)| (header.clone(), VariableText::of_variable(name.as_str())));
        headers.extend(named);
    }
    headers
}

/// Reads arguments, of which one may be empty.
fn arguments_of(node: &Node, name: &str, findings: &mut Findings<'_>) -> Vec<VariableText> {
    let items = list(node, name, findings).unwrap_or_default();
    let read = items.iter().filter_map(|item| Some((plain_text(item, name, findings)?, item.place)));
    let arguments: Vec<(VariableText, Place)> = read.collect();
    point_out_arguments(arguments.iter().map(|(text, place)| (text, *place)), name, findings);
    arguments.into_iter().map(|(text, _)| text).collect()
}

/// Reads texts by name. A secret that stands in the file itself is pointed out.
fn texts(node: &Node, name: &str, findings: &mut Findings<'_>) -> BTreeMap<String, VariableText> {
    let Shape::Map(entries) = &node.shape else {
        findings.error(node.place, format!("{name}: expected names with texts, found {}", node.describe()));
        return BTreeMap::new();
    };
    let mut texts = BTreeMap::new();
    for entry in entries {
        let Some(value) = plain_text(&entry.node, name, findings) else { continue };
        point_out(&value, Some(&entry.key), entry.place, name, findings);
        texts.insert(entry.key.clone(), value);
    }
    texts
}

/// Points out each argument that holds a secret, also one that the option before it names.
fn point_out_arguments<'a>(
    arguments: impl Iterator<Item = (&'a VariableText, Place)>,
    name: &str,
    findings: &mut Findings<'_>,
) {
    let mut option = None;
    for (text, place) in arguments {
        point_out(text, option, place, name, findings);
        option = Some(text.as_str()).filter(|word| is_option(word));
    }
}

/// Warns of a secret that stands in the file, by the name of what holds it and without the secret.
fn point_out(text: &VariableText, of: Option<&str>, place: Place, name: &str, findings: &mut Findings<'_>) {
    let is_secret = of.is_some_and(Redactor::names_handed_secret);
    let whole = is_secret && text.is_literal() && !text.as_str().is_empty() && !of.is_some_and(is_option);
    if !whole && written_secrets(text, of).is_empty() {
        return;
    }
    let message = match of {
        Some(of) => format!("{name}: the value of {} stands in the file", quoted(of)),
        None => {
            let shown = without_written_secrets(text, None, "\u{2026}");
            format!("{name}: a secret stands in the file: {}", quoted(shown.as_str()))
        }
    };
    let hint = "write ${NAME} for a variable of the environment: records hold names, not values";
    findings.warning_with_hint(place, message, hint);
}

/// Reads a text, which may be empty, a number or a truth: a variable's value is text anyway. The vendors' other
/// ways to name a variable become ours.
fn plain_text(node: &Node, name: &str, findings: &mut Findings<'_>) -> Option<VariableText> {
    let value = match &node.shape {
        Shape::Text(value) if value.contains('\0') => return text(node, name, findings).map(Into::into),
        Shape::Text(value) => value.clone(),
        Shape::Truth(truth) => truth.to_string(),
        Shape::Integer(number) => number.to_string(),
        Shape::Number(_) | Shape::Nothing | Shape::Moment | Shape::List(_) | Shape::Map(_) => {
            return text(node, name, findings).map(Into::into);
        }
    };
    Some(with_references(&value).into())
}
