//! The MCP servers of an agent: a map by name, or a list in which each entry contains its name. The vendors' keys
//! differ slightly, and all of them are accepted.

use std::collections::BTreeMap;

use domain::mcp_server::{McpServer, Transport, VariableText, is_option};
use domain::secret::{Redactor, find_literal_secrets, mask_literal_secrets};

use super::env_references::normalize_references;
use crate::text::{
    Bounds, Diagnostics, Fields, Node, NodeValue, SourceLocation, quote, read_bool, read_choice,
    read_duration_ms, read_env_names, read_integer, read_list, read_text, read_text_or_list,
};

/// Keys of single vendors without a counterpart elsewhere.
const UNSUPPORTED_KEYS: [&str; 22] = [
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

/// The declared transport of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TransportKind {
    Program,
    Http,
    Sse,
    /// Only Claude Code supports it.
    Socket,
}

const KINDS: [(&str, TransportKind); 9] = [
    ("stdio", TransportKind::Program),
    ("http", TransportKind::Http),
    ("sse", TransportKind::Sse),
    ("local", TransportKind::Program),
    ("remote", TransportKind::Http),
    ("streamable-http", TransportKind::Http),
    ("streamable_http", TransportKind::Http),
    ("streamableHttp", TransportKind::Http),
    ("ws", TransportKind::Socket),
];

/// Reads all servers.
pub(super) fn read_servers(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Vec<McpServer> {
    let mut servers: Vec<McpServer> = Vec::new();
    let mut add = |server: Option<McpServer>, location: SourceLocation, diagnostics: &mut Diagnostics<'_>| {
        let Some(server) = server else { return };
        match servers.iter_mut().find(|known| known.name == server.name) {
            Some(known) => {
                let message =
                    format!("{name}: the server {} is written twice; this one counts", quote(&server.name));
                diagnostics.warning(location, message);
                *known = server;
            }
            None => servers.push(server),
        }
    };
    match &node.value {
        NodeValue::Map(entries) => {
            for entry in entries {
                let context =
                    ServerContext { name: Some(&entry.key), location: entry.location, within: name };
                add(read_server(&entry.node, context, diagnostics), entry.location, diagnostics);
            }
        }
        NodeValue::List(items) => {
            for item in items {
                add(read_item(item, name, diagnostics), item.location, diagnostics);
            }
        }
        NodeValue::String(_)
        | NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime => {
            diagnostics
                .error(node.location, format!("{name}: expected servers by name, found {}", node.describe()));
        }
    }
    servers
}

/// Reads an item of a list: `{name: x, command: …}`, or `x: {command: …}`.
fn read_item(item: &Node, within: &str, diagnostics: &mut Diagnostics<'_>) -> Option<McpServer> {
    if let NodeValue::Map(entries) = &item.value
        && let [entry] = entries.as_slice()
        && let NodeValue::Map(_) = &entry.node.value
    {
        let context = ServerContext { name: Some(&entry.key), location: entry.location, within };
        return read_server(&entry.node, context, diagnostics);
    }
    if let NodeValue::String(reference) = &item.value {
        let message = format!("{within}: {} names a server that is defined elsewhere", quote(reference));
        let hint = "an agent gets only the servers that its own file defines: write its command or url here";
        diagnostics.warning_with_hint(item.location, message, hint);
        return None;
    }
    read_server(item, ServerContext { name: None, location: item.location, within }, diagnostics)
}

struct ServerContext<'a> {
    name: Option<&'a str>,
    location: SourceLocation,
    within: &'a str,
}

