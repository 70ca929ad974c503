//! `kiro-cli acp`: one conversation at a time over standard input and output. Loading a session that it does not know
//! never ends, and while its model is asked it hears nothing, as its users report.

use std::io::BufRead;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::agent::{End, Voice, Work};
use crate::kiro;
use crate::mcp;
use crate::model::{Call, Trouble};
use crate::place;
use crate::say;
use crate::sessions;
use crate::tools::Kind;

/// The numbers of JSON-RPC.
const NO_SUCH_METHOD: i64 = -32_601;
const INTERNAL: i64 = -32_603;
/// How a request for permission is told from an answer of another kind.
const PERMISSION: u64 = 1_000;

/// What the client has begun.
#[derive(Default)]
struct Session {
    id: String,
    model: String,
    directory: PathBuf,
    mcp_tools: Vec<String>,
    messages: Vec<Value>,
}

pub(crate) fn serve() -> u8 {
    let mut session = Session::default();
    while let Some(message) = next_message() {
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { continue };
        let answer = session.answer(method, &message["params"]);
        let answer = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, text)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
            }
        };
        say(&answer.to_string());
    }
    0
}

fn next_message() -> Option<Value> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).ok()?;
    if read == 0 { None } else { serde_json::from_str(&line).ok() }
}

fn conversation_file(id: &str) -> PathBuf {
    place::home().join(".kiro/sessions/cli").join(format!("{id}.json"))
}

impl Session {
    fn answer(&mut self, method: &str, params: &Value) -> Result<Value, (i64, String)> {
        match method {
            "initialize" => {
                let can = json!({"loadSession": true, "mcpCapabilities": {"http": true}});
                Ok(json!({"protocolVersion": 1, "agentCapabilities": can}))
            }
            "session/new" => {
                self.begin(params);
                self.id = sessions::fresh_id();
                self.messages = kiro::beginning(None, &self.directory);
                say(&json!({"jsonrpc": "2.0", "method": "_kiro.dev/metadata",
                    "params": {"contextUsagePercentage": 1.5}})
                .to_string());
                Ok(self.offer())
            }
            "session/load" => {
                self.begin(params);
                self.id = params["sessionId"].as_str().unwrap_or_default().to_owned();
                match sessions::read(&conversation_file(&self.id)) {
                    Some(messages) => self.replay(messages),
                    None => place::wait_for_ever(),
                }
                Ok(self.offer())
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
            servers.insert(name, as_settings(server));
        }
        // Each by itself: one that does not start is passed over.
        let of = |(name, entry): (String, Value)| {
            let one = Map::from_iter([(name, entry)]);
            mcp::tools(&one, &self.directory, |server, tool| format!("{server}___{tool}")).unwrap_or_default()
        };
        self.mcp_tools = servers.into_iter().flat_map(of).collect();
    }

    fn offer(&self) -> Value {
        let modes = json!({"currentModeId": "kiro_default",
            "availableModes": [{"id": "kiro_default", "name": "kiro_default"}]});
        let models = json!({"currentModelId": "auto", "availableModels": []});
        json!({"sessionId": self.id, "modes": modes, "models": models})
    }

    /// Tells what was said before.
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
        let work = Work {
            model: &self.model,
            tools: kiro::TOOLS,
            mcp_tools: &self.mcp_tools,
            directory: &self.directory,
            turns_max: u64::MAX,
        };
        let mut voice = Updates { session: &self.id };
        match work.run(&mut self.messages, &mut voice) {
            Ok(_) => {
                sessions::write(&conversation_file(&self.id), &self.messages);
                Ok(json!({"stopReason": "end_turn"}))
            }
            Err(Trouble::Refused { status, message }) => {
                Err((INTERNAL, format!("Kiro is having trouble: status {status}: {message}")))
            }
            Err(Trouble::Lost) => Err((INTERNAL, "dispatch failure: the connection was lost".to_owned())),
        }
    }
}

/// Returns a server as settings write it: there variables are an object.
fn as_settings(server: &Value) -> Value {
    let variables = server["env"].as_array().into_iter().flatten();
    let of = |variable: &Value| Some((variable["name"].as_str()?.to_owned(), variable["value"].clone()));
    let env: Map<String, Value> = variables.filter_map(of).collect();
    json!({"command": server["command"], "args": server["args"], "env": env})
}

fn update(session: &str, update: &Value) {
    let params = json!({"sessionId": session, "update": update});
    say(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string());
}

/// What is told while the model works.
struct Updates<'a> {
    session: &'a str,
}

fn kind_of(name: &str) -> &'static str {
    match kiro::TOOLS.iter().find(|tool| tool.name == name).map(|tool| tool.kind) {
        Some(Kind::Read) => "read",
        Some(Kind::Write) => "edit",
        Some(Kind::Shell) => "execute",
        Some(Kind::Mcp) | None => "other",
    }
}

impl Voice for Updates<'_> {
    /// Asks about all that is no reading, and waits for the answer.
    fn refuses(&self, kind: Kind, tool: &str, subject: &str) -> Option<String> {
        if kind == Kind::Read {
            return None;
        }
        let options = json!([
            {"optionId": "allow_once", "name": "Yes", "kind": "allow_once"},
            {"optionId": "reject_once", "name": "No", "kind": "reject_once"},
        ]);
        let input = if kind == Kind::Shell { json!({"command": subject}) } else { json!({"path": subject}) };
        let call = json!({"toolCallId": tool, "title": tool, "kind": kind_of(tool), "rawInput": input});
        let params = json!({"sessionId": self.session, "toolCall": call, "options": options});
        say(&json!({"jsonrpc": "2.0", "id": PERMISSION, "method": "session/request_permission",
            "params": params})
        .to_string());
        let answer = std::iter::from_fn(next_message).find(|message| message["id"] == PERMISSION);
        let chosen = answer.map(|answer| answer["result"]["outcome"]["optionId"] == "allow_once");
        (chosen != Some(true)).then(|| format!("Tool use denied: {tool}"))
    }

    fn piece(&mut self, text: &str) {
        let content = json!({"type": "text", "text": text});
        update(self.session, &json!({"sessionUpdate": "agent_message_chunk", "content": content}));
    }

    fn message(&mut self, _text: &str, _tools_follow: bool) {}

    fn began(&mut self, call: &Call) {
        update(
            self.session,
            &json!({"sessionUpdate": "tool_call", "toolCallId": call.name, "title": call.name,
                "kind": kind_of(&call.name), "rawInput": call.arguments}),
        );
    }

    fn ended(&mut self, call: &Call, end: &End) {
        let (status, text) = match end {
            End::Done(text) => ("completed", text),
            End::Failed(text) | End::Refused(text) => ("failed", text),
        };
        let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
        update(
            self.session,
            &json!({"sessionUpdate": "tool_call_update", "toolCallId": call.name, "status": status,
                "content": content}),
        );
    }
}
