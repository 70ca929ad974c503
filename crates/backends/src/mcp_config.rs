//! The MCP servers of a run in the form that most vendors' programs read: `{"mcpServers": {NAME: …}}`.

use domain::agent::Delegates;
use domain::mcp_server::{McpServer, Transport};
use domain::permission::{Permission, Rule, ToolKind};
use domain::run::RunSpec;
use serde_json::{Map, Value, json};

use crate::contract::{LaunchContext, SECRET_PREFIX, WorkFile};

/// The name of Volery's own server in an agent's configuration.
pub const OWN_SERVER: &str = "volery";

/// The argument that turns this program into a server with one tool, by which an agent submits its answer.
pub const SUBMIT_COMMAND: &str = "__submit-result";

/// Returns the servers of a run by name: the agent's own, and Volery's if it may delegate.
pub fn servers(spec: &RunSpec, context: &LaunchContext<'_>) -> Map<String, Value> {
    let mut all: Map<String, Value> =
        spec.setup.mcp_servers.iter().map(|server| (server.name.clone(), entry(server))).collect();
    if spec.delegates != Delegates::Nobody {
        let program = context.current_exe.display().to_string();
        all.insert(OWN_SERVER.to_owned(), json!({"command": program, "args": ["serve"], "env": {}}));
    }
    all
}

/// Returns the names of the servers of a run.
pub fn server_names(spec: &RunSpec) -> Vec<String> {
    let own = spec.setup.mcp_servers.iter().map(|server| server.name.clone());
    own.chain((spec.delegates != Delegates::Nobody).then(|| OWN_SERVER.to_owned())).collect()
}

/// A name that no server has: with an empty list the program would start all servers of the user and the project.
const NO_SERVER: &str = "volery-allows-none";

/// Returns the arguments that make programs of one family start only the servers of a run.
pub fn allowlist_args(spec: &RunSpec) -> Vec<String> {
    allowlist_args_for(server_names(spec).into_iter())
}

/// Returns the arguments that make programs of one family start only the servers with these names.
pub fn allowlist_args_for(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.extend(names.is_empty().then(|| NO_SERVER.to_owned()));
    names.into_iter().map(|name| format!("--allowed-mcp-server-names={name}")).collect()
}

/// Adds a server's allowed tools and call time-out to its entry, in the form that programs of the same family read.
pub fn with_tool_limits(mut entry: Value, server: &McpServer) -> Value {
    if let Some(tools) = &server.tools {
        entry["includeTools"] = json!(tools);
    }
    if let Some(timeout_ms) = server.timeout_ms {
        entry["timeout"] = json!(timeout_ms);
    }
    entry
}

/// Returns whether an agent may use a server of its own without a rule that allows it, where nobody can be asked: a
/// server in the agent's file is meant to be used, unless a level or rules about single tools of it restrict that.
pub fn is_implicitly_allowed(permission: &Permission, server: &str) -> bool {
    let single = |rule: &Rule| matches!(rule.kind(), ToolKind::Mcp { server: server_name, tool: Some(_) } if server_name == server);
    permission.level.is_none() && !permission.allow.iter().any(single)
}

/// Returns whether a tool call needs no approval, because the server is in the agent's own file and no rule restricts
/// it.
pub fn needs_no_approval(spec: &RunSpec, tool: &str) -> bool {
    let ToolKind::Mcp { server: server_name, .. } = ToolKind::from_name(tool) else { return false };
    let permission = &spec.setup.permission;
    spec.setup.mcp_servers.iter().any(|server| server.name == server_name)
        && is_implicitly_allowed(permission, server_name)
        && !permission.restricts_server(server_name)
}

/// Returns the names of the variables that the servers refer to.
pub fn referenced_variables(spec: &RunSpec) -> Vec<String> {
    spec.setup.mcp_servers.iter().flat_map(McpServer::variables).map(ToOwned::to_owned).collect()
}

/// Returns the file with the servers.
pub fn config_file(spec: &RunSpec, context: &LaunchContext<'_>) -> WorkFile {
    config_work_file("mcp.json", &json!({ "mcpServers": servers(spec, context) }), spec)
}

/// Returns a file that holds the servers of a run among other things.
pub fn config_work_file(name: &str, content: &Value, spec: &RunSpec) -> WorkFile {
    let name = if holds_secrets(spec) { format!("{SECRET_PREFIX}{name}") } else { name.to_owned() };
    WorkFile { variables: referenced_variables(spec), ..WorkFile::plain(&name, content.to_string()) }
}

/// Returns whether servers are given values, any of which may be a secret.
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
    use crate::test_fixtures;

    fn file_name(servers: &str) -> String {
        let mut spec = test_fixtures::spec("claude");
        spec.setup.mcp_servers = serde_json::from_str(servers).unwrap();
        let context = LaunchContext {
            work_dir: Path::new("/w"),
            current_exe: Path::new("/v"),
            program: None,
            prior_session_usage: None,
            project_executables: crate::contract::ProjectExecutables::On,
        };
        config_file(&spec, &context).name
    }

    #[test]
    fn a_file_with_a_value_is_secret_wherever_the_value_comes_from() {
        let server = |env: &str| {
            format!(r#"[{{"name": "s", "transport": {{"stdio": {{"command": "x", "env": {env}}}}}}}]"#)
        };
        assert_eq!(file_name("[]"), "mcp.json");
        assert_eq!(file_name(&server("{}")), "mcp.json");
        assert_eq!(file_name(&server(r#"{"A": "literal"}"#)), "secret-mcp.json");
        assert_eq!(file_name(&server(r#"{"A": "${NAME}"}"#)), "secret-mcp.json");
    }

    #[test]
    fn a_server_of_its_own_needs_no_answer_unless_a_level_or_a_rule_speaks_of_it() {
        let needs_no_approval = |rules: &str, tool: &str| {
            let mut spec = test_fixtures::spec("claude");
            let server =
                r#"[{"name": "aviary", "transport": {"stdio": {"command": "s", "args": [], "env": {}}}}]"#;
            spec.setup.mcp_servers = serde_json::from_str(server).unwrap();
            spec.setup.permission = serde_json::from_str(rules).unwrap();
            needs_no_approval(&spec, tool)
        };
        assert!(needs_no_approval("{}", "mcp__aviary__count"));
        assert!(needs_no_approval(r#"{"deny": ["Bash", "mcp__other"]}"#, "mcp__aviary__count"));
        for (rules, tool) in [
            ("{}", "mcp__other__count"),
            ("{}", "Bash"),
            (r#"{"level": "safe-edit"}"#, "mcp__aviary__count"),
            (r#"{"ask": ["mcp__aviary__count"]}"#, "mcp__aviary__count"),
            (r#"{"deny": ["mcp__aviary__drop"]}"#, "mcp__aviary__count"),
            (r#"{"ask": ["*"]}"#, "mcp__aviary__count"),
            (r#"{"allow": ["mcp__aviary__drop"]}"#, "mcp__aviary__count"),
        ] {
            assert!(!needs_no_approval(rules, tool), "{rules} {tool}");
        }
    }
}
