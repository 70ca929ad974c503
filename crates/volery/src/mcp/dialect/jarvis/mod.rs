//! The dialect of Jarvis: one tool, `run_subagent`, for the agents of `agents/NAME/agent.md`. Only the main agent can call
//! it; sub-agents cannot delegate.

mod reply;
mod stored_sessions;

use std::path::PathBuf;
use std::sync::Arc;

use domain::agent::{Agent, AgentFormat, Layer};
use domain::budget::RequestedLimits;
use domain::dialect::DialectName;
use domain::permission::Level;
use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{CallToolResponse, ErrorData, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::super::tool_call::ToolCall;
use super::delegate::CallFingerprint;
use super::ignored_arguments::{ignored_arguments, with_notes};
use super::{Delegated, Inheritance, ToolDialect, UnansweredRuns, delegate};
use engine::env;
use engine::{
    AgentFolder, EngineError, EngineHandle, FolderAgent, KiroPrompts, NamedSession, PriorConversation,
    StartRequest,
};

pub(crate) use stored_sessions::stored_session;

const TOOL: &str = "run_subagent";
/// The parameters of the tool.
const ARGUMENT_NAMES: [&str; 3] = ["agent_name", "prompt", "context"];
const DESCRIPTION: &str = include_str!("run_subagent.md");
/// The name of a caller without a token.
const CALLER: &str = "main";
const SESSION_NAMESPACE: &str = "jarvis";
/// How long a session is stored after its last use. Jarvis itself never deletes sessions.
const SESSION_RETENTION_MS: u64 = 90 * 86_400_000;
/// The most agents in the description of the tool.
const DESCRIBED_AGENTS_MAX: usize = 50;

pub(super) struct Jarvis {
    home: PathBuf,
    folder: AgentFolder,
    description: String,
    unanswered: UnansweredRuns,
    inheritance: Inheritance,
}

/// Finds the home of Jarvis and the agents for the description of its tool.
pub(super) async fn open(app: &EngineHandle, inheritance: Inheritance) -> Result<Jarvis, EngineError> {
    let configured = env::get(env::JARVIS_HOME).map(PathBuf::from);
    if let Some(home) = configured.as_ref().filter(|home| !home.is_absolute() || !home.is_dir()) {
        let message = format!("JARVIS_HOME is {}, which is no absolute path of a directory", home.display());
        return Err(EngineError::usage(message).hint("name the directory that has agents/NAME/agent.md"));
    }
    let home = match &configured {
        Some(home) => home.clone(),
        None => app.directory().ok_or_else(|| EngineError::usage("JARVIS_HOME is not set"))?,
    };
    let folder = AgentFolder {
        path: home.join("agents"),
        format: AgentFormat::Jarvis,
        // A configured home is the user's own; the working directory of the server is treated as a project.
        layer: if configured.is_some() { Layer::Environment } else { Layer::Project },
        boundary: configured.is_none().then(|| home.clone()),
        prompts: KiroPrompts::default(),
    };
    let found = app.ask(engine::ReadFolderAgents { folder: folder.clone() }).await?;
    super::print_diagnostics(&found.diagnostics);
    let line = |found: &FolderAgent| format!("- {}: {}", found.agent.name, found.agent.description);
    let lines: Vec<String> = found.agents.iter().take(DESCRIBED_AGENTS_MAX).map(line).collect();
    let agents = if lines.is_empty() { "- none yet".to_owned() } else { lines.join("\n") };
    let description = DESCRIPTION.trim_end().replace("{{AGENTS}}", &agents);
    Ok(Jarvis { home, folder, description, unanswered: UnansweredRuns::default(), inheritance })
}

impl Jarvis {
    async fn run_subagent(&self, call: &ToolCall<'_>, arguments: JsonObject) -> CallToolResponse {
        let fingerprint = CallFingerprint::new(&arguments);
        let request = match JarvisRequest::read(&arguments) {
            Ok(request) => request,
            Err(message) => return reply::error(&message).into(),
        };
        match self.run(call, fingerprint, &request).await {
            Ok(result) => result,
            Err(error) => {
                let message = format!("Subagent \"{}\" failed (cli_error): {error}", request.agent_name);
                reply::error(&message).into()
            }
        }
    }

    async fn run(
        &self,
        call: &ToolCall<'_>,
        fingerprint: CallFingerprint,
        request: &JarvisRequest,
    ) -> Result<CallToolResponse, EngineError> {
        let found = call.handler.engine.ask(engine::ReadFolderAgents { folder: self.folder.clone() }).await?;
        let name = &request.agent_name;
        let Some(agent) = found.agents.iter().find(|found| found.agent.name.as_str() == name) else {
            let names: Vec<&str> = found.agents.iter().map(|found| found.agent.name.as_str()).collect();
            let message = format!("Unknown agent: \"{name}\". Available: {}", names.join(", "));
            return Ok(reply::error(&message).into());
        };
        let agent = agent.agent.clone();
        if let Some(caller) = call.handler.engine.caller().filter(|caller| !agent.callers.allow(caller)) {
            let caller = caller.token.as_deref().unwrap_or(CALLER);
            let message = format!("Agent \"{name}\" does not allow caller \"{caller}\".");
            return Ok(reply::error(&message).into());
        }
        let timeout_ms = agent.limits.timeout_ms;
        let delegated = delegate(call, &self.unanswered, fingerprint, self.start(agent, request)).await?;
        Ok(match delegated {
            Delegated::Ended(view) => reply::ended(name, timeout_ms, &view, &self.inheritance.notes(&view)),
            Delegated::Running(view) => reply::still_running(name, &view),
            Delegated::NeedsInput(_, ask) => return Ok(CallToolResponse::InputRequired(*ask)),
            Delegated::Abandoned(run) => reply::error(&format!("nobody waits for the run {run} any more")),
        }
        .into())
    }

    fn start(&self, mut agent: Agent, request: &JarvisRequest) -> StartRequest {
        self.inheritance.apply_to(&mut agent.setup);
        // Actions beyond its rules are denied without asking.
        agent.setup.permission.level.get_or_insert(Level::ReadOnly);
        let named_session = agent.setup.keeps_session.then(|| NamedSession {
            name: Some(agent.name.to_string()),
            namespace: SESSION_NAMESPACE,
            keep_ms: SESSION_RETENTION_MS,
            prior: stored_session(&self.home, agent.name.as_str())
                .map_or(PriorConversation::Nothing, PriorConversation::VendorSession),
        });
        let prompt = match &request.context {
            Some(context) => format!("Context:\n{context}\n\nTask:\n{}", request.prompt),
            None => request.prompt.clone(),
        };
        StartRequest {
            agent: agent.name.to_string(),
            definition: Some(Box::new(agent)),
            prompt,
            directory: Some(self.home.display().to_string()),
            named_session,
            // Sub-agents cannot start runs.
            limits: RequestedLimits { depth: Some(0), ..RequestedLimits::default() },
            ..StartRequest::default()
        }
    }
}

/// The parsed arguments of a call.
struct JarvisRequest {
    agent_name: String,
    prompt: String,
    context: Option<String>,
}

impl JarvisRequest {
    fn read(arguments: &JsonObject) -> Result<Self, String> {
        let text = |key: &str| match arguments.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
            Some(_) => Err(format!("{key} must be a string")),
        };
        let needed = |key: &str| text(key)?.ok_or_else(|| format!("{key} is required"));
        Ok(Self { agent_name: needed("agent_name")?, prompt: needed("prompt")?, context: text("context")? })
    }
}