fn read_server(
    node: &Node,
    context: ServerContext<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<McpServer> {
    let mut fields = Fields::open(node, context.within, diagnostics)?;
    let name = match context.name {
        Some(name) => Some(name.to_owned()),
        None => match fields.take("name") {
            Some(node) => read_text(node, &fields.name("name"), diagnostics),
            None => {
                diagnostics.error(fields.location, format!("the key {} is missing", fields.name("name")));
                None
            }
        },
    };
    let name = name.and_then(|name| check_name(name, &context, diagnostics));
    let disabled = take_flag(&mut fields, "disabled", diagnostics).unwrap_or_default()
        || take_flag(&mut fields, "enabled", diagnostics) == Some(false);
    let node = fields.take("type").or_else(|| fields.take("transport"));
    let declared_kind =
        node.and_then(|node| Some((read_choice(node, &fields.name("type"), &KINDS, diagnostics)?, node)));
    let transport = take_transport(&mut fields, declared_kind.map(|(kind, _)| kind), diagnostics);
    let key = fields.name("type");
    let transport = transport.filter(|transport| {
        declared_kind.is_none_or(|declared_kind| check_transport(transport, declared_kind, &key, diagnostics))
    });
    let tools = take_tools(&mut fields, diagnostics);
    let timeout_ms = take_timeout(&mut fields, diagnostics);
    for key in UNSUPPORTED_KEYS {
        if let Some(node) = fields.take(key) {
            diagnostics.warning(node.location, format!("{} is not honoured", fields.name(key)));
        }
    }
    fields.close(diagnostics);
    let server = McpServer { name: name?, transport: transport?, tools, timeout_ms };
    (!disabled).then_some(server)
}

/// Returns whether the transport matches the declared kind and is supported.
fn check_transport(
    transport: &Transport,
    (kind, node): (TransportKind, &Node),
    key: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> bool {
    match (kind, transport) {
        (TransportKind::Program, Transport::Stdio { .. })
        | (TransportKind::Http | TransportKind::Sse, Transport::Http { .. } | Transport::Sse { .. }) => true,
        (TransportKind::Socket, _) => {
            diagnostics.warning(
                node.location,
                format!("{key}: a web socket is not supported, so the server is left out"),
            );
            false
        }
        (TransportKind::Program, _) => {
            let hint = "write http or sse, or a command in the place of the url";
            diagnostics.error_with_hint(node.location, format!("{key}: a program has no url"), hint);
            false
        }
        (TransportKind::Http | TransportKind::Sse, _) => {
            let hint = "write stdio, or a url in the place of the command";
            diagnostics.error_with_hint(
                node.location,
                format!("{key}: a server with a command is a program"),
                hint,
            );
            false
        }
    }
}

fn check_name(
    name: String,
    context: &ServerContext<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b' ' | b'/');
    if (1..=100).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('-') {
        return Some(name);
    }
    let message = format!("{}: {} is not the name of a server", context.within, quote(&name));
    diagnostics.error_with_hint(context.location, message, "1 to 100 letters, digits, '_', '-', '.' or '/'");
    None
}

fn take_flag(fields: &mut Fields<'_>, key: &'static str, diagnostics: &mut Diagnostics<'_>) -> Option<bool> {
    let node = fields.take(key)?;
    read_bool(node, &fields.name(key), diagnostics)
}

/// Takes the time-out of the server: in milliseconds, or in seconds as in Codex.
fn take_timeout(fields: &mut Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<u64> {
    let most = Bounds::from(1).up_to(86_400_000);
    let ms = fields
        .take("timeout")
        .and_then(|node| read_integer(node, &fields.name("timeout"), most, diagnostics));
    let key = "tool_timeout_sec";
    let seconds =
        fields.take(key).and_then(|node| read_duration_ms(node, &fields.name(key), most, diagnostics));
    ms.or(seconds)
}

/// Takes the allowlist of tools; the keys of several vendors are intersected.
fn take_tools(fields: &mut Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<Vec<String>> {
    let mut only: Option<Vec<String>> = None;
    for key in ["tools", "includeTools", "include_tools", "enabled_tools"] {
        let Some(node) = fields.take(key) else { continue };
        let tools = read_text_or_list(node, &fields.name(key), diagnostics);
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
    kind: Option<TransportKind>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Transport> {
    let url = take_url(fields, diagnostics);
    match (fields.take("command"), url) {
        (Some(command), None) => {
            let transport = read_stdio_transport(command, fields, diagnostics);
            warn_of_unused_keys(fields, &HEADER_KEYS, "a program gets no headers", diagnostics);
            transport
        }
        (None, Some((node, key))) => {
            let transport = read_http_transport(node, key, kind, fields, diagnostics);
            warn_of_unused_keys(
                fields,
                &PROGRAM_KEYS,
                "only a program gets it, and this is an address",
                diagnostics,
            );
            transport
        }
        (Some(_), Some((node, key))) => {
            let message = format!("{} and command exclude each other", fields.name(key));
            diagnostics.error(node.location, message);
            skip_keys(fields, HEADER_KEYS.iter().chain(&PROGRAM_KEYS));
            None
        }
        (None, None) => {
            let message = format!("the key {} is missing", fields.name("command"));
            diagnostics.error_with_hint(fields.location, message, "a server has a command, or a url");
            skip_keys(fields, HEADER_KEYS.iter().chain(&PROGRAM_KEYS));
            None
        }
    }
}

/// Keys for the headers of a request.
const HEADER_KEYS: [&str; 4] = ["headers", "http_headers", "bearer_token_env_var", "env_http_headers"];
/// Keys for the start of a program.
const PROGRAM_KEYS: [&str; 4] = ["args", "env", "environment", "env_vars"];

/// Warns of keys without effect for a server of this kind.
fn warn_of_unused_keys(
    fields: &mut Fields<'_>,
    keys: &[&'static str],
    reason: &str,
    diagnostics: &mut Diagnostics<'_>,
) {
    for key in keys {
        if let Some(node) = fields.take(key) {
            diagnostics.warning(node.location, format!("{} is not honoured: {reason}", fields.name(key)));
        }
    }
}

/// Skips keys silently, because a more important error is already reported.
fn skip_keys<'k>(fields: &mut Fields<'_>, keys: impl Iterator<Item = &'k &'static str>) {
    for key in keys {
        fields.take(key);
    }
}

/// Takes the URL of a server. Gemini accepts several and uses the one for HTTP.
fn take_url<'a>(
    fields: &mut Fields<'a>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<(&'a Node, &'static str)> {
    let keys = ["httpUrl", "http_url", "url"].into_iter();
    let mut urls =
        keys.filter_map(|key| fields.take(key).map(|node| (node, key))).collect::<Vec<_>>().into_iter();
    let (node, key) = urls.next()?;
    for (other, name) in urls {
        diagnostics.warning(other.location, format!("{} is not honoured: {key} is used", fields.name(name)));
    }
    Some((node, key))
}

fn read_stdio_transport(
    command: &Node,
    fields: &mut Fields<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Transport> {
    let before = diagnostics.errors();
    let words = read_text_or_list(command, &fields.name("command"), diagnostics);
    let is_reported = diagnostics.errors() > before;
    let more = fields.take("args").map(|node| read_arguments(node, &fields.name("args"), diagnostics));
    let env = ["env", "environment"].into_iter().find_map(|key| fields.take(key));
    let mut env =
        env.map(|node| read_named_texts(node, &fields.name("env"), diagnostics)).unwrap_or_default();
    if let Some(node) = fields.take("env_vars") {
        let names = read_env_names(node, &fields.name("env_vars"), diagnostics);
        env.extend(names.iter().map(|name| (name.clone(), VariableText::from_variable_name(name))));
    }
    let mut words = words.into_iter();
    let Some(program) = words.next() else {
        if !is_reported {
            let message = format!("{}: there is no program in it", fields.name("command"));
            diagnostics.error(command.location, message);
        }
        return None;
    };
    let words: Vec<VariableText> = words.map(VariableText::from).collect();
    warn_of_secrets_in_arguments(
        words.iter().map(|word| (word, command.location)),
        &fields.name("command"),
        diagnostics,
    );
    let args = words.into_iter().chain(more.unwrap_or_default()).collect();
    Some(Transport::Stdio { command: program, args, env })
}

fn read_http_transport(
    node: &Node,
    key: &'static str,
    kind: Option<TransportKind>,
    fields: &mut Fields<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Transport> {
    let headers = take_headers(fields, diagnostics);
    let url = normalize_references(&read_text(node, &fields.name(key), diagnostics)?);
    let lower = url.to_ascii_lowercase();
    // If it begins with a variable, the scheme is not known before the start.
    if !["http://", "https://", "${", "ws://", "wss://"].iter().any(|begin| lower.starts_with(begin)) {
        let message = format!("{}: {} is no address of a server", fields.name(key), quote(&url));
        diagnostics.error_with_hint(node.location, message, "it begins with https:// or http://");
        return None;
    }
    let url: VariableText = url.into();
    warn_of_secret(&url, None, node.location, &fields.name(key), diagnostics);
    Some(match kind {
        Some(TransportKind::Sse) => Transport::Sse { url, headers },
        Some(TransportKind::Program | TransportKind::Http | TransportKind::Socket) | None => {
            Transport::Http { url, headers }
        }
    })
}

/// Takes the headers, including those that Codex takes from variables.
fn take_headers(
    fields: &mut Fields<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> BTreeMap<String, VariableText> {
    let written = ["headers", "http_headers"].into_iter().find_map(|key| fields.take(key));
    let mut headers =
        written.map(|node| read_named_texts(node, &fields.name("headers"), diagnostics)).unwrap_or_default();
    if let Some(node) = fields.take("bearer_token_env_var")
        && let Some(name) = read_text(node, &fields.name("bearer_token_env_var"), diagnostics)
    {
        headers.insert("Authorization".to_owned(), format!("Bearer ${{{name}}}").into());
    }
    if let Some(node) = fields.take("env_http_headers") {
        let names = read_named_texts(node, &fields.name("env_http_headers"), diagnostics);
        let context = names
            .iter()
            .map(|(header, name)| (header.clone(), VariableText::from_variable_name(name.as_str())));
        headers.extend(context);
    }
    headers
}

/// Reads arguments, which may be empty.
fn read_arguments(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Vec<VariableText> {
    let items = read_list(node, name, diagnostics).unwrap_or_default();
    let read =
        items.iter().filter_map(|item| Some((read_plain_text(item, name, diagnostics)?, item.location)));
    let arguments: Vec<(VariableText, SourceLocation)> = read.collect();
    warn_of_secrets_in_arguments(
        arguments.iter().map(|(text, location)| (text, *location)),
        name,
        diagnostics,
    );
    arguments.into_iter().map(|(text, _)| text).collect()
}

/// Reads texts by name. Warns of literal secrets.
fn read_named_texts(
    node: &Node,
    name: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> BTreeMap<String, VariableText> {
    let NodeValue::Map(entries) = &node.value else {
        diagnostics
            .error(node.location, format!("{name}: expected names with texts, found {}", node.describe()));
        return BTreeMap::new();
    };
    let mut texts = BTreeMap::new();
    for entry in entries {
        let Some(value) = read_plain_text(&entry.node, name, diagnostics) else { continue };
        warn_of_secret(&value, Some(&entry.key), entry.location, name, diagnostics);
        texts.insert(entry.key.clone(), value);
    }
    texts
}

/// Warns of each argument with a literal secret, including the value of an option.
fn warn_of_secrets_in_arguments<'a>(
    arguments: impl Iterator<Item = (&'a VariableText, SourceLocation)>,
    name: &str,
    diagnostics: &mut Diagnostics<'_>,
) {
    let mut option = None;
    for (text, location) in arguments {
        warn_of_secret(text, option, location, name, diagnostics);
        option = Some(text.as_str()).filter(|word| is_option(word));
    }
}

/// Warns of a literal secret without showing it.
fn warn_of_secret(
    text: &VariableText,
    owner: Option<&str>,
    location: SourceLocation,
    name: &str,
    diagnostics: &mut Diagnostics<'_>,
) {
    let is_secret = owner.is_some_and(Redactor::names_server_secret);
    let whole = is_secret && text.is_literal() && !text.as_str().is_empty() && !owner.is_some_and(is_option);
    if !whole && find_literal_secrets(text, owner).is_empty() {
        return;
    }
    let message = match owner {
        Some(owner) => format!("{name}: the value of {} stands in the file", quote(owner)),
        None => {
            let shown = mask_literal_secrets(text, None, "\u{2026}");
            format!("{name}: a secret stands in the file: {}", quote(shown.as_str()))
        }
    };
    let hint = "write ${NAME} for a variable of the environment: records hold names, not values";
    diagnostics.warning_with_hint(location, message, hint);
}

/// Reads a text, which may be empty, a number or a boolean, because a variable's value is a text anyway. Converts the
/// vendors' syntaxes for variables to Volery's.
fn read_plain_text(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Option<VariableText> {
    let value = match &node.value {
        NodeValue::String(value) if value.contains('\0') => {
            return read_text(node, name, diagnostics).map(Into::into);
        }
        NodeValue::String(value) => value.clone(),
        NodeValue::Bool(truth) => truth.to_string(),
        NodeValue::Integer(number) => number.to_string(),
        NodeValue::Float(_)
        | NodeValue::Null
        | NodeValue::DateTime
        | NodeValue::List(_)
        | NodeValue::Map(_) => {
            return read_text(node, name, diagnostics).map(Into::into);
        }
    };
    Some(normalize_references(&value).into())
}
