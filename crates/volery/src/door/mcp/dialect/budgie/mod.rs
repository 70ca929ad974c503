//! The dialect of budgie: one tool for each agent of Kiro, and one that tells how they do. Names, parameters, flags and
//! messages are that system's. Its sessions outlive the server, a caller's word for one never becomes a path, and a
//! failure is an error.

mod chat;
mod health;
mod names;
mod reply;
mod settings;

use std::path::Path;
use std::sync::Arc;

use backend::plain_file;
use domain::agent::Agent;
use domain::budget::AskedLimits;
use domain::dialect::DialectName;
use domain::inherit::Inherited;
use domain::permission::Unenforceable;
use domain::run::Outcome;
use domain::setup::Retry;
use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{CallToolResponse, CallToolResult, ErrorData, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::super::call::Call;
use super::delegate::Words;
use super::ignored::{ignored, with_note, with_notes};
use super::twice::{compact, twice};
use super::{Delegated, Dialect, Inheritance, Unanswered, delegate};
use crate::app::{App, AppError, Before, FoundAgent, NamedSession, Start};
use names::{Meaning, Names};
pub(crate) use settings::Flags;
use settings::Settings;

const INSTRUCTIONS: &str = include_str!("instructions.md");
/// Whose the sessions are that callers name.
const WITHIN: &str = "budgie";
/// Budgie forgets its sessions when it ends; these are kept for as long after their last use.
const KEEP_MS: u64 = 90 * 86_400_000;
const RETRY: Retry = Retry { after_ms: 2_000 };

pub(super) struct Budgie {
    settings: Settings,
    names: Names,
    tools: Vec<Tool>,
    unanswered: Unanswered,
    gives: Inheritance,
}

/// Finds the agents that there shall be tools for.
pub(super) async fn open(app: &App, flags: &Flags, gives: Inheritance) -> Result<Budgie, AppError> {
    let directory = app.directory().ok_or_else(|| AppError::usage("the working directory is not known"))?;
    let settings = settings::read(flags, &directory)?;
    let mut found = app.read_agents(settings.folder.clone()).await?;
    super::complain(&found.diagnostics);
    found.agents.retain(|found| names_itself(&found.agent));
    if found.agents.is_empty() {
        let message = format!("there are no sub-agents in {}", settings.folder.path.display());
        let hint = "an agent is a .json file with a name, and a description that begins with \"sub-agent:\"";
        return Err(AppError::usage(message).hint(hint));
    }
    let called = found.agents.iter().map(|found| (&found.agent.name, called(&found.agent)));
    let names = Names::new(&settings.prefix, settings.safe_names, called)?;
    let tools = names.listed.iter().map(|(name, meaning)| match meaning {
        Meaning::Agent(agent) => {
            agent_tool(name, found.agents.iter().find(|found| found.agent.name == *agent))
        }
        Meaning::Health => health_tool(name),
    });
    Ok(Budgie { tools: tools.collect(), settings, names, unanswered: Unanswered::default(), gives })
}

/// Tells whether the file of an agent has the name that budgie demands; Kiro itself would take the file's.
fn names_itself(agent: &Agent) -> bool {
    let text = plain_file::text(Path::new(&agent.source.file), definition::FILE_BYTES_MAX as u64);
    let json = text.ok().and_then(|text| serde_json::from_str::<Value>(&text).ok()).unwrap_or_default();
    json["name"].as_str().is_some_and(|name| !name.is_empty())
}

/// Returns what Kiro calls an agent.
fn called(agent: &Agent) -> &str {
    agent.setup.vendor_agent.as_deref().unwrap_or(agent.name.as_str())
}

impl Budgie {
    async fn run_agent(
        &self,
        call: &Call<'_>,
        tool: &str,
        agent: &str,
        arguments: JsonObject,
    ) -> CallToolResponse {
        let words = Words::of(&(agent, &arguments));
        let asked = match Asked::read(&arguments) {
            Ok(asked) => asked,
            Err(message) => return reply::error(&message).into(),
        };
        match self.run(call, (tool, agent), words, &asked).await {
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
        call: &Call<'_>,
        (tool, name): (&str, &str),
        words: Words,
        asked: &Asked,
    ) -> Result<CallToolResponse, AppError> {
        let found = call.door.app.read_agents(self.settings.folder.clone()).await?;
        let Some(agent) = found.agents.into_iter().find(|found| found.agent.name.as_str() == name) else {
            let folder = self.settings.folder.path.display();
            return Err(AppError::not_found(format!("the agent {name} is not in {folder} any more")));
        };
        let delegated = delegate(call, &self.unanswered, words, self.start(agent.agent, asked)).await?;
        // One that was not named has the id of its first run, also for who asks again.
        let session = asked.session_id.clone().unwrap_or_else(|| delegated.run_id().to_string());
        Ok(match delegated {
            Delegated::Ended(view) => {
                if self.settings.verbose {
                    chat::write(call, &self.settings.sessions, &view, &asked.prompt).await;
                }
                let notes = self.gives.notes(&view);
                let told = match view.outcome {
                    Some(Outcome::Succeeded) => reply::answer(&view, &session),
                    _ => {
                        let health = health::context(call, name).await;
                        reply::failed(&view, self.settings.timeout_ms, &session, health.as_deref())
                    }
                };
                // The shape of the answer is fixed, so they stand behind it.
                notes.iter().fold(told, |told, note| with_note(told, note))
            }
            Delegated::Going(view) => reply::going(&view, tool, &session),
            Delegated::Asks(_, ask) => return Ok(CallToolResponse::InputRequired(*ask)),
            Delegated::Unheard(run) => reply::error(&format!("nobody waits for the run {run} any more")),
        }
        .into())
    }

    fn start(&self, mut agent: Agent, asked: &Asked) -> Start {
        agent.launch = self.settings.launch.clone();
        self.gives.give(&mut agent.setup);
        if agent.launch.container.is_some() {
            // Into its sandbox budgie passes no variables of this machine.
            agent.setup.inherit.remove(&Inherited::Environment);
        }
        // By its own name Kiro finds the user's servers too, if the agent's file says so.
        let has_users_servers = agent.setup.inherits(Inherited::McpServers);
        agent.launch.by_name = has_users_servers && self.settings.starts_by_name();
        agent.setup.retry = self.settings.retries.then_some(RETRY);
        // Kiro goes by its own file; nobody has demanded more of it.
        agent.setup.unenforceable = Unenforceable::Warn;
        match agent.launch.by_name {
            // Kiro goes by the agent's own file, with all that the file includes.
            true => (agent.setup.vendor_file, agent.setup.submit_result) = (None, None),
            false => agent.setup.vendor_agent = None,
        }
        Start {
            agent: agent.name.to_string(),
            definition: Some(Box::new(agent)),
            prompt: asked.prompt.clone(),
            directory: Some(asked.directory.clone()),
            named: Some(NamedSession {
                name: asked.session_id.clone(),
                within: WITHIN,
                keep_ms: KEEP_MS,
                before: Before::Nothing,
            }),
            limits: AskedLimits { timeout_ms: Some(self.settings.timeout_ms), ..AskedLimits::default() },
            ..Start::default()
        }
    }

    async fn health(&self, call: &Call<'_>) -> CallToolResult {
        let agents: Vec<&str> = self
            .names
            .listed
            .iter()
            .filter_map(|(_, meaning)| match meaning {
                Meaning::Agent(agent) => Some(agent.as_str()),
                Meaning::Health => None,
            })
            .collect();
        match health::report(call, &agents).await {
            Ok(report) => twice(&report, compact),
            Err(error) => reply::error(&error.to_string()),
        }
    }
}

const PARAMETERS: [&str; 3] = ["prompt", "sessionId", "directory"];

/// What a call asks for.
struct Asked {
    prompt: String,
    session_id: Option<String>,
    directory: String,
}

impl Asked {
    fn read(arguments: &JsonObject) -> Result<Self, String> {
        let text = |key: &str| match arguments.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
            Some(_) => Err(format!("{key} must be a string")),
        };
        let needed = |key: &str| text(key)?.ok_or_else(|| format!("{key} is required"));
        let asked = Self {
            prompt: needed("prompt")?,
            directory: needed("directory")?,
            session_id: text("sessionId")?,
        };
        if !Path::new(&asked.directory).is_absolute() {
            return Err(format!("directory must be an absolute path, and {:?} is not", asked.directory));
        }
        Ok(asked)
    }
}

fn agent_tool(name: &str, found: Option<&FoundAgent>) -> Tool {
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

/// Puts together what the calling model reads about an agent.
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

impl Dialect for Budgie {
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
        call: Call<'a>,
        tool: &'a str,
        arguments: JsonObject,
    ) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>> {
        async move {
            Ok(match self.names.find(tool) {
                Some(Meaning::Agent(agent)) => {
                    let notes = ignored(tool, &arguments, &PARAMETERS);
                    with_notes(self.run_agent(&call, tool, agent.as_str(), arguments).await, &notes)
                }
                Some(Meaning::Health) => {
                    with_notes(self.health(&call).await.into(), &ignored(tool, &arguments, &[]))
                }
                None => reply::error(&format!("there is no tool {tool}")).into(),
            })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
