//! An MCP client in the same process: raw lines over pipes, in either generation of the protocol.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::super::call_rate::CallRate;
use super::super::client_profiles::Waits;
use super::super::dialect::ToolRegistry;
use super::super::options::{Options, Timing};
use super::super::serve::{StopReason, serve_on};
use super::scripted_engine::ScriptedEngine;

/// The timeout of every answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The modes of the reading end.
const READS: u8 = 0;
const PAUSES: u8 = 1;
const CLOSES: u8 = 2;

/// The protocol generation of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    Legacy,
    Modern,
}

pub(super) const BOTH: [Era; 2] = [Era::Legacy, Era::Modern];

pub(super) struct ClientSession {
    pub(super) engine: Arc<ScriptedEngine>,
    pub(super) serving: JoinHandle<std::io::Result<StopReason>>,
    writer: Option<std::sync::mpsc::Sender<Vec<u8>>>,
    lines: mpsc::UnboundedReceiver<String>,
    stop: Option<oneshot::Sender<StopReason>>,
    reading: Arc<AtomicU8>,
    /// Writes that the pipe has not taken yet.
    unsent: Arc<AtomicUsize>,
    client: String,
    capabilities: Value,
    next_id: i64,
}

/// Options for fast tests: progress ten times per second.
pub(in crate::mcp) fn fast_options() -> Options {
    let timing = Timing {
        progress: Duration::from_millis(100),
        task_after: Duration::from_millis(50),
        ..Timing::default()
    };
    Options {
        tool_registry: ToolRegistry::native(),
        waits: default_waits(),
        disconnect_grace_ms: 30_000,
        retention_ms: 604_800_000,
        rate: Arc::new(CallRate::new(10_000)),
        caller: None,
        timing,
    }
}

/// The waits without configuration.
pub(in crate::mcp) fn default_waits() -> Waits {
    Waits { unknown: Duration::from_secs(45), by_client: BTreeMap::new(), codex_limit: None }
}

impl ClientSession {
    pub(super) fn open(options: Options) -> Self {
        let engine = Arc::new(ScriptedEngine::default());
        let (input, mut to_server) = std::io::pipe().unwrap();
        let (writer, to_write) = std::sync::mpsc::channel::<Vec<u8>>();
        // On a separate thread: the server shares the thread of the test, which must not block on a full pipe.
        let unsent = Arc::new(AtomicUsize::new(0));
        let reason = unsent.clone();
        std::thread::spawn(move || {
            to_write.iter().all(|bytes| {
                let sent = to_server.write_all(&bytes).is_ok();
                reason.fetch_sub(1, Ordering::Release);
                sent
            })
        });
        let (reader, output) = std::io::pipe().unwrap();
        let (sender, lines) = mpsc::unbounded_channel();
        let reading = Arc::new(AtomicU8::new(READS));
        let mode = reading.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                while mode.load(Ordering::Relaxed) == PAUSES {
                    std::thread::sleep(Duration::from_millis(5));
                }
                if mode.load(Ordering::Relaxed) == CLOSES || sender.send(line).is_err() {
                    return;
                }
            }
        });
        let (stop, stopped) = oneshot::channel();
        let stopped = async move {
            match stopped.await {
                Ok(reason) => reason,
                Err(_) => std::future::pending().await,
            }
        };
        let serving = tokio::spawn(serve_on(engine.clone(), options, (input, output), stopped));
        Self {
            engine,
            serving,
            writer: Some(writer),
            lines,
            stop: Some(stop),
            reading,
            unsent,
            client: "test-client".into(),
            capabilities: json!({}),
            next_id: 100,
        }
    }

    /// Opens a session and performs the handshake of the generation.
    pub(super) async fn begin(era: Era, client: &str, capabilities: Value) -> Self {
        let mut session = Self::open(fast_options());
        session.hello(era, client, capabilities).await;
        session
    }

    pub(super) async fn hello(&mut self, era: Era, client: &str, capabilities: Value) -> Value {
        self.client = client.into();
        self.capabilities = capabilities;
        let hello = match era {
            Era::Legacy => {
                let client = json!({ "name": self.client, "version": "1" });
                let params = json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": self.capabilities,
                    "clientInfo": client,
                });
                self.ask_plain("initialize", params).await
            }
            Era::Modern => self.ask(Era::Modern, "server/discover", json!({})).await,
        };
        if era == Era::Legacy {
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        }
        hello
    }

    pub(super) fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    pub(super) fn send_bytes(&mut self, bytes: &[u8]) {
        self.unsent.fetch_add(1, Ordering::Release);
        // The thread is gone when the server no longer reads.
        let _ = self.writer.as_ref().expect("the input is open").send(bytes.to_vec());
    }

    /// Closes the input.
    pub(super) fn hang_up(&mut self) {
        self.writer = None;
    }

    /// Stops reading; output stays in the pipe.
    pub(super) fn stop_reading(&mut self) {
        self.reading.store(PAUSES, Ordering::Relaxed);
    }

    pub(super) fn go_on_reading(&mut self) {
        self.reading.store(READS, Ordering::Relaxed);
    }

    /// Returns whether the server reads all sent bytes within this time.
    pub(super) async fn input_is_drained(&self, within: Duration) -> bool {
        let drained = async {
            while self.unsent.load(Ordering::Acquire) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(within, drained).await.is_ok()
    }

    /// Closes the output at the next line.
    pub(super) fn close_output(&mut self) {
        self.reading.store(CLOSES, Ordering::Relaxed);
    }

    pub(super) fn stop(&mut self, reason: StopReason) {
        self.stop.take().expect("stopped once").send(reason).unwrap();
    }

    pub(super) async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.lines.recv()).await.expect("an answer in time");
        serde_json::from_str(&line.expect("the output is open")).expect("nothing but JSON on the output")
    }

    /// Returns the remaining lines until the server has stopped.
    pub(super) async fn rest(&mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Some(line) =
            tokio::time::timeout(PATIENCE, self.lines.recv()).await.expect("an end in time")
        {
            rest.push(serde_json::from_str(&line).expect("nothing but JSON on the output"));
        }
        rest
    }

    /// Sends a request and returns its id, without waiting.
    pub(super) fn request(&mut self, era: Era, method: &str, params: Value) -> i64 {
        self.next_id += 1;
        let id = self.next_id;
        let params = if era == Era::Modern { self.with_meta(params) } else { params };
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn with_meta(&self, mut params: Value) -> Value {
        let meta = params
            .as_object_mut()
            .expect("parameters are an object")
            .entry("_meta")
            .or_insert_with(|| json!({}));
        meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": self.client, "version": "1" });
        meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        params
    }

    /// Returns the answer to a request, and the messages before it.
    pub(super) async fn answer_to(&mut self, id: i64) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let message = self.next().await;
            if message["id"] == json!(id) {
                return (message, before);
            }
            before.push(message);
        }
    }

    pub(super) async fn ask(&mut self, era: Era, method: &str, params: Value) -> Value {
        let id = self.request(era, method, params);
        self.answer_to(id).await.0
    }

    async fn ask_plain(&mut self, method: &str, params: Value) -> Value {
        self.ask(Era::Legacy, method, params).await
    }

    /// Calls a tool and returns its whole result.
    pub(super) async fn call(&mut self, era: Era, tool: &str, arguments: Value) -> Value {
        let answer = self.ask(era, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
        answer["result"].clone()
    }

    pub(super) fn cancel(&mut self, id: i64, reason: &str) {
        let params = json!({ "requestId": id, "reason": reason });
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    }
}
