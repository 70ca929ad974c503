//! The dialect of `codex mcp-server`, which Codex has removed: `codex` starts a conversation with Codex, `codex-reply`
//! continues it. The client's user is asked for approvals.

mod arguments;
mod events;

use std::sync::Arc;

use domain::agent::{Agent, AgentFormat, AgentSource, Layer};
use domain::dialect::DialectName;
use domain::permission::{Level, Unenforceable};
use domain::setup::PromptMode;
use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, ErrorData, JsonObject, Tool, ToolAnnotations,
};
use serde_json::{Value, json};

use super::super::elicit;
use super::super::tool_call::ToolCall;
use super::super::tools::is_failure;
use super::delegate::CallFingerprint;
use super::failure_reason::with_stderr;
use super::ignored_arguments::with_note;
use super::{Delegated, Inheritance, ToolDialect, UnansweredRuns, delegate};
use arguments::{CodexReply, CodexRequest, Sandbox};
use engine::{EngineError, RunView, StartRequest};

const BEGIN: &str = "codex";
const REPLY: &str = "codex-reply";
/// The name of its agent and of its backend.
const AGENT: &str = "codex";
/// The tools that change something.
const CHANGES: [&str; 2] = ["Bash", "Edit"];
const INSTRUCTIONS: &str = include_str!("instructions.md");

#[derive(Debug, Default)]
pub(super) struct Codex {
    unanswered: UnansweredRuns,
    inheritance: Inheritance,
}

impl Codex {
    pub(super) fn new(inheritance: Inheritance) -> Self {
        Self { inheritance, ..Self::default() }
    }

    async fn run(
        &self,
        call: &ToolCall<'_>,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<CallToolResponse, String> {
        let fingerprint = CallFingerprint::new(&(tool, &arguments));
        let mut start = match tool {
            BEGIN => begin(CodexRequest::read(arguments)?, elicit::elicitation_mode(call).is_some()),
            _ => reply(CodexReply::read(arguments)?),
        };
        if let Some(agent) = &mut start.definition {
            self.inheritance.apply_to(&mut agent.setup);
        }
        let to_text = |error: EngineError| error.to_string();
        events::task_started(call).await;
        Ok(match delegate(call, &self.unanswered, fingerprint, start).await.map_err(to_text)? {
            Delegated::Ended(view) => {
                let (content, failed) = final_content(&view);
                events::task_ended(call, &view, &content, failed).await;
                let notes = self.inheritance.notes(&view);
                let result = answer(&view, &content, failed);
                notes.iter().fold(result, |result, note| with_note(result, note)).into()
            }
            Delegated::Running(view) => still_running(&view).into(),
            Delegated::NeedsInput(_, ask) => CallToolResponse::InputRequired(*ask),
            Delegated::Abandoned(run) => error(&format!("nobody waits for the run {run} any more")).into(),
        })
    }
}

fn begin(request: CodexRequest, can_elicit: bool) -> StartRequest {
    let mut agent = base_agent();
    agent.model = request.model;
    let setup = &mut agent.setup;
    let asks = request.asks_for_approval && can_elicit;
    // With a level, everything beyond it is denied; without one, the user is asked.
    setup.permission.level = match request.sandbox {
        Sandbox::WorkspaceWrite if asks => None,
        Sandbox::WorkspaceWrite => Some(Level::SafeEdit),
        Sandbox::ReadOnly => Some(Level::ReadOnly),
        Sandbox::DangerFullAccess => Some(Level::Yolo),
    };
    if request.sandbox == Sandbox::ReadOnly && asks {
        setup.permission.ask = CHANGES.map(|tool| tool.parse().expect("a valid rule")).to_vec();
    }
    setup.effort = request.effort;
    setup.extra_args = request.settings;
    (agent.system_prompt, setup.prompt_mode) =
        match (request.base_instructions, request.developer_instructions) {
            (Some(base), Some(developer)) => (format!("{base}\n\n{developer}"), PromptMode::Replace),
            (Some(base), None) => (base, PromptMode::Replace),
            (None, developer) => (developer.unwrap_or_default(), PromptMode::Append),
        };
    StartRequest {
        agent: AGENT.to_owned(),
        definition: Some(Box::new(agent)),
        prompt: request.prompt,
        directory: request.cwd,
        ..StartRequest::default()
    }
}

