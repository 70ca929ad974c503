//! The dialect of sub-agents-mcp: one tool, `run_agent`, for the plain files of one folder, and the files as resources.
//! Names, limits, messages and shapes are that system's; what it promised and did not do (arguments that reach the
//! program, sessions that two calls share, a cancel) is done.

mod arguments;
mod history;
mod log;
mod reply;
mod resources;
mod settings;

use std::path::Path;
use std::sync::Arc;

use definition::config::Config;
use domain::Timestamp;
use domain::agent::{Agent, Format, Layer};
use domain::budget::AskedLimits;
use domain::dialect::DialectName;
use domain::permission::{Level, Unenforceable};
use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{CallToolResponse, ErrorData, JsonObject, Tool, ToolAnnotations};
use serde_json::json;

use super::super::call::Call;
use super::delegate::Words;
use super::ignored::{ignored, with_note, with_notes};
use super::{Delegated, Dialect, Inheritance, Resources, Unanswered, delegate};
use crate::app::{AppError, Before, Folder, FoundAgents, NamedSession, Prompts, Start, check_installed};
use crate::clock;
use arguments::Arguments;
use log::{Log, Severity};
use reply::Reply;
use settings::{Sessions, Settings};

const TOOL: &str = "run_agent";
const DESCRIPTION: &str = include_str!("run_agent.md");
const INSTRUCTIONS: &str = include_str!("instructions.md");
/// Whose the sessions are that callers name.
const WITHIN: &str = "sub-agents-mcp";
/// Between asking an agent to stop and killing it.
const GRACE_MS: u64 = 1_000;

pub(super) struct SubAgents {
    settings: Settings,
    log: Log,
    unanswered: Unanswered,
    gives: Inheritance,
}

/// Reads the settings of the dialect from the environment, as sub-agents-mcp does.
pub(super) fn open(config: &Config, gives: Inheritance) -> Result<SubAgents, AppError> {
    let configured = |name: &str| config.backends.keys().any(|known| known.as_str() == name);
    let known = |name: &str| configured(name) || backend::registry::built_in().contains(&name);
    let settings = settings::read(&crate::env::text, &known)?;
    let log = Log::new(settings.log_level);
    Ok(SubAgents { settings, log, unanswered: Unanswered::default(), gives })
}

/// Says what would keep a server with these variables from starting.
pub(crate) fn check(
    value: &dyn Fn(&str) -> Option<String>,
    is_backend: &dyn Fn(&str) -> bool,
) -> Result<(), AppError> {
    settings::read(value, is_backend).map(drop)
}

/// Tells whether a session that sub-agents-mcp has kept can be read.
pub(crate) fn is_session(folder: &Path, session: &str, agent: &str) -> bool {
    history::read(folder, session, agent, Timestamp::MIN).is_ok_and(|told| !told.is_empty())
}

impl SubAgents {
    async fn run_agent(&self, call: &Call<'_>, arguments: JsonObject) -> CallToolResponse {
        let words = Words::of(&arguments);
        let notes = ignored(TOOL, &arguments, &arguments::KNOWN);
        let result = match Arguments::read(arguments) {
            Ok(arguments) => self.run(call, words, arguments).await,
            Err(message) => Err(AppError::usage(message)),
        };
        let response = result.unwrap_or_else(|error| {
            let message = format!("Agent execution failed: {error}");
            self.log.write(Severity::Error, "Agent execution failed", &json!({ "error": error.to_string() }));
            reply::error(&message, None).into()
        });
        with_notes(response, &notes)
    }

    async fn run(
        &self,
        call: &Call<'_>,
        words: Words,
        arguments: Arguments,
    ) -> Result<CallToolResponse, AppError> {
        let found = self.agents(call).await?;
        let Some(agent) = found.agents.iter().find(|found| found.agent.name.as_str() == arguments.agent)
        else {
            let names: Vec<&str> = found.agents.iter().map(|found| found.agent.name.as_str()).collect();
            return Ok(reply::error(&format!("Agent '{}' not found", arguments.agent), Some(&names)).into());
        };
        let agent = agent.agent.clone();
        if let Err(error) = check_installed(&agent) {
            let reply = Reply {
                agent: &arguments.agent,
                session: arguments.session_id.as_deref(),
                notes: Vec::new(),
            };
            return Ok(reply.not_installed(&error.to_string()).into());
        }
        let start = self.start(agent, &arguments);
        self.log.write(Severity::Info, "Agent execution started", &json!({ "agent": arguments.agent }));
        let delegated = delegate(call, &self.unanswered, words, start).await?;
        // One that was not named has the id of its first run, also for who asks again.
        let begun = self.settings.sessions.as_ref().map(|_| delegated.run_id().to_string());
        let session = arguments.session_id.clone().or(begun);
        let notes = match &delegated {
            Delegated::Ended(view) | Delegated::Going(view) => self.gives.notes(view),
            Delegated::Asks(..) | Delegated::Unheard(_) => Vec::new(),
        };
        let reply = Reply { agent: &arguments.agent, session: session.as_deref(), notes };
        let ignored = arguments.session_id.is_some() && self.settings.sessions.is_none();
        let result = match delegated {
            Delegated::Ended(view) => {
                let fields = json!({ "agent": arguments.agent, "run": view.short_id, "status": view.status });
                self.log.write(Severity::Info, "Agent execution completed", &fields);
                reply.ended(*view)
            }
            Delegated::Going(view) => reply.going(*view),
            Delegated::Asks(_, ask) => return Ok(CallToolResponse::InputRequired(*ask)),
            Delegated::Unheard(run) => {
                reply::error(&format!("nobody waits for the run {run} any more"), None)
            }
        };
        Ok(if ignored { with_note(result, SESSIONS_ARE_OFF) } else { result }.into())
    }

