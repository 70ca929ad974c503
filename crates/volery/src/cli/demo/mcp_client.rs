//! A minimal MCP client for the demo.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

use engine::EngineError;

/// A protocol version that every Volery server speaks.
const PROTOCOL: &str = "2025-11-25";
/// Identifies the progress notifications of the delegation.
const PROGRESS_TOKEN: &str = "demo";
/// The longest message that is read.
const MESSAGE_MAX: u64 = 8 << 20;

/// A message of the server.
#[derive(Debug, PartialEq)]
pub(crate) enum ServerMessage {
    /// All delegated runs have ended: their ids.
    Delegated(Vec<String>),
    /// The ids of the runs so far.
    Listed(Vec<String>),
    /// The state of a run.
    Run(Box<Value>),
    Progress(String),
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingRequest {
    Initialize,
    Delegation,
    List,
    Run,
}

/// One client of one server.
pub(crate) struct DemoClient<W, R> {
    to: Option<W>,
    from: BufReader<R>,
    line: Vec<u8>,
    last_id: u64,
    pending: BTreeMap<u64, PendingRequest>,
    answered: bool,
}

impl<W: AsyncWrite + Unpin, R: AsyncRead + Unpin> DemoClient<W, R> {
    pub(crate) fn new(to: W, from: R) -> Self {
        Self {
            to: Some(to),
            from: BufReader::new(from),
            line: Vec::new(),
            last_id: 0,
            pending: BTreeMap::new(),
            answered: false,
        }
    }

    /// Returns whether the delegation was answered and no request is pending.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered && self.pending.is_empty()
    }

    /// Performs the handshake.
    pub(crate) async fn initialize(&mut self) -> Result<(), EngineError> {
        let client = json!({ "name": "volery-demo", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client });
        self.request("initialize", params, PendingRequest::Initialize).await?;
        while self.pending.values().any(|pending| *pending == PendingRequest::Initialize) {
            self.receive().await?;
        }
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await
    }

    /// Delegates all tasks in one call; its answer comes when they have ended.
    pub(crate) async fn delegate(&mut self, tasks: &Value) -> Result<(), EngineError> {
        let arguments = json!({ "runs": tasks, "wait_s": 25 });
        let meta = json!({ "progressToken": PROGRESS_TOKEN });
        let params = json!({ "name": "run_agents", "arguments": arguments, "_meta": meta });
        self.request("tools/call", params, PendingRequest::Delegation).await
    }

    /// Requests the list of runs, unless such a request is pending.
    pub(crate) async fn poll_runs(&mut self) -> Result<(), EngineError> {
        let looking = self
            .pending
            .values()
            .any(|pending| matches!(pending, PendingRequest::List | PendingRequest::Run));
        if self.answered || looking {
            return Ok(());
        }
        let params = json!({ "name": "list_runs", "arguments": {} });
        self.request("tools/call", params, PendingRequest::List).await
    }

    /// Requests the state of each of these runs.
    pub(crate) async fn request_runs(&mut self, ids: &[String]) -> Result<(), EngineError> {
        for id in ids {
            let params = json!({ "name": "get_run", "arguments": { "run_id": id } });
            self.request("tools/call", params, PendingRequest::Run).await?;
        }
        Ok(())
    }

    /// Waits for the next message. Cancel safe: can be dropped and called again without losing data.
    pub(crate) async fn receive(&mut self) -> Result<ServerMessage, EngineError> {
        let limit = MESSAGE_MAX.saturating_sub(self.line.len() as u64);
        let read = (&mut self.from).take(limit).read_until(b'\n', &mut self.line).await.map_err(broken)?;
        if read == 0 || !self.line.ends_with(b"\n") {
            return Err(EngineError::backend("the server ended the conversation"));
        }
        let line = std::mem::take(&mut self.line);
        let message: Value = serde_json::from_slice(&line).map_err(|error| {
            EngineError::backend(format!("the server said something that is not JSON: {error}"))
        })?;
        self.interpret(message)
    }

    /// Closes the input and waits until the server has exited.
    pub(crate) async fn close(&mut self) {
        self.to = None;
        // The remaining output and errors do not matter.
        let mut rest = Vec::new();
        let _ = (&mut self.from).take(MESSAGE_MAX).read_to_end(&mut rest).await;
    }

    fn interpret(&mut self, mut message: Value) -> Result<ServerMessage, EngineError> {
        if message.get("method").and_then(Value::as_str) == Some("notifications/progress") {
            let text = message.pointer("/params/message").and_then(Value::as_str).unwrap_or_default();
            return Ok(ServerMessage::Progress(text.to_owned()));
        }
        let id = message.get("id").and_then(Value::as_u64);
        let Some(pending) = id.and_then(|id| self.pending.remove(&id)) else {
            return Ok(ServerMessage::Nothing);
        };
        if let Some(error) = message.pointer("/error/message").and_then(Value::as_str) {
            return Err(EngineError::backend(format!("the server refused: {error}")));
        }
        if message.pointer("/result/isError").and_then(Value::as_bool) == Some(true) {
            let text =
                message.pointer("/result/content/0/text").and_then(Value::as_str).unwrap_or("no reason");
            return Err(EngineError::backend(format!("the server refused: {text}")));
        }
        let answer = message.pointer_mut("/result/structuredContent").map(Value::take).unwrap_or_default();
        Ok(match pending {
            PendingRequest::Initialize => ServerMessage::Nothing,
            PendingRequest::Delegation => {
                check_refusals(&answer)?;
                self.answered = true;
                ServerMessage::Delegated(run_ids(&answer))
            }
            PendingRequest::List => ServerMessage::Listed(run_ids(&answer)),
            PendingRequest::Run => ServerMessage::Run(Box::new(answer)),
        })
    }

    async fn request(
        &mut self,
        method: &str,
        params: Value,
        pending: PendingRequest,
    ) -> Result<(), EngineError> {
        self.last_id += 1;
        self.pending.insert(self.last_id, pending);
        let message = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        self.send(&message).await
    }

    async fn send(&mut self, message: &Value) -> Result<(), EngineError> {
        let Some(to) = &mut self.to else { return Ok(()) };
        to.write_all(format!("{message}\n").as_bytes()).await.map_err(broken)?;
        to.flush().await.map_err(broken)
    }
}

/// Returns an error if the server refused some of the delegated requests.
fn check_refusals(answer: &Value) -> Result<(), EngineError> {
    let Some(refused) = answer.pointer("/refused/0") else { return Ok(()) };
    let text = |key: &str| refused.get(key).and_then(Value::as_str).unwrap_or("?");
    Err(EngineError::backend(format!("the server refused: {}: {}", text("agent"), text("reason"))))
}

fn run_ids(answer: &Value) -> Vec<String> {
    let runs = answer.get("runs").and_then(Value::as_array);
    let id = |run: &Value| run.get("run_id").and_then(Value::as_str).map(str::to_owned);
    runs.into_iter().flatten().filter_map(id).collect()
}

fn broken(error: io::Error) -> EngineError {
    EngineError::backend(format!("the conversation with the server broke off: {error}"))
}
