//! The dialect of sub-agents-mcp: one tool, `run_agent`, for the plain files of one folder, and the files as resources.
//! Names, limits, messages and formats are that system's. Features that it documents but lacks (arguments that reach the
//! program, sessions that two calls share, cancelling) work here.

mod arguments;
mod log;
mod reply;
mod resources;
mod session_files;
mod settings;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::Timestamp;
use domain::agent::{Agent, AgentFormat, Layer};
use domain::budget::RequestedLimits;
use domain::dialect::DialectName;
use domain::permission::{Level, Unenforceable};
use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{CallToolResponse, ErrorData, JsonObject, Tool, ToolAnnotations};
use serde_json::json;

use super::super::tool_call::ToolCall;
use super::delegate::CallFingerprint;
use super::ignored_arguments::{ignored_arguments, with_note, with_notes};
use super::{Delegated, DialectResources, Inheritance, ToolDialect, UnansweredRuns, delegate};
use arguments::Arguments;
use engine::clock;
use engine::env;
use engine::{
    AgentFolder, EngineError, EngineHandle, FolderAgentList, KiroPrompts, NamedSession, PriorConversation,
    StartRequest, check_installed, unset_key_variables,
};
use log::{Log, Severity};
use reply::SubAgentsReply;
use settings::{Sessions, SubAgentsSettings};

const TOOL: &str = "run_agent";
const DESCRIPTION: &str = include_str!("run_agent.md");
const INSTRUCTIONS: &str = include_str!("instructions.md");
/// The namespace of the sessions that callers name.
const SESSION_NAMESPACE: &str = "sub-agents-mcp";
/// The time between asking an agent to stop and killing it.
const GRACE_MS: u64 = 1_000;

pub(super) struct SubAgents {
    settings: SubAgentsSettings,
    /// The server's own.
    directory: PathBuf,
    log: Log,
    unanswered: UnansweredRuns,
    inheritance: Inheritance,
}

/// Reads the settings of the dialect from the environment, as sub-agents-mcp does.
pub(super) fn open(app: &EngineHandle, inheritance: Inheritance) -> Result<SubAgents, EngineError> {
    let configured = |name: &str| app.config().backends.keys().any(|known| known.as_str() == name);
    let known = |name: &str| configured(name) || backends::registry::built_in().contains(&name);
    let (settings, warnings) = settings::read(&env::text, &known)?;
    let log = Log::new(settings.log_level);
    for warning in &warnings {
        log.write(Severity::Warn, warning, &json!({}));
    }
    let directory =
        app.directory().ok_or_else(|| EngineError::usage("the working directory is not known"))?;
    Ok(SubAgents { settings, directory, log, unanswered: UnansweredRuns::default(), inheritance })
}

/// Returns the error that would prevent a server with these variables from starting.
pub(crate) fn check(
    value: &dyn Fn(&str) -> Option<String>,
    is_backend: &dyn Fn(&str) -> bool,
) -> Result<(), EngineError> {
    settings::read(value, is_backend).map(drop)
}

/// Returns whether a session that sub-agents-mcp stored can be read.
pub(crate) fn is_session(folder: &Path, session: &str, agent: &str) -> bool {
    session_files::read(folder, session, agent, Timestamp::MIN).is_ok_and(|history| !history.is_empty())
}

