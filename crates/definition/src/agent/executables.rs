//! What an agent's file would execute, as text that trust is given to: shown to a person, and hashed.

use domain::agent::Agent;
use domain::mcp_server::{Transport, VariableText};
use domain::secret::Redactor;

use crate::config::argv;

/// Returns a line for each program that is started because the agent's file says so; empty if there is none. A
/// server that is only reached over the network executes nothing here.
pub fn executables(agent: &Agent) -> String {
    let mut lines = String::new();
    for server in &agent.setup.mcp_servers {
        let Transport::Stdio { command, args, env } = &server.transport else { continue };
        let words = std::iter::once(command.as_str()).chain(args.iter().map(VariableText::as_str));
        // Never masked, whatever a word looks like: who gives trust must see all that decides what is executed.
        let words: Vec<String> = words.map(ToOwned::to_owned).collect();
        lines.push_str(&format!("agent {}, MCP server {}: {}", agent.name, server.name, argv(&words)));
        if !env.is_empty() {
            // What a program is handed can decide what it executes, so the values are part of the trust.
            let pairs = env.iter().map(|(name, value)| {
                let hidden = Redactor::names_secret(name) && value.is_literal();
                format!("{name}={}", if hidden { "[redacted]" } else { value.as_str() })
            });
            lines.push_str(&format!(" with {}", argv(&pairs.collect::<Vec<String>>())));
        }
        lines.push('\n');
    }
    for command in &agent.setup.accept {
        lines.push_str(&format!("agent {}, acceptance: {}\n", agent.name, argv(command)));
    }
    for hook in &agent.hooks {
        lines.push_str(&format!("agent {}, hook: {}\n", agent.name, argv(std::slice::from_ref(hook))));
    }
    lines
}
