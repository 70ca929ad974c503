//! `kiro-cli acp`: one conversation at a time over standard input and output. As its users report, loading an unknown
//! session never ends, and it reads no messages while it waits for its model.

use std::io::BufRead;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::agent_loop::{AgentRun, ToolCallOutcome, VendorBehavior};
use crate::environment;
use crate::kiro;
use crate::mcp_client;
use crate::model_client::{ModelFailure, ModelToolCall};
use crate::print_line;
use crate::sessions;
use crate::tools::ToolCategory;

/// JSON-RPC error codes.
const NO_SUCH_METHOD: i64 = -32_601;
const INTERNAL: i64 = -32_603;
/// The id of permission requests, which distinguishes their responses from others.
const PERMISSION_REQUEST_ID: u64 = 1_000;

/// The session that the client has started.
#[derive(Default)]
struct AcpSession {
    id: String,
    model: String,
    directory: PathBuf,
    mcp_tools: Vec<String>,
    messages: Vec<Value>,
}

pub(crate) fn serve() -> u8 {
    let mut session = AcpSession::default();
    while let Some(message) = next_message() {
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { continue };
        let answer = session.answer(method, &message["params"]);
        let answer = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, text)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
            }
        };
        print_line(&answer.to_string());
    }
    0
}

fn next_message() -> Option<Value> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).ok()?;
    if read == 0 { None } else { serde_json::from_str(&line).ok() }
}

fn conversation_file(id: &str) -> PathBuf {
    environment::home().join(".kiro/sessions/cli").join(format!("{id}.json"))
}

impl AcpSession {
    fn answer(&mut self, method: &str, params: &Value) -> Result<Value, (i64, String)> {
        match method {
            "initialize" => {
                let can = json!({"loadSession": true, "mcpCapabilities": {"http": true}});
                Ok(json!({"protocolVersion": 1, "agentCapabilities": can}))
            }
            "session/new" => {
                self.begin(params);
                self.id = sessions::fresh_id();
                self.messages = kiro::initial_messages(None, &self.directory);
                print_line(
                    &json!({"jsonrpc": "2.0", "method": "_kiro.dev/metadata",
                    "params": {"contextUsagePercentage": 1.5}})
                    .to_string(),
                );
                Ok(self.session_response())
            }
            "session/load" => {
                self.begin(params);
                self.id = params["sessionId"].as_str().unwrap_or_default().to_owned();
                match sessions::read(&conversation_file(&self.id)) {
                    Some(messages) => self.replay(messages),
                    None => environment::wait_forever(),
                }
                Ok(self.session_response())
            }
            "session/set_model" => {
                self.model = params["modelId"].as_str().unwrap_or_default().to_owned();
                Ok(json!({}))
            }
            "session/prompt" => self.prompt(params),
            other => Err((NO_SUCH_METHOD, format!("Method not found: {other}"))),
        }
    }

    fn begin(&mut self, params: &Value) {
        self.model = "auto".to_owned();
        self.directory = params["cwd"].as_str().unwrap_or_default().into();
        let mut servers = kiro::servers(None, &self.directory);
        for server in params["mcpServers"].as_array().into_iter().flatten() {
            let name = server["name"].as_str().unwrap_or_default().to_owned();
            servers.insert(name, to_settings_entry(server));
        }
        // Each server separately, so that one that does not start is skipped.
        let list_tools = |(name, entry): (String, Value)| {
            let one = Map::from_iter([(name, entry)]);
            mcp_client::list_all_tools(&one, &self.directory, |server, tool| format!("{server}___{tool}"))
                .unwrap_or_default()
        };
        self.mcp_tools = servers.into_iter().flat_map(list_tools).collect();
    }

    fn session_response(&self) -> Value {
        let modes = json!({"currentModeId": "kiro_default",
            "availableModes": [{"id": "kiro_default", "name": "kiro_default"}]});
        let models = json!({"currentModelId": "auto", "availableModels": []});
        json!({"sessionId": self.id, "modes": modes, "models": models})
    }

    /// Sends the earlier messages to the client.
    fn replay(&mut self, messages: Vec<Value>) {
        for message in &messages {
            let kind = match message["role"].as_str() {
                Some("user") => "user_message_chunk",
                Some("assistant") => "agent_message_chunk",
                _ => continue,
            };
            let text = json!({"type": "text", "text": message["content"]});
            update(&self.id, &json!({"sessionUpdate": kind, "content": text}));
        }
        self.messages = messages;
    }

