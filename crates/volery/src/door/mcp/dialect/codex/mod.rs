//! The dialect of `codex mcp-server`, which Codex has dropped: `codex` begins a conversation with Codex, `codex-reply`
//! goes on with it. What needs an approval is put to the client's user.

mod arguments;
mod events;

use std::sync::Arc;

use domain::agent::{Agent, Format, Layer, Source};
use domain::dialect::DialectName;
use domain::permission::{Level, Unenforceable};
use domain::setup::PromptMode;
use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, ErrorData, JsonObject, Tool, ToolAnnotations,
};
use serde_json::{Value, json};

use super::super::call::Call;
use super::super::elicit;
use super::super::tools::is_failure;
use super::delegate::Words;
use super::ignored::with_note;
use super::reason::with_stderr;
use super::{Delegated, Dialect, Inheritance, Unanswered, delegate};
use crate::app::{AppError, RunView, Start};
use arguments::{Begin, Reply, Sandbox};

const BEGIN: &str = "codex";
const REPLY: &str = "codex-reply";
/// The name that its runs have, and its backend.
const AGENT: &str = "codex";
/// The tools that change something.
const CHANGES: [&str; 2] = ["Bash", "Edit"];
const INSTRUCTIONS: &str = include_str!("instructions.md");

#[derive(Debug, Default)]
pub(super) struct Codex {
    unanswered: Unanswered,
    gives: Inheritance,
}

impl Codex {
    pub(super) fn new(gives: Inheritance) -> Self {
        Self { gives, ..Self::default() }
    }

    async fn run(&self, call: &Call<'_>, tool: &str, given: JsonObject) -> Result<CallToolResponse, String> {
        let words = Words::of(&(tool, &given));
        let mut start = match tool {
            BEGIN => begin(Begin::read(given)?, elicit::way(call).is_some()),
            _ => reply(Reply::read(given)?),
        };
        if let Some(agent) = &mut start.definition {
            self.gives.give(&mut agent.setup);
        }
        let told = |error: AppError| error.to_string();
        events::began(call).await;
        Ok(match delegate(call, &self.unanswered, words, start).await.map_err(told)? {
            Delegated::Ended(view) => {
                let (content, failed) = ended(&view);
                events::ended(call, &view, &content, failed).await;
                let notes = self.gives.notes(&view);
                let told = answer(&view, &content, failed);
                notes.iter().fold(told, |told, note| with_note(told, note)).into()
            }
            Delegated::Going(view) => going(&view).into(),
            Delegated::Asks(_, ask) => CallToolResponse::InputRequired(*ask),
            Delegated::Unheard(run) => error(&format!("nobody waits for the run {run} any more")).into(),
        })
    }
}

fn begin(asked: Begin, somebody_answers: bool) -> Start {
    let mut agent = blank();
    agent.model = asked.model;
    let setup = &mut agent.setup;
    let asks = asked.asks && somebody_answers;
    // What is beyond a level that is named is denied; where none is, it is asked about.
    setup.permission.level = match asked.sandbox {
        Sandbox::WorkspaceWrite if asks => None,
        Sandbox::WorkspaceWrite => Some(Level::SafeEdit),
        Sandbox::ReadOnly => Some(Level::ReadOnly),
        Sandbox::DangerFullAccess => Some(Level::Yolo),
    };
    if asked.sandbox == Sandbox::ReadOnly && asks {
        setup.permission.ask = CHANGES.map(|tool| tool.parse().expect("a valid rule")).to_vec();
    }
    setup.effort = asked.effort;
    setup.extra_args = asked.settings;
    (agent.system_prompt, setup.prompt_mode) = match (asked.base_instructions, asked.developer_instructions) {
        (Some(base), Some(developer)) => (format!("{base}\n\n{developer}"), PromptMode::Replace),
        (Some(base), None) => (base, PromptMode::Replace),
        (None, developer) => (developer.unwrap_or_default(), PromptMode::Append),
    };
    Start {
        agent: AGENT.to_owned(),
        definition: Some(Box::new(agent)),
        prompt: asked.prompt,
        directory: asked.cwd,
        ..Start::default()
    }
}

fn reply(asked: Reply) -> Start {
    Start {
        agent: AGENT.to_owned(),
        definition: Some(Box::new(blank())),
        prompt: asked.prompt,
        session: Some(asked.thread_id),
        as_before: true,
        ..Start::default()
    }
}

fn blank() -> Agent {
    let source = Source { file: "(codex)".to_owned(), format: Format::Volery, layer: Layer::Environment };
    let name = AGENT.parse().expect("a valid name");
    let mut agent = Agent::new(name, AGENT.parse().expect("a valid name"), source);
    agent.setup.unenforceable = Unenforceable::Warn;
    agent
}

/// Returns what a run has come to, and whether it failed.
fn ended(run: &RunView) -> (String, bool) {
    let text = run.result.as_deref().map(str::trim_end).filter(|text| !text.is_empty());
    let failed = is_failure(&run.status);
    let content = match (failed, text) {
        (false, text) => text.unwrap_or_default().to_owned(),
        (true, None) => with_stderr(run.explanation.clone(), &run.stderr_tail),
        (true, Some(text)) => format!("{}\n\n{text}", run.explanation),
    };
    (content, failed)
}

fn going(run: &RunView) -> CallToolResult {
    let content = format!(
        "Codex is still at work, as run {}. Call again with exactly the same arguments to wait for its answer; nothing \
         is started a second time.",
        run.short_id
    );
    answer(run, &content, false)
}

fn answer(run: &RunView, content: &str, failed: bool) -> CallToolResult {
    // A conversation that broke off before Codex named it cannot be continued.
    let thread = run.session.clone().unwrap_or_default();
    let mut result = CallToolResult::success(vec![ContentBlock::text(content)]);
    result.is_error = Some(failed);
    result.structured_content = Some(json!({ "threadId": thread, "content": content }));
    result
}

fn error(message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message)])
}

impl Dialect for Codex {
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
        mut call: Call<'a>,
        tool: &'a str,
        arguments: JsonObject,
    ) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>> {
        call.events = Some(events::going_on);
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