impl ToolDialect for Jarvis {
    fn name(&self) -> DialectName {
        DialectName::Jarvis
    }

    fn server(&self) -> String {
        "jarvis-subagents".to_owned()
    }

    fn instructions(&self) -> String {
        String::new()
    }

    fn tools(&self) -> Vec<Tool> {
        let text = |description: &str| json!({ "type": "string", "description": description });
        let schema = json!({
            "type": "object",
            "properties": {
                "agent_name": text("The name of the agent, as listed."),
                "prompt": text("The whole task in words: the agent sees nothing else."),
                "context": text("What the agent should know beside the task."),
            },
            "required": ["agent_name", "prompt"],
        });
        let Value::Object(schema) = schema else { return Vec::new() };
        let hints = ToolAnnotations::with_title("Run a sub-agent")
            .read_only(false)
            .destructive(true)
            .idempotent(false)
            .open_world(true);
        vec![Tool::new(TOOL, self.description.clone(), Arc::new(schema)).with_annotations(hints)]
    }

    fn call<'a>(
        &'a self,
        call: ToolCall<'a>,
        _tool: &'a str,
        arguments: JsonObject,
    ) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>> {
        async move {
            let notes = ignored_arguments(TOOL, &arguments, &ARGUMENT_NAMES);
            Ok(with_notes(self.run_subagent(&call, arguments).await, &notes))
        }
        .boxed()
    }
}
