//! The dialect of budgie: one tool for each agent of Kiro, and one for their health. Names, parameters, flags and messages
//! are budgie's. Unlike in budgie, sessions outlive the server, a caller's session id never becomes a path, and a failure
//! is an error.

mod chat_log;
mod health;
mod reply;
mod settings;
mod tool_names;

use std::path::Path;
use std::sync::Arc;

use domain::agent::Agent;
use domain::budget::RequestedLimits;
use domain::dialect::DialectName;
use domain::inherit::Inherited;
use domain::permission::Unenforceable;
use domain::run::Outcome;
use domain::setup::Retry;
use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{CallToolResponse, CallToolResult, ErrorData, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use system_files::regular_file;

use super::super::tool_call::ToolCall;
use super::delegate::CallFingerprint;
use super::dual_content::{compact, dual_content};
use super::ignored_arguments::{ignored_arguments, with_note, with_notes};
use super::{Delegated, Inheritance, ToolDialect, UnansweredRuns, delegate};
use engine::{EngineError, EngineHandle, FolderAgent, NamedSession, PriorConversation, StartRequest};
use settings::BudgieSettings;
pub(crate) use settings::Flags;
use tool_names::{ToolNames, ToolTarget};

const INSTRUCTIONS: &str = include_str!("instructions.md");
/// The namespace of the sessions that callers name.
const SESSION_NAMESPACE: &str = "budgie";
/// How long a session is stored after its last use. Budgie itself forgets its sessions when it ends.
const SESSION_RETENTION_MS: u64 = 90 * 86_400_000;
const RETRY: Retry = Retry { after_ms: 2_000 };

pub(super) struct Budgie {
    settings: BudgieSettings,
    names: ToolNames,
    tools: Vec<Tool>,
    unanswered: UnansweredRuns,
    inheritance: Inheritance,
}

/// Finds the agents and creates their tools.
pub(super) async fn open(
    app: &EngineHandle,
    flags: &Flags,
    inheritance: Inheritance,
) -> Result<Budgie, EngineError> {
    let directory =
        app.directory().ok_or_else(|| EngineError::usage("the working directory is not known"))?;
    let settings = settings::read(flags, &directory)?;
    let mut found = app.ask(engine::ReadFolderAgents { folder: settings.folder.clone() }).await?;
    super::print_diagnostics(&found.diagnostics);
    found.agents.retain(|found| has_name(&found.agent));
    if found.agents.is_empty() {
        let message = format!("there are no sub-agents in {}", settings.folder.path.display());
        let hint = "an agent is a .json file with a name, and a description that begins with \"sub-agent:\"";
        return Err(EngineError::usage(message).hint(hint));
    }
    let agents = found.agents.iter().map(|found| (&found.agent.name, kiro_name(&found.agent)));
    let names = ToolNames::new(&settings.prefix, settings.safe_names, agents)?;
    let tools = names.listed.iter().map(|(name, target)| match target {
        ToolTarget::Agent(agent) => {
            agent_tool(name, found.agents.iter().find(|found| found.agent.name == *agent))
        }
        ToolTarget::Health => health_tool(name),
    });
    Ok(Budgie { tools: tools.collect(), settings, names, unanswered: UnansweredRuns::default(), inheritance })
}

/// Returns whether an agent's file has a `name`, which budgie requires; Kiro itself would use the file's name.
fn has_name(agent: &Agent) -> bool {
    let text = regular_file::read_text(Path::new(&agent.source.file), config::FILE_BYTES_MAX as u64);
    let json = text.ok().and_then(|text| serde_json::from_str::<Value>(&text).ok()).unwrap_or_default();
    json["name"].as_str().is_some_and(|name| !name.is_empty())
}

/// Returns Kiro's name of an agent.
fn kiro_name(agent: &Agent) -> &str {
    agent.setup.vendor_agent.as_deref().unwrap_or(agent.name.as_str())
}

impl Budgie {
    async fn run_agent(
        &self,
        call: &ToolCall<'_>,
        tool: &str,
        agent: &str,
        arguments: JsonObject,
    ) -> CallToolResponse {
        let fingerprint = CallFingerprint::new(&(agent, &arguments));
        let request = match BudgieRequest::read(&arguments) {
            Ok(request) => request,
            Err(message) => return reply::error(&message).into(),
        };
        match self.run(call, (tool, agent), fingerprint, &request).await {
            Ok(result) => result,
            Err(error) => {
                let health = health::context(call, agent).await;
                let health = health.map(|health| format!(" ({health})")).unwrap_or_default();
                reply::error(&format!("{error}{health}")).into()
            }
        }
    }

    async fn run(
        &self,
        call: &ToolCall<'_>,
        (tool, name): (&str, &str),
        fingerprint: CallFingerprint,
        request: &BudgieRequest,
    ) -> Result<CallToolResponse, EngineError> {
        let found = call
            .handler
            .engine
            .ask(engine::ReadFolderAgents { folder: self.settings.folder.clone() })
            .await?;
        let Some(agent) = found.agents.into_iter().find(|found| found.agent.name.as_str() == name) else {
            let folder = self.settings.folder.path.display();
            return Err(EngineError::not_found(format!("the agent {name} is not in {folder} any more")));
        };
        let delegated =
            delegate(call, &self.unanswered, fingerprint, self.start(agent.agent, request)).await?;
        // A session without a name gets the id of its first run, also for a repeated call.
        let session = request.session_id.clone().unwrap_or_else(|| delegated.run_id().to_string());
        Ok(match delegated {
            Delegated::Ended(view) => {
                if self.settings.verbose {
                    chat_log::write(call, &self.settings.sessions, &view, &request.prompt).await;
                }
                let notes = self.inheritance.notes(&view);
                let result = match view.outcome {
                    Some(Outcome::Succeeded) => reply::answer(&view, &session),
                    _ => {
                        let health = health::context(call, name).await;
                        reply::failed(&view, self.settings.timeout_ms, &session, health.as_deref())
                    }
                };
                // The structured content is fixed, so notes are appended.
                notes.iter().fold(result, |result, note| with_note(result, note))
            }
            Delegated::Running(view) => reply::still_running(&view, tool, &session),
            Delegated::NeedsInput(_, ask) => return Ok(CallToolResponse::InputRequired(*ask)),
            Delegated::Abandoned(run) => reply::error(&format!("nobody waits for the run {run} any more")),
        }
        .into())
    }

    fn start(&self, mut agent: Agent, request: &BudgieRequest) -> StartRequest {
        agent.launch = self.settings.launch.clone();
        self.inheritance.apply_to(&mut agent.setup);
        if agent.launch.container.is_some() {
            // Budgie passes no variables of this machine into its sandbox.
            agent.setup.inherit.remove(&Inherited::Environment);
        }
        // Started by name, Kiro also loads the user's servers, if the agent's file says so.
        let has_users_servers = agent.setup.inherits(Inherited::McpServers);
        agent.launch.by_name = has_users_servers && self.settings.starts_by_name();
        agent.setup.retry = self.settings.retries.then_some(RETRY);
        // Kiro enforces the agent's own file; budgie promises no more.
        agent.setup.unenforceable = Unenforceable::Warn;
        match agent.launch.by_name {
            // Kiro reads the agent's own file, with everything that it includes.
            true => (agent.setup.vendor_file, agent.setup.submit_result) = (None, None),
            false => agent.setup.vendor_agent = None,
        }
        StartRequest {
            agent: agent.name.to_string(),
            definition: Some(Box::new(agent)),
            prompt: request.prompt.clone(),
            directory: Some(request.directory.clone()),
            named_session: Some(NamedSession {
                name: request.session_id.clone(),
                namespace: SESSION_NAMESPACE,
                keep_ms: SESSION_RETENTION_MS,
                prior: PriorConversation::Nothing,
            }),
            limits: RequestedLimits {
                timeout_ms: Some(self.settings.timeout_ms),
                ..RequestedLimits::default()
            },
            ..StartRequest::default()
        }
    }

    async fn health(&self, call: &ToolCall<'_>) -> CallToolResult {
        let agents: Vec<&str> = self
            .names
            .listed
            .iter()
            .filter_map(|(_, target)| match target {
                ToolTarget::Agent(agent) => Some(agent.as_str()),
                ToolTarget::Health => None,
            })
            .collect();
        match health::report(call, &agents).await {
            Ok(report) => dual_content(&report, compact),
            Err(error) => reply::error(&error.to_string()),
        }
    }
}

const PARAMETERS: [&str; 3] = ["prompt", "sessionId", "directory"];

/// The parsed arguments of a call.
struct BudgieRequest {
    prompt: String,
    session_id: Option<String>,
    directory: String,
}

impl BudgieRequest {
    fn read(arguments: &JsonObject) -> Result<Self, String> {
        let text = |key: &str| match arguments.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
            Some(_) => Err(format!("{key} must be a string")),
        };
        let needed = |key: &str| text(key)?.ok_or_else(|| format!("{key} is required"));
        let request = Self {
            prompt: needed("prompt")?,
            directory: needed("directory")?,
            session_id: text("sessionId")?,
        };
        if !Path::new(&request.directory).is_absolute() {
            return Err(format!("directory must be an absolute path, and {:?} is not", request.directory));
        }
        Ok(request)
    }
}