    fn prompt(&mut self, params: &Value) -> Result<Value, (i64, String)> {
        let blocks = params["prompt"].as_array().into_iter().flatten();
        let text: String = blocks.filter_map(|block| block["text"].as_str()).collect();
        self.messages.push(json!({"role": "user", "content": text}));
        let agent_run = AgentRun {
            model: &self.model,
            tools: kiro::TOOLS,
            mcp_tools: &self.mcp_tools,
            directory: &self.directory,
            turns_max: u64::MAX,
        };
        let mut vendor = AcpUpdates { session: &self.id };
        match agent_run.run(&mut self.messages, &mut vendor) {
            Ok(_) => {
                sessions::write(&conversation_file(&self.id), &self.messages);
                Ok(json!({"stopReason": "end_turn"}))
            }
            Err(ModelFailure::Refused { status, message }) => {
                Err((INTERNAL, format!("Kiro is having trouble: status {status}: {message}")))
            }
            Err(ModelFailure::Lost) => {
                Err((INTERNAL, "dispatch failure: the connection was lost".to_owned()))
            }
        }
    }
}

/// Converts a server of an ACP request into a settings entry, whose variables are an object.
fn to_settings_entry(server: &Value) -> Value {
    let variables = server["env"].as_array().into_iter().flatten();
    let parse_variable =
        |variable: &Value| Some((variable["name"].as_str()?.to_owned(), variable["value"].clone()));
    let env: Map<String, Value> = variables.filter_map(parse_variable).collect();
    json!({"command": server["command"], "args": server["args"], "env": env})
}

fn update(session: &str, update: &Value) {
    let params = json!({"sessionId": session, "update": update});
    print_line(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string());
}

/// Sends updates to the client while the model works.
struct AcpUpdates<'a> {
    session: &'a str,
}

fn acp_tool_kind(name: &str) -> &'static str {
    match kiro::TOOLS.iter().find(|tool| tool.name == name).map(|tool| tool.kind) {
        Some(ToolCategory::Read) => "read",
        Some(ToolCategory::Write) => "edit",
        Some(ToolCategory::Shell) => "execute",
        Some(ToolCategory::Mcp) | None => "other",
    }
}

impl VendorBehavior for AcpUpdates<'_> {
    /// Requests permission for everything except reading, and waits for the response.
    fn refusal_reason(&self, kind: ToolCategory, tool: &str, subject: &str) -> Option<String> {
        if kind == ToolCategory::Read {
            return None;
        }
        let options = json!([
            {"optionId": "allow_once", "name": "Yes", "kind": "allow_once"},
            {"optionId": "reject_once", "name": "No", "kind": "reject_once"},
        ]);
        let input =
            if kind == ToolCategory::Shell { json!({"command": subject}) } else { json!({"path": subject}) };
        let call = json!({"toolCallId": tool, "title": tool, "kind": acp_tool_kind(tool), "rawInput": input});
        let params = json!({"sessionId": self.session, "toolCall": call, "options": options});
        print_line(
            &json!({"jsonrpc": "2.0", "id": PERMISSION_REQUEST_ID, "method": "session/request_permission",
            "params": params})
            .to_string(),
        );
        let answer = std::iter::from_fn(next_message).find(|message| message["id"] == PERMISSION_REQUEST_ID);
        let chosen = answer.map(|answer| answer["result"]["outcome"]["optionId"] == "allow_once");
        (chosen != Some(true)).then(|| format!("Tool use denied: {tool}"))
    }

    fn text_chunk(&mut self, text: &str) {
        let content = json!({"type": "text", "text": text});
        update(self.session, &json!({"sessionUpdate": "agent_message_chunk", "content": content}));
    }

    fn message_done(&mut self, _text: &str, _tools_follow: bool) {}

    fn tool_started(&mut self, call: &ModelToolCall) {
        update(
            self.session,
            &json!({"sessionUpdate": "tool_call", "toolCallId": call.name, "title": call.name,
                "kind": acp_tool_kind(&call.name), "rawInput": call.arguments}),
        );
    }

    fn tool_ended(&mut self, call: &ModelToolCall, end: &ToolCallOutcome) {
        let (status, text) = match end {
            ToolCallOutcome::Done(text) => ("completed", text),
            ToolCallOutcome::Failed(text) | ToolCallOutcome::Refused(text) => ("failed", text),
        };
        let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
        update(
            self.session,
            &json!({"sessionUpdate": "tool_call_update", "toolCallId": call.name, "status": status,
                "content": content}),
        );
    }
}
