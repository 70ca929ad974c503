//! The MCP servers of a run in the format of Codex. Secrets are passed in environment variables, never in a message.

use std::collections::BTreeMap;

use domain::agent::Delegates;
use domain::mcp_server::{McpServer, TextPiece, Transport, VariableText};
use domain::run::RunSpec;
use serde_json::{Map, Value, json};

use super::permission::{self, ApprovalPolicy};
use crate::contract::{EnvValue, LaunchContext};
use crate::mcp_config::OWN_SERVER;

/// Time-outs for the start of a server, and for Volery's own tools: a child run has its own time-out.
const STARTUP_SECONDS: u64 = 60;
const DELEGATION_SECONDS: u64 = 7 * 24 * 3600;
/// The variables with which Volery's own server finds its run. Codex passes on only a few variables by itself.
const OWN_VARIABLES: [&str; 3] = ["VOLERY_HOME", "VOLERY_RUN_TAG", "XDG_STATE_HOME"];
/// Variables of Codex itself. A server's variable cannot have the same name.
const RESERVED_VARIABLES: [&str; 6] =
    ["PATH", "HOME", "TMPDIR", "CODEX_HOME", "OPENAI_API_KEY", "CODEX_API_KEY"];

/// The servers, and the variables of the process in which they get their secrets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CodexServers {
    pub(super) entries: Map<String, Value>,
    /// Maps the name of a variable as a server expects it to the variable that has its value.
    renamed_variables: BTreeMap<String, String>,
    /// Variables that servers get from the environment under the same name.
    pub(super) needed_variables: Vec<String>,
}

impl CodexServers {
    /// Translates the servers of a run. An error names the setting that Codex does not support.
    pub(super) fn for_run(spec: &RunSpec, context: &LaunchContext<'_>) -> Result<Self, String> {
        let mut servers = Self::default();
        let approval_policy = ApprovalPolicy::from_permission(&spec.setup.permission);
        for server in &spec.setup.mcp_servers {
            let mut entry = servers.entry(server).map_err(|reason| {
                format!("the MCP server {} cannot be given to codex: {reason}", server.name)
            })?;
            // Codex silently drops an optional server that does not start within a second. A server whose tools may not be used
            // is optional, so that it neither delays nor fails the run.
            entry.insert(
                "required".to_owned(),
                json!(permission::may_use_server(&spec.setup.permission, &server.name)),
            );
            entry.insert("startup_timeout_sec".to_owned(), json!(STARTUP_SECONDS));
            entry
                .insert("default_tools_approval_mode".to_owned(), json!(approval_policy.mcp_approval_mode()));
            if let Some(tools) = &server.tools {
                entry.insert("enabled_tools".to_owned(), json!(tools));
            }
            if let Some(ms) = server.timeout_ms {
                entry.insert("tool_timeout_sec".to_owned(), json!(ms.div_ceil(1000)));
            }
            servers.entries.insert(server.name.clone(), Value::Object(entry));
        }
        if spec.delegates != Delegates::Nobody {
            let own = json!({
                "command": context.current_exe.display().to_string(), "args": ["serve"],
                "env_vars": OWN_VARIABLES, "required": true, "startup_timeout_sec": STARTUP_SECONDS,
                "tool_timeout_sec": DELEGATION_SECONDS,
                "default_tools_approval_mode": permission::own_server_approval_mode(&spec.setup.permission),
            });
            servers.entries.insert(OWN_SERVER.to_owned(), own);
        }
        Ok(servers)
    }

    pub(super) fn variables(&self) -> Vec<(String, EnvValue)> {
        self.renamed_variables
            .iter()
            .map(|(name, from)| (name.clone(), EnvValue::FromVariable(from.clone())))
            .collect()
    }

    /// Returns the variables that only servers may see, and no command.
    pub(super) fn hidden_from_commands(&self) -> Vec<&str> {
        self.renamed_variables.keys().chain(&self.needed_variables).map(String::as_str).collect()
    }

    fn entry(&mut self, server: &McpServer) -> Result<Map<String, Value>, String> {
        let mut entry = Map::new();
        match &server.transport {
            Transport::Stdio { command, args, env } => {
                let args: Vec<&str> = args.iter().map(literal).collect::<Result<_, _>>()?;
                entry.insert("command".to_owned(), json!(command));
                entry.insert("args".to_owned(), json!(args));
                let (mut plain, mut from_environment) = (Map::new(), Vec::new());
                for (name, text) in env {
                    match single_variable(text) {
                        Some(source) => {
                            self.rename_variable(name, source)?;
                            from_environment.push(name);
                        }
                        None => _ = plain.insert(name.clone(), json!(literal(text)?)),
                    }
                }
                entry.insert("env".to_owned(), Value::Object(plain));
                entry.insert("env_vars".to_owned(), json!(from_environment));
            }
            Transport::Http { url, headers } => {
                entry.insert("url".to_owned(), json!(literal(url)?));
                self.headers(headers, &mut entry)?;
            }
            Transport::Sse { .. } => return Err("codex does not speak the SSE transport".to_owned()),
        }
        Ok(entry)
    }

    fn headers(
        &mut self,
        headers: &BTreeMap<String, VariableText>,
        entry: &mut Map<String, Value>,
    ) -> Result<(), String> {
        let (mut plain, mut from_environment) = (Map::new(), Map::new());
        for (name, text) in headers {
            let bearer =
                text.as_str().strip_prefix("Bearer ").map(|rest| VariableText::from(rest.to_owned()));
            let token = bearer
                .as_ref()
                .and_then(single_variable)
                .filter(|_| name.eq_ignore_ascii_case("authorization"));
            if let Some(source) = single_variable(text).or(token) {
                self.needed_variables.push(source.to_owned());
            }
            match (single_variable(text), token) {
                (_, Some(source)) => _ = entry.insert("bearer_token_env_var".to_owned(), json!(source)),
                (Some(source), None) => _ = from_environment.insert(name.clone(), json!(source)),
                (None, None) => _ = plain.insert(name.clone(), json!(literal(text)?)),
            }
        }
        entry.insert("http_headers".to_owned(), Value::Object(plain));
        entry.insert("env_http_headers".to_owned(), Value::Object(from_environment));
        Ok(())
    }

    fn rename_variable(&mut self, name: &str, source: &str) -> Result<(), String> {
        if RESERVED_VARIABLES.contains(&name) {
            return Err(format!("its variable {name} is also codex's own"));
        }
        match self.renamed_variables.insert(name.to_owned(), source.to_owned()) {
            Some(other) if other != source => {
                Err(format!("its variable {name} has another value for another server"))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the variable if the text is a reference to one and nothing else.
fn single_variable(text: &VariableText) -> Option<&str> {
    match text.pieces().as_slice() {
        [TextPiece::Variable { name, default: None }] => Some(name),
        _ => None,
    }
}

fn literal(text: &VariableText) -> Result<&str, String> {
    match text.is_literal() {
        true => Ok(text.as_str()),
        false => {
            Err(format!("in {:?} a variable is only a part, or stands where codex takes none", text.as_str()))
        }
    }
}