fn agent_tool(name: &str, found: Option<&FolderAgent>) -> Tool {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let input = json!({
        "type": "object",
        "properties": {
            "prompt": text("The whole task in words: the agent sees nothing else."),
            "sessionId": text(
                "Continues the conversation of this id with the same agent. Left out: a new one begins, and its id is \
                 in the answer. An id of your own begins one of that name: letters, digits, '_' and '-'."
            ),
            "directory": text("Absolute path of the existing directory that the agent works in. Always needed."),
        },
        "required": ["prompt", "directory"],
    });
    let output = json!({
        "type": "object",
        "properties": {
            "response": text("The answer of the agent."),
            "sessionId": text("For a later call that goes on with the conversation."),
            "attempts": {
                "type": "integer",
                "description": "How often the agent was tried, if that was more than once.",
            },
        },
        "required": ["response", "sessionId"],
    });
    let description = found.map(|found| description(&found.agent)).unwrap_or_default();
    let hints = ToolAnnotations::with_title(name)
        .read_only(false)
        .destructive(true)
        .idempotent(false)
        .open_world(true);
    tool(name, description, input, output).with_annotations(hints)
}

fn health_tool(name: &str) -> Tool {
    let input = json!({ "type": "object", "properties": {} });
    let output = json!({
        "type": "object",
        "properties": { "overall": { "type": "object" }, "agents": { "type": "array" } },
        "required": ["overall", "agents"],
    });
    let description = "How the agents do: calls, success rate, durations and the last error of each.";
    let hints = ToolAnnotations::with_title(name)
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    tool(name, description.to_owned(), input, output).with_annotations(hints)
}

