//! The client's side of MCP, as much of it as the demo needs.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

use crate::app::AppError;

/// A generation of the protocol that every server of ours speaks.
const PROTOCOL: &str = "2025-11-25";
/// By which progress of the delegation is known.
const PROGRESS_TOKEN: &str = "demo";
/// The longest message that is read.
const MESSAGE_MAX: u64 = 8 << 20;

/// What the server said.
#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    /// Everything delegated has ended: the ids of the runs.
    Delegated(Vec<String>),
    /// The runs that there are by now.
    Listed(Vec<String>),
    /// Where a run stands.
    Run(Box<Value>),
    Progress(String),
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Greeting,
    Delegation,
    List,
    Run,
}

/// One client talking to one server.
pub(crate) struct Conversation<W, R> {
    to: Option<W>,
    from: BufReader<R>,
    line: Vec<u8>,
    last_id: u64,
    awaited: BTreeMap<u64, Awaited>,
    answered: bool,
}

impl<W: AsyncWrite + Unpin, R: AsyncRead + Unpin> Conversation<W, R> {
    pub(crate) fn new(to: W, from: R) -> Self {
        Self {
            to: Some(to),
            from: BufReader::new(from),
            line: Vec::new(),
            last_id: 0,
            awaited: BTreeMap::new(),
            answered: false,
        }
    }

    /// Tells whether the delegation was answered and nothing is awaited any more.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered && self.awaited.is_empty()
    }

    /// Introduces the client.
    pub(crate) async fn greet(&mut self) -> Result<(), AppError> {
        let client = json!({ "name": "volery-demo", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client });
        self.request("initialize", params, Awaited::Greeting).await?;
        while self.awaited.values().any(|awaited| *awaited == Awaited::Greeting) {
            self.hear().await?;
        }
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await
    }

    /// Delegates all tasks in one call, which is answered when they have ended.
    pub(crate) async fn delegate(&mut self, tasks: &Value) -> Result<(), AppError> {
        let arguments = json!({ "runs": tasks, "wait_s": 25 });
        let meta = json!({ "progressToken": PROGRESS_TOKEN });
        let params = json!({ "name": "run_agents", "arguments": arguments, "_meta": meta });
        self.request("tools/call", params, Awaited::Delegation).await
    }

    /// Asks where the runs stand, unless an answer to that is still awaited.
    pub(crate) async fn look_again(&mut self) -> Result<(), AppError> {
        let looking = self.awaited.values().any(|awaited| matches!(awaited, Awaited::List | Awaited::Run));
        if self.answered || looking {
            return Ok(());
        }
        let params = json!({ "name": "list_runs", "arguments": {} });
        self.request("tools/call", params, Awaited::List).await
    }

    /// Asks for each of these runs.
    pub(crate) async fn ask_for(&mut self, ids: &[String]) -> Result<(), AppError> {
        for id in ids {
            let params = json!({ "name": "get_run", "arguments": { "run_id": id } });
            self.request("tools/call", params, Awaited::Run).await?;
        }
        Ok(())
    }

    /// Waits for the next thing the server says. Can be dropped and called again without losing anything.
    pub(crate) async fn hear(&mut self) -> Result<Heard, AppError> {
        let limit = MESSAGE_MAX.saturating_sub(self.line.len() as u64);
        let read = (&mut self.from).take(limit).read_until(b'\n', &mut self.line).await.map_err(broken)?;
        if read == 0 || !self.line.ends_with(b"\n") {
            return Err(AppError::backend("the server ended the conversation"));
        }
        let line = std::mem::take(&mut self.line);
        let message: Value = serde_json::from_slice(&line).map_err(|error| {
            AppError::backend(format!("the server said something that is not JSON: {error}"))
        })?;
        self.understand(message)
    }

    /// Says goodbye and waits until the server has left.
    pub(crate) async fn close(&mut self) {
        self.to = None;
        // What is still said is of no interest, and neither is how it ends.
        let mut rest = Vec::new();
        let _ = (&mut self.from).take(MESSAGE_MAX).read_to_end(&mut rest).await;
    }

    fn understand(&mut self, mut message: Value) -> Result<Heard, AppError> {
        if message.get("method").and_then(Value::as_str) == Some("notifications/progress") {
            let text = message.pointer("/params/message").and_then(Value::as_str).unwrap_or_default();
            return Ok(Heard::Progress(text.to_owned()));
        }
        let id = message.get("id").and_then(Value::as_u64);
        let Some(awaited) = id.and_then(|id| self.awaited.remove(&id)) else { return Ok(Heard::Nothing) };
        if let Some(error) = message.pointer("/error/message").and_then(Value::as_str) {
            return Err(AppError::backend(format!("the server refused: {error}")));
        }
        if message.pointer("/result/isError").and_then(Value::as_bool) == Some(true) {
            let text =
                message.pointer("/result/content/0/text").and_then(Value::as_str).unwrap_or("no reason");
            return Err(AppError::backend(format!("the server refused: {text}")));
        }
        let answer = message.pointer_mut("/result/structuredContent").map(Value::take).unwrap_or_default();
        Ok(match awaited {
            Awaited::Greeting => Heard::Nothing,
            Awaited::Delegation => {
                refuse_in_part(&answer)?;
                self.answered = true;
                Heard::Delegated(run_ids(&answer))
            }
            Awaited::List => Heard::Listed(run_ids(&answer)),
            Awaited::Run => Heard::Run(Box::new(answer)),
        })
    }

    async fn request(&mut self, method: &str, params: Value, awaited: Awaited) -> Result<(), AppError> {
        self.last_id += 1;
        self.awaited.insert(self.last_id, awaited);
        let message = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        self.send(&message).await
    }

    async fn send(&mut self, message: &Value) -> Result<(), AppError> {
        let Some(to) = &mut self.to else { return Ok(()) };
        to.write_all(format!("{message}\n").as_bytes()).await.map_err(broken)?;
        to.flush().await.map_err(broken)
    }
}

/// Some requests of a delegation can be refused while others run.
fn refuse_in_part(answer: &Value) -> Result<(), AppError> {
    let Some(refused) = answer.pointer("/refused/0") else { return Ok(()) };
    let text = |key: &str| refused.get(key).and_then(Value::as_str).unwrap_or("?");
    Err(AppError::backend(format!("the server refused: {}: {}", text("agent"), text("reason"))))
}

fn run_ids(answer: &Value) -> Vec<String> {
    let runs = answer.get("runs").and_then(Value::as_array);
    let id = |run: &Value| run.get("run_id").and_then(Value::as_str).map(str::to_owned);
    runs.into_iter().flatten().filter_map(id).collect()
}

fn broken(error: io::Error) -> AppError {
    AppError::backend(format!("the conversation with the server broke off: {error}"))
}
