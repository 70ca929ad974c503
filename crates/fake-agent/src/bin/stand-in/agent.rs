//! The loop that all of them have: the model is asked, its tools are carried out or refused, until it calls none.

use std::path::Path;

use serde_json::{Value, json};

use crate::model::{self, Call, Trouble, Used};
use crate::tools::{Kind, Tool, described};

/// What differs between the vendors: who may do what, and how it is told.
pub(crate) trait Voice {
    /// Returns why a tool may not be used.
    fn refuses(&self, kind: Kind, tool: &str, subject: &str) -> Option<String>;
    fn piece(&mut self, text: &str);
    /// A message is complete; another follows if tools were called in it.
    fn message(&mut self, text: &str, tools_follow: bool);
    fn began(&mut self, call: &Call);
    fn ended(&mut self, call: &Call, end: &End);
}

/// What became of a tool call.
pub(crate) enum End {
    Done(String),
    Failed(String),
    Refused(String),
}

/// One run of an agent.
pub(crate) struct Work<'a> {
    pub(crate) model: &'a str,
    pub(crate) tools: &'a [Tool],
    /// The names of those that MCP servers offer.
    pub(crate) mcp_tools: &'a [String],
    pub(crate) directory: &'a Path,
    pub(crate) turns_max: u64,
}

/// How it ended.
pub(crate) struct Finished {
    pub(crate) text: String,
    pub(crate) used: Used,
    pub(crate) turns: u64,
    /// It was not allowed any more turns.
    pub(crate) stopped: bool,
}

impl Work<'_> {
    /// Lets the model work until it is done; the conversation grows by what is said.
    pub(crate) fn run(&self, messages: &mut Vec<Value>, voice: &mut dyn Voice) -> Result<Finished, Trouble> {
        let own = self.tools.iter().map(Tool::described);
        let offered: Vec<Value> = own.chain(self.mcp_tools.iter().map(|name| described(name))).collect();
        let mut done = Finished { text: String::new(), used: Used::default(), turns: 0, stopped: false };
        loop {
            if done.turns >= self.turns_max {
                done.stopped = true;
                return Ok(done);
            }
            let turn = model::ask(self.model, messages, &offered, &mut |piece| voice.piece(piece))?;
            done.turns += 1;
            done.used.input += turn.used.input;
            done.used.output += turn.used.output;
            if !turn.text.is_empty() {
                voice.message(&turn.text, !turn.calls.is_empty());
            }
            done.text.push_str(&turn.text);
            messages.push(said(&turn));
            if turn.calls.is_empty() {
                return Ok(done);
            }
            for call in &turn.calls {
                voice.began(call);
                let end = self.carry_out(call, voice);
                voice.ended(call, &end);
                let (End::Done(text) | End::Failed(text) | End::Refused(text)) = end;
                messages.push(json!({"role": "tool", "tool_call_id": call.id, "content": text}));
            }
        }
    }

    fn carry_out(&self, call: &Call, voice: &dyn Voice) -> End {
        if self.mcp_tools.contains(&call.name) {
            let refused = voice.refuses(Kind::Mcp, &call.name, "");
            return End::Refused(
                refused.unwrap_or_else(|| "a stand-in only lists the tools of servers".to_owned()),
            );
        }
        let Some(tool) = self.tools.iter().find(|tool| tool.name == call.name) else {
            return End::Failed(format!("no such tool: {}", call.name));
        };
        if let Some(reason) = voice.refuses(tool.kind, tool.name, tool.subject(&call.arguments)) {
            return End::Refused(reason);
        }
        match tool.carry_out(&call.arguments, self.directory) {
            Ok(text) => End::Done(text),
            Err(text) => End::Failed(text),
        }
    }
}

fn said(turn: &model::Turn) -> Value {
    let mut message = json!({"role": "assistant", "content": turn.text});
    if !turn.calls.is_empty() {
        let call = |call: &Call| {
            let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
            json!({"id": call.id, "type": "function", "function": function})
        };
        message["tool_calls"] = turn.calls.iter().map(call).collect();
    }
    message
}
