//! The dialect of Jarvis: one tool, `run_subagent`, for the agents of `agents/NAME/agent.md`. Only the main agent calls,
//! and nobody is called by a sub-agent.

mod kept;
mod reply;

use std::path::PathBuf;
use std::sync::Arc;

use domain::agent::{Agent, Format, Layer};
use domain::budget::AskedLimits;
use domain::dialect::DialectName;
use domain::permission::Level;
use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{CallToolResponse, ErrorData, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::super::call::Call;
use super::delegate::Words;
use super::ignored::{ignored, with_notes};
use super::{Delegated, Dialect, Inheritance, Unanswered, delegate};
use crate::app::{App, AppError, Before, Folder, FoundAgent, NamedSession, Prompts, Start};
use crate::env;

pub(crate) use kept::session as kept_session;

const TOOL: &str = "run_subagent";
/// The parameters of the tool.
const KNOWN: [&str; 3] = ["agent_name", "prompt", "context"];
const DESCRIPTION: &str = include_str!("run_subagent.md");
/// The constant name of a caller without a token.
const CALLER: &str = "main";
const WITHIN: &str = "jarvis";
/// Jarvis never forgets a session; this long after its last use it is as good as forgotten.
const KEEP_MS: u64 = 90 * 86_400_000;
/// The most agents whose descriptions the tool shows.
const SHOWN_MAX: usize = 50;

pub(super) struct Jarvis {
    home: PathBuf,
    folder: Folder,
    description: String,
    unanswered: Unanswered,
    gives: Inheritance,
}

/// Finds the home of Jarvis and the agents that its tool shall describe.
pub(super) async fn open(app: &App, gives: Inheritance) -> Result<Jarvis, AppError> {
    let named = env::get(env::JARVIS_HOME).map(PathBuf::from);
    if let Some(home) = named.as_ref().filter(|home| !home.is_absolute() || !home.is_dir()) {
        let message = format!("JARVIS_HOME is {}, which is no absolute path of a directory", home.display());
        return Err(AppError::usage(message).hint("name the directory that has agents/NAME/agent.md"));
    }
    let home = match &named {
        Some(home) => home.clone(),
        None => app.directory().ok_or_else(|| AppError::usage("JARVIS_HOME is not set"))?,
    };
    let folder = Folder {
        path: home.join("agents"),
        format: Format::Jarvis,
        // A place that somebody named is theirs; the one that the server happens to stand in is a project like any.
        layer: if named.is_some() { Layer::Environment } else { Layer::Project },
        within: named.is_none().then(|| home.clone()),
        prompts: Prompts::default(),
    };
    let found = app.read_agents(folder.clone()).await?;
    super::complain(&found.diagnostics);
    let line = |found: &FoundAgent| format!("- {}: {}", found.agent.name, found.agent.description);
    let lines: Vec<String> = found.agents.iter().take(SHOWN_MAX).map(line).collect();
    let agents = if lines.is_empty() { "- none yet".to_owned() } else { lines.join("\n") };
    let description = DESCRIPTION.trim_end().replace("{{AGENTS}}", &agents);
    Ok(Jarvis { home, folder, description, unanswered: Unanswered::default(), gives })
}

impl Jarvis {
    async fn run_subagent(&self, call: &Call<'_>, arguments: JsonObject) -> CallToolResponse {
        let words = Words::of(&arguments);
        let asked = match Asked::read(&arguments) {
            Ok(asked) => asked,
            Err(message) => return reply::error(&message).into(),
        };
        match self.run(call, words, &asked).await {
            Ok(result) => result,
            Err(error) => {
                let message = format!("Subagent \"{}\" failed (cli_error): {error}", asked.agent_name);
                reply::error(&message).into()
            }
        }
    }

    async fn run(&self, call: &Call<'_>, words: Words, asked: &Asked) -> Result<CallToolResponse, AppError> {
        let found = call.door.app.read_agents(self.folder.clone()).await?;
        let name = &asked.agent_name;
        let Some(agent) = found.agents.iter().find(|found| found.agent.name.as_str() == name) else {
            let names: Vec<&str> = found.agents.iter().map(|found| found.agent.name.as_str()).collect();
            let message = format!("Unknown agent: \"{name}\". Available: {}", names.join(", "));
            return Ok(reply::error(&message).into());
        };
        let agent = agent.agent.clone();
        if let Some(caller) = call.door.app.caller().filter(|caller| !agent.callers.allow(caller)) {
            let caller = caller.token.as_deref().unwrap_or(CALLER);
            let message = format!("Agent \"{name}\" does not allow caller \"{caller}\".");
            return Ok(reply::error(&message).into());
        }
        let timeout_ms = agent.limits.timeout_ms;
        let delegated = delegate(call, &self.unanswered, words, self.start(agent, asked)).await?;
        Ok(match delegated {
            Delegated::Ended(view) => reply::ended(name, timeout_ms, &view, &self.gives.notes(&view)),
            Delegated::Going(view) => reply::going(name, &view),
            Delegated::Asks(_, ask) => return Ok(CallToolResponse::InputRequired(*ask)),
            Delegated::Unheard(run) => reply::error(&format!("nobody waits for the run {run} any more")),
        }
        .into())
    }

    fn start(&self, mut agent: Agent, asked: &Asked) -> Start {
        self.gives.give(&mut agent.setup);
        // What its rules do not allow, nobody is asked about.
        agent.setup.permission.level.get_or_insert(Level::ReadOnly);
        let named = agent.setup.keeps_session.then(|| NamedSession {
            name: Some(agent.name.to_string()),
            within: WITHIN,
            keep_ms: KEEP_MS,
            before: kept::session(&self.home, agent.name.as_str()).map_or(Before::Nothing, Before::Vendor),
        });
        let prompt = match &asked.context {
            Some(context) => format!("Context:\n{context}\n\nTask:\n{}", asked.prompt),
            None => asked.prompt.clone(),
        };
        Start {
            agent: agent.name.to_string(),
            definition: Some(Box::new(agent)),
            prompt,
            directory: Some(self.home.display().to_string()),
            named,
            // Nobody below the sub-agent.
            limits: AskedLimits { depth: Some(0), ..AskedLimits::default() },
            ..Start::default()
        }
    }
}

/// What a call asks for.
struct Asked {
    agent_name: String,
    prompt: String,
    context: Option<String>,
}

impl Asked {
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

impl Dialect for Jarvis {
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
        call: Call<'a>,
        _tool: &'a str,
        arguments: JsonObject,
    ) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>> {
        async move {
            let notes = ignored(TOOL, &arguments, &KNOWN);
            Ok(with_notes(self.run_subagent(&call, arguments).await, &notes))
        }
        .boxed()
    }
}