fn tool(name: &str, description: String, input: Value, output: Value) -> Tool {
    let object = |value: Value| match value {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    };
    Tool::new(name.to_owned(), description, object(input)).with_raw_output_schema(object(output))
}

/// Builds the description of an agent for the calling model.
fn description(agent: &Agent) -> String {
    let mut text = agent.description.clone();
    let lists = [
        ("Capabilities", &agent.capabilities),
        ("Use when", &agent.use_when),
        ("Avoid when", &agent.avoid_when),
    ];
    for (title, items) in lists {
        if !items.is_empty() {
            let items: Vec<String> = items.iter().map(|item| format!("- {item}")).collect();
            text.push_str(&format!("\n\n{title}:\n{}", items.join("\n")));
        }
    }
    text
}

impl ToolDialect for Budgie {
    fn name(&self) -> DialectName {
        DialectName::Budgie
    }

    fn server(&self) -> String {
        "kiro-subagents".to_owned()
    }

    fn instructions(&self) -> String {
        INSTRUCTIONS.trim_end().to_owned()
    }

    fn tools(&self) -> Vec<Tool> {
        self.tools.clone()
    }

    fn aliases(&self) -> Vec<String> {
        self.names.others()
    }

    fn call<'a>(
        &'a self,
        call: ToolCall<'a>,
        tool: &'a str,
        arguments: JsonObject,
    ) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>> {
        async move {
            Ok(match self.names.find(tool) {
                Some(ToolTarget::Agent(agent)) => {
                    let notes = ignored_arguments(tool, &arguments, &PARAMETERS);
                    with_notes(self.run_agent(&call, tool, agent.as_str(), arguments).await, &notes)
                }
                Some(ToolTarget::Health) => {
                    with_notes(self.health(&call).await.into(), &ignored_arguments(tool, &arguments, &[]))
                }
                None => reply::error(&format!("there is no tool {tool}")).into(),
            })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