impl SubAgents {
    async fn run_agent(&self, call: &ToolCall<'_>, arguments: JsonObject) -> CallToolResponse {
        let fingerprint = CallFingerprint::new(&arguments);
        let notes = ignored_arguments(TOOL, &arguments, &arguments::ARGUMENT_NAMES);
        let result = match Arguments::read(arguments) {
            Ok(arguments) => self.run(call, fingerprint, arguments).await,
            Err(message) => Err(EngineError::usage(message)),
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
        call: &ToolCall<'_>,
        fingerprint: CallFingerprint,
        arguments: Arguments,
    ) -> Result<CallToolResponse, EngineError> {
        let found = self.agents(call).await?;
        let Some(agent) = found.agents.iter().find(|found| found.agent.name.as_str() == arguments.agent)
        else {
            let names: Vec<&str> = found.agents.iter().map(|found| found.agent.name.as_str()).collect();
            return Ok(reply::error(&format!("Agent '{}' not found", arguments.agent), Some(&names)).into());
        };
        let agent = agent.agent.clone();
        let not_started = SubAgentsReply {
            agent: &arguments.agent,
            session: arguments.session_id.as_deref(),
            notes: Vec::new(),
        };
        if let Err(error) = check_installed(&agent) {
            return Ok(not_started.not_installed(&error.to_string()).into());
        }
        if let Err(error) = check_key(&agent) {
            return Ok(not_started.without_key(&error.to_string()).into());
        }
        let start = self.start(agent, &arguments);
        self.log.write(Severity::Info, "Agent execution started", &json!({ "agent": arguments.agent }));
        let delegated = delegate(call, &self.unanswered, fingerprint, start).await?;
        // A session without a name gets the id of its first run, also for a repeated call.
        let new_session = self.settings.sessions.as_ref().map(|_| delegated.run_id().to_string());
        let session = arguments.session_id.clone().or(new_session);
        let notes = match &delegated {
            Delegated::Ended(view) | Delegated::Running(view) => self.inheritance.notes(view),
            Delegated::NeedsInput(..) | Delegated::Abandoned(_) => Vec::new(),
        };
        let reply = SubAgentsReply { agent: &arguments.agent, session: session.as_deref(), notes };
        let session_ignored = arguments.session_id.is_some() && self.settings.sessions.is_none();
        let result = match delegated {
            Delegated::Ended(view) => {
                let fields = json!({ "agent": arguments.agent, "run": view.short_id, "status": view.status });
                self.log.write(Severity::Info, "Agent execution completed", &fields);
                reply.ended(*view)
            }
            Delegated::Running(view) => reply.still_running(*view),
            Delegated::NeedsInput(_, ask) => return Ok(CallToolResponse::InputRequired(*ask)),
            Delegated::Abandoned(run) => {
                reply::error(&format!("nobody waits for the run {run} any more"), None)
            }
        };
        Ok(if session_ignored { with_note(result, SESSIONS_ARE_OFF) } else { result }.into())
    }

    fn start(&self, mut agent: Agent, arguments: &Arguments) -> StartRequest {
        if agent.setup.permission.level.is_none() {
            // A default that nobody requested, so a backend that cannot enforce it only warns.
            agent.setup.permission.level = Some(Level::SafeEdit);
            agent.setup.unenforceable = Unenforceable::Warn;
        }
        self.inheritance.apply_to(&mut agent.setup);
        agent.setup.extra_args.extend(arguments.extra_args.iter().cloned());
        agent.setup.vendor_settings.clone_from(&self.settings.settings_path);
        let name = arguments.session_id.clone();
        let named_session = self.settings.sessions.as_ref().map(|sessions| NamedSession {
            prior: name
                .as_ref()
                .map_or(PriorConversation::Nothing, |name| self.previous_history(sessions, name, &agent)),
            name,
            namespace: SESSION_NAMESPACE,
            keep_ms: sessions.keep_ms,
        });
        StartRequest {
            agent: agent.name.to_string(),
            definition: Some(Box::new(agent)),
            prompt: arguments.prompt.clone(),
            // A relative path begins at the server's directory, as with sub-agents-mcp.
            directory: arguments
                .cwd
                .as_ref()
                .map(|cwd| self.directory.join(cwd).to_string_lossy().into_owned()),
            named_session,
            limits: RequestedLimits {
                timeout_ms: Some(self.settings.timeout_ms),
                grace_ms: Some(GRACE_MS),
                ..RequestedLimits::default()
            },
            ..StartRequest::default()
        }
    }

    /// Returns the history of a session that sub-agents-mcp itself stored.
    fn previous_history(&self, sessions: &Sessions, name: &str, agent: &Agent) -> PriorConversation {
        let keep_ms = i64::try_from(sessions.keep_ms).unwrap_or(i64::MAX);
        let since = clock::now().as_millisecond().saturating_sub(keep_ms);
        let since = Timestamp::from_millisecond(since).unwrap_or(Timestamp::MIN);
        match session_files::read(&sessions.folder, name, agent.name.as_str(), since) {
            Ok(history) if history.is_empty() => PriorConversation::Nothing,
            Ok(history) => PriorConversation::Exchanges(history),
            Err(error) => {
                let fields = json!({ "session": name, "error": error.to_string() });
                self.log.write(Severity::Warn, "Failed to load session history", &fields);
                PriorConversation::Nothing
            }
        }
    }

    /// Reads the files again for each call, so that changes apply immediately.
    async fn agents(&self, call: &ToolCall<'_>) -> Result<FolderAgentList, EngineError> {
        let folder = AgentFolder {
            path: self.settings.folder.clone(),
            format: AgentFormat::Plain,
            layer: Layer::Environment,
            boundary: None,
            prompts: KiroPrompts::default(),
        };
        let found = call.handler.engine.ask(engine::ReadFolderAgents { folder }).await?;
        for diagnostic in &found.diagnostics {
            self.log.write(Severity::Warn, "Agent file", &json!({ "problem": diagnostic.to_string() }));
        }
        Ok(found)
    }
}

/// Refuses an agent whose service has no key. sub-agents-mcp reads the keys of all services from `CLI_API_KEY`.
fn check_key(agent: &Agent) -> Result<(), EngineError> {
    let backend = agent.backend.as_str();
    let own = unset_key_variables(backend);
    if own.is_empty() || env::text(env::CLI_API_KEY).is_some() {
        return Ok(());
    }
    let own = own.into_iter().filter(|name| *name != env::CLI_API_KEY);
    let names: Vec<&str> = std::iter::once(env::CLI_API_KEY).chain(own).collect();
    let message = format!(
        "agent {} needs a key for {backend}, and none of these variables is set: {}",
        agent.name,
        names.join(", ")
    );
    Err(EngineError::usage(message)
        .hint("set CLI_API_KEY in the environment of this server, and start the server again"))
}

const SESSIONS_ARE_OFF: &str =
    "The session_id was not used: sessions are off. Set SESSION_ENABLED=true for this server.";

impl ToolDialect for SubAgents {
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
        call: ToolCall<'a>,
        _tool: &'a str,
        arguments: JsonObject,
    ) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>> {
        async move { Ok(self.run_agent(&call, arguments).await) }.boxed()
    }

    fn resources(&self) -> Option<&dyn DialectResources> {
        Some(self)
    }
}

#[cfg(test)]
mod tests;
