//! The programs that an agent's file would execute and the servers that it would contact, as a text for the decision
//! about trust: shown to a person, and hashed.

use std::collections::BTreeMap;

use domain::agent::Agent;
use domain::mcp_server::{McpServer, Transport, VariableText};

use crate::quote_ascii::{argv, quote_ascii};

/// Returns a line for each program that is started, and each server that is contacted, because of the agent's file;
/// empty if there is none.
///
/// Nothing in it is masked: a fingerprint of a masked text would not change with the value, a person who decides
/// about trust must see everything that affects the execution, and a literal value is in the repository anyway.
pub fn executables(agent: &Agent) -> String {
    lines(agent, &agent.setup.mcp_servers)
}

/// Returns the same with literal secrets masked, for readers who do not decide about trust, such as a model.
pub fn executables_without_secrets(agent: &Agent) -> String {
    let mut servers = agent.setup.mcp_servers.clone();
    servers.iter_mut().for_each(|server| server.hide_secrets("[redacted]"));
    lines(agent, &servers)
}

fn lines(agent: &Agent, servers: &[McpServer]) -> String {
    let mut lines = String::new();
    for server in servers {
        lines.push_str(&format!("agent {}, {}\n", agent.name, server_line(server)));
    }
    for command in &agent.setup.accept {
        lines.push_str(&format!("agent {}, acceptance: {}\n", agent.name, argv(command)));
    }
    let criteria = agent.directive.iter().flat_map(|directive| &directive.criteria);
    for command in criteria.filter_map(|criterion| criterion.command.as_ref()) {
        lines.push_str(&format!("agent {}, acceptance: {}\n", agent.name, argv(command)));
    }
    for hook in &agent.hooks {
        lines.push_str(&format!("agent {}, hook: {}\n", agent.name, argv(std::slice::from_ref(hook))));
    }
    lines
}

fn server_line(server: &McpServer) -> String {
    match &server.transport {
        Transport::Stdio { command, args, env } => {
            let words = std::iter::once(command.as_str()).chain(args.iter().map(VariableText::as_str));
            let words: Vec<String> = words.map(ToOwned::to_owned).collect();
            // The environment of a program can affect what it executes, so trust includes the values.
            format!("MCP server {}: {}{}", server.name, argv(&words), pairs(" with ", env, "="))
        }
        // Nothing is executed here, but the server receives everything that its address and its headers refer to, and
        // the model reads its replies.
        Transport::Http { url, headers } | Transport::Sse { url, headers } => {
            let variables = match server.variables() {
                names if names.is_empty() => String::new(),
                names => format!(" with the variables {}", names.join(" ")),
            };
            let headers = pairs(" with the headers ", headers, ": ");
            format!("remote MCP server {}: {}{headers}{variables}", server.name, quote_ascii(url.as_str()))
        }
    }
}

fn pairs(before: &str, values: &BTreeMap<String, VariableText>, between: &str) -> String {
    if values.is_empty() {
        return String::new();
    }
    let pairs = values.iter().map(|(name, value)| format!("{name}{between}{}", value.as_str()));
    format!("{before}{}", argv(&pairs.collect::<Vec<String>>()))
}