    fn start(&self, mut agent: Agent, arguments: &Arguments) -> Start {
        if agent.setup.permission.level.is_none() {
            // Nobody has demanded it, so a program that cannot be held to it is warned about.
            agent.setup.permission.level = Some(Level::SafeEdit);
            agent.setup.unenforceable = Unenforceable::Warn;
        }
        self.gives.give(&mut agent.setup);
        agent.setup.extra_args.extend(arguments.extra_args.iter().cloned());
        agent.setup.vendor_settings.clone_from(&self.settings.settings_path);
        let name = arguments.session_id.clone();
        let named = self.settings.sessions.as_ref().map(|sessions| NamedSession {
            before: name.as_ref().map_or(Before::Nothing, |name| self.before(sessions, name, &agent)),
            name,
            within: WITHIN,
            keep_ms: sessions.keep_ms,
        });
        Start {
            agent: agent.name.to_string(),
            definition: Some(Box::new(agent)),
            prompt: arguments.prompt.clone(),
            directory: arguments.cwd.clone(),
            named,
            limits: AskedLimits {
                timeout_ms: Some(self.settings.timeout_ms),
                grace_ms: Some(GRACE_MS),
                ..AskedLimits::default()
            },
            ..Start::default()
        }
    }

    /// Returns what sub-agents-mcp itself has kept of a session.
    fn before(&self, sessions: &Sessions, name: &str, agent: &Agent) -> Before {
        let keep_ms = i64::try_from(sessions.keep_ms).unwrap_or(i64::MAX);
        let since = clock::now().as_millisecond().saturating_sub(keep_ms);
        let since = Timestamp::from_millisecond(since).unwrap_or(Timestamp::MIN);
        match history::read(&sessions.folder, name, agent.name.as_str(), since) {
            Ok(told) if told.is_empty() => Before::Nothing,
            Ok(told) => Before::Told(told),
            Err(error) => {
                let fields = json!({ "session": name, "error": error.to_string() });
                self.log.write(Severity::Warn, "Failed to load session history", &fields);
                Before::Nothing
            }
        }
    }

    /// Reads the files afresh: a change is picked up by the next call.
    async fn agents(&self, call: &Call<'_>) -> Result<FoundAgents, AppError> {
        let folder = Folder {
            path: self.settings.folder.clone(),
            format: Format::Plain,
            layer: Layer::Environment,
            within: None,
            prompts: Prompts::default(),
        };
        let found = call.door.app.read_agents(folder).await?;
        for diagnostic in &found.diagnostics {
            self.log.write(Severity::Warn, "Agent file", &json!({ "problem": diagnostic.to_string() }));
        }
        Ok(found)
    }
}

const SESSIONS_ARE_OFF: &str =
    "The session_id was not used: sessions are off. Set SESSION_ENABLED=true for this server.";

impl Dialect for SubAgents {
    fn name(&self) -> DialectName {
        DialectName::SubAgentsMcp
    }

    fn server(&self) -> String {
        self.settings.server_name.clone()
    }

    fn instructions(&self) -> String {
        INSTRUCTIONS.trim_end().to_owned()
    }

    fn tools(&self) -> Vec<Tool> {
        let text = |description: &str| json!({ "type": "string", "description": description });
        let schema = json!({
            "type": "object",
            "properties": {
                "agent": text("Name of the agent, exactly as the resource agents://list shows it."),
                "prompt": text(
                    "The whole task in words. The agent sees nothing else; give absolute paths for files."
                ),
                "cwd": text("Absolute path of the existing directory that the agent works in."),
                "extra_args": {
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "Further arguments for the agent's program, as far as they are known to be harmless."
                },
                "session_id": text(
                    "Continues the conversation of this id with the same agent. Left out: a new one begins, and its \
                     id is in the answer."
                ),
            },
            "required": ["agent", "prompt"],
        });
        let serde_json::Value::Object(schema) = schema else { return Vec::new() };
        let hints = ToolAnnotations::with_title("Run an agent")
            .read_only(false)
            .destructive(true)
            .idempotent(false)
            .open_world(true);
        vec![Tool::new(TOOL, DESCRIPTION.trim_end(), Arc::new(schema)).with_annotations(hints)]
    }

    fn call<'a>(
        &'a self,
        call: Call<'a>,
        _tool: &'a str,
        arguments: JsonObject,
    ) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>> {
        async move { Ok(self.run_agent(&call, arguments).await) }.boxed()
    }

    fn resources(&self) -> Option<&dyn Resources> {
        Some(self)
    }
}

#[cfg(test)]
mod tests;
