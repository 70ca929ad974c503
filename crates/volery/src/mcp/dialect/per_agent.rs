//! One tool for each agent in addition to the native ones, for models that choose better among tools than among the entries
//! of a list. The agents are those of the server's project at its start, because the list of tools does not change.

use std::sync::Arc;

use domain::diagnostic::Diagnostic;
use domain::dialect::DialectName;
use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{CallToolResponse, ErrorData, JsonObject, Tool};
use serde_json::Value;

use super::super::tool_call::ToolCall;
use super::super::tools;
use super::ToolDialect;
use engine::{AgentView, EngineError, EngineHandle, ListAgents};

const PREFIX: &str = "agent_";
/// The longest name that every client accepts with its own prefix.
const NAME_CHARS_MAX: usize = 40;
const AGENTS_MAX: usize = 100;
/// The tool that does the work.
const RUN_AGENT: &str = "run_agent";

#[derive(Debug)]
pub(super) struct PerAgent {
    /// The tools and their agents.
    tools: Vec<(Tool, String)>,
}

/// Creates a tool for each agent that can run.
pub(super) async fn open(app: &EngineHandle) -> Result<PerAgent, EngineError> {
    let list = app.ask(ListAgents::default()).await?;
    let mut tools: Vec<(Tool, String)> = Vec::new();
    let mut left_out = Vec::new();
    for agent in list.agents.into_iter().filter(|agent| agent.problem.is_none()) {
        let tool = build_tool(&agent);
        let taken = tools.iter().find(|(known, _)| known.name == tool.name);
        let why = match taken {
            // Two names may differ only in characters that tool names do not allow: the first agent gets the tool.
            Some((_, first)) => format!("{first} has the tool {}", tool.name),
            None if tools.len() >= AGENTS_MAX => format!("there are {AGENTS_MAX} already"),
            None => {
                tools.push((tool, agent.name));
                continue;
            }
        };
        let message = format!("{} has no tool of its own: {why}", agent.name);
        left_out
            .push(Diagnostic::warning("(--tools per-agent)", message).hint("run_agent starts it by name"));
    }
    super::print_diagnostics(&left_out);
    Ok(PerAgent { tools })
}

fn build_tool(agent: &AgentView) -> Tool {
    let to_identifier =
        |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '_' };
    let name: String =
        PREFIX.chars().chain(agent.name.chars().map(to_identifier)).take(NAME_CHARS_MAX).collect();
    let mut description = agent.description.clone();
    let lists = [("Use when", &agent.use_when), ("Avoid when", &agent.avoid_when)];
    for (heading, lines) in lists.into_iter().filter(|(_, lines)| !lines.is_empty()) {
        description.push_str(&format!("\n\n{heading}:\n- {}", lines.join("\n- ")));
    }
    let mut tool =
        tools::list().into_iter().find(|tool| tool.name == RUN_AGENT).expect("it is one of the tools");
    let mut schema = JsonObject::clone(&tool.input_schema);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.shift_remove("agent");
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| name != "agent");
    }
    tool.input_schema = Arc::new(schema);
    tool.name = name.into();
    tool.description = Some(description.into());
    let title = format!("Ask {}", agent.name);
    tool.annotations = tool.annotations.map(|mut hints| {
        hints.title = Some(title.clone());
        hints
    });
    tool.title = Some(title);
    tool
}

impl ToolDialect for PerAgent {
    fn name(&self) -> DialectName {
        DialectName::Volery
    }

    fn server(&self) -> String {
        "volery".to_owned()
    }

    fn instructions(&self) -> String {
        String::new()
    }

    fn tools(&self) -> Vec<Tool> {
        self.tools.iter().map(|(tool, _)| tool.clone()).collect()
    }

    fn call<'a>(
        &'a self,
        call: ToolCall<'a>,
        tool: &'a str,
        mut arguments: JsonObject,
    ) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>> {
        if let Some((_, agent)) = self.tools.iter().find(|(known, _)| known.name == tool) {
            arguments.insert("agent".to_owned(), agent.clone().into());
        }
        tools::call(call, RUN_AGENT, arguments).boxed()
    }

    fn has_tasks(&self) -> bool {
        true
    }
}