fn reply(request: CodexReply) -> StartRequest {
    StartRequest {
        agent: AGENT.to_owned(),
        definition: Some(Box::new(base_agent())),
        prompt: request.prompt,
        session: Some(request.thread_id),
        reuse_last_agent: true,
        ..StartRequest::default()
    }
}

fn base_agent() -> Agent {
    let source =
        AgentSource { file: "(codex)".to_owned(), format: AgentFormat::Volery, layer: Layer::Environment };
    let name = AGENT.parse().expect("a valid name");
    let mut agent = Agent::new(name, AGENT.parse().expect("a valid name"), source);
    agent.setup.unenforceable = Unenforceable::Warn;
    agent
}

/// Returns the text of an ended run, and whether it failed.
fn final_content(run: &RunView) -> (String, bool) {
    let text = run.result.as_deref().map(str::trim_end).filter(|text| !text.is_empty());
    let failed = is_failure(&run.status);
    let content = match (failed, text) {
        (false, text) => text.unwrap_or_default().to_owned(),
        (true, None) => with_stderr(run.explanation.clone(), &run.stderr_tail),
        (true, Some(text)) => format!("{}\n\n{text}", run.explanation),
    };
    (content, failed)
}

fn still_running(run: &RunView) -> CallToolResult {
    let content = format!(
        "Codex is still at work, as run {}. Call again with exactly the same arguments to wait for its answer; nothing \
         is started a second time.",
        run.short_id
    );
    answer(run, &content, false)
}

fn answer(run: &RunView, content: &str, failed: bool) -> CallToolResult {
    // A conversation that ended before Codex reported its id cannot be continued.
    let thread = run.session.clone().unwrap_or_default();
    let mut result = CallToolResult::success(vec![ContentBlock::text(content)]);
    result.is_error = Some(failed);
    result.structured_content = Some(json!({ "threadId": thread, "content": content }));
    result
}

fn error(message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message)])
}

impl ToolDialect for Codex {
    fn name(&self) -> DialectName {
        DialectName::Codex
    }

    fn server(&self) -> String {
        "codex-mcp-server".to_owned()
    }

    fn instructions(&self) -> String {
        INSTRUCTIONS.trim_end().to_owned()
    }

    fn tools(&self) -> Vec<Tool> {
        let hints = |title: &str| {
            ToolAnnotations::with_title(title)
                .read_only(false)
                .destructive(true)
                .idempotent(false)
                .open_world(true)
        };
        let output = object(json!({
            "type": "object",
            "properties": { "threadId": { "type": "string" }, "content": { "type": "string" } },
            "required": ["threadId", "content"],
        }));
        let tool = |name: &'static str, title: &str, description: &'static str, schema: Value| {
            Tool::new(name, description, object(schema))
                .with_title(title)
                .with_raw_output_schema(output.clone())
                .with_annotations(hints(title))
        };
        vec![
            tool(
                BEGIN,
                "Codex",
                "Begin a conversation with Codex and get its answer.",
                arguments::begin_schema(),
            ),
            tool(
                REPLY,
                "Codex Reply",
                "Go on with a conversation with Codex, by the threadId of an earlier answer.",
                arguments::reply_schema(),
            ),
        ]
    }

    fn call<'a>(
        &'a self,
        mut call: ToolCall<'a>,
        tool: &'a str,
        arguments: JsonObject,
    ) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>> {
        call.events = Some(events::background_event);
        async move {
            let result = self.run(&call, tool, arguments).await;
            Ok(result.unwrap_or_else(|message| error(&message).into()))
        }
        .boxed()
    }
}

fn object(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    }
}
