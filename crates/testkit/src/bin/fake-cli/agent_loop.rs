//! The agent loop of all vendors: request a turn from the model, execute or refuse its tool calls, and repeat until
//! it calls none.

use std::path::Path;

use serde_json::{Value, json};

use crate::model_client::{self, ModelFailure, ModelToolCall, TokenUsage};
use crate::tools::{Tool, ToolCategory, definition};

/// The differences between the vendors: permissions and output.
pub(crate) trait VendorBehavior {
    /// Returns why a tool must not be used; `None` if it may be.
    fn refusal_reason(&self, kind: ToolCategory, tool: &str, subject: &str) -> Option<String>;
    fn text_chunk(&mut self, text: &str);
    /// A message is complete; `tools_follow` if it called tools.
    fn message_done(&mut self, text: &str, tools_follow: bool);
    fn tool_started(&mut self, call: &ModelToolCall);
    fn tool_ended(&mut self, call: &ModelToolCall, outcome: &ToolCallOutcome);
}

/// The outcome of a tool call.
pub(crate) enum ToolCallOutcome {
    Done(String),
    Failed(String),
    Refused(String),
}

/// One run of an agent.
pub(crate) struct AgentRun<'a> {
    pub(crate) model: &'a str,
    pub(crate) tools: &'a [Tool],
    /// The names of the tools that MCP servers offer.
    pub(crate) mcp_tools: &'a [String],
    pub(crate) directory: &'a Path,
    pub(crate) turns_max: u64,
}

/// The result of a run.
pub(crate) struct AgentResult {
    pub(crate) text: String,
    pub(crate) used: TokenUsage,
    pub(crate) turns: u64,
    /// Whether it reached the limit on turns.
    pub(crate) stopped: bool,
}

impl AgentRun<'_> {
    /// Runs the model until it calls no more tools, and appends to the conversation.
    pub(crate) fn run(
        &self,
        messages: &mut Vec<Value>,
        vendor: &mut dyn VendorBehavior,
    ) -> Result<AgentResult, ModelFailure> {
        let own_tools = self.tools.iter().map(Tool::definition);
        let definitions: Vec<Value> =
            own_tools.chain(self.mcp_tools.iter().map(|name| definition(name))).collect();
        let mut result =
            AgentResult { text: String::new(), used: TokenUsage::default(), turns: 0, stopped: false };
        loop {
            if result.turns >= self.turns_max {
                result.stopped = true;
                return Ok(result);
            }
            let turn = model_client::request_turn(self.model, messages, &definitions, &mut |text| {
                vendor.text_chunk(text)
            })?;
            result.turns += 1;
            result.used.input += turn.used.input;
            result.used.output += turn.used.output;
            if !turn.text.is_empty() {
                vendor.message_done(&turn.text, !turn.calls.is_empty());
            }
            result.text.push_str(&turn.text);
            messages.push(assistant_message(&turn));
            if turn.calls.is_empty() {
                return Ok(result);
            }
            for call in &turn.calls {
                vendor.tool_started(call);
                let outcome = self.execute(call, vendor);
                vendor.tool_ended(call, &outcome);
                let (ToolCallOutcome::Done(text)
                | ToolCallOutcome::Failed(text)
                | ToolCallOutcome::Refused(text)) = outcome;
                messages.push(json!({"role": "tool", "tool_call_id": call.id, "content": text}));
            }
        }
    }

    fn execute(&self, call: &ModelToolCall, vendor: &dyn VendorBehavior) -> ToolCallOutcome {
        if self.mcp_tools.contains(&call.name) {
            let refused = vendor.refusal_reason(ToolCategory::Mcp, &call.name, "");
            return ToolCallOutcome::Refused(
                refused.unwrap_or_else(|| "a fake CLI only lists the tools of servers".to_owned()),
            );
        }
        let Some(tool) = self.tools.iter().find(|tool| tool.name == call.name) else {
            return ToolCallOutcome::Failed(format!("no such tool: {}", call.name));
        };
        if let Some(reason) = vendor.refusal_reason(tool.kind, tool.name, tool.subject(&call.arguments)) {
            return ToolCallOutcome::Refused(reason);
        }
        match tool.execute(&call.arguments, self.directory) {
            Ok(text) => ToolCallOutcome::Done(text),
            Err(text) => ToolCallOutcome::Failed(text),
        }
    }
}

fn assistant_message(turn: &model_client::ModelTurn) -> Value {
    let mut message = json!({"role": "assistant", "content": turn.text});
    if !turn.calls.is_empty() {
        let call = |call: &ModelToolCall| {
            let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
            json!({"id": call.id, "type": "function", "function": function})
        };
        message["tool_calls"] = turn.calls.iter().map(call).collect();
    }
    message
}
