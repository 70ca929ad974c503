//! The MCP servers of a run as Codex wants them. Secrets go through the environment by name, never into a message.

use std::collections::BTreeMap;

use domain::agent::Delegates;
use domain::mcp_server::{McpServer, Piece, Transport, VariableText};
use domain::run::RunSpec;
use serde_json::{Map, Value, json};

use super::grant::{self, Asking};
use crate::contract::{Place, Setting};
use crate::mcp_config::OWN_SERVER;

/// How long a server may take to start, and a tool of ours to answer: a child run has its own time-out.
const STARTUP_SECONDS: u64 = 60;
const DELEGATION_SECONDS: u64 = 7 * 24 * 3600;
/// What our own server needs to find its run; Codex passes on little by itself.
const OWN_VARIABLES: [&str; 3] = ["VOLERY_HOME", "VOLERY_RUN_TAG", "XDG_STATE_HOME"];
/// Variables that are Codex's own: a server's cannot have the same name.
const RESERVED: [&str; 6] = ["PATH", "HOME", "TMPDIR", "CODEX_HOME", "OPENAI_API_KEY", "CODEX_API_KEY"];

/// The servers, and the variables of the process by which they get their secrets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Servers {
    pub(super) entries: Map<String, Value>,
    /// Variables under the server's name, by where their values are.
    renamed: BTreeMap<String, String>,
    /// Variables that servers are sent from the environment as they are.
    pub(super) needed: Vec<String>,
}

impl Servers {
    /// Translates the servers of a run, or says which setting Codex cannot take.
    pub(super) fn of(spec: &RunSpec, place: &Place<'_>) -> Result<Self, String> {
        let mut servers = Self::default();
        let asking = Asking::of(&spec.setup.permission);
        for server in &spec.setup.mcp_servers {
            let mut entry = servers.entry(server).map_err(|reason| {
                format!("the MCP server {} cannot be given to codex: {reason}", server.name)
            })?;
            // An optional server that is not there after a second would be missing without a word. One of which nothing
            // may be used is not worth the wait, nor the run.
            entry.insert("required".to_owned(), json!(grant::may_use(&spec.setup.permission, &server.name)));
            entry.insert("startup_timeout_sec".to_owned(), json!(STARTUP_SECONDS));
            entry.insert("default_tools_approval_mode".to_owned(), json!(asking.of_tools()));
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
                "command": place.own_program.display().to_string(), "args": ["serve"],
                "env_vars": OWN_VARIABLES, "required": true, "startup_timeout_sec": STARTUP_SECONDS,
                "tool_timeout_sec": DELEGATION_SECONDS,
                "default_tools_approval_mode": grant::own_tools(&spec.setup.permission),
            });
            servers.entries.insert(OWN_SERVER.to_owned(), own);
        }
        Ok(servers)
    }

    /// Returns the variables to set for the process.
    pub(super) fn settings(&self) -> Vec<(String, Setting)> {
        self.renamed.iter().map(|(name, from)| (name.clone(), Setting::From(from.clone()))).collect()
    }

    /// Returns the variables that only servers shall see, and no command.
    pub(super) fn hidden(&self) -> Vec<&str> {
        self.renamed.keys().chain(&self.needed).map(String::as_str).collect()
    }

    fn entry(&mut self, server: &McpServer) -> Result<Map<String, Value>, String> {
        let mut entry = Map::new();
        match &server.transport {
            Transport::Stdio { command, args, env } => {
                let args: Vec<&str> = args.iter().map(literal).collect::<Result<_, _>>()?;
                entry.insert("command".to_owned(), json!(command));
                entry.insert("args".to_owned(), json!(args));
                let (mut plain, mut from) = (Map::new(), Vec::new());
                for (name, text) in env {
                    match variable(text) {
                        Some(source) => {
                            self.rename(name, source)?;
                            from.push(name);
                        }
                        None => _ = plain.insert(name.clone(), json!(literal(text)?)),
                    }
                }
                entry.insert("env".to_owned(), Value::Object(plain));
                entry.insert("env_vars".to_owned(), json!(from));
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
        let (mut plain, mut from) = (Map::new(), Map::new());
        for (name, text) in headers {
            let bearer =
                text.as_str().strip_prefix("Bearer ").map(|rest| VariableText::from(rest.to_owned()));
            let token =
                bearer.as_ref().and_then(variable).filter(|_| name.eq_ignore_ascii_case("authorization"));
            if let Some(source) = variable(text).or(token) {
                self.needed.push(source.to_owned());
            }
            match (variable(text), token) {
                (_, Some(source)) => _ = entry.insert("bearer_token_env_var".to_owned(), json!(source)),
                (Some(source), None) => _ = from.insert(name.clone(), json!(source)),
                (None, None) => _ = plain.insert(name.clone(), json!(literal(text)?)),
            }
        }
        entry.insert("http_headers".to_owned(), Value::Object(plain));
        entry.insert("env_http_headers".to_owned(), Value::Object(from));
        Ok(())
    }

    fn rename(&mut self, name: &str, source: &str) -> Result<(), String> {
        if RESERVED.contains(&name) {
            return Err(format!("its variable {name} is also codex's own"));
        }
        match self.renamed.insert(name.to_owned(), source.to_owned()) {
            Some(other) if other != source => {
                Err(format!("its variable {name} has another value for another server"))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the variable that is all of a text.
fn variable(text: &VariableText) -> Option<&str> {
    match text.pieces().as_slice() {
        [Piece::Variable { name, default: None }] => Some(name),
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
