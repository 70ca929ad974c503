//! The MCP servers of a run in the form that most vendors' programs read: `{"mcpServers": {NAME: …}}`.

use domain::agent::Delegates;
use domain::mcp_server::{McpServer, Transport};
use domain::permission::{Permission, Rule, ToolKind};
use domain::run::RunSpec;
use serde_json::{Map, Value, json};

use crate::contract::{Place, SECRET_PREFIX, WorkFile};

/// What our own server is called in an agent's configuration.
pub const OWN_SERVER: &str = "volery";

/// The argument that makes this program the server of one tool, by which an agent hands in its answer.
pub const SUBMIT_COMMAND: &str = "__submit-result";

/// Returns the servers of a run by name: the agent's own, and ours if it may delegate.
pub fn servers(spec: &RunSpec, place: &Place<'_>) -> Map<String, Value> {
    let mut all: Map<String, Value> =
        spec.setup.mcp_servers.iter().map(|server| (server.name.clone(), entry(server))).collect();
    if spec.delegates != Delegates::Nobody {
        let program = place.own_program.display().to_string();
        all.insert(OWN_SERVER.to_owned(), json!({"command": program, "args": ["serve"], "env": {}}));
    }
    all
}

/// Returns the names of the servers of a run.
pub fn names(spec: &RunSpec) -> Vec<String> {
    let own = spec.setup.mcp_servers.iter().map(|server| server.name.clone());
    own.chain((spec.delegates != Delegates::Nobody).then(|| OWN_SERVER.to_owned())).collect()
}

/// A name that no server has: an empty list would mean that all of the user's and the project's are started.
const NO_SERVER: &str = "volery-allows-none";

/// Returns the arguments by which programs of one family start the servers of a run and no other.
pub fn only_these(spec: &RunSpec) -> Vec<String> {
    only_named(names(spec).into_iter())
}

/// Returns the arguments by which programs of one family start the servers of these names and no other.
pub fn only_named(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.extend(names.is_empty().then(|| NO_SERVER.to_owned()));
    names.into_iter().map(|name| format!("--allowed-mcp-server-names={name}")).collect()
}

/// Adds to a server's entry which of its tools there are and how long a call may take, as programs of the same family read it.
pub fn bounded(mut entry: Value, server: &McpServer) -> Value {
    if let Some(tools) = &server.tools {
        entry["includeTools"] = json!(tools);
    }
    if let Some(timeout_ms) = server.timeout_ms {
        entry["timeout"] = json!(timeout_ms);
    }
    entry
}

/// Tells whether an agent may use a server of its own without a rule that says so, where nobody can be asked: who gave it
/// to the agent meant it to be used, unless a level or rules about single tools of it say how far.
pub fn is_meant(permission: &Permission, server: &str) -> bool {
    let single = |rule: &Rule| matches!(rule.kind(), ToolKind::Mcp { server: named, tool: Some(_) } if named == server);
    permission.level.is_none() && !permission.allow.iter().any(single)
}

/// Tells whether a use of a tool needs nobody's answer, since it is of a server that its file gives to the agent and that no rule
/// restricts.
pub fn is_unasked(spec: &RunSpec, tool: &str) -> bool {
    let ToolKind::Mcp { server: named, .. } = ToolKind::named(tool) else { return false };
    let permission = &spec.setup.permission;
    let speaks = |rule: &Rule| match rule.kind() {
        ToolKind::Mcp { server, .. } => server == named,
        kind => kind == ToolKind::Everything,
    };
    spec.setup.mcp_servers.iter().any(|server| server.name == named)
        && is_meant(permission, named)
        && !permission.ask.iter().chain(&permission.deny).any(speaks)
}

/// Returns the names of the variables that the servers refer to.
pub fn variables(spec: &RunSpec) -> Vec<String> {
    spec.setup.mcp_servers.iter().flat_map(McpServer::variables).map(ToOwned::to_owned).collect()
}

/// Returns the file with the servers.
pub fn file(spec: &RunSpec, place: &Place<'_>) -> WorkFile {
    written("mcp.json", &json!({ "mcpServers": servers(spec, place) }), spec)
}

/// Returns a file that holds the servers of a run among other things.
pub fn written(name: &str, content: &Value, spec: &RunSpec) -> WorkFile {
    let name = if holds_secrets(spec) { format!("{SECRET_PREFIX}{name}") } else { name.to_owned() };
    WorkFile { variables: variables(spec), ..WorkFile::plain(&name, content.to_string()) }
}

/// Tells whether servers are handed values, which may be secrets wherever they come from.
pub fn holds_secrets(spec: &RunSpec) -> bool {
    spec.setup.mcp_servers.iter().any(|server| server.has_literals() || !server.variables().is_empty())
}

fn entry(server: &McpServer) -> Value {
    match &server.transport {
        Transport::Stdio { command, args, env } => {
            json!({"type": "stdio", "command": command, "args": args, "env": env})
        }
        Transport::Http { url, headers } => json!({"type": "http", "url": url, "headers": headers}),
        Transport::Sse { url, headers } => json!({"type": "sse", "url": url, "headers": headers}),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::sample;

    fn named(servers: &str) -> String {
        let mut spec = sample::spec("claude");
        spec.setup.mcp_servers = serde_json::from_str(servers).unwrap();
        let place = Place {
            work: Path::new("/w"),
            own_program: Path::new("/v"),
            found: None,
            session_used: None,
            project_programs: crate::contract::ProjectPrograms::On,
        };
        file(&spec, &place).name
    }

    #[test]
    fn a_file_with_a_value_goes_with_the_run_wherever_the_value_comes_from() {
        let server = |env: &str| {
            format!(r#"[{{"name": "s", "transport": {{"stdio": {{"command": "x", "env": {env}}}}}}}]"#)
        };
        assert_eq!(named("[]"), "mcp.json");
        assert_eq!(named(&server("{}")), "mcp.json");
        assert_eq!(named(&server(r#"{"A": "literal"}"#)), "secret-mcp.json");
        assert_eq!(named(&server(r#"{"A": "${NAME}"}"#)), "secret-mcp.json");
    }

    #[test]
    fn a_server_of_its_own_needs_no_answer_unless_a_level_or_a_rule_speaks_of_it() {
        let unasked = |rules: &str, tool: &str| {
            let mut spec = sample::spec("claude");
            let server =
                r#"[{"name": "aviary", "transport": {"stdio": {"command": "s", "args": [], "env": {}}}}]"#;
            spec.setup.mcp_servers = serde_json::from_str(server).unwrap();
            spec.setup.permission = serde_json::from_str(rules).unwrap();
            is_unasked(&spec, tool)
        };
        assert!(unasked("{}", "mcp__aviary__count"));
        assert!(unasked(r#"{"deny": ["Bash", "mcp__other"]}"#, "mcp__aviary__count"));
        for (rules, tool) in [
            ("{}", "mcp__other__count"),
            ("{}", "Bash"),
            (r#"{"level": "safe-edit"}"#, "mcp__aviary__count"),
            (r#"{"ask": ["mcp__aviary__count"]}"#, "mcp__aviary__count"),
            (r#"{"deny": ["mcp__aviary__drop"]}"#, "mcp__aviary__count"),
            (r#"{"ask": ["*"]}"#, "mcp__aviary__count"),
            (r#"{"allow": ["mcp__aviary__drop"]}"#, "mcp__aviary__count"),
        ] {
            assert!(!unasked(rules, tool), "{rules} {tool}");
        }
    }
}
